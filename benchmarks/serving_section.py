"""The serving part of docs/results.md, made from rows: benchmarks/results/serving.csv and real-server.csv."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Row = dict[str, str]

# What the write-up published (single runs; its prompts and its patience are not known).
WRITE_UP = {
    ("128", "naive", "0.0"): ("1.00", "0", "~27", "~105 ms"),
    ("128", "watermark", "0.0"): ("0.59–0.67", "750–1000", "~40", "< 1 ms"),
    ("128", "watermark", "0.02"): ("1.83", "32", "53.5", "15 ms"),
    ("128", "watermark", "0.05"): ("1.92–1.98", "14–19", "55.2–55.9", "15–17 ms"),
    ("128", "watermark", "0.1"): ("1.98–2.12", "10–11", "55.3–56.4", "15–19 ms"),
    ("128", "watermark", "0.3"): ("2.33", "0", "58.3", "18 ms"),
    ("128", "watermark", "0.5"): ("1.54", "0", "42.4", "43 ms"),
    ("256", "watermark", "0.0"): ("0.48", "2947", "–", "–"),
    ("256", "watermark", "0.05"): ("–", "–", "57.4", "–"),
}


def read_rows(path: Path) -> list[Row]:
    """The rows of a results file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its first column to the left."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def section(results: Path) -> str:
    """The text, from the files in a folder of results."""
    rows = read_rows(results / "serving.csv")
    parts = [
        "## Serving: simulated\n\n"
        "**Caveats.** Everything in this part is simulated; it is deterministic and depends on no machine. In the "
        "classic experiment a tick is a tick: prompts, recomputing and swapping cost nothing, a batch of "
        "100 takes as long as a batch of 1. It shows what a policy does to *who runs*, not to seconds. The write-up "
        "kept its prompts and its patience to itself, so its figures stand beside ours and were never tuned "
        "towards: our prompts are a fifth of each job, our patience is 48 ticks.\n\n",
        _classic(rows),
        _roadmap([row for row in rows if row["table"] == "roadmap"]),
    ]
    parts.append(_real_server(read_rows(results / "real-server.csv")))
    parts.append(_replay(read_rows(results / "replay.csv")))
    return "\n".join(parts)


def summary(results: Path) -> str:
    """How close the simulator comes to a real server, for the README."""
    errors = {row["quantity"]: float(row["error"]) for row in read_rows(results / "real-server.csv")}
    shown = ", ".join(
        f"{name} {100 * errors[name]:+.1f}%"
        for name in ("mean TTFT", "mean end to end", "mean running", "end of the run")
    )
    return (
        "The simulator against a recorded vLLM server, with that server's settings and nothing fitted: errors of "
        f"{shown}.\n"
    )


def _classic(rows: list[Row]) -> str:
    classic = [row for row in rows if row["table"] == "classic"]
    keys = list(dict.fromkeys((row["workers"], row["admission"], row["watermark"]) for row in classic))
    seeds = {row["seed"] for row in classic}
    lines = []
    for key in keys:
        runs = {r["seed"]: r for r in classic if (r["workers"], r["admission"], r["watermark"]) == key}
        ratio = sum(float(run["ratio"]) for run in runs.values()) / len(runs)
        cells = [_name(*key)]
        for seed in ("42", "7"):
            run = runs[seed]
            cells.append(f"{int(run['ticks']):,}, {run['preemptions']}, {float(run['decoding']):.2f}, ")
            cells[-1] += f"{float(run['ratio']):.3f}"
        lines.append([*cells, f"{ratio:.2f}", ", ".join(WRITE_UP.get(key, ("–",) * 4))])
    headings = [
        "admission",
        "seed 42: ticks, preemptions, decoding, ×",
        "seed 7",
        f"mean × of {len(seeds)} seeds",
        "write-up: ×, preemptions, decoding, wait",
    ]
    return (
        "### The classic experiment\n\n"
        "512 jobs, 128 workers (256 where it says so), 4,096 blocks of 16 tokens; preemption restarts a job. × is "
        "throughput over the naive cache of the same seed. `pagefault sim --sweep watermark=0,0.02,0.05,0.1,0.3,0.5` "
        "prints one column; all rows come from `python -m benchmarks.serving`.\n\n"
        + table(headings, lines)
        + "\nWhat differs from the write-up: without a watermark we preempt about half as often at the same throughput "
        "(its patience must be shorter); at 2% we preempt more, and gain less for seed 42, but as much in the mean. "
        f"{_best_watermarks(classic)} The write-up's best is 30%. The shape is the same: thrashing below the naive "
        "cache without a reserve, twice its throughput with a small one, and a decline when the reserve keeps "
        "requests out.\n"
    )


def _best_watermarks(classic: list[Row]) -> str:
    """For how many seeds each watermark is the best."""
    runs = [row for row in classic if row["workers"] == "128" and row["admission"] == "watermark"]
    best = {
        seed: max((row for row in runs if row["seed"] == seed), key=lambda row: float(row["ratio"]))[
            "watermark"
        ]
        for seed in dict.fromkeys(row["seed"] for row in runs)
    }
    wins = sorted(((list(best.values()).count(share), share) for share in set(best.values())), reverse=True)
    said = ", ".join(f"{100 * float(share):g}% for {count}" for count, share in wins)
    return f"The best watermark of the {len(best)} seeds is {said}; of seed 42, {100 * float(best['42']):g}%."


