"""How a decode step is launched: a kernel that makes pieces, and the merge of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagefault.attention import backend as backends
from pagefault.attention import validate
from pagefault.attention.choose import next_power_of_2
from pagefault.attention.pool_matrix import head_matrix
from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.choose import Choice
    from pagefault.attention.pool_matrix import PoolMatrix
    from pagefault.attention.variant import Variant
    from pagefault.attention.views import KVView
    from pagefault.attention.workspace import DecodeWorkspace


@dataclass(frozen=True, slots=True)
class Source:
    """Where K and V are: a view, its table (None: contiguous), and the most tokens a sequence can have."""

    view: KVView
    block_table: Tensor | None
    block_size: int
    max_tokens: int


def launch(
    q: Tensor,
    source: Source,
    variant: Variant,
    out: Tensor,
    lse: Tensor | None,
    workspace: DecodeWorkspace,
    choice: Choice,
) -> None:
    """The two launches: pieces, then their merge. Host work only: no allocation, no synchronization."""
    view = source.view
    batch, _, head_dim = (int(size) for size in q.shape)
    dependent = backends.has_dependent_launch(q.device)
    shared: dict[str, Any] = {
        "lengths": view.lengths,
        "out": out,
        "lse": lse,
        "partials": workspace.partials,
        "partial_stats": workspace.partial_stats,
        "batch": batch,
        "programs": choice.programs,
        "stride_out": out.stride(0),
        "stride_out_head": out.stride(1),
        "HEAD_DIM": head_dim,
        "TILE": choice.tile,
        "EXTRA": choice.extra,
        # At least 16, so that small batches share one compilation.
        "BATCH_P2": max(16, next_power_of_2(batch)),
    }
    portable = {
        "sinks": variant.sinks,
        "window": variant.window,
        "DIM_P2": max(16, next_power_of_2(head_dim)),
        "SPLIT": choice.split,
    }
    pieces = {"WAIT": dependent and choice.follow_early, "TRIGGER": dependent, "num_warps": choice.warps}
    pieces |= _dependent_launch(dependent and choice.follow_early)
    if choice.kernel == "hopper":
        _launch_hopper(q, source, variant, choice, shared | pieces)
    else:
        _launch_portable(q, source, variant, choice, shared | pieces | portable)
    items = int(view.k.shape[2]) // choice.heads
    by_item = choice.split > 0 or batch * items < choice.programs
    boundaries = batch * items if by_item else choice.programs - 1
    if boundaries:
        backends.kernel_module("combine").combine[(boundaries, -(-choice.item_rows // choice.combine_rows))](
            **shared,
            **portable,
            ITEMS=items,
            ROWS=choice.item_rows,
            ROWS_P2=choice.combine_rows,
            BY_ITEM=by_item,
            CHUNK=choice.combine_chunk,
            WAIT=dependent,
            num_warps=choice.combine_warps,
            **_dependent_launch(dependent),
        )


def _launch_portable(
    q: Tensor, source: Source, variant: Variant, choice: Choice, common: dict[str, Any]
) -> None:
    view, block_table = source.view, source.block_table
    kv_heads = int(view.k.shape[2])
    group = int(q.shape[1]) // kv_heads
    own: dict[str, Any] = {
        "q": q,
        "k": view.k,
        "v": view.v,
        "block_table": block_table,
        "slopes": variant.alibi_slopes,
        "scale": variant.scale,
        "softcap": variant.softcap,
        "stride_table": 0 if block_table is None else block_table.stride(0),
        "stride_block": view.k.stride(0),
        "stride_token": view.k.stride(1),
        "stride_head": view.k.stride(2),
        "stride_q": q.stride(0),
        "stride_q_head": q.stride(1),
        "KV_HEADS": kv_heads,
        "GROUP": group,
        "GROUP_P2": max(16, next_power_of_2(group)),  # a matrix unit's smallest side
        "PAGED": block_table is not None,
        "BLOCK": source.block_size,
        "STAGES": choice.depth if block_table is None else 2 * choice.depth - 1,
    }
    if choice.kernel == "heads":
        kernel = backends.kernel_module("decode_heads").decode_heads
        own["HEADS"] = choice.heads
    else:
        kernel = backends.kernel_module("decode_head").decode_head
        own |= {
            "FP8": view.k.dtype == validate.FP8,
            "k_scale": view.k_scale,
            "v_scale": view.v_scale,
            "stride_scale": 0 if view.k_scale is None or view.k_scale.numel() == 1 else 1,
        }
    kernel[(choice.programs,)](**common, **own)


def hopper_matrix(q: Tensor, source: Source, variant: Variant) -> PoolMatrix | None:
    """The pool as the Hopper kernel copies it, or None where device, pool or call do not suit that kernel."""
    kv_heads, head_dim = int(source.view.k.shape[2]), int(q.shape[2])
    suits = (
        source.block_table is not None
        and backends.has_warpgroup_mma(q.device)
        and variant.plain
        and variant.window is None
        and head_dim in (64, 128)
        and kv_heads in (1, 2, 4, 8)
        and int(q.shape[1]) <= 64
    )
    return head_matrix(source.view) if suits else None


def _launch_hopper(
    q: Tensor, source: Source, variant: Variant, choice: Choice, common: dict[str, Any]
) -> None:
    view, block_table = source.view, source.block_table
    matrix = hopper_matrix(q, source, variant)
    if matrix is None or block_table is None:
        raise InputError(
            "choice: the hopper kernel needs a Hopper GPU, 16-bit pages with heads side by side, 1, 2, 4 or 8 KV heads "
            "of 64 or 128, at most 64 query heads, and no variants"
        )
    heads, kv_heads = int(q.shape[1]), int(view.k.shape[2])
    box = min(source.block_size, choice.tile)
    backends.kernel_module("decode_hopper").decode_hopper[(choice.programs,)](
        **common,
        q=q,
        k_boxes=matrix.boxes(view.k, box),
        v_boxes=matrix.boxes(view.v, box),
        block_table=block_table,
        scale=variant.scale,
        stride_table=block_table.stride(0),
        frame_rows=matrix.frame_rows,
        stride_q=q.stride(0),
        stride_q_head=q.stride(1),
        KV_HEADS=kv_heads,
        HEADS=heads,
        HEADS_P2=max(8, next_power_of_2(heads)),  # a matrix unit's smallest side
        BLOCK=source.block_size,
        BOX=box,
        BUFFERS=choice.depth,
    )


def _dependent_launch(wanted: bool) -> dict[str, bool]:
    """The launch option by name: only where it is meant, as Triton's interpreter does not know it."""
    return {"launch_pdl": True} if wanted else {}
