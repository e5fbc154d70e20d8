"""How `pagefault calc` shows what was computed: text for people, and the JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagefault.cli.console import bytes_si, emit_json, facts, heading, percent, say, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagefault.capacity import PoolReport, SweepRow

    Fact = tuple[str, str, str]


def show(origin: str, report: PoolReport, rows: Sequence[SweepRow], *, as_json: bool) -> None:
    """Print sequences in a pool, as text or as one JSON object."""
    if as_json:
        emit_json(pool_json(origin, report, rows))
        return
    show_configuration(origin, report)
    show_pool(report)
    show_sweep(report, rows)


def pool_json(origin: str, report: PoolReport, rows: Sequence[SweepRow]) -> dict[str, Any]:
    """The keys that every ``--json`` object has."""
    return {
        "lengths": origin,
        "block_size": report.block_size,
        "num_seqs": report.num_seqs,
        "tokens": report.tokens,
        "mean_len": report.mean_len,
        "max_len": report.max_len,
        "bytes_per_token": report.bytes_per_token,
        "pool_blocks": report.pool_blocks,
        "blocks_used": report.blocks_used,
        "blocks_short": report.blocks_short,
        "paged": {
            "reserved_bytes": report.paged.reserved_bytes,
            "utilization": report.paged.utilization,
            "capacity": report.paged_capacity,
        },
        "naive": {
            "reserved_bytes": report.naive.reserved_bytes,
            "utilization": report.naive.utilization,
            "capacity": report.naive_capacity,
        },
        "savings": report.savings,
        "fragmentation_tokens": report.fragmentation_tokens,
        "fragmentation_tokens_per_seq": report.fragmentation_tokens_per_seq,
        "expected_fragmentation_tokens_per_seq": report.expected_fragmentation_per_seq,
        "sweep": [
            {
                "block_size": row.block_size,
                "reserved_bytes": row.reserved_bytes,
                "fragmentation_bytes": row.fragmentation_bytes,
                "utilization": row.utilization,
                "table_entries": row.table_entries,
            }
            for row in rows
        ],
    }


def show_configuration(origin: str, report: PoolReport) -> None:
    """What is sized: sequences, bytes a token, blocks, pool."""
    heading("Configuration")
    facts(_configuration(origin, report))
    say()


def _configuration(origin: str, report: PoolReport) -> Iterator[Fact]:
    size, per_token = report.block_size, report.bytes_per_token
    yield "sequences", f"{report.num_seqs:,}", origin
    mean = f"mean {report.mean_len:,.1f}, longest {report.longest:,} tokens"
    yield "tokens", f"{report.tokens:,}", mean
    yield "maximum length", f"{report.max_len:,} tokens", "what a contiguous cache reserves for each"
    yield "bytes a token", f"{per_token:,} B", "2 (K, V) × 1 layer × 1 head × 64 × 4 B (float32)"
    yield "block", f"{size * per_token:,} B", f"{size} tokens × {per_token:,} B"
    if report.pool_blocks is not None:
        tokens = report.pool_blocks * size
        how = f"= {tokens:,} tokens = {bytes_si(tokens * per_token)}"
        yield "pool", f"{report.pool_blocks:,} blocks", how


def show_pool(report: PoolReport) -> None:
    """Naive beside paged, each figure with its formula."""
    heading("Reserved, naive (contiguous) and paged")
    facts(_pool(report))
    if report.blocks_short:
        say()
        say(
            f"These sequences do not fit together: {report.blocks_used:,} blocks needed, "
            f"{report.pool_blocks:,} in the pool, {report.blocks_short:,} short."
        )
    say()


def _pool(report: PoolReport) -> Iterator[Fact]:
    size, per_token, count = report.block_size, report.bytes_per_token, report.num_seqs
    naive, paged = report.naive, report.paged
    used, tokens, held = report.blocks_used, report.tokens, report.blocks_used * size
    of_pool = f" of {report.pool_blocks:,} in the pool" if report.pool_blocks else ""
    yield "blocks used", f"{used:,}", f"Σ ⌈tokens ÷ {size}⌉ over {count:,} sequences,{of_pool}".rstrip(",")
    yield (
        "naive reserved",
        bytes_si(naive.reserved_bytes),
        f"{count:,} × {report.max_len:,} tokens × {per_token:,} B = {naive.reserved_bytes:,} B",
    )
    yield (
        "paged reserved",
        bytes_si(paged.reserved_bytes),
        f"{used:,} blocks × {size * per_token:,} B = {paged.reserved_bytes:,} B",
    )
    yield "savings", f"{report.savings:.2f}×", f"{naive.reserved_bytes:,} B ÷ {paged.reserved_bytes:,} B"
    yield "naive utilization", percent(naive.utilization), f"{tokens:,} ÷ {count * report.max_len:,} tokens"
    yield "paged utilization", percent(paged.utilization), f"{tokens:,} ÷ {held:,} tokens"
    yield "fragmentation", f"{report.fragmentation_tokens:,} tokens", f"{held:,} − {tokens:,} tokens"
    yield (
        "  a sequence",
        f"{report.fragmentation_tokens_per_seq:.2f} tokens",
        f"÷ {count:,}; expected ({size} − 1) ÷ 2 = {report.expected_fragmentation_per_seq:g}",
    )
    if report.pool_blocks is not None:
        pool = report.pool_blocks
        how = f"{pool * size:,} tokens of the pool ÷ {report.max_len:,}"
        yield "naive capacity", f"{report.naive_capacity:,}", f"sequences: {how}"
        how = f"{pool:,} blocks ÷ mean {used / count:,.2f} a sequence"
        yield "paged capacity", f"{report.paged_capacity:,}", f"sequences: {how}"


def show_sweep(report: PoolReport, rows: Sequence[SweepRow]) -> None:
    """The same sequences at every block size."""
    unit, factor = _unit(max(row.reserved_bytes for row in rows))
    cells = [
        [
            f"{row.block_size}{' *' if row.block_size == report.block_size else ''}",
            f"{row.reserved_bytes / factor:,.2f}",
            f"{row.fragmentation_bytes / factor:,.2f}",
            percent(row.utilization),
            f"{row.table_entries:,}",
        ]
        for row in rows
    ]
    columns = (
        "tokens a block",
        f"reserved, {unit}",
        f"fragmentation, {unit}",
        "utilization",
        "table entries",
    )
    table("Block size (* as above; table entries: a sequence of the maximum length)", columns, cells)


def _unit(largest: int) -> tuple[str, float]:
    """The decimal unit a column of bytes is shown in; MB at least."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9)):
        if largest >= factor:
            return unit, factor
    return "MB", 1e6