def _roadmap(rows: list[Row]) -> str:
    policies = list(dict.fromkeys((row["victim"], row["preempt"]) for row in rows))
    watermarks = list(dict.fromkeys(row["watermark"] for row in rows))
    seeds = list(dict.fromkeys(row["seed"] for row in rows))

    def mean(policy: tuple[str, str], watermark: str, value: Callable[[Row], float]) -> float:
        found = [r for r in rows if (r["victim"], r["preempt"]) == policy and r["watermark"] == watermark]
        return sum(value(row) for row in found) / len(found)

    lines = []
    for policy in policies:
        ratios = [mean(policy, share, lambda row: float(row["ratio"])) for share in watermarks]
        best = max(ratios)
        cells = [f"**{ratio:.2f}**" if ratio == best else f"{ratio:.2f}" for ratio in ratios]
        lines.append([f"{policy[0]}, {policy[1]}", *cells])
    headings = ["victim, by", *(f"{100 * float(share):g}%" for share in watermarks)]
    return (
        "### Better victims need less reserve\n\n"
        f"The same experiment for other victims, × over naive, mean of seeds {', '.join(seeds)}; the best watermark of "
        "each rule is bold. `self` waits 48 ticks and then gives up itself, the others take a victim at once.\n\n"
        + table(headings, lines)
        + "\nRestarting a victim that is old or large throws away the most work, and without a reserve it throws away "
        "nearly all. Taking the newest, or the one with the fewest tokens, makes the reserve almost unnecessary, and "
        "keeping the tokens (recompute, swap) makes it cost throughput from a few percent on.\n"
    )


def _real_server(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        share = row["unit"] == "share"
        measured, simulated = (
            f"{100 * float(row[name]):.1f}%" if share else f"{float(row[name]):.1f} {row['unit']}"
            for name in ("measured", "simulated")
        )
        if row["quantity"].endswith("median error"):
            measured = simulated = "–"
        error = f"{100 * float(row['error']):+.1f}" + (" points" if share and measured != "–" else "%")
        lines.append([row["quantity"], measured, simulated, error])
    return (
        "### Against a real server\n\n"
        "vLLM 0.19 serving Llama-3.1-8B on one RTX 4090, 300 ShareGPT requests at 10 a second, 2,588 blocks of 16, "
        "chunks of 2,048 tokens, prefix caching on, recorded by LLMServingSim (MIT). The simulator has the server's "
        "settings and nothing fitted: 90% of peak bandwidth, which a large read reaches; 80% of the peak bf16 rate, "
        "which a large matrix product reaches; 1 ms a step and 10 µs a sequence for the engine's own work.\n\n"
        + table(["", "measured", "simulated", "error"], lines)
        + "\n![Running sequences and KV usage over time, measured and simulated](images/real-server.svg)\n\n"
        "Made by `python -m benchmarks.real_server FOLDER --csv benchmarks/results/real-server.csv --plot "
        "docs/images/real-server.svg`.\n"
    )


def _replay(rows: list[Row]) -> str:
    replays = [row for row in rows if row["requests"]]
    lines = [
        [
            row["what"],
            f"{int(row['requests']):,}",
            f"{float(row['end_s']):,.0f} s",
            f"{float(row['ttft_p50_s']):.2f}, {float(row['ttft_p99_s']):.2f} s",
            f"{float(row['tpot_p50_ms']):.1f} ms",
            f"{100 * float(row['kv_usage']):.1f}%",
            f"{100 * float(row['hit_rate']):.1f}%",
            row["preemptions"],
            f"{int(row['steps']):,}",
            f"{float(row['seconds']):.0f} s",
            f"{int(row['steps']) / float(row['seconds']):,.0f}",
        ]
        for row in replays
    ]
    headings = [
        "trace",
        "requests",
        "simulated",
        "TTFT p50, p99",
        "TPOT p50",
        "KV usage",
        "hit rate",
        "preempted",
    ]
    headings += ["steps", "took", "steps/s"]
    steps = [row for row in rows if row["what"] == "decode step"]
    batches = [f"{int(row['batch']):,}" for row in steps]
    return (
        "### Real traffic, and what simulating it takes\n\n"
        "Two public traces on one H200 with Llama-3.1-8B, default settings. *Took* is the whole command on one core of "
        "a shared machine, start-up and reading included.\n\n"
        + table(headings, lines)
        + "\nA decode step, planned and committed, by the sequences that decode in it: a loop over arrays, so it grows "
        "far slower than the batch.\n\n"
        + table(["sequences", *batches], [["µs a step", *(f"{float(row['step_us']):.0f}" for row in steps)]])
        + "\n`python -m benchmarks.replay FOLDER --csv benchmarks/results/replay.csv`, with the folder of the traces.\n"
    )


def _name(workers: str, admission: str, watermark: str) -> str:
    name = "naive" if admission == "naive" else f"paged, {100 * float(watermark):g}%"
    return name if workers == "128" else f"{name}, {workers} workers"
