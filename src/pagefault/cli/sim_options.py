"""Options of `pagefault sim` by name, so that each of its two halves refuses what belongs to the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

CLASSIC_ONLY = ("jobs", "workers", "seed", "seeds", "max_len", "tick_us", "sweep")
TRAFFIC_ONLY = (
    "requests",
    "scale",
    "slo_ttft",
    "slo_tpot",
    "slo_share",
    "model",
    "gpu",
    "tp",
    "kv_dtype",
    "gpu_memory_utilization",
    "weights_gib",
    "overhead_gib",
    "cost_table",
    "bandwidth_efficiency",
    "compute_efficiency",
    "step_us",
    "sequence_us",
    "policy",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
)


def refuse(given: Mapping[str, Any], names: Collection[str], why: str) -> None:
    """Refuse options that mean nothing here.

    Raises:
        InputError: Names the first of them and why.
    """
    for name in names:
        if given.get(name) not in (None, False):
            raise InputError(f"--{name.replace('_', '-')} {why}")


def picked(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the named options that were given, as keyword arguments."""
    return {name: given[name] for name in names if name in given}


def check_writable(path: str) -> None:
    """Refuse a path that cannot be written before a long run, not after it.

    Raises:
        InputError: Its folder does not exist, or it is a folder.
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"cannot write {path}: give a file in an existing folder")
