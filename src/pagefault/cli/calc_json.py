"""The JSON object of `pagefault calc`: sizes in bytes, shares from 0 to 1, unrounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagefault.cli.console import command_line

if TYPE_CHECKING:
    from pagefault.cli.calc import Sizing
    from pagefault.cli.calc_inputs import Model


def sizing_json(found: Sizing) -> dict[str, Any]:
    """The object that ``--json`` prints; keys of a model and a budget are there when these are."""
    report = found.report
    values: dict[str, Any] = {
        "command": command_line(),
        "lengths": found.lengths.origin,
        "block_size": report.block_size,
        "num_seqs": report.num_seqs,
        "tokens": report.tokens,
        "mean_len": report.mean_len,
        "max_len": report.max_len,
        "bytes_per_token": report.bytes_per_token,
        "pool_blocks": report.pool_blocks,
        "blocks_used": report.blocks_used,
        "blocks_short": report.blocks_short,
        "paged": _reserved_json(report.paged.reserved_bytes, report.paged.utilization, report.paged_capacity),
        "naive": _reserved_json(report.naive.reserved_bytes, report.naive.utilization, report.naive_capacity),
        "savings": report.savings,
        "fragmentation_tokens": report.fragmentation_tokens,
        "fragmentation_tokens_per_seq": report.fragmentation_tokens_per_seq,
        "expected_fragmentation_tokens_per_seq": report.expected_fragmentation_per_seq,
    }
    if found.model:
        values["model"] = _model_json(found.model, report.block_size)
        values["budget_bytes"] = found.budget.bytes if found.budget else None
        values["paged"] |= {
            "sequences": None,
            "bytes_per_sequence": report.paged.reserved_bytes / report.num_seqs,
        }
        values["naive"] |= {
            "sequences": None,
            "bytes_per_sequence": report.layout.contiguous_bytes(report.max_len),
        }
    if found.budget:
        values["budget"] = [
            {"label": line.label, "bytes": line.bytes, "origin": line.origin} for line in found.budget.lines
        ]
    if found.fit:
        values["paged"]["sequences"] = found.fit.paged_sequences
        values["naive"]["sequences"] = found.fit.naive_sequences
        values |= {"gain": found.fit.gain, "bytes_short": found.fit.bytes_short}
    values["sweep"] = [
        {
            "block_size": row.block_size,
            "reserved_bytes": row.reserved_bytes,
            "fragmentation_bytes": row.fragmentation_bytes,
            "utilization": row.utilization,
            "table_entries": row.table_entries,
        }
        for row in found.rows
    ]
    return values


def _reserved_json(reserved: int, utilization: float, capacity: int | None) -> dict[str, Any]:
    return {"reserved_bytes": reserved, "utilization": utilization, "capacity": capacity}


def _model_json(model: Model, block_size: int) -> dict[str, Any]:
    layout = model.layout
    return {
        "name": model.shape.name,
        "model_type": model.shape.model_type,
        "kv_dtype": model.dtype.name,
        "tp": model.tp,
        "bytes_per_token_past_windows": layout.bytes_per_token_later,
        "window_ceiling_bytes": layout.window_ceiling(block_size) if layout.windowed else None,
        "state_bytes": layout.state_bytes,
        "parts": [
            {
                "kind": part.kind,
                "bytes_per_token": part.bytes_per_token,
                "window": part.window,
                "formula": part.formula,
            }
            for part in layout.parts
        ],
        "states": [
            {"kind": state.kind, "bytes_per_sequence": state.bytes_per_sequence, "formula": state.formula}
            for state in layout.states
        ],
    }
