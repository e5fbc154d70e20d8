"""The simulator beside a recorded real server: ``python -m benchmarks.real_server FOLDER [--csv F] [--plot F]``.

FOLDER holds a run of vLLM as LLMServingSim publishes it: ``meta.json`` (settings), ``requests.jsonl`` (times of each
request) and ``timeseries.csv`` (once a second). The simulated server gets the recorded settings and arrivals. Nothing
is fitted: the efficiencies are the defaults of `pagefault.sim.Efficiency`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import files
from pagefault.capacity import find_gpu, load_model
from pagefault.cli.console import atomic_path
from pagefault.scheduling import SchedulerConfig
from pagefault.sim import RooflineCost, ServingSetup, ServingSummary, SimResult, serve
from pagefault.workload import Workload

Floats = NDArray[np.float64]

GPUS = {"NVIDIA GeForce RTX 4090": "rtx-4090"}
MODELS = {"meta-llama/Llama-3.1-8B": "llama3.1-8b"}


RECORDED = ("requests.jsonl", "timeseries.csv", "meta.json")


@dataclass(frozen=True, eq=False)
class Recording:
    """A measured run. Times are seconds from the first request.

    Attributes:
        meta: The server's own settings.
        workload: Arrivals and lengths.
        ttft: [n], time to first token.
        e2e: [n], time to last token.
        end: When the last token was there.
        running: [seconds], sequences running, once a second.
        kv_usage: [seconds], share of the pool in use.
    """

    meta: dict[str, Any]
    workload: Workload
    ttft: Floats
    e2e: Floats
    end: float
    running: Floats
    kv_usage: Floats


def read_recording(folder: Path) -> Recording:
    """A recorded run from its folder."""
    lines = [
        json.loads(line) for line in (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    lines.sort(key=lambda line: line["queued_ts"])
    start = lines[0]["queued_ts"]
    queued, first, last = (
        np.array([line[name] for line in lines]) - start
        for name in ("queued_ts", "first_token_ts", "last_token_ts")
    )
    series = np.genfromtxt(folder / "timeseries.csv", delimiter=",", names=True)
    return Recording(
        meta=json.loads((folder / "meta.json").read_text(encoding="utf-8")),
        workload=Workload(
            np.rint(queued * 1e9).astype(np.int64),
            np.array([line["input_toks"] for line in lines]),
            np.array([line["output_toks"] for line in lines]),
        ),
        ttft=first - queued,
        e2e=last - queued,
        end=float(last.max()),
        running=series["running"],
        kv_usage=series["kv_cache_pct"] / 100,
    )


def replay(recording: Recording) -> tuple[SimResult, ServingSummary]:
    """The same requests on a simulated server with the same settings."""
    meta = recording.meta
    settings, cache = meta["resolved_config"]["scheduler_config"], meta["kv_cache"]
    model = load_model(MODELS[meta["model"]])
    gpu = find_gpu(GPUS[meta["hardware"]["device_name"]])
    config = SchedulerConfig(
        max_num_seqs=settings["max_num_seqs"],
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        max_model_len=meta["engine_kwargs"]["max_model_len"],
        reserve_full_prompt=settings["scheduler_reserve_full_isl"],
        watermark=0.0,  # vLLM 1 has none
    )
    setup = ServingSetup(
        config=config,
        pool_blocks=cache["num_gpu_blocks"],
        block_size=cache["block_size"],
        prefix_caching=cache["enable_prefix_caching"],
        make_cost=lambda: RooflineCost(model, gpu, cache["block_size"]),
    )
    return serve(recording.workload, setup)


def sampled(result: SimResult, name: str, seconds: int) -> Floats:
    """A quantity once a second, as the server's own log has it."""
    ends = result.steps.column("end_ns")
    at = np.searchsorted(ends, np.arange(1, seconds + 1) * 1e9, side="right") - 1
    return result.steps.column(name)[at].astype(np.float64)


@dataclass(frozen=True)
class Row:
    """One quantity, measured and simulated. `error` is relative, for shares a difference in points."""

    quantity: str
    unit: str
    measured: float
    simulated: float
    error: float


def compare(recording: Recording, result: SimResult, summary: ServingSummary) -> list[Row]:
    """Quantity by quantity."""
    seconds, blocks = len(recording.running), recording.meta["kv_cache"]["num_gpu_blocks"]
    e2e = np.array([r.finished_ns - r.queued_ns for r in result.records if r.finished_ns is not None]) / 1e9
    pairs = [
        ("end of the run", "s", recording.end, result.end_ns / 1e9),
        ("mean TTFT", "s", recording.ttft.mean(), summary.ttft.mean),
        ("mean end to end", "s", recording.e2e.mean(), summary.e2e.mean),
        ("mean running", "sequences", recording.running.mean(), sampled(result, "running", seconds).mean()),
    ]
    rows = [Row(name, unit, float(was), float(got), float(got / was - 1)) for name, unit, was, got in pairs]
    usage = sampled(result, "used_frames", seconds).mean() / blocks
    measured = recording.kv_usage.mean()
    rows.append(Row("mean KV usage", "share", float(measured), float(usage), float(usage - measured)))
    errors = np.abs(e2e - recording.e2e) / recording.e2e
    rows.append(Row("end to end of a request, median error", "share", 0.0, 0.0, float(np.median(errors))))
    return rows


def plot(recording: Recording, result: SimResult, path: Path) -> None:
    """Running sequences and KV usage over time, measured and simulated."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "pagefault"
    seconds, blocks = len(recording.running), recording.meta["kv_cache"]["num_gpu_blocks"]
    time = np.arange(1, seconds + 1)
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 5), layout="constrained")
    for axes, measured, simulated in (
        (above, recording.running, sampled(result, "running", seconds)),
        (below, 100 * recording.kv_usage, 100 * sampled(result, "used_frames", seconds) / blocks),
    ):
        axes.plot(time, measured, color="#0072b2", label="measured: vLLM 0.19")
        axes.plot(time, simulated, color="#d55e00", linestyle="--", label="simulated: PageFault")
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
    above.set_title("A recorded server and its simulation: Llama-3.1-8B, one RTX 4090, 300 requests")
    above.set_ylabel("running sequences")
    above.legend(loc="lower right")
    below.set_ylabel("KV cache in use, %")
    below.set_xlabel("time, s")
    kind = path.suffix.removeprefix(".") or "png"
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else None)


def main() -> None:
    """Replay, compare, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--csv", type=files.target)
    parser.add_argument("--plot", type=files.target, help="needs matplotlib")
    arguments = parser.parse_args()
    if not all((arguments.folder / name).is_file() for name in RECORDED):
        parser.error(f"{arguments.folder}: expected a folder with a recorded run: {', '.join(RECORDED)}")
    recording = read_recording(arguments.folder)
    result, summary = replay(recording)
    rows = compare(recording, result, summary)
    for row in rows:
        sys.stdout.write(
            f"{row.quantity:40}{row.measured:10.3f}{row.simulated:10.3f} {row.unit:10}{100 * row.error:+7.2f}%\n"
        )
    if arguments.csv:
        shown = [
            {
                "quantity": row.quantity,
                "unit": row.unit,
                "measured": f"{row.measured:.4f}",
                "simulated": f"{row.simulated:.4f}",
                "error": f"{row.error:.5f}",
            }
            for row in rows
        ]
        files.write_rows(arguments.csv, list(shown[0]), shown)
    if arguments.plot:
        plot(recording, result, arguments.plot)


if __name__ == "__main__":
    main()
