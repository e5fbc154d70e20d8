"""Small simulations, watched: what the log says against what the pager knows, at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.report.events import RunLog, read_events
from pagefault.scheduling import SchedulerConfig
from pagefault.sim import ClassicSetup, ConstantCost, EventLog, ServingSetup, run_classic, serve
from pagefault.workload import Workload, poisson, stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pagefault.scheduling import Scheduler, SequenceEvent, StepPlan


@dataclass
class Truth:
    """The pager's own arrays in one step."""

    table: Any
    lengths: Any
    state: Any
    refs: Any
    running: dict[int, int]
    decoding: list[int]
    prefilling: list[int]
    stalled: list[int]
    faults: int


@dataclass
class Watcher:
    """An observer that copies the truth of every step."""

    steps: list[Truth] = field(default_factory=list)

    def sequence(self, event: SequenceEvent) -> None:
        pass

    def step(self, plan: StepPlan, end_ns: int, scheduler: Scheduler) -> None:
        pager = scheduler.pager
        device = pager._state.device
        rows = scheduler.running.rows.tolist()
        self.steps.append(
            Truth(
                pager.block_table.copy(),
                pager.lengths.copy(),
                device.state.copy(),
                device.refs.copy(),
                {row: scheduler.running.sequence(row).request.id for row in rows},
                sorted(plan.decode.rows.tolist()),
                sorted(plan.prefill.rows.tolist()),
                sorted(plan.stalled.tolist()),
                pager.stats().faults + pager.stats().swapped_in,
            )
        )


def _logged(path: Path, config: SchedulerConfig, blocks: int, size: int, about: dict[str, Any]) -> Any:
    stream = path.open("w")
    return stream, EventLog(stream.write, about, config, blocks, size)


def classic(path: Path, **setup: Any) -> tuple[RunLog, Watcher]:
    """One run of the classic experiment, its log and its truth."""
    made = ClassicSetup(**setup)
    about = {"command": "pagefault sim", "run": made.admission, "tick_ns": made.tick_ns}
    stream, log = _logged(path, made.config, made.pool_blocks, made.block_size, about)
    watcher = Watcher()
    with stream:
        _, result = run_classic(made, observers=(log, watcher))
        log.end(result)
    return read_events(path)[0], watcher


def conversations(count: int, seed: int, shared: int = 6, hash_tokens: int = 16) -> Workload:
    """Requests of which many begin with one of three long prefixes."""
    generator = stream(seed, "requests")
    prompts = generator.integers(20, 260, count)
    ids, offsets = [], [0]
    for index, prompt in enumerate(prompts.tolist()):
        blocks = -(-prompt // hash_tokens)
        family = int(generator.integers(0, 4))
        same = min(shared, blocks) if family < 3 else 0
        ids += [10 * family + block for block in range(same)]
        ids += [1000 + 100 * index + block for block in range(blocks - same)]
        offsets.append(len(ids))
    return Workload(
        poisson(count, 60.0, stream(seed, "arrivals")),
        prompts,
        generator.integers(1, 90, count),
        hash_offsets=np.array(offsets),
        hash_ids=np.array(ids),
        hash_tokens=hash_tokens,
    )


def served(
    path: Path, workload: Workload, pool_blocks: int = 40, host_blocks: int = 0, **config: Any
) -> tuple[RunLog, Watcher]:
    """A workload on a small server, its log and its truth."""
    scheduling = SchedulerConfig(max_model_len=pool_blocks * 16, **config)
    setup = ServingSetup(
        config=scheduling,
        pool_blocks=pool_blocks,
        make_cost=lambda: ConstantCost(1_000_000),
        host_blocks=host_blocks,
    )
    stream, log = _logged(path, scheduling, pool_blocks, 16, {"command": "pagefault sim", "run": "served"})
    watcher = Watcher()
    with stream:
        result, _ = serve(workload, setup, observers=(log, watcher))
        log.end(result)
    return read_events(path)[0], watcher


SMALL: dict[str, Any] = {"jobs": 24, "workers": 16, "pool_blocks": 384, "seed": 7}
SERVED: dict[str, Any] = {"max_num_batched_tokens": 256, "max_num_seqs": 12, "watermark": 0.0}

CASES: dict[str, Callable[[Path], tuple[RunLog, Watcher]]] = {
    "classic naive": lambda path: classic(path, admission="naive", **SMALL),
    "classic paged, restarts": lambda path: classic(path, watermark=0.0, **SMALL),
    "prefix hits, recompute": lambda path: served(path, conversations(70, 3), **SERVED),
    "prefix hits, swap": lambda path: served(
        path, conversations(70, 3), host_blocks=12, preempt="swap", **SERVED
    ),
    "waiting first, oldest is the victim": lambda path: served(
        path, conversations(50, 4), first="waiting", victim="oldest", reserve_full_prompt=False, **SERVED
    ),
    "reserved up to the longest output": lambda path: served(
        path, conversations(40, 5), admission="max_output", **SERVED
    ),
}
