"""What was tried with decode, in docs/results.md: made from benchmarks/results/h200-tune.csv."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.serving_section import read_rows, table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.serving_section import Row


def shown(case: str) -> str:
    """A case's name, for people."""
    return re.sub(r"(\d)x(\d)", r"\1 × \2", case, count=1)


def tried(results: Path) -> str:
    """Four hand searches."""
    rows = read_rows(results / "h200-tune.csv")
    return (
        _searches([row for row in rows if row["run"] in ("1", "2")])
        + "\n"
        + _fetching([row for row in rows if row["run"] == "3"])
        + "\n"
        + _blocks([row for row in rows if row["run"] == "4"])
    )


def _searches(rows: list[Row]) -> str:
    """The best of each kind of configuration, from the two hand searches."""

    def best(run: str, case: str, kind: str, claimed: bool = False) -> str:
        ratios = [
            float(row["ratio"])
            for row in rows
            if (row["run"], row["case"], row["configuration"].split()[0]) == (run, case, kind)
            and (" in " in row["configuration"] and " in 0 " not in row["configuration"]) == claimed
        ]
        return f"{max(ratios):.3f}" if ratios else "–"

    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case and row["run"] == "1"]
        worst = min(float(row["ratio"]) for row in mine)
        claimed = [best("2", case, kind, claimed=True) for kind in ("heads", "head")]
        tail = max((ratio for ratio in claimed if ratio != "–"), default="–")
        lines.append([shown(case), best("1", case, "heads"), best("1", case, "head"), f"{worst:.3f}", tail])
    return (
        "### What was tried\n\n"
        "Floor over time of the best configuration of each kind in two hand searches, before `attention.choose` was "
        "written: several KV heads a program, one, the worst that was right, and (second search) the best with the "
        "last part of the work claimed in small pieces by whoever is free. Rows: `benchmarks/results/h200-tune.csv`, "
        "made by `python -m benchmarks.tune_decode` as it stood then: these rows carry no commit, and some name "
        "configurations that are no longer there.\n\n"
        + table(["case", "several heads", "one head", "worst", "tail claimed"], lines)
    )


FETCHING = {
    "launcher's choice": "launcher's choice",
    "claims": "its last part claimed",
    "hopper": "a warp that fetches",
    "hopper claims": "that, last part claimed",
    "idle": "a warp that fetches, nothing computed",
}


def _fetching(rows: list[Row]) -> str:
    """The best of each kind, from the third search."""

    def kind(configuration: str) -> str:
        claimed = " ch0/1 " not in configuration
        if configuration.startswith("hopper"):
            kinds = ("idle claims", "idle") if configuration.endswith("idle") else ("hopper claims", "hopper")
            return kinds[0] if claimed else kinds[1]
        return "claims" if configuration.startswith("heads") and claimed else configuration

    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        best = dict.fromkeys(FETCHING, 0.0)
        for row in rows:
            if row["case"] == case and kind(row["configuration"]) in best:
                name = kind(row["configuration"])
                best[name] = max(best[name], float(row["ratio"]))
        lines.append([shown(case), *(f"{ratio:.3f}" if ratio else "–" for ratio in best.values())])
    return (
        "A third search, of what would even out multiprocessors that read at different speed: the last part of every "
        "share in small pieces (where they lie depends on the lengths alone); and a kernel for Hopper, in Gluon, with "
        "a warp that only fetches (TMA, all KV heads of a page at once). Without computing it shows what its copies "
        "alone would take.\n\n" + table(["case", *FETCHING.values()], lines)
    )


def _blocks(rows: list[Row]) -> str:
    """Small blocks, from the fourth search."""
    best: dict[str, dict[str, float]] = {}
    for row in rows:
        if "block" in row["case"] and row["configuration"].startswith(("heads", "hopper")):
            kind = "deeper" if row["configuration"].startswith("heads") else "fetching"
            kinds = best.setdefault(row["case"], {})
            kinds[kind] = max(kinds.get(kind, 0.0), float(row["ratio"]))
    lines = [
        [shown(case), f"{kinds['deeper']:.3f}", f"{kinds['fetching']:.3f}"] for case, kinds in best.items()
    ]
    return (
        "A fourth, for blocks of one token: five tiles in flight instead of four, which large batches with blocks "
        "below 16 have since, and the warp that fetches, which nothing needs then and which was taken out again.\n\n"
        + table(["case", "several heads, five tiles", "a warp that fetches"], lines)
    )
