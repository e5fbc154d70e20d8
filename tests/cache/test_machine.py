"""Whatever is appended, forked, swapped and released: a sequence reads back what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

pytest.importorskip("torch")
import torch

from pagefault.cache import ContiguousKVCache, KVShape, PagedKVCache
from pagefault.errors import OutOfFrames, PagingError

if TYPE_CHECKING:
    from torch import Tensor

SHAPE = KVShape(layers=2, kv_heads=2, head_dim=4)
LONGEST = 24


class CacheMachine(RuleBasedStateMachine):
    """The model: what each row holds, as one tensor ``[2, layers, tokens, kv_heads, head_dim]``."""

    @initialize(block_size=st.sampled_from([1, 4]), blocks=st.integers(4, 12), host=st.sampled_from([2, 12]))
    def start(self, block_size: int, blocks: int, host: int) -> None:
        self.cache = PagedKVCache(
            SHAPE,
            blocks,
            block_size,
            torch.float32,
            "cpu",
            max_seqs=6,
            max_seq_len=LONGEST,
            host_blocks=host,
        )
        self.held: dict[int, Tensor] = {}
        self.swapped: dict[int, Tensor] = {}
        self.written = 0

    def new(self, tokens: int) -> Tensor:
        self.written += 1
        values = torch.arange(2 * SHAPE.layers * tokens * SHAPE.kv_heads * SHAPE.head_dim)
        return (values + 10_000 * self.written).float().view(2, SHAPE.layers, tokens, 2, 4)

    @rule()
    def open(self) -> None:
        if self.cache.pager.free_rows:
            self.held[self.cache.open()] = self.new(0)

    @rule(data=st.data(), tokens=st.lists(st.integers(0, 6), min_size=1, max_size=4))
    def append(self, data: st.DataObject, tokens: list[int]) -> None:
        if not self.held:
            return
        rows = data.draw(st.permutations(sorted(self.held)))[: len(tokens)]
        parts = {row: self.new(count) for row, count in zip(rows, tokens, strict=False)}
        k, v = torch.cat(list(parts.values()), dim=2)
        try:
            self.cache.append(rows, k, v, tokens[: len(rows)])
        except PagingError:
            return  # and nothing has changed
        for row, part in parts.items():
            self.held[row] = torch.cat((self.held[row], part), dim=2)

    @rule(data=st.data(), n=st.integers(1, 2))
    def fork(self, data: st.DataObject, n: int) -> None:
        if self.held and self.cache.pager.free_rows >= n:
            row = data.draw(st.sampled_from(sorted(self.held)))
            for child in self.cache.fork(row, n).tolist():
                self.held[child] = self.held[row]

    @rule(data=st.data())
    def swap_out(self, data: st.DataObject) -> None:
        if self.held:
            rows = data.draw(st.sets(st.sampled_from(sorted(self.held)), min_size=1, max_size=2))
            try:
                self.cache.swap_out(sorted(rows))
            except PagingError:
                return
            self.swapped |= {row: self.held.pop(row) for row in rows}

    @rule(data=st.data())
    def swap_in(self, data: st.DataObject) -> None:
        if self.swapped:
            row = data.draw(st.sampled_from(sorted(self.swapped)))
            try:
                self.cache.swap_in(row)
            except OutOfFrames:
                return
            self.held[row] = self.swapped.pop(row)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        everyone = sorted({**self.held, **self.swapped})
        if everyone:
            row = data.draw(st.sampled_from(everyone))
            self.cache.release(row)
            self.held.pop(row, None)
            self.swapped.pop(row, None)

    @invariant()
    def reads_back(self) -> None:
        if not hasattr(self, "cache"):
            return
        self.cache.pager.check()
        for row, expected in self.held.items():
            for layer in range(SHAPE.layers):
                k, v = self.cache.read(layer, row)
                assert torch.equal(k, expected[0, layer])
                assert torch.equal(v, expected[1, layer])
        assert torch.equal(self.cache.block_table, torch.from_numpy(self.cache.pager.block_table.copy()))


def test_every_sequence_reads_back_what_it_wrote() -> None:
    run_state_machine_as_test(
        CacheMachine,
        settings=settings(max_examples=150, stateful_step_count=25, deadline=None, derandomize=True),
    )


def test_both_caches_hold_the_same() -> None:
    paged = PagedKVCache(SHAPE, 12, 4, torch.float32, "cpu", max_seqs=3)
    naive = ContiguousKVCache(SHAPE, 3, LONGEST, torch.float32, "cpu")
    rows = [paged.open() for _ in range(3)]
    generator = torch.Generator().manual_seed(0)
    for tokens in ([5, 0, 9], [1, 1, 1], [1, 4, 1]):
        k, v = torch.randn(2, SHAPE.layers, sum(tokens), 2, 4, generator=generator)
        paged.append(rows, k, v, tokens)
        naive.append(rows, k, v, tokens)
    for layer in range(SHAPE.layers):
        for row in rows:
            for one, other in zip(paged.read(layer, row), naive.read(layer, row), strict=True):
                assert torch.equal(one, other)
    assert naive.lengths.tolist() == paged.pager.lengths[:3].tolist() == [7, 5, 11]
