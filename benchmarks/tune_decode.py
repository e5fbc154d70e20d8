"""Times candidate configurations of the decode kernels: the evidence behind `pagefault.attention.choose`.

``python -m benchmarks.tune_decode --out FILE`` prints, for each case, the candidates from the fastest; rows
go to FILE. `--warm I/N` only compiles the I-th of N parts: compilations are cached on disk, so N processes
of this can run at once before the timing run.
"""

from __future__ import annotations

import benchmarks.with_torch  # noqa: F401

# isort: split
import argparse
import itertools
import math
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Literal

import torch

from benchmarks import files
from benchmarks.attention import floors
from benchmarks.cases import BLOCK_SIZES, CASES, Case, Inputs, chosen_cases, command_of, make_inputs
from pagefault.attention import (
    Choice,
    DecodeWorkspace,
    choose_decode,
    paged_decode,
)
from pagefault.bench import Timing, environment, time_calls

# Decode kernels: heads at once, tile, depth, programs a multiprocessor, extra tiles.
HEADS = ((4, 16, 4, 1, 6), (4, 16, 5, 1, 6), (8, 16, 3, 1, 6), (2, 16, 4, 2, 6))
HEAD = ((1, 128, 3, 1, 2), (1, 64, 5, 1, 4), (1, 64, 3, 2, 3))
# The combine: query heads a program, pieces at once, warps.
FEW_SEQUENCES = ((1, 16, 2), (1, 32, 4), (1, 64, 4), (2, 16, 2))
MANY_SEQUENCES = ((1, 4, 1), (1, 8, 1), (4, 4, 1), (4, 8, 2), (16, 2, 4))


def default_choice(case: Case) -> Choice:
    """What the launcher would take."""
    return choose_decode(
        batch=len(case.lengths),
        heads=case.heads,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim,
        max_tokens=-(-max(case.lengths) // case.block_size) * case.block_size,
        kv_bytes=case.kv_bytes // (2 * sum(case.lengths) * case.kv_heads * case.head_dim),
        multiprocessors=multiprocessors(),
        block_size=case.block_size,
    )


def multiprocessors() -> int:
    """Of the first GPU."""
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def label(choice: Choice) -> str:
    """A choice in one line."""
    return (
        f"{choice.kernel} h{choice.heads} t{choice.tile} d{choice.depth} w{choice.warps} p{choice.programs} "
        f"x{choice.extra} "
        f"c{choice.combine_rows}/{choice.combine_chunk}/{choice.combine_warps}"
        f"{' early' if choice.follow_early else ''}"
    )


def candidates(case: Case) -> list[Choice]:
    """Every decode configuration with every shape of combine that makes sense for the case."""
    base = default_choice(case)
    group = case.heads // case.kv_heads
    mains = [(base.heads, base.tile, base.depth, base.programs // multiprocessors(), base.extra)]
    if case.dtype != "fp8" and case.kv_heads > 1 and len(case.lengths) * max(case.lengths) > 10000:
        mains += HEADS
    if case.dtype == "fp8" or case.kv_heads == 1 or len(case.lengths) <= 16:
        mains += HEAD
    combines = FEW_SEQUENCES if len(case.lengths) == 1 else MANY_SEQUENCES
    found = [base]
    for (at_once, tile, depth, per, extra), (rows, chunk, warps), early in itertools.product(
        dict.fromkeys(mains), combines, (False, True)
    ):
        kernel: Literal["heads", "head"] = "head" if at_once == 1 else "heads"
        value_bytes = 1 if case.dtype == "fp8" else 2
        if rows > at_once * group or 2 * (depth - 0.5) * tile * at_once * 128 * value_bytes * per > 225e3:
            continue
        choice = replace(
            base, kernel=kernel, heads=at_once, tile=tile, depth=depth, warps=max(4 if at_once == 1 else 1, at_once),
            programs=per * multiprocessors(), slots=2 * per * multiprocessors(), unit=tile, extra=extra,
            item_rows=at_once * group, combine_rows=rows, combine_chunk=chunk, combine_warps=warps, follow_early=early,
        )  # fmt: skip
        found.append(choice)
    return list(dict.fromkeys(found))


def decode_calls(case: Case, inputs: list[Inputs], chosen: list[Choice], check: bool) -> dict[str, Any]:
    """Calls of `paged_decode` by configuration; those that fail or are wrong are named and left out."""
    rows = max(choice.partial_rows for choice in chosen) if chosen else 0
    workspace = DecodeWorkspace("cuda", rows, case.head_dim)
    expected = paged_decode(inputs[0].q, inputs[0].view, backend="torch").float() if check else None
    calls = {}
    for choice in chosen:
        out = torch.full_like(inputs[0].q, math.nan)
        run = partial(paged_decode, out=out, workspace=workspace, choice=choice)
        try:
            run(inputs[0].q, inputs[0].view)
            torch.cuda.synchronize()
        except Exception as error:
            print(f"FAILED {case.name}: {label(choice)}: {type(error).__name__} {str(error)[:100]}")
            continue
        if expected is not None and not (out.float() - expected).norm() < 1e-2 * expected.norm():
            print(f"WRONG {case.name}: {label(choice)}")
            continue
        calls[label(choice)] = [partial(run, one.q, one.view) for one in inputs]
    return calls


def report(case: Case, timings: dict[str, Timing], show: int) -> list[dict[str, Any]]:
    """Prints the fastest and the launcher's own choice; returns rows, the fastest first."""
    floor = min(timing.p50 for name, timing in timings.items() if name.startswith("floor"))
    print(f"{case.name}: floor {floor:.1f} us, {case.kv_bytes / floor / 1e6:.2f} TB/s")
    rows = [
        {"case": case.name, "configuration": name, **asdict(timing), "ratio": floor / timing.p50}
        for name, timing in sorted(timings.items(), key=lambda item: item[1].p50)
    ]
    own = label(default_choice(case))
    shown = [row for row in rows if not str(row["configuration"]).startswith("floor")][:show]
    for row in [*shown, *(row for row in rows if row["configuration"] == own)]:
        name = row["configuration"]
        print(f"   {row['p50']:8.2f} {row['ratio']:.3f}  {name}{'  (own choice)' if name == own else ''}")
    return rows


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warm", default="")
    parser.add_argument("--cases", default="", help="names, with commas")
    parser.add_argument("--out", type=files.target)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--show", type=files.count, default=6)
    options = parser.parse_args()
    cases = chosen_cases(parser, options.cases, (*CASES, *BLOCK_SIZES))
    where = environment(torch.device("cuda"), command_of("tune_decode"))
    rows: list[dict[str, Any]] = []
    if options.warm:
        part, parts = (int(number) for number in options.warm.split("/"))
        for case in cases:
            choices = candidates(case)  # neighbours share kernels, so a part takes a stretch of them
            mine = choices[len(choices) * part // parts : len(choices) * (part + 1) // parts]
            decode_calls(case, make_inputs(case), mine, check=False)
        return
    for case in cases:
        inputs = make_inputs(case)
        calls = {name: rival.calls for name, rival in floors(inputs).items()}
        calls |= decode_calls(case, inputs, candidates(case), check=True)
        timings = time_calls(calls, options.rounds, torch.device("cuda"))
        rows += [row | asdict(where) for row in report(case, timings, options.show)]
        if options.out:  # after every case, so that an interrupted search keeps what it has
            files.write_rows(options.out, list(rows[0]), rows)
        del inputs, calls
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
