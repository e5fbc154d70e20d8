"""The classic half of `pagefault sim`: naive, paged without a watermark, paged with one."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pagefault.cli.console import command_line, emit_json, note, percent, say, table
from pagefault.cli.sim_live import live_views, progress_unless_live
from pagefault.cli.sim_logs import event_writer
from pagefault.cli.sim_options import TRAFFIC_ONLY, host_blocks, picked, refuse
from pagefault.errors import InputError, PageFaultError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pagefault.cli.sim_live import LiveView
    from pagefault.sim import ClassicOutcome, ClassicSetup, EventLog

DEFAULT_WATERMARK = 0.05
DEFAULT_TICK_US = 100.0
BASE_SEEDS = (42, *range(1, 1000))
"""`--seeds n` takes the first n: the write-up's 42, then 1, 2, 3 …"""


def run(given: Mapping[str, Any]) -> None:
    """Run the experiment that the options describe and print it."""
    refuse(given, TRAFFIC_ONLY, "belongs to real traffic; give --trace FILE with it")
    outcomes = experiment(given)
    if "as_json" in given:
        emit_json(as_json(outcomes))
    else:
        show(outcomes, given)


def experiment(given: Mapping[str, Any]) -> list[list[ClassicOutcome]]:
    """The runs that the options describe: for every seed, naive and the paged ones.

    Raises:
        InputError: An option is out of range, or two do not go together.
    """
    setups = [_setups(given, seed) for seed in _seeds(given)]
    with event_writer(given) as write, live_views(given) as views:
        return _run_all(given, setups, write, views)


def check(given: Mapping[str, Any]) -> None:
    """That the options describe runs, before something else takes long.

    Raises:
        InputError: As in `experiment`.
    """
    for seed in _seeds(given):
        _setups(given, seed)


def as_json(outcomes: Sequence[Sequence[ClassicOutcome]]) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "command": command_line(),
        "experiment": "classic",
        "runs": [
            {
                "name": _name(outcome.setup),
                **asdict(outcome),
                "throughput_vs_naive": runs[0].ticks / outcome.ticks,
            }
            for runs in outcomes
            for outcome in runs
        ],
    }


def show(outcomes: Sequence[Sequence[ClassicOutcome]], given: Mapping[str, Any]) -> None:
    """The table for people: one row a configuration, means over the seeds."""
    setup = outcomes[0][0].setup
    several = len(outcomes) > 1
    title = (
        f"{setup.jobs} jobs, {setup.workers} at once, {setup.pool_blocks} blocks of {setup.block_size} tokens, "
        + (f"{len(outcomes)} seeds" if several else f"seed {setup.seed}")
    )
    say(title)
    say()
    columns = ["", "× naive", "± ", "ticks"] if several else ["", "× naive", "ticks"]
    columns += ["preempted", "decoding", "live", "wait ms", "lost"]
    rows = [_row(outcomes, index, several) for index in range(len(outcomes[0]))]
    if "sweep" in given:
        best = max(range(len(rows)), key=lambda index: _ratios(outcomes, index)[0])
        rows[best][0] += " *"
    table(None, columns, rows)
    say(
        "× naive     throughput over the naive cache's" + (", mean and standard deviation" if several else "")
    )
    say("preempted   times a sequence lost its frames (in brackets: while it decoded)")
    say("decoding    sequences that gained a token in a tick; live: that held frames; means")
    say(f"wait ms     mean time in line, at {setup.tick_ns / 1000:g} µs a tick")
    say("lost        share of the output tokens that restarts threw away")
    if "sweep" in given:
        say("*           the best of them")
    if given.get("victim") or given.get("preempt"):
        say(f"victims     {setup_of(outcomes).victim}, preempted by {setup_of(outcomes).preempt}")


def setup_of(outcomes: Sequence[Sequence[ClassicOutcome]]) -> ClassicSetup:
    """The setup of the last paged run."""
    return outcomes[0][-1].setup


def _setups(given: Mapping[str, Any], seed: int) -> list[ClassicSetup]:
    from pagefault.sim import ClassicSetup

    tick_us = given.get("tick_us", DEFAULT_TICK_US)
    if not 0.001 <= tick_us <= 1e9:
        raise InputError(f"a tick of {tick_us} µs; expected 0.001 to a billion")
    admission = given.get("admission", "watermark")
    if admission not in ("watermark", "estimate", "max_output"):
        raise InputError(
            f"--admission {admission}: the naive cache is always shown; give watermark, estimate or max_output"
        )
    preempt = given.get("preempt", "restart")
    if preempt == "cheaper":
        raise InputError(
            "--preempt cheaper compares costs, and a tick has none; give --trace FILE, or another one"
        )
    sizes = picked(given, "jobs", "workers", "pool_blocks", "block_size", "max_len", "victim")
    base = ClassicSetup(
        **sizes,
        seed=seed,
        preempt=preempt,
        tick_ns=round(tick_us * 1000),
        host_blocks=host_blocks(given, sizes.get("pool_blocks", ClassicSetup.pool_blocks)),
    )
    paged = [replace(base, admission=admission, watermark=watermark) for watermark in _watermarks(given)]
    return [replace(base, admission="naive", victim="self", preempt="restart"), *paged]


