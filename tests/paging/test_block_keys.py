from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.errors import InputError
from pagefault.paging import BlockHasher, keys_from_ids, private_keys

exactly = settings(deadline=None, derandomize=True)
tokens = st.lists(st.integers(0, 2**31 - 1), max_size=60)


def as_set(keys: np.ndarray[tuple[int, int], np.dtype[np.uint64]]) -> set[bytes]:
    return {key.tobytes() for key in keys}


def test_keys_are_the_documented_digests() -> None:
    """By hand with hashlib: the same on every machine and in every process."""
    root = hashlib.blake2b(b"tenant", digest_size=16, person=b"pagefault.tokens").digest()
    first = hashlib.blake2b(root + b"\1" + bytes(7) + b"\2" + bytes(7), digest_size=16).digest()
    second = hashlib.blake2b(first + b"\3" + bytes(7) + b"\4" + bytes(7), digest_size=16).digest()
    keys = BlockHasher(2, b"tenant").update([1, 2, 3, 4, 5])
    assert keys.dtype == np.uint64
    assert keys.astype("<u8").tobytes() == first + second


@exactly
@given(tokens, st.lists(st.integers(0, 20), max_size=5), st.sampled_from([1, 2, 4, 16]))
def test_pieces_hash_like_the_whole(ids: list[int], cuts: list[int], size: int) -> None:
    whole = BlockHasher(size).update(np.array(ids, np.int32))
    hasher, pieces, start = BlockHasher(size), [], 0
    for cut in [*cuts, len(ids)]:
        pieces.append(hasher.update(np.array(ids[start : start + cut], np.int64)))
        start += cut
    assert np.array_equal(np.concatenate(pieces), whole)
    assert len(whole) == len(ids) // size


@exactly
@given(tokens, tokens)
def test_equal_keys_mean_equal_prefixes(a: list[int], b: list[int]) -> None:
    ours, theirs = BlockHasher(4).update(a), BlockHasher(4).update(b)
    for i in range(min(len(ours), len(theirs))):
        assert np.array_equal(ours[i], theirs[i]) == (a[: 4 * i + 4] == b[: 4 * i + 4])


def test_salt_keeps_tenants_apart() -> None:
    same = [1, 2, 3, 4]
    assert not as_set(BlockHasher(2, b"a").update(same)) & as_set(BlockHasher(2, b"b").update(same))
    assert not as_set(keys_from_ids(same, 2, 2, b"a")) & as_set(keys_from_ids(same, 2, 2, b"b"))
    assert not as_set(keys_from_ids(same, 1, 1)) & as_set(BlockHasher(1).update(same))


def test_an_id_of_512_tokens_is_32_blocks_of_16() -> None:
    keys = keys_from_ids([7, 8, 9], 512, 16)
    assert keys.shape == (96, 2)
    assert len(as_set(keys)) == 96
    assert np.array_equal(keys_from_ids([7, 8], 512, 16), keys[:64])
    assert not as_set(keys_from_ids([6, 8], 512, 16)) & as_set(keys), "chained: another first id changes all"


def test_a_partly_filled_tail_is_not_shared() -> None:
    keys = keys_from_ids([7, 8], 512, 16, num_tokens=600)
    assert len(keys) == 600 // 16 == 37
    assert np.array_equal(keys, keys_from_ids([7, 8], 512, 16)[:37])
    assert len(keys_from_ids([7], 512, 16, num_tokens=15)) == 0
    assert keys_from_ids([], 512, 16).shape == (0, 2)


def test_a_block_of_several_ids() -> None:
    keys = keys_from_ids([1, 2, 3, 4, 5], 16, 32)
    assert len(keys) == 2
    assert np.array_equal(keys, keys_from_ids([1, 2, 3, 4], 16, 32))
    assert np.array_equal(keys[0], keys_from_ids([1, 2], 16, 16)[1])
    assert not np.array_equal(keys[1], keys_from_ids([1, 2, 9, 4], 16, 32)[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: keys_from_ids([1], 24, 16), "24 tokens and a block holds 16: one must be a multiple"),
        (
            lambda: keys_from_ids([1], 16, 16, num_tokens=17),
            "1 ids of 16 tokens cover 16 tokens, but the prompt",
        ),
        (lambda: keys_from_ids([[1]], 16, 16), "1-D array of integers"),  # type: ignore[list-item]
        (lambda: keys_from_ids([1.5], 16, 16), "1-D array of integers; got float64"),  # type: ignore[list-item]
        (lambda: BlockHasher(4).update([0.5]), "1-D array of integers; got float64"),  # type: ignore[list-item]
        (lambda: BlockHasher(0), "block_size must be at least 1; got 0"),
        (lambda: private_keys(2**64, 0, 1), "number < 2"),
        (lambda: private_keys(0, 2**32, 1), "start \\+ count <= 2"),
        (lambda: private_keys(-1, 0, 1), "number must be at least 0; got -1"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def test_private_keys_are_their_sequences_own() -> None:
    keys = private_keys(5, 0, 100)
    assert np.array_equal(keys[40:], private_keys(5, 40, 60))
    everything = as_set(keys) | as_set(private_keys(6, 0, 100)) | as_set(BlockHasher(1).update(range(100)))
    assert len(everything) == 300
