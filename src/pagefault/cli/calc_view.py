"""How `pagefault calc` shows what was computed: every figure with its unit and its formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.cli.console import bytes_si, facts, heading, percent, say, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagefault.capacity import Fit, LayoutPart, MemoryBudget, PoolReport, SweepRow
    from pagefault.cli.calc import Sizing
    from pagefault.cli.calc_inputs import Model

    Fact = tuple[str, str, str]


def show_text(found: Sizing) -> None:
    """Print the model, the budget, what fits, and the sequences, as far as they were asked for."""
    for index, (title, rows) in enumerate(_sections(found)):
        if index:
            say()
        heading(title)
        facts(rows)
    if _shows_workload(found):
        say()
        verdict = _whether_they_fit(found)
        if verdict:
            say(verdict)
            say()
        show_sweep(found.report, found.rows)


def _shows_workload(found: Sizing) -> bool:
    """Whether the sequences are worth more than their mean."""
    return found.lengths.asked or found.model is None


def _sections(found: Sizing) -> Iterator[tuple[str, Iterator[Fact]]]:
    model, budget = found.model, found.budget
    if model is not None:
        yield _model_title(model), _model(model, found.report.block_size)
        if budget is not None:
            where = f"each of {model.tp} GPUs" if model.tp > 1 else "one GPU"
            yield f"Memory for the KV cache of {where}", _budget(budget, found.report)
        whole = f" {model.tp} GPUs" if model.tp > 1 else ""
        yield f"Sequences that fit{whole}" if found.fit else "A sequence", _fit(found)
    if _shows_workload(found):
        yield "Configuration", _configuration(found)
        reserved = _pool(found.report, with_capacity=found.fit is None)
        yield "Reserved, naive (contiguous) and paged", reserved


def _model_title(model: Model) -> str:
    shape = model.shape
    shared = f", on {model.tp} GPUs" if model.tp > 1 else ""
    return f"{shape.name}: {shape.layers} layers, {shape.attention_heads} attention heads{shared}"


def _model(model: Model, block_size: int) -> Iterator[Fact]:
    layout = model.layout
    single = len(layout.parts) == 1
    for part in layout.parts:
        label = "bytes a token" if single else f"  {_part_label(part.kind, part.window)}"
        yield label, f"{part.bytes_per_token:,} B", part.formula
    if not single and layout.parts:
        total = " + ".join(f"{part.bytes_per_token:,}" for part in layout.parts)
        yield "bytes a token", f"{layout.bytes_per_token:,} B", f"{total} B, while all layers grow"
    if layout.parts:
        yield "", f"{layout.bytes_per_token / 1024:,.2f} KiB", _stored(model)
    if layout.windowed:
        yield (
            "  past the windows",
            f"{layout.bytes_per_token_later:,} B",
            "a token, once every window is full",
        )
        ceiling = layout.window_ceiling(block_size)
        what = ", ".join(_ceiling_formula(part, block_size) for part in layout.parts if part.window)
        yield "window ceiling", bytes_si(ceiling), f"a sequence at most, in these layers: {what}"
    for state in layout.states:
        yield (
            f"{state.kind} state",
            bytes_si(state.bytes_per_sequence),
            f"a sequence of any length: {state.formula}",
        )


def _stored(model: Model) -> str:
    scales = model.dtype.scales if any(part.kind != "mla" for part in model.layout.parts) else ""
    where = "on each GPU, " if model.tp > 1 else ""
    return f"{where}stored as {model.dtype.name}{', ' + scales if scales else ''}"


def _part_label(kind: str, window: int | None) -> str:
    return kind if window is None else f"{kind} {window:,}"


def _ceiling_formula(part: LayoutPart, block_size: int) -> str:
    blocks = part.ceiling_blocks(block_size)
    return f"{blocks:,} blocks × {block_size * part.bytes_per_token:,} B"


def _budget(budget: MemoryBudget, report: PoolReport) -> Iterator[Fact]:
    if len(budget.lines) > 1:
        for line in budget.lines:
            yield line.label, bytes_si(line.bytes).replace("-", "−"), line.origin
    blocks = ""
    if report.pool_blocks is not None:
        tokens = f"{report.pool_blocks * report.block_size:,} tokens"
        blocks = f" = {report.pool_blocks:,} blocks of {report.block_size} = {tokens}"
    origin = f"{budget.lines[0].origin}: " if len(budget.lines) == 1 else ""
    yield "budget", bytes_si(budget.bytes), f"{origin}{budget.bytes:,} B{blocks}"


def _fit(found: Sizing) -> Iterator[Fact]:
    report, layout, fit = found.report, found.report.layout, found.fit
    naive = layout.contiguous_bytes(report.max_len)
    paged = report.paged.reserved_bytes / report.num_seqs
    plain = layout.uniform and not layout.windowed
    how = f"{report.max_len:,} tokens × {report.bytes_per_token:,} B"
    if not plain:
        how = f"{report.max_len:,} tokens{_exceptions(report)}"
    yield "naive, a sequence", bytes_si(naive), f"{how} ({found.lengths.max_origin})"
    if plain:
        block = report.block_size * report.bytes_per_token
        blocks = report.blocks_used / report.num_seqs
        how = f"{_mean(blocks)} blocks of {report.block_size} × {block:,} B"
    else:
        how = f"whole blocks of {report.block_size}{_exceptions(report)}"
    yield "paged, a sequence", bytes_si(paged), f"{how}, mean {_tokens(report.mean_len)}"
    if fit is None:
        yield "", "", "how many fit: give --budget-gb or --gpu"
        return
    yield from _counts(fit)


def _counts(fit: Fit) -> Iterator[Fact]:
    budget = f"{fit.budget_bytes:,} B"
    yield "naive sequences", f"{fit.naive_sequences:,}", f"{budget} ÷ {fit.naive_bytes:,} B"
    yield "paged sequences", f"{fit.paged_sequences:,}", f"{budget} ÷ {_mean(fit.paged_bytes)} B"
    yield "gain", f"{fit.gain:.1f}×", f"{fit.paged_sequences:,} ÷ {fit.naive_sequences:,}"


def _exceptions(report: PoolReport) -> str:
    layout = report.layout
    window = ", no more than its window in each layer" if layout.windowed else ""
    return window + (f", + {layout.state_bytes:,} B of state" if layout.state_bytes else "")


def _tokens(mean: float) -> str:
    return f"{mean:,.0f} tokens" if mean == int(mean) else f"{mean:,.1f} tokens"


def _mean(value: float) -> str:
    """A mean, with two decimals unless it is whole."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _configuration(found: Sizing) -> Iterator[Fact]:
    report, lengths = found.report, found.lengths
    size, per_token = report.block_size, report.bytes_per_token
    yield "sequences", f"{report.num_seqs:,}", lengths.origin
    yield "tokens", f"{report.tokens:,}", f"mean {_tokens(report.mean_len)}, longest {report.longest:,}"
    yield "maximum length", f"{report.max_len:,} tokens", f"naive reserves it for each ({lengths.max_origin})"
    if found.model is None:
        yield "bytes a token", f"{per_token:,} B", report.layout.parts[0].formula
    yield "block", f"{size * per_token:,} B", f"{size} tokens × {per_token:,} B"
    if found.model is None and report.pool_blocks is not None:
        tokens = report.pool_blocks * size
        yield (
            "pool",
            f"{report.pool_blocks:,} blocks",
            f"= {tokens:,} tokens = {bytes_si(tokens * per_token)}",
        )


