"""Timings: CUDA events around replayed CUDA graphs, implementations interleaved; the wall clock on a CPU."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Call = Callable[[], object]

# A graph holds at least this many calls, so that its own launch does not count.
CALLS_A_GRAPH = 24


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds a call, over the rounds of a run.

    Attributes:
        p20: A fifth of the rounds were faster.
        p50: The median, the figure that is compared.
        p80: A fifth were slower.
        mean: Arithmetic mean.
        sd: Standard deviation.
        min: The fastest.
    """

    p20: float
    p50: float
    p80: float
    mean: float
    sd: float
    min: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Timing:
        """From at least two times in microseconds."""
        cuts = statistics.quantiles(times, n=10, method="inclusive")
        return cls(
            p20=cuts[1],
            p50=statistics.median(times),
            p80=cuts[7],
            mean=statistics.fmean(times),
            sd=statistics.stdev(times),
            min=min(times),
        )


def time_calls(calls: Mapping[str, Sequence[Call]], rounds: int, device: torch.device) -> dict[str, Timing]:
    """Times implementations in turn, so that drift hits them alike.

    Args:
        calls: By implementation, one call for each of the disjoint inputs to rotate through.
        rounds: Times each is sampled, at least 2.
        device: CUDA: replayed graphs between events. Otherwise the wall clock.

    Returns:
        By implementation.
    """
    if device.type == "cuda":
        return time_graphs({name: capture(some) for name, some in calls.items()}, rounds)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, some in calls.items():
            begin = time.perf_counter_ns()
            for call in some:
                call()
            if number:  # the first round warms up
                samples[name].append((time.perf_counter_ns() - begin) / 1000 / len(some))
    return {name: Timing.of(times) for name, times in samples.items()}


def capture(calls: Sequence[Call]) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of all calls in turn, repeated until it is long enough; and how many calls it holds."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    repeats = -(-CALLS_A_GRAPH // len(calls))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            for call in calls:
                call()
    return graph, repeats * len(calls)


def time_graphs(graphs: Mapping[str, tuple[torch.cuda.CUDAGraph, int]], rounds: int) -> dict[str, Timing]:
    """Replays every graph once a round, all graphs in turn."""
    for graph, _ in graphs.values():
        for _ in range(2):
            graph.replay()
    samples: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, (graph, _) in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            graph.replay()  # warm: the timed replay follows one of its own kind
            begin.record()
            graph.replay()
            end.record()
            samples[name].append((begin, end))
    torch.cuda.synchronize()
    return {
        name: Timing.of([1e3 * begin.elapsed_time(end) / calls for begin, end in samples[name]])
        for name, (_, calls) in graphs.items()
    }
