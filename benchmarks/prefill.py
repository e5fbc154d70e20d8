"""Times paged prefill beside FlashInfer's and PyTorch's SDPA: ``python -m benchmarks.prefill --csv FILE``.

Each is checked against the float64 formula on some rows of every sequence before it is timed. Rates count the
operations that a causal mask leaves: 4 · head_dim for each query, query head and key that it sees. ``--tune`` times
our kernel's configurations instead and prints them.
"""

from __future__ import annotations

import benchmarks.with_torch  # noqa: F401

# isort: split
import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from benchmarks import files, flashinfer_rival
from benchmarks.cases import Case, Inputs, command_of, make_inputs, need_gpu, results_file
from benchmarks.rivals import Call, Rival, contiguous_copies
from pagefault.attention import PrefillChoice, paged_prefill
from pagefault.bench import Row, environment, make_row, read_results, rows_as_csv, time_calls

TOLERANCE = 1e-2
CHECKED = 64  # rows spread over a chunk


@dataclass(frozen=True)
class Prefill:
    """A batch of chunks: the last `chunk` of `tokens` tokens of each sequence."""

    name: str
    batch: int
    tokens: int
    chunk: int
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128

    @property
    def operations(self) -> float:
        """Multiplications and additions that a causal mask leaves."""
        seen = self.chunk * (self.tokens - self.chunk) + self.chunk * (self.chunk + 1) / 2
        return 4.0 * self.batch * self.heads * self.head_dim * seen

    @property
    def case(self) -> Case:
        """Its context, as a decode case."""
        return Case(self.name, (self.tokens,) * self.batch, self.heads, self.kv_heads, self.head_dim)


CASES = (
    Prefill("prefill 8x2048", 8, 2048, 2048),
    Prefill("prefill 8x512 of 16384", 8, 16384, 512),
    Prefill("prefill 8x2048, 32/32 heads", 8, 2048, 2048, kv_heads=32),
)


def queries(case: Prefill, sets: int) -> list[torch.Tensor]:
    """A set of queries for each of the disjoint contexts."""
    generator = torch.Generator("cuda").manual_seed(1)
    shape = (case.batch * case.chunk, case.heads, case.head_dim)
    return [torch.randn(shape, generator=generator, device="cuda").bfloat16() for _ in range(sets)]


