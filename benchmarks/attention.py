"""Times paged decode beside its floor and its rivals: ``python -m benchmarks.attention --csv FILE``.

For each case, on the same tensors in one process: the floor (the same bytes through the same block table, no
attention), ours, ours without pages, and every rival that can be had. Each is checked against the float64 oracle
on every set of inputs before it is timed, outputs that it is handed full of NaN; what is wrong is named and not
timed. The schedule is inside our time.
Rows say case, implementation, quantiles, bytes, ratio to floor, GPU, driver, versions and commit.
"""

from __future__ import annotations

import benchmarks.with_torch  # noqa: F401

# isort: split
import argparse
import gc
import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.nn.attention import SDPBackend

from benchmarks import files, flashinfer_rival
from benchmarks.cases import (
    BLOCK_SIZES,
    CASES,
    SPLITS,
    Case,
    Inputs,
    chosen_cases,
    command_of,
    make_inputs,
    results_file,
)
from benchmarks.rivals import Call, Rival, Unsuitable, contiguous_copies, flex, ours_contiguous, sdpa
from pagefault.attention import FLOOR_TOKENS, DecodeWorkspace, floor_programs, paged_decode, read_floor
from pagefault.bench import Environment, Row, environment, make_row, read_results, rows_as_csv, time_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.attention import ContiguousKV

# Relative error of the whole result, ‖out − oracle‖ / ‖oracle‖: the rounding of the output and the weights.
TOLERANCE = {"bf16": 1e-2, "fp16": 2e-3, "fp8": 1e-2, "fp32": 1e-5}
RIVALS: dict[str, Callable[[Case, list[Inputs], list[ContiguousKV]], Rival]] = {
    "pagefault contiguous": ours_contiguous,
    "sdpa flash": partial(sdpa, SDPBackend.FLASH_ATTENTION, "sdpa flash"),
    "sdpa cudnn": partial(sdpa, SDPBackend.CUDNN_ATTENTION, "sdpa cudnn"),
    flashinfer_rival.NAME: flashinfer_rival.decode,
    "flex attention": flex,
}


