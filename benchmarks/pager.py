"""What the pager costs, beside the usual way of writing one, measured in the same run.

The usual way is a Python object a block, a deque of free ids, a loop over the sequences and a call or two
for each of them. It is written below for this benchmark, in the shape that small engines have it, and once
more as one tight loop without calls or checks, the best such code can do. All sides do the same work, and
what they say is compared after each step: free frames and slots.

    python -m benchmarks.pager                  # a table
    python -m benchmarks.pager --csv rows.csv   # and the rows as a file; --json for JSON lines

Absolute times are context; on shared cores only the ratio within a run is a claim. The sides take turns in
bursts of a few steps, so that all see the same machine and none the caches that another left behind. The
garbage collector is off meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import platform
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pagefault
from benchmarks import files
from pagefault.paging import BlockHasher, Pager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pagefault.paging.arrays import Ints, Keys
BLOCK_SIZE = 16
PROMPT = 8192
BURST = 8  # decode steps of one side before the next has its turn
BATCHES = (64, 256, 1024, 4096)


# --- the usual way -------------------------------------------------------------------------------------


class Block:
    """One frame as an object."""

    def __init__(self, block_id: int) -> None:
        self.id = block_id
        self.refs = 0
        self.key: bytes | None = None


class Sequence:
    """One sequence as an object."""

    def __init__(self, block_size: int, length: int) -> None:
        self.block_size = block_size
        self.length = length
        self.blocks: list[int] = []

    def __len__(self) -> int:
        return self.length

    @property
    def tokens_in_last_block(self) -> int:
        """Tokens in the block that is being filled."""
        return (self.length - 1) % self.block_size + 1


class UsualManager:
    """Blocks as objects, free ids in a deque, sequences one by one.

    A block keeps its key after its last reference is gone, until it is taken for something else.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.free: deque[int] = deque(range(num_blocks))
        self.block_of: dict[bytes, int] = {}

    def take(self) -> int:
        """Takes the block that has been free for longest."""
        block = self.blocks[self.free.popleft()]
        if block.key is not None and self.block_of.get(block.key) == block.id:
            del self.block_of[block.key]
        block.key = None
        block.refs = 1
        return block.id

    def admit(self, keys: list[bytes], tokens: int) -> Sequence:
        """A prompt: hits for its leading blocks (never the last token's), new blocks for the rest."""
        sequence = Sequence(self.block_size, tokens)
        missed = False
        for i in range(-(-tokens // self.block_size)):
            key = keys[i] if i < len(keys) else None
            hit = None
            if key is not None and not missed and (i + 1) * self.block_size < tokens:
                hit = self.block_of.get(key)
            if hit is None:
                missed = True
                hit = self.take()
                if key is not None and key not in self.block_of:
                    self.blocks[hit].key = key
                    self.block_of[key] = hit
            else:
                block = self.blocks[hit]
                if block.refs == 0:
                    self.free.remove(hit)
                block.refs += 1
            sequence.blocks.append(hit)
        return sequence

    def can_append(self, sequence: Sequence) -> bool:
        """Whether there is a block for one more token."""
        return len(self.free) >= (len(sequence) % self.block_size == 0)

    def append(self, sequence: Sequence) -> None:
        """One more token."""
        last = self.blocks[sequence.blocks[-1]]
        if len(sequence) % self.block_size == 0:
            sequence.blocks.append(self.take())
        elif last.key is not None:
            raise AssertionError("a block that is not full has a key")
        sequence.length += 1

    def decode(self, running: list[Sequence]) -> None:
        """One token for each sequence."""
        for sequence in running:
            if not self.can_append(sequence):
                raise RuntimeError("too few free blocks")
            self.append(sequence)

    def slots(self, running: list[Sequence]) -> list[int]:
        """The slot of each sequence's last token."""
        slots = []
        for sequence in running:
            slots.append(sequence.blocks[-1] * self.block_size + sequence.tokens_in_last_block - 1)  # noqa: PERF401
        return slots

    def release(self, sequence: Sequence) -> None:
        """Gives the blocks back, the last one first."""
        for block_id in reversed(sequence.blocks):
            block = self.blocks[block_id]
            block.refs -= 1
            if block.refs == 0:
                self.free.append(block_id)


class TightManager(UsualManager):
    """The same with everything in one loop: no calls, no checks, local names."""

    def decode(self, running: list[Sequence]) -> None:
        """One token for each sequence."""
        size = self.block_size
        for sequence in running:
            length = sequence.length
            if length % size == 0:
                sequence.blocks.append(self.take())
            sequence.length = length + 1

    def slots(self, running: list[Sequence]) -> list[int]:
        """The slot of each sequence's last token."""
        size = self.block_size
        return [s.blocks[-1] * size + (s.length - 1) % size for s in running]


# --- measuring -----------------------------------------------------------------------------------------


@dataclass
class Row:
    """One measured case of one implementation.

    Attributes:
        case: What was measured.
        sequences: How many sequences took part.
        implementation: pagefault, usual or tight.
        p20_us: Quantiles of the time, in microseconds …
        p50_us: … of which the median is the one to compare …
        p80_us: … and the other two say how steady it was.
        over_pagefault: Its median over pagefault's in the same run: above 1, pagefault is faster.
    """

    case: str
    sequences: int
    implementation: str
    p20_us: float
    p50_us: float
    p80_us: float
    over_pagefault: float


class Times:
    """Microseconds of one case on each side; the sides take turns."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}

    def turn(self, burst: int = 1, **sides: Callable[[], object]) -> list[Any]:
        """Runs each side `burst` times and times each run; returns what they return last."""
        returned = []
        for side, call in sides.items():
            times = self.taken.setdefault(side, [])
            for _ in range(burst):
                start = time.perf_counter_ns()
                result = call()
                times.append((time.perf_counter_ns() - start) / 1e3)
            returned.append(result)
        return returned

    def rows(self, case: str, sequences: int) -> Iterator[Row]:
        """A row for each side."""
        ours = float(np.median(self.taken["pagefault"]))
        for side, times in self.taken.items():
            p20, p50, p80 = np.percentile(times, [20, 50, 80]).tolist()
            yield Row(case, sequences, side, p20, p50, p80, p50 / ours)


def agree(pager: Pager, manager: UsualManager) -> None:
    """Both sides have the same number of frames to give, or the comparison is void."""
    if pager.free_frames != len(manager.free):
        raise SystemExit(f"the sides differ: {pager.free_frames} and {len(manager.free)} free frames")


def decode_steps(n: int, steps: int) -> Iterator[Row]:
    """Steps of n running sequences whose lengths are spread over a block, so that one in 16 faults.

    One case is the faults alone, `Pager.grow`; the other is all the pager does in a step: faults, the
    slots of the new tokens, and the report of what was computed. The usual way has no part for the last.
    """
    lengths = 200 + np.arange(n) % BLOCK_SIZE
    bursts = -(-steps // BURST)
    frames = n * (-(-(int(lengths.max()) + 2 * BURST * bursts) // BLOCK_SIZE))
    pager = Pager(frames, BLOCK_SIZE, max_seqs=n, max_seq_len=2048)
    rows = np.array([pager.open() for _ in range(n)])
    pager.grow(rows, lengths)
    computed = lengths.copy()
    managers = UsualManager(frames, BLOCK_SIZE), TightManager(frames, BLOCK_SIZE)
    running = [[manager.admit([], int(length)) for length in lengths] for manager in managers]

    def whole_step() -> Ints:
        np.add(computed, 1, out=computed)
        pager.grow(rows, 1)
        slots = pager.slots(rows, 1)
        pager.mark_computed(rows, computed)
        return slots

    def other_step(side: int) -> Ints:
        managers[side].decode(running[side])
        return np.array(managers[side].slots(running[side]))

    faults, whole = Times(), Times()
    for _ in range(bursts):
        faults.turn(
            BURST,
            pagefault=lambda: pager.grow(rows, 1),
            usual=lambda: managers[0].decode(running[0]),
            tight=lambda: managers[1].decode(running[1]),
        )
        computed += BURST
        slots = whole.turn(
            BURST, pagefault=whole_step, usual=partial(other_step, 0), tight=partial(other_step, 1)
        )
        for manager, theirs in zip(managers, slots[1:], strict=True):
            if (slots[0] % BLOCK_SIZE != theirs % BLOCK_SIZE).any():
                raise SystemExit("the sides differ: tokens have other offsets in their frames")
            agree(pager, manager)
    yield from faults.rows("decode step, faults", n)
    yield from whole.rows("decode step, faults + slots + computed", n)


def fault_scaling(n: int, steps: int) -> Iterator[Row]:
    """A step of n sequences by the faults in it and by the width of the page tables."""
    for width in (64, 1024):
        for faults in (0, n // 16, n // 4, n):
            pager = Pager(2 * n, BLOCK_SIZE, max_seqs=n, max_seq_len=width * BLOCK_SIZE)
            manager = UsualManager(2 * n, BLOCK_SIZE)
            lengths = np.where(np.arange(n) < faults, BLOCK_SIZE, 1)
            times = Times()
            for _ in range(steps):
                rows = np.array([pager.open() for _ in range(n)])
                pager.grow(rows, lengths)
                pager.need(rows, 1)  # the batch is known to the pager, as in a running decode
                running = [manager.admit([], int(length)) for length in lengths]
                times.turn(pagefault=partial(pager.grow, rows, 1), usual=partial(manager.decode, running))
                agree(pager, manager)
                pager.release(rows)
                for sequence in running:
                    manager.release(sequence)
            yield from times.rows(f"decode step, {faults:,} faults, tables {width:,} wide", n)


def admission(repeats: int) -> Iterator[Row]:
    """A prompt of 8,192 tokens: hashed, admitted cold, admitted with its prefix there, released.

    Admission is timed with the keys known. The prefix is there in two ways: *in use* by a sequence, or
    *cached*, referenced by nobody, which the usual way pays for with a search in its deque.
    """
    rng = np.random.default_rng(0)
    frames = 4 * PROMPT // BLOCK_SIZE
    pager, manager = Pager(frames, BLOCK_SIZE, max_seqs=8), UsualManager(frames, BLOCK_SIZE)

    def admit(keys: Keys) -> int:
        row = pager.open(keys)
        found = pager.attach(row, PROMPT - 1)
        pager.grow(row, PROMPT - found)
        pager.mark_computed(row, PROMPT)
        return row

    hashing, cold, in_use, cached, release = (Times() for _ in range(5))
    for _ in range(repeats):
        tokens = rng.integers(0, 2**17, PROMPT)
        hash_ours = partial(BlockHasher(BLOCK_SIZE).update, tokens)
        keys, boxed = hashing.turn(pagefault=hash_ours, usual=partial(usual_keys, tokens))
        ours, usual = partial(admit, keys), partial(manager.admit, boxed, PROMPT)
        row, sequence = cold.turn(pagefault=ours, usual=usual)
        row_2, sequence_2 = in_use.turn(pagefault=ours, usual=usual)
        pager.release(row_2)
        manager.release(sequence_2)
        release.turn(pagefault=partial(pager.release, row), usual=partial(manager.release, sequence))
        row, sequence = cached.turn(pagefault=ours, usual=usual)
        agree(pager, manager)
        pager.release(row)
        manager.release(sequence)
    yield from hashing.rows("hash 8,192 tokens", 1)
    yield from cold.rows("admit 8,192 tokens, cold", 1)
    yield from in_use.rows("admit 8,192 tokens, prefix in use", 1)
    yield from cached.rows("admit 8,192 tokens, prefix cached", 1)
    yield from release.rows("release 8,192 tokens", 1)


def usual_keys(tokens: Ints) -> list[bytes]:
    """Chained keys, block by block."""
    keys: list[bytes] = []
    parent = b""
    for start in range(0, tokens.size, BLOCK_SIZE):
        parent = hashlib.blake2b(
            parent + tokens[start : start + BLOCK_SIZE].tobytes(), digest_size=16
        ).digest()
        keys.append(parent)
    return keys


def measure(steps: int, batches: tuple[int, ...] = BATCHES) -> Iterator[Row]:
    """All cases."""
    gc.collect()
    gc.disable()
    try:
        for n in batches:
            yield from decode_steps(n, steps)
        yield from fault_scaling(batches[-1], max(steps // 8, 3))
        yield from admission(max(steps // 4, 3))
    finally:
        gc.enable()


# --- saying it -----------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """What the figures depend on."""
    here = Path(__file__).resolve().parent
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    return {
        "pagefault": pagefault.__version__,
        "commit": commit.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def print_table(rows: list[Row]) -> None:
    """A line a case: our time, and each other side's with its ratio to ours."""
    print(f"{'case, median µs':<48} {'sequences':>9} {'pagefault':>10} {'usual':>18} {'tight loop':>18}")
    line = ""
    for row in rows:
        if row.implementation == "pagefault":
            print(line, end="\n" if line else "")
            line = f"{row.case:<48} {row.sequences:>9,} {row.p50_us:>10,.1f}"
        else:
            line += f" {row.p50_us:>10,.1f} {row.over_pagefault:>6.1f}x"
    print(line)


def main(arguments: list[str] | None = None) -> int:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--csv", type=files.target, metavar="FILE", help="also write the rows as CSV")
    parser.add_argument("--json", type=files.target, metavar="FILE", help="also write the rows as JSON lines")
    parser.add_argument("--steps", type=files.count, default=200, help="decode steps to time (default: 200)")
    parser.add_argument("--batches", type=files.count, nargs="+", default=BATCHES, help="running sequences")
    options = parser.parse_args(arguments)
    rows = list(measure(options.steps, tuple(options.batches)))
    print_table(rows)
    lines = [asdict(row) | environment() for row in rows]
    if options.json:
        files.write(options.json, "".join(json.dumps(line) + "\n" for line in lines))
    if options.csv:
        files.write_rows(options.csv, list(lines[0]), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
