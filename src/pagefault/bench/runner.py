"""A comparison from beginning to end: build, check, time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from pagefault.bench.checks import Check, require, run_checks
from pagefault.bench.problem import NAIVE, ORDERED, SHUFFLED, Problem, random_tokens
from pagefault.bench.rows import Environment, Row, environment, make_row
from pagefault.bench.stages import stage
from pagefault.bench.timing import Timing, capture, time_calls
from pagefault.capacity import PoolReport, measure, plain_layout
from pagefault.errors import NeverFits

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.bench.problem import Tokens
    from pagefault.bench.setup import BenchSetup

    Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What a comparison found.

    Attributes:
        setup: What was measured.
        where: On what.
        memory: What the two layouts reserve for the batch.
        checks: All passed, or there would be no report.
        timings: By layout.
        floor: The same bytes through the same page tables without attention; None on a CPU.
    """

    setup: BenchSetup
    where: Environment
    memory: PoolReport
    checks: list[Check]
    timings: dict[str, Timing]
    floor: Timing | None

    @property
    def difference(self) -> float:
        """Max |paged − naive| over the paged layouts, as `Check.error`."""
        return max(check.error for check in self.checks if check.what.endswith("= naive"))

    @property
    def slowdown(self) -> float:
        """Paged over contiguous, with the frames as scattered as they were measured."""
        scattered = self.timings.get(SHUFFLED, self.timings[ORDERED])
        return scattered.p50 / self.timings[NAIVE].p50

    @property
    def scattering(self) -> float | None:
        """Shuffled over ordered: what scattered frames cost; None where only ordered ones were measured."""
        return self.timings[SHUFFLED].p50 / self.timings[ORDERED].p50 if SHUFFLED in self.timings else None

    @property
    def rows(self) -> list[Row]:
        """One a layout, and the floor."""
        floor = None if self.floor is None else self.floor.p50
        errors = {
            NAIVE if check.what.startswith("naive") else check.what.split(" = ")[0]: check.error
            for check in self.checks
        }
        timed = self.timings if self.floor is None else {"floor": self.floor, **self.timings}
        return [
            make_row(
                self.setup.name,
                name,
                timing,
                self.where,
                kv_bytes=self.setup.kv_bytes,
                floor=floor,
                error=errors.get(name),
            )
            for name, timing in timed.items()
        ]


def build(setup: BenchSetup, tokens: Tokens | None = None) -> Problem:
    """The tensors of a comparison.

    Args:
        setup: What to measure.
        tokens: What the sequences hold; random if not given.

    Raises:
        NeverFits: The device has not memory enough for it.
    """
    _check_room(setup)
    generator = torch.Generator(setup.device).manual_seed(setup.seed)
    with stage("build"):
        made = [random_tokens(setup, generator) if tokens is None else tokens for _ in range(setup.copies)]
        return Problem(setup, made)


def _check_room(setup: BenchSetup) -> None:
    """Before anything is allocated: a CPU would swap, or its kernel end the program, and say nothing."""
    if setup.device == "cuda":
        room = torch.cuda.mem_get_info()[1]
    else:
        room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if setup.allocated_bytes > room:
        raise NeverFits(
            f"{setup.name}: values and caches take {setup.allocated_bytes / 1e9:,.1f} GB, and {setup.device} has "
            f"{room / 1e9:,.1f} GB; give fewer --seqs or shorter ones (--mean-len, --max-len)"
        )


def run(problem: Problem, progress: Progress = lambda _: None, command: str = "") -> BenchReport:
    """Check, then time.

    Args:
        problem: From `build`.
        progress: Told what comes next.
        command: For the rows: what was typed to measure this.

    Raises:
        CheckFailed: A result is wrong; nothing was timed.
    """
    setup = problem.setup
    progress("checks")
    with stage("checks"):
        checks = run_checks(problem)
    require(checks)
    device = torch.device(setup.device)
    calls = problem.calls()
    if device.type == "cuda":
        calls |= problem.floor_calls()
    progress("timings")
    with stage("timings"):
        timings = time_calls(calls, setup.rounds, device)
    floors = [timings.pop(name) for name in calls if name.startswith("floor ")]
    tokens = problem.tokens[0].lengths
    return BenchReport(
        setup=setup,
        where=environment(device, command),
        memory=measure(
            tokens,
            setup.block_size,
            pool_blocks=None,
            max_len=setup.reserved_tokens,
            layout=plain_layout(setup.bytes_per_token),
        ),
        checks=checks,
        timings=timings,
        floor=min(floors, key=lambda timing: timing.p50, default=None),
    )


def profile(problem: Problem) -> torch.profiler.profile:
    """Decode steps of each layout under PyTorch's profiler, each in a range of its name: on a GPU a replayed graph.

    Returns:
        The profile; `export_chrome_trace` writes its timeline.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    on_gpu = problem.setup.device == "cuda"
    calls = problem.calls()
    steps: dict[str, list[Callable[[], object]]] = {name: list(some) for name, some in calls.items()}
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        # Captured before the profile begins, and so compiled, too.
        steps = {name: [capture(some)[0].replay] for name, some in steps.items()}
    profiled = torch.profiler.profile(activities=activities, acc_events=True)
    with profiled:
        for name, some in steps.items():
            with stage(name):
                for step in some:
                    step()
                if on_gpu:
                    torch.cuda.synchronize()
    return profiled
