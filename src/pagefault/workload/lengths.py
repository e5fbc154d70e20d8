"""The seeded length mix of the write-up, to the last digit, and the workload made of it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pagefault.errors import InputError
from pagefault.workload.arrivals import all_at_once
from pagefault.workload.requests import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class Band(NamedTuple):
    """One kind of sequence in the mix."""

    below: float  # taken when the draw in [0, 1) is below this and not below an earlier band's
    shortest: int  # tokens
    longest: int  # tokens, inclusive


MIX = (Band(0.5, 32, 128), Band(0.8, 256, 512), Band(1.0, 1024, 2048))
"""50% short, 30% medium, 20% long sequences."""

WORDS_A_DRAW = 4096


def seeded_lengths(count: int, seed: int) -> NDArray[np.int64]:
    """Lengths of `count` sequences drawn from `MIX`, the same on every machine and NumPy release.

    The stream is MT19937 seeded by ``init_genrand(seed)``, which is NumPy's frozen legacy generator. For each
    sequence one raw 32-bit word ``u = word / 2**32`` picks the band. Its length is drawn by masked rejection:
    with ``span = longest − shortest``, the low ``span.bit_length()`` bits of further words, until one is at
    most ``span``. This is the rule that reproduces the write-up's published figures.

    Args:
        count: How many sequences, 1 or more.
        seed: 0 to 2^32 − 1.

    Returns:
        int64 ``[count]``: tokens a sequence, prompt and output together.

    Raises:
        InputError: `count` is below 1 or `seed` out of range.
    """
    if count < 1:
        raise InputError(f"number of sequences is {count}, expected 1 or more")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}, expected 0 to 4294967295 (2^32 − 1)")
    words = _raw_words(seed)
    lengths = np.empty(count, dtype=np.int64)
    for index in range(count):
        pick = next(words) / 2**32
        band = next(band for band in MIX if pick < band.below)
        span = band.longest - band.shortest
        mask = (1 << span.bit_length()) - 1
        while (extra := next(words) & mask) > span:
            pass
        lengths[index] = band.shortest + extra
    return lengths


def seeded_workload(
    count: int, seed: int, arrival_ns: NDArray[np.int64] | None = None, prompt_share: float = 0.2
) -> Workload:
    """Requests whose total lengths are `seeded_lengths`.

    A request's prompt is ``max(1, int(prompt_share · length))`` tokens; the rest, at least one, is output.

    Args:
        count: How many requests, 1 or more.
        seed: 0 to 2^32 − 1.
        arrival_ns: int64 ``[count]``, ascending nanoseconds; all at time zero if None.
        prompt_share: The prompt's share of a request's tokens, from 0 to 1.

    Raises:
        InputError: An argument is out of range, or `arrival_ns` does not fit the requests.
    """
    if not 0 <= prompt_share <= 1:
        raise InputError(f"prompt share is {prompt_share}, expected 0 to 1")
    lengths = seeded_lengths(count, seed)
    prompts = np.clip((prompt_share * lengths).astype(np.int64), 1, lengths - 1)
    return Workload(
        arrival_ns=all_at_once(count) if arrival_ns is None else arrival_ns,
        prompt_tokens=prompts,
        output_tokens=lengths - prompts,
    )


def _raw_words(seed: int) -> Iterator[int]:
    """The raw 32-bit outputs of MT19937, one after the other, drawn in blocks."""
    generator = np.random.RandomState(seed)

    def block() -> list[int]:
        words: list[int] = generator.randint(0, 2**32, size=WORDS_A_DRAW, dtype=np.uint32).tolist()
        return words

    return chain.from_iterable(iter(block, None))
