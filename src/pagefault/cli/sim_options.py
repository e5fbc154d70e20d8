"""Options of `pagefault sim` by name, so that each of its two halves refuses what belongs to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SWAPS = ("swap", "cheaper")
"""Ways to preempt that need host memory."""

CLASSIC_ONLY = ("jobs", "workers", "seed", "seeds", "max_len", "tick_us", "sweep")
TRAFFIC_ONLY = (
    "skip_bad",
    "requests",
    "scale",
    "slo_ttft",
    "slo_tpot",
    "slo_share",
    "find_limit",
    "model",
    "gpu",
    "tp",
    "kv_dtype",
    "gpu_memory_utilization",
    "weights_gib",
    "overhead_gib",
    "no_prefix_caching",
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


def given_only(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: neither None nor a switch left off. A 0 was given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def refuse(given: Mapping[str, Any], names: Collection[str], why: str) -> None:
    """Refuse options that mean nothing here.

    Raises:
        InputError: Names the first of them and why.
    """
    for name in names:
        if name in given:
            raise InputError(f"--{name.replace('_', '-')} {why}")


def picked(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the named options that were given, as keyword arguments."""
    return {name: given[name] for name in names if name in given}


def host_blocks(given: Mapping[str, Any], default: int) -> int:
    """Frames of the host pool: none, unless sequences are swapped out.

    Raises:
        InputError: Some were given that nothing would use, or none where they are needed.
    """
    if given.get("preempt") not in SWAPS:
        refuse(given, ("host_blocks",), "is for --preempt swap or cheaper; give one of them with it")
        return 0
    blocks = int(given.get("host_blocks", default))
    if blocks < 1:
        raise InputError(f"--host-blocks is {blocks}; expected at least 1")
    return blocks
