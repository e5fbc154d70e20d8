"""Device timings: CUDA events around replayed CUDA graphs, rotating inputs, implementations interleaved."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A graph holds at least this many calls, so that its own launch does not count.
CALLS_A_GRAPH = 24


@dataclass(frozen=True)
class Timing:
    """Microseconds a call."""

    p20: float
    p50: float
    p80: float


def capture(calls: Sequence[Callable[[], object]]) -> tuple[torch.cuda.CUDAGraph, int]:
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


def time_graphs(graphs: dict[str, tuple[torch.cuda.CUDAGraph, int]], rounds: int = 30) -> dict[str, Timing]:
    """Replays every graph once a round, all graphs in turn, so that drift hits them alike."""
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
    found = {}
    for name, (_, calls) in graphs.items():
        times = [1e3 * begin.elapsed_time(end) / calls for begin, end in samples[name]]
        cuts = statistics.quantiles(times, n=10, method="inclusive")
        found[name] = Timing(cuts[1], statistics.median(times), cuts[7])
    return found
