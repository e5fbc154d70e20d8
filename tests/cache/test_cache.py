"""What the caches promise beyond reading back: attention, engines, swap in batches, padding, messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from pagefault.attention import contiguous_decode, paged_decode
from pagefault.cache import ContiguousKVCache, KVShape, PagedKVCache, host
from pagefault.errors import BadHandle, InputError, NeverFits, OutOfFrames
from pagefault.paging import private_keys
from pagefault.reference import attention
from pagefault.scheduling import Request, Scheduler, SchedulerConfig, StepResult

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Floats = NDArray[np.floating[Any]]

GPU = (pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"))
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
SHAPE = KVShape(layers=3, kv_heads=2, head_dim=64)


def filled(device: str, lengths: list[int], dtype: torch.dtype = torch.float32, **more: Any) -> PagedKVCache:
    """A cache in which row i has lengths[i] random tokens, appended in three parts by turns."""
    cache = PagedKVCache(SHAPE, 64, 16, dtype, device, max_seqs=len(lengths) + 2, **more)
    rows = [cache.open() for _ in lengths]
    new = torch.bfloat16 if dtype == torch.float8_e4m3fn else dtype
    generator = torch.Generator(device).manual_seed(1)
    for part in range(3):
        counts = [(tokens + part) // 3 for tokens in lengths]
        k, v = torch.randn(2, 3, sum(counts), 2, 64, generator=generator, device=device).to(new)
        cache.append(rows, k, v, counts)
    return cache


def expected(cache: PagedKVCache, layer: int, row: int, q: Tensor) -> Floats:
    k, v = (part.float().cpu().numpy() for part in cache.read(layer, row))
    return newest(q.float().cpu().numpy(), k, v)


def newest(q: Floats, k: Floats, v: Floats) -> Floats:
    """The oracle's result for one query, the newest."""
    out, _ = attention(q[None], k, v)
    found: Floats = out[0]
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_attention_reads_a_layer_through_a_batch(device: str) -> None:
    cache = filled(device, [40, 0, 17, 100])
    q = torch.randn(2, 4, 64, device=device)
    batch = cache.batch([3, 0])
    for layer in range(3):
        out = paged_decode(q, batch.layer(layer))
        for place, row in enumerate((3, 0)):
            np.testing.assert_allclose(out[place].cpu(), expected(cache, layer, row, q[place]), atol=2e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_is_padded_and_changed_in_place(device: str) -> None:
    cache = filled(device, [40, 0, 17, 100])
    batch = cache.batch([0], size=3)
    view, q = batch.layer(1), torch.randn(3, 2, 64, device=device)
    assert paged_decode(q, view)[1:].abs().max() == 0
    batch.set([2, 3])
    out = paged_decode(q, view)  # the view made before
    np.testing.assert_allclose(out[0].cpu(), expected(cache, 1, 2, q[0]), atol=2e-5)
    np.testing.assert_allclose(out[1].cpu(), expected(cache, 1, 3, q[1]), atol=2e-5)
    assert out[2].abs().max() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_fp8_is_quantized_by_its_scales(device: str) -> None:
    scales = torch.tensor([[0.5, 2.0]] * 3)
    cache = filled(device, [33], torch.float8_e4m3fn, k_scale=scales, v_scale=scales)
    assert cache.pool.shape[3:5] == (2, 16)  # heads first
    exact = filled(device, [33], torch.bfloat16)
    for layer in range(3):
        for stored, true in zip(cache.read(layer, 0), exact.read(layer, 0), strict=True):
            value = stored.float() * scales[layer].to(device)[:, None]
            assert (value - true.float()).abs().max() <= 2**-4 * true.float().abs().max()


@pytest.mark.parametrize("device", DEVICES)
def test_swap_in_batches_of_the_staging_buffer(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame_bytes = 16 * SHAPE.bytes_per_token(torch.float32)
    monkeypatch.setattr(host, "STAGING_BYTES", 2 * frame_bytes)  # 7 frames in 4 batches
    cache = filled(device, [40, 100], host_blocks=20)
    before = [cache.read(layer, 1) for layer in range(3)]
    cache.swap_out(0)  # host frames are now handed out from the middle
    assert cache.swap_out(1) == 7
    cache.swap_in(0)
    k, v = torch.randn(2, 3, 500, 2, 64, device=device)
    cache.append(cache.open(), k, v, 500)  # somebody takes its frames
    assert cache.swap_in(1) == 7
    for layer in range(3):
        for one, other in zip(cache.read(layer, 1), before[layer], strict=True):
            assert torch.equal(one, other)


def test_a_prefix_is_found_and_read() -> None:
    cache = PagedKVCache(SHAPE, 16, 16, torch.float32, "cpu", max_seqs=4)
    keys = private_keys(1, 0, 2)
    first = cache.open(keys)
    k, v = torch.randn(2, 3, 35, 2, 64)
    cache.append(first, k, v, 35)
    second = cache.open(keys)
    assert cache.pager.attach(second) == 32
    assert torch.equal(cache.read(2, second)[0], k[2, :32])
    assert cache.batch([second]).lengths.tolist() == [32]


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
@pytest.mark.parametrize("device", DEVICES)
def test_the_scheduler_drives_it_unchanged(device: str, preempt: Any) -> None:
    """An engine: a plan's copies and writes, then attention of every decoding row, against what they wrote."""
    shape = KVShape(layers=1, kv_heads=1, head_dim=16)
    cache = PagedKVCache(shape, 10, 4, torch.float32, device, max_seqs=6, host_blocks=10)
    config = SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=16, max_model_len=40, watermark=0.0, preempt=preempt
    )
    scheduler = Scheduler(config, cache.pager, track_updates=True)
    for number in range(5):
        scheduler.submit(Request(number, 6 + number, 12), 0)
    batch = cache.batch([], size=4)
    steps = preempted = 0
    while scheduler.unfinished:
        plan = scheduler.plan(steps)
        cache.apply(swap_out=plan.swap_out, swap_in=plan.swap_in, copies=plan.copies, updates=plan.updates)
        for chunks in (plan.prefill, plan.decode):
            for row, start, count in zip(chunks.rows, chunks.starts, chunks.counts, strict=True):
                slots = torch.from_numpy(cache.pager.slots(int(row), int(count))).to(device)
                k = tokens_of(scheduler, int(row), int(start), int(count)).to(device)
                cache.write(0, slots, k, -k)
        if len(plan.decode):
            batch.set(plan.decode.rows)
            q = torch.randn(4, 1, 16, device=device)
            out = paged_decode(q, batch.layer(0))
            for place, row in enumerate(plan.decode.rows.tolist()):
                stored = tokens_of(scheduler, row, 0, int(cache.pager.lengths[row])).numpy()
                right = newest(q[place].cpu().numpy(), stored, -stored)
                np.testing.assert_allclose(out[place].cpu(), right, atol=2e-5)
        steps += 1
        preempted += len(plan.preempted)
        scheduler.commit(StepResult(plan.step, steps))
    assert preempted > 0
    cache.pager.check()


def tokens_of(scheduler: Scheduler, row: int, start: int, count: int) -> Tensor:
    """K of a request's tokens, ``[count, 1, 16]``: any function of who and where."""
    identity = scheduler.running.sequence(row).request.id
    at = torch.arange(start, start + count)[:, None, None]
    return torch.sin(identity + 0.37 * at + torch.arange(16))


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    cache = PagedKVCache(SHAPE, 4, 16, torch.float32, "cpu", max_seqs=2)
    row = cache.open()
    k, v = torch.zeros(2, 3, 80, 2, 64)
    before = cache.pager.stats()
    for wrong, message in (
        ((k[:2, :3], v[:2, :3], 3), "layers, tokens|3, 3, 2, 64"),
        ((k[:, :3], v[:, :2], 3), "v: expected"),
        ((k[:, :3].half(), v[:, :3].half(), 3), "float32"),
        ((k[:, :3], v[:, :3], 4), "3, 4, 2, 64"),
    ):
        with pytest.raises(InputError, match=message):
            cache.append(row, *wrong)
    with pytest.raises(NeverFits):
        cache.append(row, k, v, 80)
    cache.append(row, k[:, :40], v[:, :40], 40)
    with pytest.raises(OutOfFrames):
        cache.append(cache.open(), k[:, :40], v[:, :40], 40)
    with pytest.raises(BadHandle):
        cache.read(0, 7)
    with pytest.raises(InputError, match="layer: expected one of 3, counted from 0, given 3"):
        cache.batch([row]).layer(3)
    with pytest.raises(InputError, match="at most 1"):
        cache.batch([row, 1], size=1)
    with pytest.raises(NeverFits, match="host"):
        cache.swap_out(row)
    assert before.used == 0
    assert cache.pager.stats().used == 3
    with pytest.raises(InputError, match="only an fp8 cache"):
        PagedKVCache(SHAPE, 4, 16, torch.float32, "cpu", k_scale=torch.ones(3, 1))
    with pytest.raises(InputError, match=r"k_scale: expected fp32 \[3, 1\] or \[3, 2\]"):
        PagedKVCache(SHAPE, 4, 16, torch.float8_e4m3fn, "cpu", k_scale=torch.ones(2, 1))
    with pytest.raises(InputError, match=r"v_scale: expected a tensor, fp32 \[3, 1\] or \[3, 2\], given 0.5"):
        PagedKVCache(SHAPE, 4, 16, torch.float8_e4m3fn, "cpu", v_scale=0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="dtype: expected one of float32"):
        PagedKVCache(SHAPE, 4, 16, torch.int32, "cpu")
    with pytest.raises(InputError, match=r"dtype: .* \(a torch.dtype\), given 'float32'"):
        PagedKVCache(SHAPE, 4, 16, "float32", "cpu")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="kv_heads must be at least 1"):
        KVShape(1, 0, 64)
    with pytest.raises(InputError, match="layers must be an integer"):
        KVShape(1.5, 2, 64)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="head_dim: expected an even one for fp8, given 63"):
        PagedKVCache(KVShape(1, 2, 63), 4, 16, torch.float8_e4m3fn, "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_the_default_device_says_that_there_is_none() -> None:
    with pytest.raises(InputError, match="finds no CUDA GPU; everything runs on device='cpu'"):
        PagedKVCache(SHAPE, 4)
    with pytest.raises(InputError, match="finds no CUDA GPU"):
        ContiguousKVCache(SHAPE, 2, 8)
    with pytest.raises(InputError, match="device of PyTorch such as 'cuda' or 'cpu', given 'gpu'"):
        PagedKVCache(SHAPE, 4, device="gpu")
    with pytest.raises(InputError, match=r"given 'xpu', which PyTorch .* does not have here"):
        PagedKVCache(SHAPE, 4, device="xpu")


def test_the_baseline_reserves_and_refuses() -> None:
    naive = ContiguousKVCache(SHAPE, 2, 8, torch.float32, "cpu")
    assert naive.reserved_bytes == 2 * 8 * SHAPE.bytes_per_token(torch.float32)
    k, v = torch.randn(2, 3, 9, 2, 64)
    with pytest.raises(NeverFits, match="9 tokens, more than the 8"):
        naive.append(0, k, v, 9)
    with pytest.raises(InputError, match="distinct rows below 2"):
        naive.append([0, 0], k[:, :2], v[:, :2])
    naive.append([1], k[:, :8], v[:, :8], 8)
    q = torch.randn(2, 2, 64)
    out = contiguous_decode(q, naive.view(1))
    assert out[0].abs().max() == 0
    right = newest(q[1].numpy(), k[1, :8].numpy(), v[1, :8].numpy())
    np.testing.assert_allclose(out[1], right, atol=2e-5)


def test_one_allocation_with_frames_outermost() -> None:
    cache = PagedKVCache(SHAPE, 5, 16, torch.bfloat16, "cpu")
    assert cache.pool.is_contiguous()
    assert cache.pool.stride(0) * 2 == 16 * SHAPE.bytes_per_token(torch.bfloat16)
    k = cache.batch([cache.open()]).layer(1).k
    assert k.untyped_storage().data_ptr() == cache.pool.untyped_storage().data_ptr()


def test_a_scale_a_head_goes_with_one_a_tensor() -> None:
    scales = torch.tensor([[1.0, 2.0]] * 3)
    k, v = torch.randn(2, 3, 5, 2, SHAPE.head_dim)
    stored = []
    for v_scale in (None, torch.ones(3, 2)):
        cache = PagedKVCache(SHAPE, 4, 16, torch.float8_e4m3fn, "cpu", k_scale=scales, v_scale=v_scale)
        row = cache.open()
        cache.append([row], k, v, tokens=5)
        stored.append(cache.pool.view(torch.uint8).clone())
        view = cache.batch([row]).layer(1)
        assert view.k_scale is not None
        assert view.v_scale is not None
        assert view.k_scale.shape == view.v_scale.shape
    assert torch.equal(*stored)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8])
