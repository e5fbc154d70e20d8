"""Named random streams and arrival processes.

Every random choice draws from a stream of its own, named after what it decides, so that adding one decision
does not shift the numbers of another.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stream(seed: int, name: str) -> np.random.Generator:
    """The random stream `name` of `seed`: independent of every other name's, the same on every run.

    Args:
        seed: Any integer of 0 or more.
        name: What the stream decides, as in ``"arrivals"``.

    Raises:
        InputError: `seed` is negative.
    """
    if seed < 0:
        raise InputError(f"seed is {seed}, expected 0 or more")
    digest = hashlib.sha256(name.encode()).digest()[:16]
    words = tuple(int.from_bytes(digest[at : at + 4], "little") for at in range(0, 16, 4))
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=words))


def all_at_once(count: int) -> NDArray[np.int64]:
    """Everybody at time zero: int64 ``[count]`` of 0 ns.

    Raises:
        InputError: `count` is below 1.
    """
    _check_count(count)
    return np.zeros(count, dtype=np.int64)


def poisson(count: int, rate: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """A Poisson process: independent exponential gaps with a mean of ``1 / rate`` seconds.

    Args:
        count: How many requests, 1 or more.
        rate: Requests a second on average.
        generator: Where the gaps are drawn, see `stream`.

    Returns:
        int64 ``[count]``, ascending nanoseconds; the first gap begins at zero.

    Raises:
        InputError: `count` is below 1, or `rate` not a positive number that int64 nanoseconds can hold.
    """
    _check_count(count)
    return _poisson_ns(count, rate, generator)


def bursts(count: int, rate: float, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Bursts of `size` requests at the same instant; the bursts are a Poisson process.

    Args:
        count: How many requests, 1 or more; the last burst is smaller where `size` does not divide it.
        rate: Requests (not bursts) a second on average.
        size: Requests a burst, 1 or more.
        generator: Where the gaps between bursts are drawn, see `stream`.

    Returns:
        int64 ``[count]``, ascending nanoseconds.

    Raises:
        InputError: `count` or `size` is below 1, or `rate` not a positive number that fits.
    """
    _check_count(count)
    if size < 1:
        raise InputError(f"burst size is {size}, expected 1 or more")
    starts = _poisson_ns(-(-count // size), rate / size, generator)
    return np.repeat(starts, size)[:count]


def _poisson_ns(count: int, rate: float, generator: np.random.Generator) -> NDArray[np.int64]:
    if not (np.isfinite(rate) and rate > 0):
        raise InputError(f"arrival rate is {rate} requests a second, expected a number above 0")
    seconds = np.cumsum(generator.exponential(1.0 / rate, size=count))
    if seconds[-1] > 1e9:
        raise InputError(
            f"{count} arrivals at {rate} a second take {seconds[-1]:.3g} s, more than 10^9 s; raise the rate"
        )
    return np.rint(seconds * 1e9).astype(np.int64)


def _check_count(count: int) -> None:
    if count < 1:
        raise InputError(f"number of requests is {count}, expected 1 or more")
