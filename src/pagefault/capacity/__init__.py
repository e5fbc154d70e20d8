"""How much memory: model shapes, GPUs, and the formulas of `pagefault calc`."""

from __future__ import annotations

from pagefault.capacity.budget import (
    DEFAULT_OVERHEAD,
    DEFAULT_UTILIZATION,
    BudgetLine,
    Fit,
    MemoryBudget,
    fit,
    given_budget,
    gpu_budget,
    longest_sequence,
)
from pagefault.capacity.dtypes import KV_DTYPES, KVDtype, find_dtype
from pagefault.capacity.gpus import GPUS, Gpu, HostLink, find_gpu
from pagefault.capacity.hf_config import custom_model, load_model, read_config
from pagefault.capacity.layout import (
    CacheLayout,
    LayoutPart,
    StatePart,
    bytes_per_token,
    cache_layout,
    check_block_size,
    check_tp,
    plain_layout,
    sequence_ceiling,
)
from pagefault.capacity.pool import (
    DEMO_BYTES_PER_TOKEN,
    DEMO_LAYOUT,
    SWEEP_BLOCK_SIZES,
    PoolReport,
    Reserved,
    SweepRow,
    measure,
    sweep,
)
from pagefault.capacity.presets import PRESETS
from pagefault.capacity.shapes import FixedState, KVGroup, ModelShape, Weights

__all__ = [
    "DEFAULT_OVERHEAD",
    "DEFAULT_UTILIZATION",
    "DEMO_BYTES_PER_TOKEN",
    "DEMO_LAYOUT",
    "GPUS",
    "KV_DTYPES",
    "PRESETS",
    "SWEEP_BLOCK_SIZES",
    "BudgetLine",
    "CacheLayout",
    "Fit",
    "FixedState",
    "Gpu",
    "HostLink",
    "KVDtype",
    "KVGroup",
    "LayoutPart",
    "MemoryBudget",
    "ModelShape",
    "PoolReport",
    "Reserved",
    "StatePart",
    "SweepRow",
    "Weights",
    "bytes_per_token",
    "cache_layout",
    "check_block_size",
    "check_tp",
    "custom_model",
    "find_dtype",
    "find_gpu",
    "fit",
    "given_budget",
    "gpu_budget",
    "load_model",
    "longest_sequence",
    "measure",
    "plain_layout",
    "read_config",
    "sequence_ceiling",
    "sweep",
]
