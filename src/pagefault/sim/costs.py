"""How long a step takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagefault.errors import InputError

if TYPE_CHECKING:
    from pagefault.scheduling import StepPlan


@dataclass(frozen=True)
class ConstantCost:
    """The classic cost: every step is one tick, whatever it does.

    Attributes:
        tick_ns: Nanoseconds.
    """

    tick_ns: int

    def __post_init__(self) -> None:
        if self.tick_ns < 1:
            raise InputError(f"a tick of {self.tick_ns} ns; expected at least 1")

    def step_ns(self, plan: StepPlan) -> int:  # noqa: ARG002
        """See `simulator.CostModel`."""
        return self.tick_ns
