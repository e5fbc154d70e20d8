"""What a pager should do, written to be obviously right: dictionaries, lists and loops.

The model predicts every count, every error and the eviction order. Which free frame a fault gets is the
pager's choice; the model takes it from the result and checks that it was free.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pagefault.errors import NeverFits, OutOfFrames
from pagefault.paging import BlockHasher, Pager


def block_keys(tokens: list[int], block_size: int) -> list[bytes]:
    keys = BlockHasher(block_size).update(np.array(tokens, np.int64))
    return [key.tobytes() for key in keys]


def as_array(keys: list[bytes]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 2)


@dataclass
class Seq:
    script: list[int]  # what the sequence says; grow adds to it where it ends
    keys: list[bytes]
    limit: int  # pages
    length: int = 0
    written: int = 0  # tokens that a committed step has written
    frames: dict[int, int] = field(default_factory=dict)  # page -> device frame
    on_host: dict[int, int] = field(default_factory=dict)  # page -> host frame
    swapped: bool = False
    end: int = 0  # one past the last page
    computed: int = 0
    published: int = 0
    silent: bool = False  # nothing of it is published any more


class Model:
    def __init__(
        self, num_blocks: int, block_size: int, max_pages: int, host_blocks: int, caching: bool
    ) -> None:
        self.num_blocks, self.block_size, self.max_pages = num_blocks, block_size, max_pages
        self.host_blocks, self.caching = host_blocks, caching
        self.seqs: dict[int, Seq] = {}
        self.known: dict[bytes, int] = {}
        self.cached: list[int] = []  # in eviction order
        self.in_flight: set[int] = set()
        self.host_in_flight: set[int] = set()
        self.copying: set[int] = set()
        self.counts: Counter[str] = Counter()

    # --- what there is -----------------------------------------------------------------------------

    def refs(self) -> Counter[int]:
        return Counter(frame for seq in self.seqs.values() for frame in seq.frames.values())

    def free(self) -> set[int]:
        return set(range(self.num_blocks)) - set(self.refs()) - set(self.cached) - self.in_flight

    def host_free(self) -> int:
        return self.host_blocks - self.host_used() - len(self.host_in_flight)

    def host_used(self) -> int:
        return sum(len(seq.on_host) for seq in self.seqs.values())

    def tokens(self) -> int:
        fill: dict[int, int] = {}
        for seq in self.seqs.values():
            for page, frame in seq.frames.items():
                inside = min(max(seq.length - page * self.block_size, 0), self.block_size)
                fill[frame] = max(fill.get(frame, 0), inside)
        return sum(fill.values())

    def pages(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def slot(self, row: int, position: int) -> int:
        return (
            self.seqs[row].frames[position // self.block_size] * self.block_size + position % self.block_size
        )

    def hit(self, keys: list[bytes], max_tokens: int | None) -> list[int]:
        if max_tokens is not None:
            keys = keys[: max_tokens // self.block_size]
        found = []
        for key in keys:
            if key not in self.known:
                break
            found.append(self.known[key])
        return found

    def need(self, rows: list[int], tokens: list[int]) -> list[int]:
        refs = self.refs()
        needs = []
        for row, n in zip(rows, tokens, strict=True):
            seq = self.seqs[row]
            count = max(self.pages(seq.length + n) - seq.end, 0)
            if n and seq.length % self.block_size:
                tail = seq.frames[seq.length // self.block_size]
                if refs[tail] > 1:
                    refs[tail] -= 1
                    count += 1
            needs.append(count)
        return needs

    # --- errors it expects -------------------------------------------------------------------------

    def refusal(self, n: int, ends: dict[int, int]) -> Exception | None:
        """What taking n frames, for rows that would then end at these pages, raises."""
        if any(
            end > self.seqs[row].limit or end - self.first(row) > self.num_blocks for row, end in ends.items()
        ):
            return NeverFits("")
        if n > self.num_blocks:
            return NeverFits("")
        short = n - len(self.free()) - len(self.cached)
        return OutOfFrames("", short) if short > 0 else None

    def first(self, row: int) -> int:
        seq = self.seqs[row]
        return min([*seq.frames, *seq.on_host, seq.end])

    # --- what happens ------------------------------------------------------------------------------

    def took(self, frames: list[int]) -> None:
        """The pager took these frames: the oldest cached ones were evicted where too few were free."""
        evicted = max(0, len(frames) - len(self.free()))
        for frame in self.cached[:evicted]:
            self.forget(frame)
        del self.cached[:evicted]
        self.counts["evictions"] += evicted
        assert len(set(frames)) == len(frames), "a frame was handed out twice"
        assert set(frames) <= self.free(), "a frame was handed out that is not free"

    def took_run(self, frames: list[int]) -> None:
        usable = self.free() | set(self.cached)
        starts = [s for s in range(self.num_blocks) if set(range(s, s + len(frames))) <= usable]
        assert frames == list(range(starts[0], starts[0] + len(frames))), (
            "not the first run that is long enough"
        )
        for frame in set(frames) & set(self.cached):
            self.forget(frame)
            self.cached.remove(frame)
            self.counts["evictions"] += 1

    def longest_run(self) -> int:
        longest = run = 0
        usable = self.free() | set(self.cached)
        for frame in range(self.num_blocks):
            run = run + 1 if frame in usable else 0
            longest = max(longest, run)
        return longest

    def forget(self, frame: int) -> None:
        self.known = {key: f for key, f in self.known.items() if f != frame}

    def let_go(self, frames: list[int], keep: bool) -> None:
        """These references are gone (in eviction order, a frame perhaps several times)."""
        refs = self.refs()
        for i, frame in enumerate(frames):
            if refs[frame] or frame in frames[i + 1 :]:
                continue
            if frame in self.copying:
                self.forget(frame)
                self.in_flight.add(frame)
            elif keep and frame in self.known.values():
                self.cached.append(frame)
            else:
                self.forget(frame)

    def publish(self, row: int) -> None:
        seq = self.seqs[row]
        if not self.caching or seq.silent:
            return
        for block in range(max(seq.published, self.first(row)), min(seq.computed, len(seq.keys))):
            frame = seq.frames[block]
            if frame not in self.known.values():
                self.known.setdefault(seq.keys[block], frame)
        seq.published = max(seq.published, min(seq.computed, len(seq.keys)))

    # --- comparison --------------------------------------------------------------------------------

    def compare(self, pager: Pager) -> None:
        lengths = np.zeros(pager.max_seqs, np.int64)
        held = np.zeros(pager.max_seqs, np.int64)
        table = np.full((pager.max_seqs, pager.max_pages), -1)
        for row, seq in self.seqs.items():
            lengths[row] = seq.length
            held[row] = len(seq.frames)
            for page, frame in seq.frames.items():
                table[row, page] = frame
        assert np.array_equal(pager.lengths, lengths)
        assert np.array_equal(pager.pages, held)
        assert np.array_equal(pager.block_table, table)
        stats = pager.stats()
        used = len(self.refs())
        assert (stats.used, stats.cached, stats.free, stats.in_flight) == (
            used,
            len(self.cached),
            len(self.free()),
            len(self.in_flight),
        )
        assert pager.free_frames == len(self.free()) + len(self.cached)
        assert (stats.host_used, stats.host_free, stats.host_in_flight) == (
            self.host_used(),
            self.host_free(),
            len(self.host_in_flight),
        )
        assert (stats.tokens, stats.reserved_tokens) == (self.tokens(), used * self.block_size)
        assert stats.sequences == len(self.seqs) == pager.max_seqs - pager.free_rows
        counted = {name: getattr(stats, name) for name in COUNTERS}
        assert counted == {name: self.counts[name] for name in COUNTERS}


COUNTERS = (
    "faults",
    "evictions",
    "copies",
    "swapped_out",
    "swapped_in",
    "queried_tokens",
    "hit_tokens",
    "repeated_hit_tokens",
)


def digest(pager: Pager) -> dict[str, Any]:
    """Everything a pager holds, by value: equal digests mean that nothing has changed."""
    return _values(pager._state, "state")


def _values(thing: Any, path: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    names = list(getattr(thing, "__dict__", {})) or list(getattr(type(thing), "__slots__", ()))
    for name in names:
        value = getattr(thing, name)
        here = f"{path}.{name}"
        if name in ("_valid", "_scratch", "table_view", "lengths_view", "events"):
            continue  # memory of the last valid batch, working space, views, listeners
        if isinstance(value, np.ndarray):
            out[here] = value.tolist() if value.dtype == object else value.tobytes()
        elif type(value).__module__.startswith("pagefault."):
            out |= _values(value, here)
        else:
            out[here] = repr(value)
    return out