def _pool(report: PoolReport, *, with_capacity: bool) -> Iterator[Fact]:
    layout, count, size = report.layout, report.num_seqs, report.block_size
    naive, paged, used = report.naive, report.paged, report.blocks_used
    plain = layout.uniform and not layout.windowed
    within = ", within the window" if layout.windowed else ""
    yield "blocks used", f"{used:,}", f"Σ ⌈tokens ÷ {size}⌉ over {count:,} sequences{within}"
    one = f"{report.max_len:,} tokens × {report.bytes_per_token:,} B"
    if not plain:
        one = f"{layout.contiguous_bytes(report.max_len):,} B"
    yield "naive reserved", bytes_si(naive.reserved_bytes), f"{count:,} × {one} = {naive.reserved_bytes:,} B"
    all_blocks = f"{used:,} blocks × {size * report.bytes_per_token:,} B"
    if not layout.uniform:
        all_blocks = "blocks of every layer"
    yield "paged reserved", bytes_si(paged.reserved_bytes), f"{all_blocks} = {paged.reserved_bytes:,} B"
    yield "savings", f"{report.savings:.2f}×", f"{naive.reserved_bytes:,} B ÷ {paged.reserved_bytes:,} B"
    if plain:
        of_naive = f"{report.tokens:,} ÷ {count * report.max_len:,} tokens"
        of_paged = f"{report.tokens:,} ÷ {used * size:,} tokens"
    else:
        of_naive = f"{report.stored_bytes:,} ÷ {naive.reserved_bytes:,} B"
        of_paged = f"{report.stored_bytes:,} ÷ {paged.reserved_bytes:,} B"
    yield "naive utilization", percent(naive.utilization), of_naive
    yield "paged utilization", percent(paged.utilization), of_paged
    yield from _fragmentation(report, plain)
    if with_capacity and report.pool_blocks is not None:
        yield from _capacity(report, plain)


