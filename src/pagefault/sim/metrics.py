"""What a run was like for its users and for its machine, and what limited it, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError
from pagefault.scheduling import State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.scheduling import SchedulerConfig, SequenceRecord
    from pagefault.sim.recorder import SimResult

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Slo:
    """What a user is promised. A request is good if it meets both.

    Attributes:
        ttft_s: Longest time to the first token, or None.
        tpot_s: Longest mean time a token after the first, or None.
        share: Share of requests that must be good for the promise to be kept.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    share: float = 0.9

    def __post_init__(self) -> None:
        for name in ("ttft_s", "tpot_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(
                    f"an SLO of {1e3 * value:g} ms for {name.removesuffix('_s').upper()}; expected a time above 0"
                )
        if not 0 < self.share <= 1:
            raise InputError(f"the SLO share is {self.share}; expected 0 < share <= 1")


@dataclass(frozen=True)
class Quantiles:
    """A distribution in seconds; all NaN where there is nothing."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float

    @staticmethod
    def of(seconds: Floats) -> Quantiles:
        """Of these values."""
        if not seconds.size:
            return Quantiles(*[float("nan")] * 6)
        p50, p90, p95, p99 = np.percentile(seconds, [50, 90, 95, 99]).tolist()
        return Quantiles(float(seconds.mean()), p50, p90, p95, p99, float(seconds.max()))


@dataclass(frozen=True)
class ServingSummary:
    """The figures of one run. Times are seconds, shares 0 to 1.

    Attributes:
        requests: Submitted, and those refused because they could never fit.
        finished: Of these, how many ended with all their tokens.
        refused: Requests that could never fit the pool or the model's length.
        complete: False if the run was interrupted.
        duration_s: From the first arrival to the end of the last step.
        arrival_rate: Requests a second, as they came.
        request_throughput: Finished requests a second.
        output_throughput: Output tokens a second.
        ttft: Time to first token, from arrival.
        tpot: Mean time an output token after the first, a request.
        e2e: From arrival to the last token.
        wait: From arrival to first admission.
        good: Share of submitted requests that meet the SLO (1 without one).
        goodput: Good requests a second.
        kv_usage: Share of the pool in use, mean over time while the machine was busy.
        kv_usage_peak: Largest of it.
        utilization: Tokens of running sequences over the room in used frames, in the mean; above 1 where
            prefixes are shared, far below 1 where room is reserved.
        running: Sequences that hold frames, mean over busy time.
        waiting: Sequences in line, mean over busy time.
        stalled_share: Row-steps that wanted to compute and got no frame, of all.
        busy_share: Share of the time in which a step ran.
        hit_rate: Prompt tokens found in the prefix cache, of those looked up; preempted work not counted.
        preemptions: Times a sequence lost its frames.
        preemption_rate: Preemptions a request.
        recompute_tax: Share of computed tokens that had been computed before.
        compute_share: Share of step time limited by arithmetic, where the cost model can say.
        steps: Steps.
        verdict: What limited the run: a word and a sentence.
    """

    requests: int
    finished: int
    refused: int
    complete: bool
    duration_s: float
    arrival_rate: float
    request_throughput: float
    output_throughput: float
    ttft: Quantiles
    tpot: Quantiles
    e2e: Quantiles
    wait: Quantiles
    good: float
    goodput: float
    kv_usage: float
    kv_usage_peak: float
    utilization: float
    running: float
    waiting: float
    stalled_share: float
    busy_share: float
    hit_rate: float
    preemptions: int
    preemption_rate: float
    recompute_tax: float
    compute_share: float | None
    steps: int
    verdict: str


def summarize_run(
    result: SimResult, slo: Slo | None = None, compute_share: float | None = None
) -> ServingSummary:
    """The figures of a run.

    Args:
        result: The run.
        slo: What users were promised.
        compute_share: Share of the step time that arithmetic took (`RooflineCost.compute_share`), if known.
    """
    slo = slo or Slo()
    done = [record for record in result.records if record.state is State.FINISHED]
    queued = np.array([record.queued_ns for record in done], np.float64)
    first = np.array([record.first_token_ns for record in done], np.float64)
    ended = np.array([record.finished_ns for record in done], np.float64)
    outputs = np.array([record.generated for record in done], np.int64)
    ttft, e2e = (first - queued) / 1e9, (ended - queued) / 1e9
    many = outputs > 1
    tpot = np.zeros(len(done))
    tpot[many] = (ended[many] - first[many]) / (outputs[many] - 1) / 1e9
    good = np.ones(len(done), np.bool_)
    if slo.ttft_s is not None:
        good &= ttft <= slo.ttft_s
    if slo.tpot_s is not None:
        good &= tpot <= slo.tpot_s
    admitted = np.array(
        [r.admitted_ns - r.queued_ns for r in result.records if r.admitted_ns is not None], np.float64
    )

    arrivals = [record.queued_ns for record in result.records]
    start = min(arrivals, default=0)
    duration = (result.end_ns - start) / 1e9
    span = (max(arrivals, default=0) - start) / 1e9
    requests = len(result.records) + len(result.refused)
    steps, weights = result.steps, result.steps.column("duration_ns").astype(np.float64)
    busy = float(weights.sum())

    def over_time(name: str) -> float:
        return float(steps.column(name) @ weights) / busy if busy else 0.0

    computed = sum(record.computed_tokens for record in result.records)
    preemptions = sum(len(record.preemptions) for record in result.records)
    rows = int((steps.column("prefills") + steps.column("decodes") + steps.column("stalled")).sum())
    used = steps.column("used_frames")
    summary = ServingSummary(
        requests=requests,
        finished=len(done),
        refused=len(result.refused),
        complete=result.complete,
        duration_s=duration,
        arrival_rate=_ratio(len(result.records) - 1, span),
        request_throughput=_ratio(len(done), duration),
        output_throughput=_ratio(int(outputs.sum()), duration),
        ttft=Quantiles.of(ttft),
        tpot=Quantiles.of(tpot[many]),
        e2e=Quantiles.of(e2e),
        wait=Quantiles.of(admitted / 1e9),
        good=_ratio(int(good.sum()), requests),
        goodput=_ratio(int(good.sum()), duration),
        kv_usage=over_time("used_frames") / result.pager.num_blocks,
        kv_usage_peak=float(used.max()) / result.pager.num_blocks if used.size else 0.0,
        utilization=_ratio(over_time("tokens"), over_time("used_frames") * result.pager.block_size),
        running=over_time("running"),
        waiting=over_time("waiting"),
        stalled_share=_ratio(int(steps.column("stalled").sum()), rows),
        busy_share=_ratio(busy / 1e9, duration),
        hit_rate=result.pager.hit_rate,
        preemptions=preemptions,
        preemption_rate=_ratio(preemptions, len(result.records)),
        recompute_tax=_ratio(sum(_computed_again(record) for record in done), computed),
        compute_share=compute_share,
        steps=len(steps),
        verdict="",
    )
    return replace(summary, verdict=verdict(summary, result.config))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _computed_again(record: SequenceRecord) -> int:
    """Tokens that a preemption took and that neither the prefix cache nor the host gave back.

    Every one of them is computed a second time before the sequence can go on.
    """
    lost = sum(preemption.lost_tokens for preemption in record.preemptions)
    return lost - record.repeated_hit_tokens


def verdict(summary: ServingSummary, config: SchedulerConfig) -> str:
    """What limited a run: one word of `VERDICTS` and a sentence that says what to change.

    The rules, first match wins. Requests wait if half of them spend more than a fifth of their time in line.

    1. ``thrashing``: more than a tenth of the computed tokens had been computed before, or sequences were
       preempted more often than once each: running sequences take each other's frames.
    2. ``starved at admission``: requests wait because `max_num_seqs` run, or while less than 70% of the room in
       used frames holds tokens.
    3. ``memory-bound``: requests wait and more than 80% of the pool is in use.
    4. ``compute-bound``: arithmetic is more than half of the step time.
    5. ``starved at admission``: requests wait all the same.
    6. ``bandwidth-bound``: the machine was busy for more than 90% of the time.
    7. ``keeping up``: otherwise.
    """
    queue = summary.wait.p50 > 0.2 * summary.e2e.p50
    computing = summary.compute_share is not None and summary.compute_share > 0.5
    if summary.recompute_tax > 0.1 or summary.preemption_rate > 1:
        return (
            f"thrashing: {100 * summary.recompute_tax:.0f}% of the computed tokens had been computed before; raise "
            "--watermark, lower --max-num-seqs, or give the cache more memory"
        )
    if queue and summary.running > 0.95 * config.max_num_seqs:
        return f"starved at admission: {config.max_num_seqs} sequences run, no more may; raise --max-num-seqs"
    if queue and summary.utilization < 0.7:
        return (
            f"starved at admission: requests wait while {100 * (1 - summary.utilization):.0f}% of the room in used "
            "frames is reserved and empty; admit by --admission watermark"
        )
    if queue and summary.kv_usage >= 0.8:
        return (
            f"memory-bound: the pool is {100 * summary.kv_usage:.0f}% full and requests wait for frames; give the "
            "cache more memory, a smaller --kv-dtype, or more GPUs"
        )
    if computing:
        return (
            f"compute-bound: arithmetic takes {100 * (summary.compute_share or 0):.0f}% of the step time; more memory "
            "would not help, a faster GPU or a better hit rate would"
        )
    if queue:
        return (
            f"starved at admission: requests wait while {100 * (1 - summary.kv_usage):.0f}% of the pool is free; "
            "lower --watermark or raise --max-num-batched-tokens"
        )
    if summary.busy_share > 0.9:
        return (
            "bandwidth-bound: the machine is busy reading weights and KV; larger batches come at little cost"
        )
    return f"keeping up: the machine idles {100 * (1 - summary.busy_share):.0f}% of the time"
