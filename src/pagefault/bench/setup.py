"""What to measure: one decode step of a batch, one layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagefault.attention.validate import MAX_BATCH
from pagefault.capacity import check_block_size, find_dtype
from pagefault.errors import InputError
from pagefault.workload import seeded_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.capacity import ModelShape

DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
}
"""Dtypes of K and V by the short names of `pagefault bench --dtype`."""
_TORCH_NAMES = {short: str(dtype) for short, dtype in DTYPES.items()}
# Largest error allowed, as a share of the largest value where that exceeds 1: the write-up's in fp32; four
# roundings of a result of size 4 in 16 bit. fp8 is checked after dequantizing, so its error is that of bf16.
TOLERANCE = {"fp32": 1e-3, "fp16": 4e-3, "bf16": 3e-2, "fp8": 3e-2}
ROTATE_BYTES = 400 * 10**6
"""Bytes of inputs to rotate through, so that none stay in the L2 cache (60 MB on an H200)."""
ROUNDS = {"cuda": 50, "cpu": 10}
MAX_LEN = 2048
# Lengths are 32-bit numbers, and a call takes so many sequences and such heads.
RANGES = {
    "seqs": (1, MAX_BATCH),
    "seed": (0, 2**63 - 1),
    "mean_len": (1, 2**31 - 1),
    "max_len": (1, 2**31 - 1),
    "heads": (1, 2**16),
    "kv_heads": (1, 2**16),
    "head_dim": (1, 2**12),
    "shuffle_seed": (0, 2**63 - 1),
    "iters": (2, 10**6),
}


@dataclass(frozen=True, kw_only=True)
class BenchSetup:
    """One comparison. The defaults are the write-up's.

    Attributes:
        seqs: Sequences of the batch.
        seed: Of their lengths and of the values.
        mean_len: Tokens of every sequence, in place of the seeded mix.
        max_len: MAX_SEQ_LEN, what the contiguous cache reserves for each; if not given, 2,048, or the longest where
            that is more.
        heads: Query heads.
        kv_heads: KV heads.
        head_dim: Values a head.
        dtype: `fp32`, `fp16`, `bf16` or `fp8` (K and V; queries are then bf16).
        block_size: Tokens a frame.
        shuffle_seed: Of the order of the scattered frames; 0 leaves that case out.
        tolerance: Largest error allowed; that of the dtype if not given.
        iters: Rounds of the timing; 50 on a GPU and 10 on a CPU if not given.
        device: `cuda` or `cpu`.
        origin: Whose activations these are; empty for random values.

    Raises:
        InputError: A value that cannot be.
    """

    seqs: int = 32
    seed: int = 42
    mean_len: int | None = None
    max_len: int | None = None
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 64
    dtype: str = "fp32"
    block_size: int = 16
    shuffle_seed: int = 1
    tolerance: float | None = None
    iters: int | None = None
    device: str = "cpu"
    origin: str = ""

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InputError(f"{name} is {value}; expected {least:,} to {most:,}")
        check_block_size(self.block_size)
        if self.dtype not in DTYPES:
            raise InputError(f"dtype is {self.dtype!r}; expected one of {', '.join(DTYPES)}")
        if self.heads % self.kv_heads:
            raise InputError(f"heads is {self.heads}; expected a multiple of the {self.kv_heads} KV heads")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise InputError(f"tolerance is {self.tolerance}; expected a share between 0 and 1, such as 1e-3")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError("device is cuda, but PyTorch finds no CUDA GPU here; give --device cpu")
        if self.device not in ROUNDS:
            raise InputError(f"device is {self.device!r}; expected cuda or cpu")
        longest = int(self.lengths.max())
        if self.max_len is not None and self.max_len < longest:
            raise InputError(f"max_len is {self.max_len}, but the longest sequence has {longest} tokens")

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sequence, int64 [seqs]."""
        if self.mean_len is not None:
            return np.full(self.seqs, self.mean_len, np.int64)
        return seeded_lengths(self.seqs, self.seed)

    @property
    def reserved_tokens(self) -> int:
        """Tokens that the contiguous cache reserves for each sequence."""
        return max(MAX_LEN, int(self.lengths.max())) if self.max_len is None else self.max_len

    @property
    def kv_dtype(self) -> torch.dtype:
        """How K and V are stored."""
        return DTYPES[self.dtype]

    @property
    def q_dtype(self) -> torch.dtype:
        """How queries, new tokens and results are: in 16 bit where K and V have 8."""
        return torch.bfloat16 if self.dtype == "fp8" else self.kv_dtype

    @property
    def bytes_per_token(self) -> int:
        """K and V of a token in the one layer."""
        return 2 * self.kv_heads * self.head_dim * self.kv_dtype.itemsize

    @property
    def kv_bytes(self) -> int:
        """Valid bytes of K and V: what a decode step cannot avoid reading."""
        return int(self.lengths.sum()) * self.bytes_per_token

    @property
    def allocated_bytes(self) -> int:
        """K and V of all inputs: as values in fp32, in the contiguous cache and in one or two paged ones."""
        tokens = int(self.lengths.sum())
        blocks = int((-(-self.lengths // self.block_size)).sum())
        paged = (2 if self.shuffle_seed else 1) * blocks * self.block_size
        values = tokens * 2 * self.kv_heads * self.head_dim * 4
        return self.copies * (values + (self.seqs * self.reserved_tokens + paged) * self.bytes_per_token)

    @property
    def copies(self) -> int:
        """Disjoint inputs that the timing rotates through: on a GPU more than its L2 cache holds."""
        return max(2, -(-ROTATE_BYTES // self.kv_bytes)) if self.device == "cuda" else 1

    @property
    def allowed(self) -> float:
        """The tolerance that holds."""
        return TOLERANCE[self.dtype] if self.tolerance is None else self.tolerance

    @property
    def rounds(self) -> int:
        """The rounds that hold."""
        return ROUNDS[self.device] if self.iters is None else self.iters

    @property
    def name(self) -> str:
        """As it stands in the rows."""
        tokens = "mix" if self.mean_len is None else self.mean_len
        heads = f"{self.heads}/{self.kv_heads}x{self.head_dim}"
        case = f"{self.seqs}x{tokens} {heads} {self.dtype} block {self.block_size}"
        return f"{case} of {self.origin}" if self.origin else case


def default_device() -> str:
    """`cuda` where PyTorch finds a GPU, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def model_options(shape: ModelShape) -> dict[str, Any]:
    """A model's heads and dtype as arguments of `BenchSetup`. Layers with a window are measured without it.

    Raises:
        InputError: Its layers do not all store plain K and V of one shape.
    """
    kinds = {(group.kv_heads, group.k_dim, group.v_dim) for group in shape.groups}
    kv_heads, k_dim, v_dim = next(iter(kinds), (0, 0, 0))
    if len(kinds) != 1 or k_dim != v_dim:
        found = ", ".join(
            f"{group.layers} {group.kind} layers of {group.kv_heads} x ({group.k_dim}, {group.v_dim})"
            for group in shape.groups
        )
        raise InputError(
            f"model {shape.name} stores {found or 'no K and V'}; the bench measures plain K and V of one shape: "
            "give --heads, --kv-heads and --head-dim instead of a model"
        )
    options = {"heads": shape.attention_heads, "kv_heads": kv_heads, "head_dim": k_dim}
    names = {name.removeprefix("torch."): short for short, name in _TORCH_NAMES.items()}
    stored = find_dtype(shape.dtype).name if shape.dtype else ""
    return options | ({"dtype": names[stored]} if stored in names else {})
