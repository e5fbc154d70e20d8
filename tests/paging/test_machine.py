"""Every operation of the pager in any order, against the model, with `check()` after each.

Beside the bookkeeping, the machine keeps the pool's content: what an executor would write and copy, in
the order of a step, all copies of one kind at once. What a sequence wrote is what it reads back through its
page table, across forks, copies on write, swaps, evictions and prefix hits.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pagefault.errors import BadHandle, InputError, NeverFits, OutOfFrames, PagingError
from pagefault.paging import BlockRemoved, BlockStored, Pager, private_keys
from paging.paging_model import COUNTERS, Model, Seq, as_array, block_keys, digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.paging import BlockEvent

MAX_SEQS = 6
# Prompts share prefixes: the first two for 9 tokens, the third not at all.
SCRIPTS = ([*range(24)], [*range(9), *range(50, 65)], [*range(100, 124)])

pick = st.integers(0, 10**6)
batch = st.lists(st.integers(0, MAX_SEQS - 1), min_size=1, max_size=4)
prompt = st.tuples(st.sampled_from(SCRIPTS), st.integers(4, 16))


class PagerMachine(RuleBasedStateMachine):
    @initialize(
        num_blocks=st.integers(5, 16),
        block_size=st.sampled_from([4, 2, 1]),
        host_blocks=st.sampled_from([8, 3, 0]),
        max_seq_len=st.sampled_from([None, 20, 40]),
        caching=st.sampled_from([True, True, True, False]),
        prompts=st.lists(prompt, min_size=1, max_size=3),
    )
    def start(
        self,
        num_blocks: int,
        block_size: int,
        host_blocks: int,
        max_seq_len: int | None,
        caching: bool,
        prompts: list[tuple[list[int], int]],
    ) -> None:
        self.pager = Pager(
            num_blocks,
            block_size,
            max_seqs=MAX_SEQS,
            max_seq_len=max_seq_len,
            host_blocks=host_blocks,
            prefix_caching=caching,
        )
        pages = num_blocks if max_seq_len is None else -(-max_seq_len // block_size)
        self.model = Model(num_blocks, block_size, pages, host_blocks, caching)
        self.fresh = 1000  # the next token that nobody has said
        self.device = np.full((num_blocks, block_size), -1)
        self.host = np.full((host_blocks, block_size), -1)
        self.outs: list[Any] = []
        self.ins: list[Any] = []
        self.copies: list[Any] = []
        self.writes: list[tuple[int, Any, list[int]]] = []
        self.moved: set[int] = set()  # rows that grew or came back since the last commit
        self.table = np.full((MAX_SEQS, pages), -1, np.int32)  # the copy on a device
        self.stored: set[bytes] = set()  # what a listener believes can be hit
        self.pager.subscribe(self.listen)
        for script, tokens in prompts:
            self._start(script, tokens)
        self._commit()
        self._mark_computed(list(self.model.seqs), 0)

    def _start(self, script: list[int], tokens: int) -> list[int]:
        """Opens a row, takes the prefix that is there and grows by the rest of the prompt."""
        before = set(self.model.seqs)
        self._open(script, tokens, None, repeat=False, take=True)
        new = list(set(self.model.seqs) - before)
        for row in new:
            n = max(tokens - self.model.seqs[row].length, 0)
            self._grow([row], [n], n)
        return new

    def listen(self, event: BlockEvent) -> None:
        if isinstance(event, BlockStored):
            self.stored |= {key.tobytes() for key in event.keys}
        elif isinstance(event, BlockRemoved):
            gone = {key.tobytes() for key in event.keys}
            assert gone <= self.stored
            self.stored -= gone
        else:
            self.stored.clear()

    # --- helpers -----------------------------------------------------------------------------------

    def rows(self, wish: list[int], still: bool = False, swapped: bool = False) -> list[int]:
        """Some of the rows that are open and on the device (or swapped out), and have not moved."""
        fit = [
            row
            for row, seq in self.model.seqs.items()
            if seq.swapped == swapped and not (still and row in self.moved)
        ]
        return list(dict.fromkeys(fit[i % len(fit)] for i in wish)) if fit else []

    def refused(self, error: Exception, call: Callable[[], Any]) -> None:
        """The call raises that, says how many frames are short, and has changed nothing."""
        before = digest(self.pager)
        with pytest.raises(type(error)) as caught:
            call()
        if isinstance(error, OutOfFrames):
            assert caught.value.short == error.short  # type: ignore[attr-defined]
        assert digest(self.pager) == before

    # --- rules -------------------------------------------------------------------------------------

    @rule(
        script=st.sampled_from(SCRIPTS),
        tokens=st.integers(0, 24),
        limit=st.sampled_from([None, None, 10]),
        repeat=st.booleans(),
        take=st.booleans(),
    )
    def open(self, script: list[int], tokens: int, limit: int | None, repeat: bool, take: bool) -> None:
        self._open(script, tokens, limit, repeat, take)

    def _open(self, script: list[int], tokens: int, limit: int | None, repeat: bool, take: bool) -> None:
        model, pager = self.model, self.pager
        prompt = script[:tokens]
        keys = block_keys(prompt, model.block_size)
        if len(model.seqs) == MAX_SEQS:
            self.refused(PagingError(), lambda: pager.open(as_array(keys)))
            return
        row = pager.open(as_array(keys), limit)
        assert row not in model.seqs
        pages = model.max_pages if limit is None else min(model.max_pages, model.pages(limit))
        seq = model.seqs[row] = Seq(prompt, keys, pages)
        if not take:
            return
        hit = model.hit(keys, tokens - 1 if tokens else 0)
        seen = pager.match(as_array(keys), max(tokens - 1, 0))
        assert (seen.blocks, seen.tokens) == (len(hit), len(hit) * model.block_size)
        assert seen.cached == len(set(hit) & set(model.cached))
        if len(hit) > pages:
            self.refused(NeverFits(), lambda: pager.attach(row, max(tokens - 1, 0)))
            return
        assert pager.attach(row, max(tokens - 1, 0), repeat) == seen.tokens
        if repeat:
            model.counts["repeated_hit_tokens"] += seen.tokens
        elif model.caching:
            model.counts["queried_tokens"] += len(keys) * model.block_size
            model.counts["hit_tokens"] += seen.tokens
        model.cached = [frame for frame in model.cached if frame not in hit]
        seq.frames = dict(enumerate(hit))
        seq.end = seq.computed = seq.published = len(hit)
        seq.length = seq.written = seen.tokens
        if hit:
            seq.silent = False

    @precondition(lambda self: len(self.model.seqs) < MAX_SEQS)
    @rule(prompt=prompt, keep=st.booleans())
    def serve(self, prompt: tuple[list[int], int], keep: bool) -> None:
        """A whole life: a prompt is computed and, perhaps, the sequence is gone again."""
        rows = self._start(*prompt)
        self._commit()
        self._mark_computed(rows, 0)
        if not keep:
            self._release(rows, keep=True)

    @precondition(lambda self: self.rows([0]) and len(self.model.seqs) < MAX_SEQS)
    @rule(row=pick, tokens=st.lists(st.integers(0, 3), min_size=2, max_size=2), order=st.booleans())
    def branch(self, row: int, tokens: list[int], order: bool) -> None:
        """A fork, and both write in one batch."""
        self._commit()
        row = self.rows([row])[0]
        before = set(self.model.seqs)
        self._fork(row, 1)
        rows = [row, *(set(self.model.seqs) - before)]
        self._grow(rows[::-1] if order else rows, tokens, tokens)

    @precondition(lambda self: self.rows([0]) and self.model.host_blocks)
    @rule(wish=batch, grow=st.booleans())
    def away_and_back(self, wish: list[int], grow: bool) -> None:
        """Preempted by swap; others take its frames; then it comes back."""
        self._commit()
        self._swap_out(self.rows(wish))
        self._commit()
        others = self.rows([0, 1])
        if grow:
            self._grow(others, [4] * len(others), 4)
        self._swap_in(self.rows(wish, swapped=True))

    @precondition(lambda self: self.rows([0]))
    @rule(wish=batch, tokens=st.lists(st.integers(0, 6), min_size=4, max_size=4))
    def grow(self, wish: list[int], tokens: list[int]) -> None:
        rows = self.rows(wish)
        counts = tokens[: len(rows)]
        self._grow(rows, counts, counts)

    @precondition(lambda self: self.rows([0]))
    @rule(wish=batch, tokens=st.integers(1, 2))
    def decode(self, wish: list[int], tokens: int) -> None:
        rows = self.rows(wish)
        self._grow(rows, [tokens] * len(rows), tokens)

    def _grow(self, rows: list[int], counts: list[int], asked: Any) -> None:
        model, pager = self.model, self.pager
        needs = model.need(rows, counts)
        ends = {
            row: max(model.pages(model.seqs[row].length + n), model.seqs[row].end)
            for row, n in zip(rows, counts, strict=True)
        }
        error = model.refusal(sum(needs), {r: e for r, e in ends.items() if e > model.seqs[r].end})
        if error is not None:
            self.refused(error, lambda: pager.grow(rows, asked))
            if isinstance(error, NeverFits):
                self.refused(error, lambda: pager.need(rows, asked))
            return
        before = digest(pager)
        assert pager.need(rows, asked).tolist() == needs
        assert digest(pager) == before
        growth = pager.grow(rows, asked)
        model.took([*growth.frames.tolist(), *growth.copies.dst.tolist()])
        assert growth.faults + len(growth.copies) == sum(needs)
        model.counts["faults"] += growth.faults
        model.counts["copies"] += len(growth.copies)
        copies = list(zip(growth.copies.src.tolist(), growth.copies.dst.tolist(), strict=True))
        refs = model.refs()
        for row, n in zip(rows, counts, strict=True):
            seq = model.seqs[row]
            page = seq.length // model.block_size
            if n and seq.length % model.block_size and refs[seq.frames[page]] > 1:
                src, dst = copies.pop(0)
                assert src == seq.frames[page]
                refs[src] -= 1
                seq.frames[page] = dst
                model.copying |= {src, dst}
        assert not copies
        for row, page, frame in zip(growth.rows, growth.pages, growth.frames, strict=True):
            seq = model.seqs[int(row)]
            assert page == seq.end
            seq.frames[int(page)] = int(frame)
            seq.end += 1
        self.copies.append(growth.copies)
        for row, n in zip(rows, counts, strict=True):
            seq = model.seqs[row]
            missing = seq.length + n - len(seq.script)
            seq.script += range(self.fresh, self.fresh + missing)
            self.fresh += max(missing, 0)
            said = seq.script[seq.length : seq.length + n]
            seq.length += n
            slots = pager.slots(row, n)
            assert slots.tolist() == [model.slot(row, i) for i in range(seq.length - n, seq.length)]
            if n:
                self.writes.append((row, slots, said))
                self.moved.add(row)
        assert pager.slots(rows, asked).size == sum(counts)

    @precondition(lambda self: self.rows([0]))
    @rule(wish=batch, short=st.integers(0, 3))
    def mark_computed(self, wish: list[int], short: int) -> None:
        self._mark_computed(self.rows(wish), short)

    def _mark_computed(self, rows: list[int], short: int) -> None:
        lengths = [max(self.model.seqs[row].written - short, 0) for row in rows]
        self.pager.mark_computed(rows, lengths)
        for row, length in zip(rows, lengths, strict=True):
            seq = self.model.seqs[row]
            seq.computed = max(seq.computed, length // self.model.block_size)
        for row in rows:
            self.model.publish(row)

    @precondition(lambda self: self.rows([0]))
    @rule(row=pick)
    def extend_keys(self, row: int) -> None:
        row = self.rows([row])[0]
        seq = self.model.seqs[row]
        new = block_keys(seq.script[: seq.length], self.model.block_size)[len(seq.keys) :]
        self.pager.extend_keys(row, as_array(new))
        seq.keys = seq.keys + new
        self.model.publish(row)

    @precondition(lambda self: self.rows([0], still=True))
    @rule(row=pick, n=st.integers(1, 3))
    def fork(self, row: int, n: int) -> None:
        row = self.rows([row], still=True)[0]
        self._fork(row, n)

    def _fork(self, row: int, n: int) -> None:
        model = self.model
        if len(model.seqs) + n > MAX_SEQS:
            self.refused(PagingError(), lambda: self.pager.fork(row, n))
            return
        seq = model.seqs[row]
        for child in self.pager.fork(row, n).tolist():
            assert child not in model.seqs
            model.seqs[child] = Seq(
                seq.script[: seq.length],
                seq.keys[: seq.length // model.block_size],
                seq.limit,
                seq.length,
                seq.written,
                {page: f for page, f in seq.frames.items() if page < model.pages(seq.length)},
                end=model.pages(seq.length),
                computed=seq.computed,
                published=seq.published,
                silent=seq.silent,
            )

    @precondition(lambda self: self.rows([0]))
    @rule(row=pick, tokens=st.integers(0, 40), contiguous=st.booleans())
    def reserve(self, row: int, tokens: int, contiguous: bool) -> None:
        model = self.model
        row = self.rows([row])[0]
        seq = model.seqs[row]
        end = max(model.pages(tokens), seq.end)
        n = end - seq.end
        error: Exception | None
        if contiguous and seq.end:
            error = BadHandle()
        else:
            error = model.refusal(n, {row: end} if n else {})
            if error is None and contiguous and n > model.longest_run():
                error = OutOfFrames("", n - model.longest_run())
        if error is not None:
            self.refused(error, lambda: self.pager.reserve(row, tokens, contiguous))
            return
        frames = self.pager.reserve(row, tokens, contiguous).tolist()
        assert len(frames) == n
        if contiguous and n:
            model.took_run(frames)
        else:
            model.took(frames)
        model.counts["faults"] += n
        seq.frames |= dict(zip(range(seq.end, end), frames, strict=True))
        seq.end = end

    @precondition(lambda self: self.model.seqs)
    @rule(wish=batch, keep=st.sampled_from([True, True, False]))
    def release(self, wish: list[int], keep: bool) -> None:
        model = self.model
        self._release(list(dict.fromkeys(list(model.seqs)[i % len(model.seqs)] for i in wish)), keep)

    def _release(self, rows: list[int], keep: bool) -> None:
        model = self.model
        gone = [frame for row in rows for _, frame in sorted(model.seqs[row].frames.items(), reverse=True)]
        self.pager.release(rows, keep)
        for row in rows:
            model.host_in_flight |= set(model.seqs.pop(row).on_host.values())
        model.let_go(gone, keep)
        self.writes = [write for write in self.writes if write[0] not in rows]
        self.moved -= set(rows)

    @precondition(lambda self: self.rows([0], still=True))
    @rule(wish=batch, back=st.integers(0, 12))
    def release_before(self, wish: list[int], back: int) -> None:
        model = self.model
        rows = self.rows(wish, still=True)
        positions = [max(model.seqs[row].length - back, 0) for row in rows]
        self.pager.release_before(rows, positions)
        gone: list[int] = []
        for row, position in zip(rows, positions, strict=True):
            seq = model.seqs[row]
            slid = [page for page in sorted(seq.frames) if (page + 1) * model.block_size <= position]
            gone += [seq.frames.pop(page) for page in reversed(slid)]
        model.let_go(gone, True)

    @precondition(lambda self: self.rows([0], still=True) and self.model.host_blocks)
    @rule(wish=batch)
    def swap_out(self, wish: list[int]) -> None:
        self._swap_out(self.rows(wish, still=True))

    def _swap_out(self, rows: list[int]) -> None:
        model = self.model
        refs = model.refs()
        moving = {
            row: [
                page
                for page, frame in sorted(model.seqs[row].frames.items())
                if refs[frame] == 1 and page < model.pages(model.seqs[row].length)
            ]
            for row in rows
        }
        assert self.pager.need_swap_out(rows).tolist() == [len(moving[row]) for row in rows]
        n = sum(map(len, moving.values()))
        if n > model.host_blocks:
            self.refused(NeverFits(), lambda: self.pager.swap_out(rows))
            return
        if n > model.host_free():
            self.refused(OutOfFrames("", n - model.host_free()), lambda: self.pager.swap_out(rows))
            return
        copies = self.pager.swap_out(rows)
        self.outs.append(copies)
        assert len(copies) == n
        pairs = list(zip(copies.src.tolist(), copies.dst.tolist(), strict=True))
        for row in rows:
            seq = model.seqs[row]
            seq.swapped = True
            for page in moving[row]:
                src, dst = pairs.pop(0)
                assert seq.frames.pop(page) == src
                seq.on_host[page] = dst
                model.forget(src)
                model.in_flight.add(src)
            end = model.pages(seq.length)
            model.let_go([seq.frames.pop(page) for page in range(end, seq.end)], False)
            seq.end = end
        model.counts["swapped_out"] += n

    @precondition(lambda self: self.rows([0], swapped=True))
    @rule(wish=batch)
    def swap_in(self, wish: list[int]) -> None:
        self._swap_in(self.rows(wish, swapped=True))

    def _swap_in(self, rows: list[int]) -> None:
        model = self.model
        pages = {row: sorted(model.seqs[row].on_host) for row in rows}
        assert self.pager.need_swap_in(rows).tolist() == [len(pages[row]) for row in rows]
        error = model.refusal(sum(map(len, pages.values())), {})
        if error is not None:
            self.refused(error, lambda: self.pager.swap_in(rows))
            return
        copies = self.pager.swap_in(rows)
        self.ins.append(copies)
        model.took(copies.dst.tolist())
        model.copying |= set(copies.dst.tolist())
        pairs = list(zip(copies.src.tolist(), copies.dst.tolist(), strict=True))
        for row in rows:
            seq = model.seqs[row]
            for page in pages[row]:
                src, dst = pairs.pop(0)
                assert seq.on_host.pop(page) == src
                model.host_in_flight.add(src)
                seq.frames[page] = dst
            seq.swapped = False
            seq.published = 0
            self.moved.add(row)
        for row in rows:
            model.publish(row)
        model.counts["swapped_in"] += len(copies)

    @rule()
    def commit(self) -> None:
        self._commit()

    def _commit(self) -> None:
        """An executor runs the step; then every sequence reads back what it wrote."""
        for copies, source, target in (
            (self.outs, self.device, self.host),
            (self.ins, self.host, self.device),
            (self.copies, self.device, self.device),
        ):
            if copies:
                src = np.concatenate([c.src for c in copies])
                dst = np.concatenate([c.dst for c in copies])
                assert np.unique(dst).size == dst.size
                assert source is not target or not np.intersect1d(src, dst).size
                target[dst] = source[src]
        every = np.concatenate([np.empty(0, np.int64), *(slots for _, slots, _ in self.writes)])
        assert np.unique(every).size == every.size, "two tokens share a slot"
        for _, slots, said in self.writes:
            self.device.ravel()[slots] = said
        for pending in (self.outs, self.ins, self.copies, self.writes):
            pending.clear()
        self.moved.clear()
        self.pager.commit()
        self.model.in_flight.clear()
        self.model.host_in_flight.clear()
        self.model.copying.clear()
        for row, seq in self.model.seqs.items():
            seq.written = seq.length
            if not seq.swapped:
                start = self.model.first(row) * self.model.block_size
                slots = self.pager.slots_at(row, min(start, seq.length), seq.length)
                assert self.device.ravel()[slots].tolist() == seq.script[start : seq.length]

    @precondition(lambda self: self.model.cached)
    @rule()
    def clear_cache(self) -> None:
        assert self.pager.clear_cache() == len(self.model.cached)
        self.model.cached.clear()
        self.model.known.clear()
        for seq in self.model.seqs.values():
            seq.silent = seq.silent or seq.length > 0

    @rule(row=st.integers(-2, MAX_SEQS + 1), which=pick, others=batch)
    def bad_handles(self, row: int, which: int, others: list[int]) -> None:
        """Rows that are closed, out of range, swapped out or doubled are refused by every call."""
        pager, seqs = self.pager, self.model.seqs
        good = self.rows(others)
        if row in seqs and not seqs[row].swapped:
            rows = [*good, row] if row in good else [row, *good, row]
        else:
            rows = [*good, row]
        calls: list[Callable[[], Any]] = [
            lambda: pager.grow(rows, 1),
            lambda: pager.need(rows, 1),
            lambda: pager.slots(rows, 0),
            lambda: pager.mark_computed(rows, 0),
            lambda: pager.release_before(rows, 0),
            lambda: pager.swap_out(rows),
            lambda: pager.need_swap_out(rows),
        ]
        if row not in seqs or seqs[row].swapped:
            calls += [
                lambda: pager.fork(row),
                lambda: pager.attach(row),
                lambda: pager.reserve(row, 1),
                lambda: pager.extend_keys(row, private_keys(0, 0, 1)),
                lambda: pager.slots_at(row, 0, 0),
            ]
        if row not in seqs or not seqs[row].swapped:
            calls += [lambda: pager.swap_in([row]), lambda: pager.need_swap_in([row])]
        if row not in seqs or row in good:
            calls.append(lambda: pager.release(rows))
        self.refused(BadHandle(), calls[which % len(calls)])

    @precondition(lambda self: self.rows([0]))
    @rule(row=pick, which=st.integers(0, 5))
    def bad_lengths(self, row: int, which: int) -> None:
        row = self.rows([row])[0]
        length = self.model.seqs[row].length
        past = (length // self.model.block_size + 1) * self.model.block_size
        calls: list[Callable[[], Any]] = [
            lambda: self.pager.slots(row, length + 1),
            lambda: self.pager.slots_at(row, 0, length + 1),
            lambda: self.pager.mark_computed(row, past),
            lambda: self.pager.release_before(row, length + 1),
            lambda: self.pager.grow(row, -1),
            lambda: self.pager.slots(row, [0, 0]),
        ]
        self.refused(InputError(), calls[which])
        if self.model.seqs[row].end:
            self.refused(BadHandle(), lambda: self.pager.attach(row))

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "pager"):
            self.pager.check()
            self.model.compare(self.pager)
            assert self.stored == set(self.model.known)
            updates = self.pager.drain_updates()
            self.table[updates.rows, updates.pages] = updates.frames
            assert np.array_equal(self.table, self.pager.block_table)

    def teardown(self) -> None:
        if hasattr(self, "pager"):
            self.pager.release(list(self.model.seqs))
            self.pager.commit()
            self.pager.clear_cache()
            self.pager.check()
            assert self.pager.stats().free == self.pager.num_blocks
            assert self.pager.stats().host_free == self.model.host_blocks


TestPagerMachine = PagerMachine.TestCase
TestPagerMachine.settings = settings(
    max_examples=2000,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def _batch(random: Random) -> list[int]:
    return [random.randrange(MAX_SEQS) for _ in range(random.randint(1, 4))]


def _prompt(random: Random) -> tuple[list[int], int]:
    return random.choice(SCRIPTS), random.randint(4, 16)


# rule -> (how often, when it makes sense, its arguments)
WALK: dict[str, tuple[int, Callable[[PagerMachine], Any], Callable[[Random], dict[str, Any]]]] = {
    "open": (
        2,
        lambda m: True,
        lambda r: {
            "script": r.choice(SCRIPTS),
            "tokens": r.randint(0, 20),
            "limit": r.choice([None, None, 10]),
            "repeat": r.random() < 0.3,
            "take": r.random() < 0.8,
        },
    ),
    "serve": (
        3,
        lambda m: len(m.model.seqs) < MAX_SEQS,
        lambda r: {"prompt": _prompt(r), "keep": r.random() < 0.5},
    ),
    "branch": (
        1,
        lambda m: m.rows([0]) and len(m.model.seqs) < MAX_SEQS,
        lambda r: {
            "row": r.randrange(9),
            "tokens": [r.randint(0, 3), r.randint(0, 3)],
            "order": r.random() < 0.5,
        },
    ),
    "away_and_back": (
        1,
        lambda m: m.rows([0]) and m.model.host_blocks,
        lambda r: {"wish": _batch(r), "grow": r.random() < 0.5},
    ),
    "grow": (
        2,
        lambda m: m.rows([0]),
        lambda r: {"wish": _batch(r), "tokens": [r.randint(0, 6) for _ in range(4)]},
    ),
    "decode": (4, lambda m: m.rows([0]), lambda r: {"wish": _batch(r), "tokens": r.randint(1, 2)}),
    "mark_computed": (2, lambda m: m.rows([0]), lambda r: {"wish": _batch(r), "short": r.randint(0, 3)}),
    "extend_keys": (2, lambda m: m.rows([0]), lambda r: {"row": r.randrange(9)}),
    "fork": (1, lambda m: m.rows([0], still=True), lambda r: {"row": r.randrange(9), "n": r.randint(1, 3)}),
    "reserve": (
        1,
        lambda m: m.rows([0]),
        lambda r: {"row": r.randrange(9), "tokens": r.randint(0, 30), "contiguous": r.random() < 0.3},
    ),
    "release": (4, lambda m: m.model.seqs, lambda r: {"wish": _batch(r), "keep": r.random() < 0.8}),
    "release_before": (
        1,
        lambda m: m.rows([0], still=True),
        lambda r: {"wish": _batch(r), "back": r.randint(0, 12)},
    ),
    "swap_out": (2, lambda m: m.rows([0], still=True) and m.model.host_blocks, lambda r: {"wish": _batch(r)}),
    "swap_in": (2, lambda m: m.rows([0], swapped=True), lambda r: {"wish": _batch(r)}),
    "commit": (3, lambda m: True, lambda r: {}),
}


def _walk(seed: int, steps: int) -> Counter[str]:
    random = Random(seed)
    machine = PagerMachine()
    machine.start(
        num_blocks=random.randint(8, 24),
        block_size=random.choice([1, 2, 4, 4]),
        host_blocks=random.choice([0, 8, 16]),
        max_seq_len=random.choice([None, 30, 60]),
        caching=seed % 6 != 5,
        prompts=[_prompt(random)],
    )
    names, weights = list(WALK), [weight for weight, _, _ in WALK.values()]
    for _ in range(steps):
        name = random.choices(names, weights)[0]
        _, sensible, arguments = WALK[name]
        if sensible(machine):
            getattr(machine, name)(**arguments(random))
            machine.holds()
    machine.teardown()
    return machine.model.counts


def test_long_walks() -> None:
    """The same rules for hundreds of steps: states that short runs do not reach, and often."""
    counts = sum((_walk(seed, steps=300) for seed in range(24)), Counter[str]())
    assert min(counts[name] for name in COUNTERS) >= 50, counts