def test_rows_of_any_integer_dtype_find_their_place(dtype: type) -> None:
    """A product of row and length does not fit these."""
    naive = ContiguousKVCache(SHAPE, 32, 2048, torch.float32, "cpu")
    k, v = torch.randn(2, 3, 3, 2, 64)
    naive.append(np.array([16], dtype), k, v, 3)
    assert torch.equal(naive.read(1, 16)[0], k[1])
    naive.append([], k[:, :0], v[:, :0])
    assert naive.lengths.sum() == 3
    for rows, tokens, message in (
        ([0.0], 3, "rows must be integers"),
        ([[0, 1]], 3, "rows must be one integer or a 1-D array"),
        ([0, 1], [4, -1], "tokens must not be negative"),
        ([0, 1], [1, 1, 1], "tokens must be one number or one a row"),
    ):
        with pytest.raises(InputError, match=message):
            naive.append(rows, k, v, tokens)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="row must be at least 0"):
        naive.read(0, -1)
    with pytest.raises(InputError, match="row: expected one of 32, counted from 0, given 32"):
        naive.read(0, 32)


def test_what_is_stored_has_no_gradient() -> None:
    cache = PagedKVCache(SHAPE, 4, 16, torch.float32, "cpu")
    row = cache.open()
    k, v = torch.nn.Parameter(torch.randn(2, 3, 5, 2, 64)).unbind(0)
    cache.append(row, k, v, 5)
    assert torch.equal(cache.read(2, row)[1], v[2])
    assert not cache.pool.requires_grad