def error(case: Prefill, out: torch.Tensor, q: torch.Tensor, one: Inputs) -> float:
    """The largest relative error of a sequence, over some of its rows, against float64; NaN where any value is."""
    if not out.isfinite().all():
        return math.nan
    view, group = one.view, case.heads // case.kv_heads
    rows = torch.linspace(0, case.chunk - 1, min(CHECKED, case.chunk), device=out.device).long()
    future = torch.arange(case.tokens, device=out.device) > (case.tokens - case.chunk + rows)[:, None]
    errors = []
    for row in range(case.batch):
        pages = view.block_table[row, : -(-case.tokens // view.block_size)].long()
        k, v = (part[pages].flatten(0, 1)[: case.tokens].double() for part in (view.k, view.v))
        chosen = row * case.chunk + rows
        queries = q[chosen].double().view(-1, case.kv_heads, group, case.head_dim)
        logits = torch.einsum("nhgd,thd->hgnt", queries, k) / math.sqrt(case.head_dim)
        right = torch.einsum("hgnt,thd->nhgd", logits.masked_fill(future, -math.inf).softmax(-1), v).flatten(
            1, 2
        )
        errors.append((out[chosen].double() - right).norm() / right.norm())
    return float(torch.stack(errors).max())


def ours(
    choice: PrefillChoice | None, name: str, case: Prefill, inputs: list[Inputs], q: list[torch.Tensor]
) -> Rival:
    """PageFault as a user calls it, or with a configuration."""
    offsets = torch.arange(case.batch + 1, dtype=torch.int32, device="cuda") * case.chunk
    calls: list[Call] = [
        partial(paged_prefill, one_q, one.view, offsets, out=torch.full_like(one_q, math.nan), choice=choice)
        for one_q, one in zip(q, inputs, strict=True)
    ]
    return Rival(name, "", calls)


def sdpa(backend: SDPBackend, name: str, case: Prefill, inputs: list[Inputs], q: list[torch.Tensor]) -> Rival:
    """PyTorch's SDPA on contiguous K and V."""
    square = case.chunk == case.tokens

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = None if square else causal_lower_right(case.chunk, case.tokens)
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=square, enable_gqa=case.heads != case.kv_heads
            )
        return out.transpose(1, 2).flatten(0, 1)

    copies = contiguous_copies(case.case, inputs)
    calls: list[Call] = [
        partial(
            call,
            one_q.view(case.batch, case.chunk, case.heads, case.head_dim).transpose(1, 2),
            copy.k.transpose(1, 2),
            copy.v.transpose(1, 2),
        )
        for one_q, copy in zip(q, copies, strict=True)
    ]
    return Rival(name, torch.__version__, calls, "contiguous memory, no pages")


def candidates(case: Prefill) -> dict[str, PrefillChoice]:
    """Configurations of our kernels for heads of 128 in 16 bit: rows, keys, depth, warps."""
    group = case.heads // case.kv_heads
    hopper = ((128, 128, 2, 4), (128, 64, 2, 4), (128, 64, 3, 4), (128, 64, 4, 4))
    portable = ((128, 64, 2, 8), (128, 64, 3, 8), (128, 128, 2, 8), (256, 64, 2, 8))
    choices = [
        PrefillChoice("hopper", rows // group, tile, depth, warps, "") for rows, tile, depth, warps in hopper
    ]
    choices += [
        PrefillChoice("portable", rows // group, tile, depth, warps, "")
        for rows, tile, depth, warps in portable
    ]
    return {
        f"{it.kernel}: rows {it.tile_q * group}, keys {it.tile}, depth {it.depth}, warps {it.warps}": it
        for it in choices
    }


Maker = Callable[[Prefill, list[Inputs], list[torch.Tensor]], Rival]


def contestants(case: Prefill, tune: bool) -> dict[str, Maker]:
    """Everybody, or our own configurations."""
    if tune:
        return {name: partial(ours, choice, name) for name, choice in candidates(case).items()}
    return {
        "pagefault": partial(ours, None, "pagefault"),
        "sdpa cudnn": partial(sdpa, SDPBackend.CUDNN_ATTENTION, "sdpa cudnn"),
        "sdpa flash": partial(sdpa, SDPBackend.FLASH_ATTENTION, "sdpa flash"),
        flashinfer_rival.NAME: flashinfer_rival.prefill,
    }


def measure(case: Prefill, rounds: int, tune: bool) -> list[Row]:
    """All rows of a case."""
    inputs = make_inputs(case.case)[:2]
    q = queries(case, len(inputs))
    entered: dict[str, Rival] = {}
    errors = {}
    for name, make in contestants(case, tune).items():
        try:
            rival = make(case, inputs, q)
            sets = zip(rival.calls, q, inputs, strict=True)
            found = float(torch.tensor([error(case, call(), one_q, one) for call, one_q, one in sets]).max())
        except Exception as problem:  # a backend says in its own way that it does not take the case
            print(f"{case.name}: without {name}: {(str(problem) or repr(problem)).splitlines()[0][:100]}")
            continue
        if not found < TOLERANCE:
            print(f"WRONG {case.name}: {name} has an error of {found:.2e}")
            continue
        entered[name], errors[name] = rival, found
    calls = {name: rival.calls for name, rival in entered.items()}
    timings = time_calls(calls, rounds, torch.device("cuda"))
    where = environment(torch.device("cuda"), command_of("prefill"))
    rows = []
    for name, timing in sorted(timings.items(), key=lambda item: item[1].p50):
        rate, rival = case.operations / timing.p50 / 1e6, entered[name]
        print(f"{case.name}: {name:44}{timing.p50:10.1f} us {rate:8.1f} TFLOP/s", flush=True)
        rows.append(
            make_row(
                case.name,
                name,
                timing,
                where,
                kv_bytes=case.case.kv_bytes,
                floor=None,
                error=errors[name],
                note=f"{rate:.1f} TFLOP/s" + (f"; {rival.note}" if rival.note else ""),
                version=rival.version,
            )
        )
    return rows


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--csv", type=results_file)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    need_gpu(parser)
    rows: list[Row] = []
    for case in CASES:
        rows += measure(case, options.rounds, options.tune)
        if options.csv and not options.tune:  # after every case, so that an interrupted run keeps what it has
            files.write(options.csv, rows_as_csv(rows, read_results(options.csv)))


if __name__ == "__main__":
    main()
