"""What is done to a logit besides the dot product."""

from __future__ import annotations

import math
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
    if window is not None and window < 1:
        raise InputError(f"window: expected at least 1 token, given {window}")
    if scale is not None and not scale > 0:
        raise InputError(f"scale: expected a positive number, given {scale}")
    if softcap is not None and not softcap > 0:
        raise InputError(f"softcap: expected a positive number, given {softcap}")
    return Variant(
        1 / math.sqrt(q.shape[-1]) if scale is None else scale, window, softcap, alibi_slopes, sinks
    )
