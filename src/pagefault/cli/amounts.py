"""Options that carry a unit, into whole numbers of the unit that the library counts in."""

from __future__ import annotations

import math

from pagefault.errors import InputError

GB = 10**9
GIB = 2**30


def whole(value: float, flag: str, unit: int) -> int:
    """An amount in whole numbers of a smaller unit: ``--weights-gib 1.5`` is 1,610,612,736 bytes.

    Args:
        value: What was given.
        flag: For which option.
        unit: How many of the smaller unit one of it is.

    Raises:
        InputError: It is negative, infinite, or not a number.
    """
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{flag} is {value:g}, expected a positive number")
    return round(value * unit)


def optional_whole(value: float | None, flag: str, unit: int) -> int | None:
    """The same, or None where the option was not given."""
    return None if value is None else whole(value, flag, unit)