def oracle(case: Case, inputs: Inputs) -> torch.Tensor:
    """The result in float64, sequence by sequence, K and V gathered through the table."""
    view, group = inputs.view, case.heads // case.kv_heads
    rows = []
    for row, tokens in enumerate(case.lengths):
        pages = view.block_table[row, : -(-tokens // case.block_size)].long()
        k, v = (part[pages].flatten(0, 1)[:tokens].double() for part in (view.k, view.v))
        q = inputs.q[row].double().view(case.kv_heads, group, case.head_dim)
        logits = torch.einsum("hgd,thd->hgt", q, k) / math.sqrt(case.head_dim)
        rows.append(torch.einsum("hgt,thd->hgd", logits.softmax(-1), v).flatten(0, 1))
    return torch.stack(rows)


def ours(case: Case, inputs: list[Inputs]) -> Rival:
    """PageFault as a user calls it: the launcher's own choice."""
    workspace = DecodeWorkspace.for_decode(
        heads=case.heads, kv_heads=case.kv_heads, head_dim=case.head_dim, device="cuda"
    )
    calls: list[Call] = [
        partial(paged_decode, one.q, one.view, out=torch.full_like(one.q, math.nan), workspace=workspace)
        for one in inputs
    ]
    return Rival("pagefault", "", calls)


def ours_split(case: Case, inputs: list[Inputs], split_tokens: int) -> Rival:
    """The same with every sequence cut at fixed places, so that its result does not depend on the batch."""
    longest = -(-max(case.lengths) // case.block_size) * case.block_size
    workspace = DecodeWorkspace.for_decode(
        heads=case.heads, kv_heads=case.kv_heads, head_dim=case.head_dim, device="cuda",
        split_tokens=split_tokens, batch=len(case.lengths), max_tokens=longest,
    )  # fmt: skip
    calls: list[Call] = [
        partial(
            paged_decode, one.q, one.view, out=torch.full_like(one.q, math.nan), workspace=workspace,
            split_tokens=split_tokens,
        )
        for one in inputs
    ]  # fmt: skip
    return Rival(f"pagefault split {split_tokens}", "", calls, f"fixed splits of {split_tokens} tokens")


def floors(inputs: list[Inputs]) -> dict[str, Rival]:
    """The floor kernel at each of its sizes; the fastest is the floor."""
    size = max(floor_programs(inputs[0].view, tokens) for tokens in FLOOR_TOKENS)
    checksums = torch.empty(size, dtype=torch.int32, device="cuda")

    def read(one: Inputs, tokens: int) -> torch.Tensor:
        read_floor(one.view, checksums, tokens)
        return checksums

    return {
        f"floor {tokens}": Rival(f"floor {tokens}", "", [partial(read, one, tokens) for one in inputs])
        for tokens in FLOOR_TOKENS
    }


def compete(case: Case, inputs: list[Inputs]) -> tuple[dict[str, Rival], dict[str, float]]:
    """Everybody who takes part in a case and is right, with the error of each."""
    expected = [oracle(case, one) for one in inputs]
    found: dict[str, Rival] = {}
    errors: dict[str, float] = {}

    def enter(rival: Rival) -> None:
        pairs = zip(rival.calls, expected, strict=True)
        # Not Python's max, which passes over a NaN.
        error = float(
            torch.stack([(call().double() - right).norm() / right.norm() for call, right in pairs]).max()
        )
        if not error < TOLERANCE[case.dtype]:
            print(f"WRONG {case.name}: {rival.name} has an error of {error:.2e}")
            return
        found[rival.name], errors[rival.name] = rival, error

    enter(ours(case, inputs))
    for split_tokens in SPLITS:
        enter(ours_split(case, inputs, split_tokens))
    try:
        copies = contiguous_copies(case, inputs)
    except Unsuitable:
        copies = []
    for name, make in RIVALS.items():
        try:
            if not copies and name != flashinfer_rival.NAME:
                raise Unsuitable("needs sequences of one length")
            enter(make(case, inputs, copies))
        except Unsuitable as reason:
            print(f"{case.name}: without {name}: {reason}")
        except Exception as error:  # a library says in its own way that it does not take a case
            print(f"{case.name}: without {name}: {(str(error) or repr(error)).splitlines()[0][:100]}")
    return found, errors


def measure(case: Case, rounds: int, where: Environment) -> list[Row]:
    """All rows of a case."""
    inputs = make_inputs(case)
    rivals, errors = compete(case, inputs)
    everybody = {**floors(inputs), **rivals}
    calls = {name: rival.calls for name, rival in everybody.items()}
    timings = time_calls(calls, rounds, torch.device("cuda"))
    best = min((name for name in timings if name.startswith("floor ")), key=lambda name: timings[name].p50)
    floor = timings[best].p50
    print(f"{case.name}: floor {floor:.1f} us, {case.kv_bytes / floor / 1e6:.2f} TB/s")

    def row(name: str, shown: str) -> Row:
        rival, timing = everybody[name], timings[name]
        print(f"   {shown:22}{timing.p50:9.2f} us   {floor / timing.p50:.3f}")
        return make_row(
            case.name,
            shown,
            timing,
            where,
            kv_bytes=case.kv_bytes,
            floor=floor,
            error=errors.get(name),
            note=rival.note,
            version=rival.version,
        )

    return [row(best, "floor"), *(row(name, name) for name in rivals)]


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=results_file)
    parser.add_argument(
        "--cases", default="", help="names, with commas; all and the block sizes if not given"
    )
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    cases = chosen_cases(parser, options.cases, (*CASES, *BLOCK_SIZES))
    where, rows = environment(torch.device("cuda"), command_of("attention")), []
    for case in cases:
        rows += measure(case, options.rounds, where)
        gc.collect()
        torch.cuda.empty_cache()
        if options.csv:  # after every case, so that an interrupted run keeps what it has
            files.write(options.csv, rows_as_csv(rows, read_results(options.csv)))
    read = max(row.kv_bytes / row.p50 for row in rows if row.implementation == "floor") / 1e6
    print(f"best large read of the run: {read:.2f} TB/s")


if __name__ == "__main__":
    main()
