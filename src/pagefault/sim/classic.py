"""The write-up's experiment: workers, one pool, a token a tick, with and without a watermark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.capacity import check_block_size
from pagefault.errors import InputError
from pagefault.paging import Pager
from pagefault.scheduling import Scheduler, SchedulerConfig
from pagefault.sim.costs import ConstantCost
from pagefault.sim.simulator import simulate, tell
from pagefault.sim.sizes import MOST_JOBS, check_sizes
from pagefault.sim.sources import ClosedLoop
from pagefault.workload import seeded_lengths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pagefault.scheduling.config import Admission, Preempt, Victim
    from pagefault.sim.recorder import SimResult
    from pagefault.sim.simulator import Observer

PROMPT_SHARE = 0.2
"""A job's prompt is max(1, int(0.2 · length)); the write-up kept its own share to itself."""

NEVER_LIMITS = 1 << 40
"""A token budget that no step reaches: in this experiment a step is a tick, however many decode."""


@dataclass(frozen=True, kw_only=True)
class ClassicSetup:
    """One run of the experiment. The defaults are the write-up's.

    Raises:
        InputError: A size below 1 or beyond what can be simulated, a pool smaller than one sequence, a job longer
            than `max_len`, or what `SchedulerConfig` refuses.

    Attributes:
        jobs: Jobs in all.
        workers: Jobs in the system at once.
        pool_blocks: Frames.
        block_size: Tokens a frame.
        max_len: MAX_SEQ_LEN, what ``naive`` reserves.
        seed: Of the length mix.
        admission: ``naive`` or ``watermark`` (others of `SchedulerConfig` work too).
        watermark: Share of the pool that admission leaves free.
        victim: Who gives up frames.
        preempt: How; the write-up restarts.
        host_blocks: Frames of the host pool, for ``swap``.
        tick_ns: How long a tick takes.
    """

    jobs: int = 512
    workers: int = 128
    pool_blocks: int = 4096
    block_size: int = 16
    max_len: int = 2048
    seed: int = 42
    admission: Admission = "watermark"
    watermark: float = 0.0
    victim: Victim = "self"
    preempt: Preempt = "restart"
    host_blocks: int = 0
    tick_ns: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("jobs", "workers", "pool_blocks", "max_len"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.host_blocks < 0:
            raise InputError(f"host_blocks is {self.host_blocks}; expected 0 or more")
        if self.jobs > MOST_JOBS:
            raise InputError(f"jobs is {self.jobs:,}; expected at most {MOST_JOBS:,}")
        check_block_size(self.block_size)
        _ = self.config  # refuses now what it cannot be
        pages = -(-self.max_len // self.block_size)
        if pages > self.pool_blocks:
            raise InputError(
                f"the pool of {self.pool_blocks} blocks is smaller than one sequence of max_len {self.max_len} tokens, "
                f"{pages} blocks; give pool_blocks {pages} or more, or a smaller max_len"
            )
        check_sizes(max(self.pool_blocks, self.host_blocks), self.at_once, pages)
        longest = int(self.lengths().max())
        if longest > self.max_len:
            raise InputError(
                f"the longest job of seed {self.seed} has {longest} tokens, more than max_len {self.max_len}; "
                f"give at least {longest}"
            )

    @property
    def at_once(self) -> int:
        """Jobs in the system at once: there are never more than there are jobs."""
        return min(self.workers, self.jobs)

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each job, prompt and output together, int64 [jobs]."""
        return seeded_lengths(self.jobs, self.seed)

    @property
    def config(self) -> SchedulerConfig:
        """The scheduler's part of it."""
        return SchedulerConfig(
            max_num_seqs=self.at_once,
            max_num_batched_tokens=NEVER_LIMITS,
            max_model_len=self.max_len,
            admission=self.admission,
            watermark=self.watermark,
            prefill="delivered",
            first="waiting",
            victim=self.victim,
            preempt=self.preempt,
            requeue="back",
        )


@dataclass(frozen=True)
class ClassicOutcome:
    """What one run gave.

    Attributes:
        setup: Of which run.
        ticks: Until the last job had finished.
        preemptions: Times a sequence lost its frames.
        preempted_decoding: Of these, how many had produced a token.
        decoding: Sequences that gained a token in a tick, mean over ticks.
        live: Sequences that held frames, mean over ticks.
        live_peak: The most at once.
        admission_wait_ticks: From joining the queue to being admitted for the first time, mean over jobs.
        discarded_tokens: Output tokens that restarts threw away.
        discarded_share: Of all output tokens made.
        leaked_frames: Frames still held at the end; 0, or the pager has a fault.
    """

    setup: ClassicSetup
    ticks: int
    preemptions: int
    preempted_decoding: int
    decoding: float
    live: float
    live_peak: int
    admission_wait_ticks: float
    discarded_tokens: int
    discarded_share: float
    leaked_frames: int


def run_classic(
    setup: ClassicSetup,
    progress: Callable[[int, int], None] | None = None,
    observers: Sequence[Observer] = (),
) -> tuple[ClassicOutcome, SimResult]:
    """One run: DESIGN's tick loop, played by the same scheduler and pager as everything else.

    A prompt's KV is there at admission (``delivered``), waiting jobs are served before running ones in a tick, a
    sequence that stalls for the 49th tick in a row restarts at the back of the queue.

    Args:
        setup: Which run.
        progress: See `simulate`.
        observers: Watch the run.

    Raises:
        InputError: Swapping without host frames.
        PageFaultError: The jobs take each other's frames for ever.
        KeyboardInterrupt: The run was interrupted: part of an experiment has no outcome.
    """
    lengths = setup.lengths()
    prompts = np.maximum(1, (PROMPT_SHARE * lengths).astype(np.int64))
    scheduler = Scheduler(
        setup.config,
        Pager(
            setup.pool_blocks,
            setup.block_size,
            max_seqs=setup.at_once,
            max_seq_len=setup.max_len,
            host_blocks=setup.host_blocks,
            prefix_caching=False,
        ),
        listener=tell(observers),
    )
    source = ClosedLoop(prompts, lengths - prompts, setup.at_once)
    result = simulate(scheduler, source, ConstantCost(setup.tick_ns), progress=progress, observers=observers)
    if not result.complete:
        raise KeyboardInterrupt
    return _outcome(setup, result), result


def _outcome(setup: ClassicSetup, result: SimResult) -> ClassicOutcome:
    steps, records = result.steps, result.records
    preemptions = [preemption for record in records for preemption in record.preemptions]
    discarded = sum(record.discarded_tokens for record in records)
    made = discarded + sum(record.generated for record in records)
    waits = [record.admitted_ns - record.queued_ns for record in records if record.admitted_ns is not None]
    return ClassicOutcome(
        setup=setup,
        ticks=len(steps),
        preemptions=len(preemptions),
        preempted_decoding=sum(preemption.decoding for preemption in preemptions),
        decoding=float(steps.column("decodes").mean()),
        live=float(steps.column("running").mean()),
        live_peak=int(steps.column("running").max()),
        admission_wait_ticks=float(np.mean(waits)) / setup.tick_ns,
        discarded_tokens=discarded,
        discarded_share=discarded / made,
        leaked_frames=result.pager.used + result.pager.in_flight,
    )