def test_scales_are_above_0_and_the_caches_own() -> None:
    fp8 = torch.float8_e4m3fn
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="k_scale: expected finite scales above 0"):
            PagedKVCache(SHAPE, 4, 16, fp8, "cpu", k_scale=torch.full((3, 1), wrong))
    every_other = torch.full((3, 4), 0.5)[:, ::2]
    cache = PagedKVCache(SHAPE, 4, 16, fp8, "cpu", k_scale=every_other, v_scale=every_other)
    row = cache.open()
    k = torch.ones(3, 2, 2, 64, dtype=torch.bfloat16)
    cache.append(row, k, k, 2)
    q = torch.ones(1, 2, 64, dtype=torch.bfloat16)
    out = paged_decode(q, cache.batch(row).layer(0))
    every_other.mul_(3)
    assert torch.equal(paged_decode(q, cache.batch(row).layer(0)), out)
    assert torch.equal(out, torch.ones_like(out))


def test_a_batch_takes_rows_as_a_tensor_and_a_layer_is_a_number() -> None:
    cache = filled("cpu", [3, 4])
    batch = cache.batch(torch.tensor([1]))  # type: ignore[arg-type]
    assert batch.lengths.tolist() == [4]
    for layer, message in ((1.5, "must be an integer"), (-1, "at least 0"), (3, "expected one of 3")):
        with pytest.raises(InputError, match=message):
            batch.layer(layer)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="size must be an integer"):
        cache.batch([0], size=1.5)  # type: ignore[arg-type]
