"""Plays step plans on a virtual clock with a cost model."""

from __future__ import annotations

from pagefault.sim.classic import ClassicOutcome, ClassicSetup, run_classic
from pagefault.sim.costs import ConstantCost, Efficiency, RooflineCost, StepCost, TableCost, read_cost_table
from pagefault.sim.event_log import EVENTS_VERSION, EventLog
from pagefault.sim.metrics import Quantiles, ServingSummary, Slo, summarize_run
from pagefault.sim.recorder import SimResult, StepLog
from pagefault.sim.serving import ServingSetup, check_slo, find_limit, serve
from pagefault.sim.simulator import CostModel, Observer, simulate, tell
from pagefault.sim.sources import ClosedLoop, OpenLoop, Source

__all__ = [
    "EVENTS_VERSION",
    "ClassicOutcome",
    "ClassicSetup",
    "ClosedLoop",
    "ConstantCost",
    "CostModel",
    "Efficiency",
    "EventLog",
    "Observer",
    "OpenLoop",
    "Quantiles",
    "RooflineCost",
    "ServingSetup",
    "ServingSummary",
    "SimResult",
    "Slo",
    "Source",
    "StepCost",
    "StepLog",
    "TableCost",
    "check_slo",
    "find_limit",
    "read_cost_table",
    "run_classic",
    "serve",
    "simulate",
    "summarize_run",
    "tell",
]
