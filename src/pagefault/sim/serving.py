"""Real traffic on a pool: builds pager and scheduler, runs, and looks for the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError
from pagefault.paging import Pager
from pagefault.scheduling import Scheduler
from pagefault.sim.costs import RooflineCost
from pagefault.sim.metrics import ServingSummary, Slo, summarize_run
from pagefault.sim.simulator import simulate, tell
from pagefault.sim.sizes import check_sizes
from pagefault.sim.sources import OpenLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagefault.scheduling import PreemptionCosts, SchedulerConfig
    from pagefault.sim.recorder import SimResult
    from pagefault.sim.simulator import CostModel, Observer
    from pagefault.workload import Workload


@dataclass(frozen=True, kw_only=True)
class ServingSetup:
    """A server to simulate.

    Attributes:
        config: How its scheduler decides.
        pool_blocks: Frames on the device.
        block_size: Tokens a frame.
        host_blocks: Frames of the host pool, for ``swap`` and ``cheaper``.
        prefix_caching: Whether computed blocks can be hit.
        make_cost: Makes the cost model, a new one each run.
        slo: What users were promised.
    """

    config: SchedulerConfig
    pool_blocks: int
    make_cost: Callable[[], CostModel]
    block_size: int = 16
    host_blocks: int = 0
    prefix_caching: bool = True
    slo: Slo = Slo()  # noqa: RUF009 - frozen


def serve(
    workload: Workload,
    setup: ServingSetup,
    *,
    progress: Callable[[int, int], None] | None = None,
    observers: Sequence[Observer] = (),
) -> tuple[SimResult, ServingSummary]:
    """Replay a workload on a server.

    Args:
        workload: Who asks for what and when.
        setup: The server.
        progress: See `simulate`.
        observers: Watch the run.

    Raises:
        InputError: The workload is empty, its first prompt is larger than the pool, or the pool is beyond what can be
            simulated.
    """
    if not len(workload):
        raise InputError("the workload has no requests; expected at least 1")
    first = -(-int(workload.prompt_tokens[0]) // setup.block_size)
    if first > setup.pool_blocks:
        raise InputError(
            f"the pool of {setup.pool_blocks:,} blocks is smaller than the first prompt: {workload.prompt_tokens[0]:,} "
            f"tokens fill {first:,} blocks; give the cache more memory (--pool-blocks, a larger --gpu, more --tp)"
        )
    swaps = setup.config.preempt in ("swap", "cheaper")
    rows = setup.config.max_num_seqs * (2 if swaps else 1)  # swapped-out sequences keep their rows
    longest = min(setup.config.max_model_len, setup.pool_blocks * setup.block_size)
    check_sizes(max(setup.pool_blocks, setup.host_blocks), rows, -(-longest // setup.block_size))
    pager = Pager(
        setup.pool_blocks,
        setup.block_size,
        max_seqs=rows,
        max_seq_len=longest,
        host_blocks=setup.host_blocks if swaps else 0,
        prefix_caching=setup.prefix_caching,
    )
    cost = setup.make_cost()
    costs: PreemptionCosts | None = cost if isinstance(cost, RooflineCost) else None
    scheduler = Scheduler(setup.config, pager, costs, tell(observers))
    source = OpenLoop(workload, setup.block_size, keys=setup.prefix_caching)
    result = simulate(scheduler, source, cost, progress=progress, observers=observers)
    share = cost.compute_share if isinstance(cost, RooflineCost) else None
    return result, summarize_run(result, setup.slo, share)


def check_slo(slo: Slo, cost: RooflineCost, workload: Workload, prefix_caching: bool = True) -> None:
    """Refuse a promise that not even an empty server keeps.

    Where prompts can be found in the cache (the workload has hashes), the least to compute of one is its last token.

    Args:
        slo: The promise.
        cost: The server's.
        workload: The requests.
        prefix_caching: Whether the server keeps computed blocks.

    Raises:
        InputError: Names the SLO, the least that the hardware takes, and what to change.
    """
    shortest = int(np.min(workload.prompt_tokens))
    if prefix_caching and workload.hash_ids is not None:
        ttft_ns, who = cost.alone_ns(1), "a prompt found in the cache but for its last token"
    else:
        ttft_ns, who = cost.alone_ns(shortest), f"the shortest prompt ({shortest:,} tokens)"
    for name, wanted, least_ns, what in (
        ("ttft", slo.ttft_s, ttft_ns, who),
        ("tpot", slo.tpot_s, cost.alone_ns(1), "one token of a sequence"),
    ):
        if wanted is not None and wanted * 1e9 < least_ns:
            least_ms = (
                np.ceil(least_ns / 1e4) / 100
            )  # rounded up: whoever takes the advice is not refused again
            raise InputError(
                f"nobody can meet an SLO of {wanted * 1e3:g} ms for {name.upper()}: on this GPU, alone, {what} takes "
                f"{least_ms:.2f} ms; give --slo-{name} at least that, or a faster GPU or a smaller model"
            )


def find_limit(
    run: Callable[[float], ServingSummary],
    slo: Slo,
    precision: float = 0.02,
) -> tuple[float, ServingSummary]:
    """The highest multiple of the arrival rate that still keeps the promise.

    Doubles or halves until it is between two, then bisects. Assumes that more traffic never helps.

    Args:
        run: Simulates the workload at a multiple of its arrival rate.
        slo: The promise: a share of all requests meets it.
        precision: Relative width at which the search ends.

    Returns:
        The multiple and the run at it.

    Raises:
        InputError: The promise is not kept at a 64th of the rate, or still kept at 64 times the rate.
    """
    good: tuple[float, ServingSummary] | None = None
    low, high = 0.0, 0.0
    scale = 1.0
    while not (low and high):
        summary = run(scale)
        if summary.good >= slo.share:
            good, low = (scale, summary), scale
            scale *= 2
        else:
            high = scale
            scale /= 2
        if scale < 1 / 64:
            raise InputError(
                f"the SLO is not met at 1/64 of the trace's rate: {100 * summary.good:.0f}% of the requests are good, "
                f"{100 * slo.share:.0f}% were asked for; relax --slo-ttft or --slo-tpot, or lower --slo-share"
            )
        if scale > 64:
            raise InputError(
                "the SLO is still met at 64 times the trace's rate; tighten --slo-ttft or --slo-tpot to find a limit"
            )
    assert good is not None
    while high / low > 1 + precision:
        middle = (low * high) ** 0.5
        summary = run(middle)
        if summary.good >= slo.share:
            good, low = (middle, summary), middle
        else:
            high = middle
    return good
