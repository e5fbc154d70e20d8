"""The tensors of a comparison: the same tokens in a contiguous cache and in paged ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagefault.attention import (
    FLOOR_TOKENS,
    ContiguousKV,
    DecodeWorkspace,
    PagedKV,
    contiguous_decode,
    floor_programs,
    paged_decode,
    read_floor,
)
from pagefault.cache import ContiguousKVCache, KVShape, PagedKVCache
from pagefault.errors import NeverFits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from pagefault.bench.setup import BenchSetup

    Call = Callable[[], Tensor]

NAIVE, ORDERED, SHUFFLED = "naive", "paged ordered", "paged shuffled"
# Rows that take part in scattering the frames, at least: the more, the better they are mixed.
CHURN_ROWS = 256


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a batch's sequences hold.

    Attributes:
        q: ``[seqs, heads, head_dim]``: the newest query of each.
        k: ``[total, kv_heads, head_dim]``, sequence after sequence.
        v: Like `k`.
        lengths: Tokens of each, int64 [seqs].
        scale: Factor of the logits; ``1 / sqrt(head_dim)`` if None.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    lengths: NDArray[np.int64]
    scale: float | None = None


def random_tokens(setup: BenchSetup, generator: torch.Generator) -> Tokens:
    """Normal values, never zeros: a GPU is faster on those."""
    lengths = setup.lengths

    def normal(count: int, heads: int) -> Tensor:
        shape = (count, heads, setup.head_dim)
        made = torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32)
        return made.to(setup.q_dtype)

    total = int(lengths.sum())
    return Tokens(
        normal(setup.seqs, setup.heads), normal(total, setup.kv_heads), normal(total, setup.kv_heads), lengths
    )


class Problem:
    """One layer's decode step in every layout, `copies` times over: disjoint inputs to rotate through.

    Args:
        setup: What to measure.
        tokens: What the sequences hold, for each of the copies.

    Raises:
        NeverFits: The GPU has not memory enough for it.

    Attributes:
        setup: As given.
        tokens: As given.
        naive: The contiguous cache: sequence *i* of copy *c* is row ``c * seqs + i``.
        paged: By name: the paged caches.
        rows: By name: where sequence *i* of copy *c* is: entry ``c * seqs + i``.
    """

    def __init__(self, setup: BenchSetup, tokens: list[Tokens]) -> None:
        self.setup, self.tokens = setup, tokens
        seqs, copies = setup.seqs, len(tokens)
        # All layouts have room for as many tokens, as that is what the launcher chooses a kernel by.
        room = setup.reserved_tokens
        shape = KVShape(1, setup.kv_heads, setup.head_dim)
        pages = sum(int((-(-each.lengths // setup.block_size)).sum()) for each in tokens)
        try:
            self.naive = ContiguousKVCache(shape, copies * seqs, room, setup.kv_dtype, setup.device)
            self.paged = {
                name: PagedKVCache(
                    shape,
                    pages,
                    setup.block_size,
                    setup.kv_dtype,
                    setup.device,
                    max_seqs=max(copies * seqs, min(pages, CHURN_ROWS)),
                    max_seq_len=room,
                    prefix_caching=False,
                )
                for name in ((ORDERED, SHUFFLED) if setup.shuffle_seed else (ORDERED,))
            }
        except torch.OutOfMemoryError as error:
            raise NeverFits(
                f"{setup.name}: values and caches of {setup.allocated_bytes / 1e9:,.1f} GB do not fit into what is "
                f"free on {setup.device}; give fewer --seqs or shorter ones (--mean-len, --max-len)"
            ) from error
        if setup.shuffle_seed:
            churn(self.paged[SHUFFLED], setup.shuffle_seed)
        # A churned pager hands out its rows in another order, too.
        self.rows = {
            name: np.array([cache.open() for _ in range(copies * seqs)]) for name, cache in self.paged.items()
        }
        for number, each in enumerate(tokens):
            copy, k, v = self._copy(number), each.k[None], each.v[None]
            self.naive.append(np.arange(copy.start, copy.stop), k, v, each.lengths)
            for name, cache in self.paged.items():
                cache.append(self.rows[name][copy], k, v, each.lengths)

    def view(self, name: str, copy: int = 0) -> ContiguousKV | PagedKV:
        """What attention of a copy reads in a layout."""
        rows = self._copy(copy)
        if name != NAIVE:
            return self.paged[name].batch(self.rows[name][rows]).layer(0)
        whole = self.naive.view(0)
        return ContiguousKV(whole.k[rows], whole.v[rows], whole.lengths[rows], whole.k_scale, whole.v_scale)

    def _copy(self, number: int) -> slice:
        return slice(number * self.setup.seqs, (number + 1) * self.setup.seqs)

    def calls(self) -> dict[str, list[Call]]:
        """A decode step in each layout, one call a copy, as a user would make it."""
        setup = self.setup
        workspace = DecodeWorkspace.for_decode(
            heads=setup.heads, kv_heads=setup.kv_heads, head_dim=setup.head_dim, device=setup.device
        )
        made: dict[str, list[Call]] = {}
        for name in (NAIVE, *self.paged):
            made[name] = []
            for number, each in enumerate(self.tokens):
                view, out = self.view(name, number), torch.empty_like(each.q)
                options: dict[str, Any] = {"scale": each.scale, "out": out, "workspace": workspace}
                if isinstance(view, PagedKV):
                    made[name].append(partial(paged_decode, each.q, view, **options))
                else:
                    made[name].append(partial(contiguous_decode, each.q, view, **options))
        return made

    def floor_calls(self) -> dict[str, list[Call]]:
        """The floor kernel at each of its sizes, over the most scattered layout; the fastest is the floor."""
        name = list(self.paged)[-1]
        views = [self.view(name, number) for number in range(len(self.tokens))]
        made: dict[str, list[Call]] = {}
        for tokens in FLOOR_TOKENS:
            made[f"floor {tokens}"] = []
            for view in views:
                assert isinstance(view, PagedKV)
                programs = floor_programs(view, tokens)
                checksums = torch.empty(programs, dtype=torch.int32, device=self.setup.device)
                made[f"floor {tokens}"].append(partial(_floor, view, checksums, tokens))
        return made


def _floor(view: PagedKV, checksums: Tensor, tokens: int) -> Tensor:
    read_floor(view, checksums, tokens)
    return checksums


def churn(cache: PagedKVCache, seed: int, turns: int = 3) -> None:
    """Leave the free frames in the order of a server that ran for hours.

    As many sequences as there are rows grow by a block each in random order, until the pool is full, and end in
    random order; a few turns of that scatter the frames over the whole pool. The cache must be empty.
    """
    pager, random = cache.pager, np.random.default_rng(seed)
    each, rest = divmod(pager.num_blocks, pager.max_seqs)
    for _ in range(turns):
        rows = np.array([pager.open() for _ in range(pager.max_seqs)])
        for _ in range(each):
            pager.grow(random.permutation(rows), pager.block_size)
        if rest:
            pager.grow(random.permutation(rows)[:rest], pager.block_size)
        pager.release(random.permutation(rows), keep_cached=False)
    cache.apply()
