"""The oracle against what can be calculated by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.errors import InputError
from pagefault.reference import attention, gather, paged_attention


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_uniform_keys_give_the_mean_of_the_values() -> None:
    v = random(0, 37, 2, 8)
    out, lse = attention(random(1, 1, 4, 8), np.zeros((37, 2, 8)), v)
    np.testing.assert_allclose(out[0], np.repeat(v.mean(axis=0), 2, axis=0), atol=1e-12)
    np.testing.assert_allclose(lse, np.log(37), atol=1e-12)


def test_a_one_hot_key_gives_that_value() -> None:
    k = np.zeros((37, 1, 8))
    k[21] = 1e4
    v = random(0, 37, 1, 8)
    out, _ = attention(np.ones((1, 1, 8)), k, v)
    np.testing.assert_array_equal(out[0, 0], v[21, 0])


def test_two_keys_by_hand() -> None:
    k = np.array([[[1.0]], [[0.0]]])
    v = np.array([[[10.0]], [[20.0]]])
    out, lse = attention(np.array([[[2.0]]]), k, v, scale=0.5)
    e = np.exp(1.0)
    np.testing.assert_allclose(out[0, 0, 0], (10 * e + 20) / (e + 1), rtol=1e-15)
    np.testing.assert_allclose(lse[0, 0], np.log(e + 1), rtol=1e-15)


def test_no_tokens_give_zeros_and_minus_infinity() -> None:
    out, lse = attention(np.ones((1, 2, 4)), np.empty((0, 1, 4)), np.empty((0, 1, 4)))
    assert (out == 0).all()
    assert (lse == -np.inf).all()


def test_groups_read_their_own_kv_head() -> None:
    v = np.stack([np.full((5, 4), 1.0), np.full((5, 4), 2.0)], axis=1)
    out, _ = attention(random(0, 1, 6, 4), random(1, 5, 2, 4), v)
    np.testing.assert_allclose(out[0, :, 0], [1, 1, 1, 2, 2, 2])


def test_the_causal_mask_is_aligned_to_the_end() -> None:
    q, k, v = random(0, 3, 2, 4), random(1, 7, 1, 4), random(2, 7, 1, 4)
    out, _ = attention(q, k, v)
    for row in range(3):
        alone, _ = attention(q[row : row + 1], k[: 5 + row], v[: 5 + row])
        np.testing.assert_allclose(out[row], alone[0], rtol=1e-13)


def test_a_window_equals_cutting_the_keys_off() -> None:
    q, k, v = random(0, 1, 2, 4), random(1, 9, 1, 4), random(2, 9, 1, 4)
    out, lse = attention(q, k, v, window=4)
    cut, cut_lse = attention(q, k[-4:], v[-4:])
    np.testing.assert_allclose(out, cut, rtol=1e-14)
    np.testing.assert_allclose(lse, cut_lse, rtol=1e-14)


def test_a_sink_is_a_key_without_a_value() -> None:
    k, v = np.zeros((3, 1, 4)), np.ones((3, 1, 4))
    out, lse = attention(np.ones((1, 1, 4)), k, v, sinks=[0.0])
    np.testing.assert_allclose(out, 0.75)
    np.testing.assert_allclose(lse, np.log(4))
    empty, empty_lse = attention(np.ones((1, 1, 4)), k[:0], v[:0], sinks=[0.5])
    assert (empty == 0).all()
    np.testing.assert_allclose(empty_lse, 0.5)


def test_alibi_and_soft_cap_by_hand() -> None:
    k, v = np.zeros((2, 1, 1)), np.array([[[0.0]], [[1.0]]])
    out, _ = attention(np.ones((1, 1, 1)), k, v, alibi_slopes=[np.log(3)])
    np.testing.assert_allclose(out, 0.75)
    k = np.array([[[0.0]], [[1e9]]])
    out, _ = attention(np.ones((1, 1, 1)), k, v, softcap=np.log(3))
    np.testing.assert_allclose(out, 0.75)


def test_hand_calculated_addresses() -> None:
    # Block size 4, frames [7, 2, 5]: token 9 is offset 1 of frame 5, token 3 offset 3 of frame 7.
    pool = (np.arange(8)[:, None] * 4 + np.arange(4)).reshape(8, 4, 1, 1)
    tokens = gather(pool, [7, 2, 5], 10)[:, 0, 0]
    np.testing.assert_array_equal(tokens, [28, 29, 30, 31, 8, 9, 10, 11, 20, 21])


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    block_size=st.sampled_from([1, 2, 8, 16]),
    group=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_paged_over_a_shuffled_pool_is_contiguous_bit_for_bit(
    lengths: list[int], block_size: int, group: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    batch, max_pages = len(lengths), -(-40 // block_size)
    k, v = rng.normal(size=(2, batch, max_pages * block_size, 2, 8))
    table = rng.permutation(batch * max_pages).reshape(batch, max_pages)
    pools = np.full((2, batch * max_pages, block_size, 2, 8), np.nan)
    for pool, rows in zip(pools, (k, v), strict=True):
        pool[table] = rows.reshape(batch, max_pages, block_size, 2, 8)
    slots = [
        table[b, t // block_size] * block_size + t % block_size
        for b in range(batch)
        for t in range(lengths[b])
    ]
    assert len(set(slots)) == len(slots)
    q = rng.normal(size=(batch, 2 * group, 8))
    out, lse = paged_attention(q, pools[0], pools[1], table, lengths)
    for b, n in enumerate(lengths):
        alone, alone_lse = attention(q[b : b + 1], k[b, :n], v[b, :n])
        np.testing.assert_array_equal(out[b], alone[0])
        np.testing.assert_array_equal(lse[b], alone_lse[0])


def test_wrong_input_is_named() -> None:
    with pytest.raises(InputError, match="q's heads must be a multiple"):
        attention(np.ones((1, 3, 4)), np.ones((2, 2, 4)), np.ones((2, 2, 4)))
    with pytest.raises(InputError, match="names frame 9; the pool has 3"):
        gather(np.ones((3, 4, 1, 1)), [9], 2)
    with pytest.raises(InputError, match="needs 2 pages of 4, but its page table has 1"):
        gather(np.ones((3, 4, 1, 1)), [0], 5)
    with pytest.raises(InputError, match="queries in all"):
        paged_attention(np.ones((2, 1, 4)), np.ones((3, 4, 1, 4)), np.ones((3, 4, 1, 4)), [[0]], [1])