def _watermarks(given: Mapping[str, Any]) -> list[float]:
    if "sweep" not in given:
        return list(dict.fromkeys((0.0, given.get("watermark", DEFAULT_WATERMARK))))
    if "watermark" in given:
        raise InputError("--watermark is one value and --sweep many; give one of them")
    name, _, values = given["sweep"].partition("=")
    try:
        if name.strip() != "watermark":
            raise ValueError
        found = [float(value) for value in values.split(",")]
    except ValueError:
        raise InputError(f"--sweep {given['sweep']}: expected watermark=0,0.02,0.05,…") from None
    return found


def _seeds(given: Mapping[str, Any]) -> list[int]:
    if "seeds" not in given:
        return [given.get("seed", 42)]
    if "seed" in given:
        raise InputError("--seed is one seed and --seeds a number of them; give one of the two")
    if not 1 <= given["seeds"] <= len(BASE_SEEDS):
        raise InputError(f"--seeds is {given['seeds']}; expected 1 to {len(BASE_SEEDS)}")
    return list(BASE_SEEDS[: given["seeds"]])


def _run_all(
    given: Mapping[str, Any],
    setups: Sequence[Sequence[ClassicSetup]],
    write: Callable[[str], object] | None,
    views: Callable[[str, int], list[LiveView]],
) -> list[list[ClassicOutcome]]:
    from pagefault.sim import run_classic

    jobs = sum(setup.jobs for runs in setups for setup in runs)
    done = 0
    with progress_unless_live(given, "simulating") as update:

        def run_one(setup: ClassicSetup) -> ClassicOutcome:
            nonlocal done

            def tell(ended: int, now_ns: int) -> None:
                name = f"seed {setup.seed}, {_name(setup)}"
                update(done + ended, jobs, f"{name}: {ended} jobs, {now_ns / 1e9:.1f} s simulated")

            try:
                logs = [] if write is None else [_log(setup, write)]
                outcome, result = run_classic(setup, tell, [*logs, *views(_name(setup), setup.jobs)])
                for log in logs:
                    log.end(result)
            except PageFaultError as error:
                raise PageFaultError(
                    f"seed {setup.seed}, {_name(setup)}: {error} (--sweep watermark=0.05,0.1 leaves other runs out)"
                ) from error
            except KeyboardInterrupt:
                note("interrupted: nothing is shown, a part of the experiment is no result")
                raise
            done += setup.jobs
            if outcome.leaked_frames:
                note(f"{outcome.leaked_frames} frames leaked: a defect, please report it")
            return outcome

        return [[run_one(setup) for setup in runs] for runs in setups]


def _log(setup: ClassicSetup, write: Callable[[str], object]) -> EventLog:
    from pagefault.sim import EventLog

    about = {
        "command": command_line(),
        "experiment": "classic",
        "run": _name(setup),
        **{name: getattr(setup, name) for name in ("seed", "jobs", "workers", "tick_ns")},
    }
    return EventLog(write, about, setup.config, setup.pool_blocks, setup.block_size)


def _name(setup: ClassicSetup) -> str:
    return "naive" if setup.admission == "naive" else f"paged {100 * setup.watermark:g}%"


def _ratios(outcomes: Sequence[Sequence[ClassicOutcome]], index: int) -> tuple[float, float]:
    ratios = [runs[0].ticks / runs[index].ticks for runs in outcomes]
    mean = sum(ratios) / len(ratios)
    spread = (sum((ratio - mean) ** 2 for ratio in ratios) / max(len(ratios) - 1, 1)) ** 0.5
    return mean, spread


def _row(outcomes: Sequence[Sequence[ClassicOutcome]], index: int, several: bool) -> list[str]:
    runs = [each[index] for each in outcomes]
    setup = runs[0].setup

    def mean(name: str) -> float:
        return sum(float(getattr(run, name)) for run in runs) / len(runs)

    ratio, spread = _ratios(outcomes, index)
    wait = mean("admission_wait_ticks") * setup.tick_ns / 1e6
    counts = f"{mean('preemptions'):.0f} ({mean('preempted_decoding'):.0f})"
    return [
        _name(setup),
        f"{ratio:.2f}",
        *([f"{spread:.2f}"] if several else []),
        f"{mean('ticks'):,.0f}",
        counts,
        f"{mean('decoding'):.2f}",
        f"{mean('live'):.1f}",
        f"{wait:.1f}",
        percent(mean("discarded_share")),
    ]
