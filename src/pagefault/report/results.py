"""What result files hold, as far as the page shows it; see `load` for how they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pagefault.report.events import RunLog


class Reserved(msgspec.Struct, frozen=True):
    """What one layout of the cache takes.

    Attributes:
        reserved_bytes: In all.
        utilization: The part that holds tokens, 0 to 1.
        capacity: Sequences like these that the pool holds, if there is a pool.
        sequences: Sequences that the budget holds, if there is one.
    """

    reserved_bytes: float
    utilization: float
    capacity: int | None = None
    sequences: int | None = None

    @property
    def stored_bytes(self) -> float:
        """Bytes that hold tokens."""
        return self.reserved_bytes * self.utilization

    @property
    def holds(self) -> int | None:
        """Sequences that fit at once, if it is known how much memory there is."""
        return self.capacity if self.sequences is None else self.sequences


class BlockSize(msgspec.Struct, frozen=True):
    """The same sequences at one block size; `table_entries` hold a sequence of the maximum length."""

    block_size: int
    reserved_bytes: float
    fragmentation_bytes: float
    table_entries: int


class BudgetLine(msgspec.Struct, frozen=True):
    """A line of the memory budget; what is taken away is negative."""

    label: str
    bytes: float
    origin: str = ""


class Model(msgspec.Struct, frozen=True):
    """The model of a calculation."""

    name: str
    kv_dtype: str = ""
    tp: int = 1


class Memory(msgspec.Struct, frozen=True):
    """What `pagefault calc --json` wrote. `source` is the file."""

    lengths: str
    block_size: int
    num_seqs: int
    tokens: int
    max_len: int
    paged: Reserved
    naive: Reserved
    sweep: list[BlockSize]
    command: str = ""
    model: Model | None = None
    budget_bytes: float | None = None
    budget: list[BudgetLine] = []
    source: str = ""


class ClassicSetup(msgspec.Struct, frozen=True):
    """How a run of the classic experiment was set up."""

    seed: int
    jobs: int
    workers: int
    pool_blocks: int
    block_size: int
    admission: str
    watermark: float
    victim: str
    preempt: str
    tick_ns: int


class ClassicRun(msgspec.Struct, frozen=True):
    """One run of the classic experiment; means are over its ticks."""

    name: str
    setup: ClassicSetup
    ticks: int
    preemptions: int
    decoding: float
    admission_wait_ticks: float
    discarded_share: float
    throughput_vs_naive: float

    @property
    def wait_ms(self) -> float:
        """Mean time from joining the queue to being admitted, in milliseconds."""
        return self.admission_wait_ticks * self.setup.tick_ns / 1e6


class Classic(msgspec.Struct, frozen=True):
    """What `pagefault sim --json` wrote of the classic experiment. `source` is the file."""

    runs: list[ClassicRun]
    command: str = ""
    source: str = ""

    @property
    def paged(self) -> list[ClassicRun]:
        """The runs on a paged cache."""
        return [run for run in self.runs if run.setup.admission != "naive"]


class Quantiles(msgspec.Struct, frozen=True):
    """A distribution in seconds; None where nothing was measured."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Served(msgspec.Struct, frozen=True):
    """What `pagefault sim --trace --json` wrote: times in seconds, shares 0 to 1. `source` is the file."""

    model: str
    gpu: str
    requests: int
    finished: int
    arrival_rate: float
    request_throughput: float
    goodput: float
    good: float
    ttft: Quantiles
    tpot: Quantiles
    e2e: Quantiles
    wait: Quantiles
    kv_usage: float
    kv_usage_peak: float
    utilization: float
    stalled_share: float
    busy_share: float
    hit_rate: float
    recompute_tax: float
    preemptions: int
    verdict: str
    complete: bool = True
    tp: int = 1
    trace: str = ""
    command: str = ""
    source: str = ""


@dataclass(frozen=True)
class Measured:
    """One implementation on one case: a row of a results file, or of `bench --json`. Times in microseconds a call.

    Attributes:
        case: What was measured.
        implementation: Whose.
        p50: The median.
        p20: A fifth of the rounds were faster; None if that is not known.
        p80: A fifth were slower.
        ratio: The floor's median over this one's; None where no floor was measured.
        gpu: The device; `CPU` without one.
        note: What the implementation is spared or given.
        command: What made it; empty if the row does not say.
        source: The file.
    """

    case: str
    implementation: str
    p50: float
    p20: float | None
    p80: float | None
    ratio: float | None
    gpu: str
    note: str
    command: str
    source: str


@dataclass
class Results:
    """Everything that was given, in the order of the files.

    Attributes:
        memory: Of `calc`.
        classic: Of `sim`, the classic experiment.
        served: Of `sim --trace`.
        measured: Of `bench` and of results files; of a case and implementation on a GPU the last one counts.
        runs: Of event logs, each with a name that no other has.
    """

    memory: list[Memory] = field(default_factory=list)
    classic: list[Classic] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    runs: list[RunLog] = field(default_factory=list)
