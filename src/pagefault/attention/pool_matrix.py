"""The pool as a matrix, which is how the copy engine of a Hopper GPU (TMA) takes boxes of tokens out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.views import PagedView

SMALLEST_BOX = 8  # rows: a period of the swizzle in shared memory
BOX_VALUES = 64  # columns: the 128 bytes of a swizzled row, in 16 bit


@dataclass(frozen=True, slots=True)
class PoolMatrix:
    """K (or V) with a row for every `stride` elements of memory.

    The token at offset o of frame f and KV head h is row ``f * frame_rows + h * head_rows + o``, from column
    ``h * head_columns`` on.

    Attributes:
        rows: Rows up to the last token of the last frame.
        columns: Values of a row that are K.
        stride: Elements from one row to the next.
        frame_rows: See above, and so are the next two.
        head_rows: 0 where tokens are outside of heads.
        head_columns: 0 where heads are outside of tokens.
    """

    rows: int
    columns: int
    stride: int
    frame_rows: int
    head_rows: int
    head_columns: int

    def boxes(self, base: Tensor, tokens: int) -> Any:
        """A descriptor of boxes of so many tokens by 64 values."""
        from triton.experimental.gluon.language import NVMMASharedLayout
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

        layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
        shape, strides = [self.rows, self.columns], [self.stride, 1]
        return TensorDescriptor(base, shape, strides, [tokens, BOX_VALUES], layout)


def pool_matrix(view: PagedView) -> PoolMatrix | None:
    """The matrix, or None where a copy engine cannot take it: tiny blocks, 8-bit or 32-bit values, odd strides."""
    k = view.k
    (frames, block, heads, dim), (of_frame, of_token, of_head, _) = k.shape, k.stride()
    bases = (k.data_ptr(), view.v.data_ptr())
    if block < SMALLEST_BOX or k.element_size() != 2 or of_token % 8 or any(base % 16 for base in bases):
        return None
    if of_frame % of_token:
        return None
    if of_head <= of_token and (heads - 1) * of_head + dim <= of_token:
        head_rows, head_columns = 0, int(of_head)
    elif of_head % of_token == 0:
        head_rows, head_columns = int(of_head // of_token), 0
    else:
        return None
    frame_rows = int(of_frame // of_token)
    rows = (int(frames) - 1) * frame_rows + (int(heads) - 1) * head_rows + int(block)
    if rows >= 2**31:
        return None
    columns = (int(heads) - 1) * head_columns + int(dim)
    return PoolMatrix(rows, columns, int(of_token), frame_rows, head_rows, head_columns)
