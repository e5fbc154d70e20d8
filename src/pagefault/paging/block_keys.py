"""Block keys: what a full block of tokens, and everything before it, is known by.

A key is 128 bits, as two uint64. Keys from content are BLAKE2b digests (RFC 7693) chained from block to
block, so a key stands for the whole prefix that ends with its block; they are the same in every process
and on every machine. With 2^32 blocks the chance of any two different prefixes sharing a key is about
2^-65 (birthday bound).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.errors import InputError
from pagefault.paging.arrays import Keys, as_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_DIGEST_BYTES = 16
_PRIVATE = np.uint64(0x5052_4956_0000_0000)  # "PRIV": upper half of a private key's second word


def as_keys(keys: Any) -> Keys:
    """`keys` as a contiguous uint64 [n, 2] array.

    Raises:
        InputError: They have another shape or dtype.
    """
    array = np.asarray(keys)
    if array.size == 0:
        return np.empty((0, 2), np.uint64)
    if array.dtype != np.uint64 or array.ndim != 2 or array.shape[1] != 2:
        raise InputError(
            f"block keys must be uint64 [blocks, 2]; got {array.dtype} of shape {list(array.shape)}: "
            "make them with BlockHasher, keys_from_ids or private_keys"
        )
    return np.ascontiguousarray(array)


def key_bytes(keys: Keys) -> list[bytes]:
    """Each key as 16 bytes, the form in which the index looks it up."""
    boxed: list[bytes] = keys.view("V16").ravel().tolist()
    return boxed


class BlockHasher:
    """Keys of a sequence's blocks, from its token ids, as the tokens come.

    `key[i] = BLAKE2b-128(key[i - 1] || tokens of block i as little-endian int64)`, and `key[-1]` is the
    digest of the salt.

    Args:
        block_size: Tokens a block holds.
        salt: Sequences share blocks only under the same salt: one for each tenant, adapter, image …

    Raises:
        InputError: `block_size` is not a positive integer.
    """

    def __init__(self, block_size: int, salt: bytes = b"") -> None:
        self.block_size = as_count(block_size, "block_size", least=1)
        self._parent = _root(salt, b"pagefault.tokens")
        self._rest = np.empty(0, "<i8")

    def update(self, token_ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Keys:
        """Adds tokens.

        Args:
            token_ids: The sequence's next tokens, any integer dtype, [n].

        Returns:
            Keys of the blocks that these tokens filled, uint64 [blocks, 2]; what is left over waits.

        Raises:
            InputError: The tokens are not integers, or have more than one dimension.
        """
        new = np.asarray(token_ids)
        if new.size and (new.dtype.kind not in "iu" or new.ndim != 1):
            raise InputError(
                f"token ids must be a 1-D array of integers; got {new.dtype} of shape {list(new.shape)}"
            )
        tokens = np.concatenate((self._rest, new.astype("<i8")))
        blocks = tokens.size // self.block_size
        content = tokens[: blocks * self.block_size].tobytes()
        step = 8 * self.block_size
        digests = []
        for start in range(0, blocks * step, step):
            self._parent = _digest(self._parent + content[start : start + step])
            digests.append(self._parent)
        self._rest = tokens[blocks * self.block_size :]
        return _to_keys(digests)


def keys_from_ids(
    ids: Sequence[int] | npt.NDArray[np.integer[Any]],
    tokens_per_id: int,
    block_size: int,
    salt: bytes = b"",
    num_tokens: int | None = None,
) -> Keys:
    """Keys from the ids that a trace gives for pieces of a prompt, where the tokens are not known.

    The ids are chained like tokens. An id of 512 tokens stands for 32 blocks of 16: `(digest, i)`. Where
    a block holds several ids, its key is the digest after the last of them. A partly filled last block
    gets no key.

    Args:
        ids: Non-negative ids of the prompt's consecutive pieces, [n]; equal ids mean equal pieces.
        tokens_per_id: Tokens an id stands for; the last one may stand for fewer.
        block_size: Tokens a block holds; divides `tokens_per_id`, or is a multiple of it.
        salt: As in `BlockHasher`.
        num_tokens: Tokens of the prompt; default: as many as the ids stand for.

    Returns:
        uint64 [num_tokens // block_size, 2].

    Raises:
        InputError: The sizes do not divide, or the ids do not cover `num_tokens`.
    """
    per_id = as_count(tokens_per_id, "tokens_per_id", least=1)
    size = as_count(block_size, "block_size", least=1)
    pieces = np.asarray(ids)
    if pieces.size and (pieces.dtype.kind not in "iu" or pieces.ndim != 1):
        raise InputError(
            f"ids must be a 1-D array of integers; got {pieces.dtype} of shape {list(pieces.shape)}"
        )
    covered = pieces.size * per_id
    tokens = covered if num_tokens is None else as_count(num_tokens, "num_tokens")
    if tokens > covered:
        raise InputError(
            f"{pieces.size} ids of {per_id} tokens cover {covered} tokens, but the prompt has {tokens}"
        )
    if per_id % size and size % per_id:
        raise InputError(
            f"an id stands for {per_id} tokens and a block holds {size}: one must be a multiple of the other"
        )
    blocks = tokens // size
    used = pieces[: -(-blocks * size // per_id)].astype("<i8").tobytes()
    parent = _root(salt, b"pagefault.ids")
    digests = []
    for start in range(0, len(used), 8):
        parent = _digest(parent + used[start : start + 8])
        digests.append(parent)
    if size >= per_id:
        return _to_keys(digests[size // per_id - 1 :: size // per_id])
    fan_out = per_id // size
    keys = np.repeat(_to_keys(digests), fan_out, axis=0)[:blocks]
    keys[:, 1] += np.arange(blocks, dtype=np.uint64) % np.uint64(fan_out)
    return keys


def private_keys(number: int, start: int, count: int) -> Keys:
    """Keys that nobody else can produce, for a sequence whose content is unknown (in a simulation).

    A preempted sequence that comes back with the same number finds its own blocks.

    Args:
        number: The sequence's own number, 0 to 2^64 - 1.
        start: Its first block to get a key.
        count: How many blocks get one; `start + count` is at most 2^32.

    Returns:
        uint64 [count, 2].

    Raises:
        InputError: A number is out of range.
    """
    first = as_count(start, "start")
    blocks = as_count(count, "count")
    if as_count(number, "number") >= 2**64 or first + blocks > 2**32:
        raise InputError(
            f"private keys need number < 2^64 and start + count <= 2^32; got {number}, {start} and {count}"
        )
    keys = np.empty((blocks, 2), np.uint64)
    keys[:, 0] = number
    keys[:, 1] = _PRIVATE | np.arange(first, first + blocks, dtype=np.uint64)
    return keys


def _root(salt: bytes, kind: bytes) -> bytes:
    return hashlib.blake2b(salt, digest_size=_DIGEST_BYTES, person=kind).digest()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _to_keys(digests: list[bytes]) -> Keys:
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64).reshape(-1, 2)
