"""What is done to a logit besides the dot product."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagefault.attention import validate
from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Variant:
    """In this order: scale, soft cap, ALiBi, window; sinks join the denominator."""

    scale: float
    window: int | None
    softcap: float | None
    alibi_slopes: Tensor | None
    sinks: Tensor | None

    @property
    def plain(self) -> bool:
        """Whether a logit is a scaled dot product and nothing else; a window only leaves some out."""
        return self.softcap is None and self.alibi_slopes is None and self.sinks is None

    def oldest_seen(self, tokens: int, queries: int) -> int:
        """The first token that any of a sequence's last `queries` queries sees."""
        return 0 if self.window is None else max(0, tokens - queries - self.window + 1)


def make_variant(
    q: Tensor,
    scale: float | None,
    window: int | None,
    softcap: float | None,
    alibi_slopes: Tensor | None,
    sinks: Tensor | None,
) -> Variant:
    """The options of a call, checked; the scale is ``1 / sqrt(head_dim)`` if not given.

    Raises:
        InputError: One is out of range, or not one value a query head.
    """
    validate.check_per_head("alibi_slopes", alibi_slopes, q)
    validate.check_per_head("sinks", sinks, q)
    return Variant(
        scale=1 / math.sqrt(q.shape[-1]) if scale is None else _positive("scale", scale),
        window=None if window is None else _tokens("window", window),
        softcap=None if softcap is None else _positive("softcap", softcap),
        alibi_slopes=alibi_slopes,
        sinks=sinks,
    )


def _positive(name: str, value: float) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 < value < math.inf:
        raise InputError(f"{name}: expected a positive number, given {value}")
    return float(value)


def _tokens(name: str, value: int) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}: expected at least 1 token, a whole number, given {value}")
    return min(int(value), 2**31 - 1)
