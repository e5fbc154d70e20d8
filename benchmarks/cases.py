"""The cases of the comparison, and their tensors."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmarks import files
from pagefault.attention import PagedKV
from pagefault.bench import DTYPES, ROTATE_BYTES, read_results
from pagefault.errors import InputError
from pagefault.workload import seeded_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Case:
    """A decode step: one query a sequence over its cached tokens, in shuffled frames."""

    name: str
    lengths: tuple[int, ...]
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    dtype: str = "bf16"
    block_size: int = 16
    shuffled: bool = True

    @property
    def q_dtype(self) -> torch.dtype:
        """Queries stay in 16 bit where K and V have 8."""
        return torch.bfloat16 if self.dtype == "fp8" else DTYPES[self.dtype]

    @property
    def kv_bytes(self) -> int:
        """Valid bytes of K and V: what a decode step cannot avoid reading."""
        return 2 * sum(self.lengths) * self.kv_heads * self.head_dim * DTYPES[self.dtype].itemsize

    @property
    def even(self) -> bool:
        """Whether all sequences have one length, as the contiguous rivals need."""
        return len(set(self.lengths)) == 1

    @property
    def copies(self) -> int:
        """Disjoint input sets to rotate through."""
        return max(2, -(-ROTATE_BYTES // self.kv_bytes))


MIXED = tuple(int(tokens) for tokens in seeded_lengths(64, 42))

CASES = (
    Case("64x4096", (4096,) * 64),
    Case("256x1024", (1024,) * 256),
    Case("1x131072", (131072,)),
    Case("16x2048", (2048,) * 16),
    Case("64 mixed", MIXED),
    Case("1x8192", (8192,)),
    Case("32x2048 32/32", (2048,) * 32, kv_heads=32),
    Case("128x4096 8/1", (4096,) * 128, heads=8, kv_heads=1),
    Case("64x4096 fp16", (4096,) * 64, dtype="fp16"),
    Case("64x4096 fp8", (4096,) * 64, dtype="fp8"),
)
SPLITS = (512, 2048)
"""Tokens a fixed split, whose cost is shown."""
BLOCK_SIZES = tuple(Case(f"64x4096 block {size}", (4096,) * 64, block_size=size) for size in (1, 64, 128))


@dataclass(frozen=True)
class Inputs:
    """One of the disjoint input sets of a case."""

    q: torch.Tensor
    view: PagedKV


def need_gpu(parser: argparse.ArgumentParser) -> None:
    """Ends the program where PyTorch finds no GPU."""
    if not torch.cuda.is_available():
        parser.error("this benchmark needs a CUDA GPU, and PyTorch finds none")


def chosen_cases(parser: argparse.ArgumentParser, names: str, among: Sequence[Case]) -> list[Case]:
    """Cases by their names, with commas; all if none is named. Ends the program where one is unknown or no GPU is.

    Args:
        parser: Whose error it is then.
        names: As they were typed.
        among: What there is.
    """
    wanted = names.split(",") if names else []
    known = [case.name for case in among]
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(known)}")
    need_gpu(parser)
    return [case for case in among if not wanted or case.name in wanted]


def results_file(text: str) -> Path:
    """A results file to add rows to, as the type of an option."""
    path = files.target(text)
    try:
        read_results(path)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def command_of(benchmark: str) -> str:
    """What was typed, for the rows."""
    return shlex.join(["python", "-m", f"benchmarks.{benchmark}", *sys.argv[1:]])


def make_inputs(case: Case, device: str = "cuda", seed: int = 0) -> list[Inputs]:
    """Disjoint input sets over one pool: random values, K and V side by side in a frame, shuffled frames.

    fp8 frames hold heads first (all tokens of a head together), the layout fp8 is fastest in.
    """
    generator = torch.Generator(device).manual_seed(seed)
    batch, size = len(case.lengths), case.block_size
    pages = [-(-tokens // size) for tokens in case.lengths]
    frames = case.copies * sum(pages)
    heads_first = case.dtype == "fp8"
    inner = (case.kv_heads, size) if heads_first else (size, case.kv_heads)
    pool = torch.empty(frames, 2, *inner, case.head_dim, dtype=DTYPES[case.dtype], device=device)
    for part in torch.split(pool, max(1, 2**28 // pool[0].numel())):
        part.copy_(torch.randn(part.shape, generator=generator, device=device, dtype=torch.bfloat16))
    view = pool.transpose(2, 3) if heads_first else pool
    order = torch.arange(frames, dtype=torch.int32, device=device)
    if case.shuffled:
        order = torch.randperm(frames, generator=generator, device=device, dtype=torch.int32)
    lengths = torch.tensor(case.lengths, dtype=torch.int32, device=device)
    scale = torch.ones(1, device=device) if case.dtype == "fp8" else None
    sets = []
    start = 0
    for _ in range(case.copies):
        table = torch.zeros(batch, max(pages), dtype=torch.int32, device=device)
        for row, count in enumerate(pages):
            table[row, :count] = order[start : start + count]
            start += count
        q = torch.randn(batch, case.heads, case.head_dim, generator=generator, device=device)
        sets.append(Inputs(q.to(case.q_dtype), PagedKV(view[:, 0], view[:, 1], table, lengths, scale, scale)))
    return sets