def _fragmentation(report: PoolReport, plain: bool) -> Iterator[Fact]:
    size, count, left = report.block_size, report.num_seqs, report.fragmentation_tokens
    held = report.blocks_used * size
    how = f"{held:,} − {report.tokens:,} tokens" if plain else "left free in each sequence's last block"
    yield "fragmentation", f"{left:,} tokens", how
    mean = f"{report.fragmentation_tokens_per_seq:.2f} tokens"
    expected = f"({size} − 1) ÷ 2 = {report.expected_fragmentation_per_seq:g}"
    yield "  a sequence", mean, f"{left:,} ÷ {count:,}; expected {expected}"


def _capacity(report: PoolReport, plain: bool) -> Iterator[Fact]:
    pool, size = report.pool_blocks or 0, report.block_size
    one = report.layout.contiguous_bytes(report.max_len)
    how = f"{pool * size:,} ÷ {report.max_len:,} tokens"
    if not plain:
        how = f"{pool * size * report.bytes_per_token:,} ÷ {one:,} B"
    yield "naive capacity", f"{report.naive_capacity:,}", f"sequences in the pool: {how}"
    each = _mean(report.blocks_used / report.num_seqs)
    yield "paged capacity", f"{report.paged_capacity:,}", f"sequences like these: {pool:,} ÷ {each} blocks"


def _whether_they_fit(found: Sizing) -> str:
    report, fit = found.report, found.fit
    if report.pool_blocks is not None:
        short = report.blocks_short
        used = f"{report.blocks_used:,} of {report.pool_blocks:,} blocks"
        end = f"{short:,} blocks short." if short else f"{used} used."
    elif fit is not None:
        short = fit.bytes_short
        used = f"{bytes_si(report.paged.reserved_bytes)} of {bytes_si(fit.budget_bytes)}"
        end = f"{bytes_si(short)} short." if short else f"{used} used."
    else:
        return ""
    return f"These {report.num_seqs:,} sequences {'do not fit' if short else 'fit'} at once: {end}"


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
    """The decimal unit a column of bytes is shown in: MB, and larger ones where two decimals still tell."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9)):
        if largest >= 100 * factor:
            return unit, factor
    return "MB", 1e6
