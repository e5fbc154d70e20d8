"""Memory for pieces of results: made once, used by every decode step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.choose import Choice


class DecodeWorkspace:
    """Scratch memory of `paged_decode`: partial outputs and their log-sum-exps, fp32.

    One workspace serves any number of calls on one stream, one after another; two streams need two. It
    grows when a call needs more, which a captured graph must not see: call once with the largest shapes
    before capture, or give `rows` and `head_dim`.

    Args:
        device: Where the kernels run.
        rows: Partial results to hold: a piece of an item is one row a query head.
        head_dim: Width of a partial result.
    """

    def __init__(self, device: torch.device | str, rows: int = 0, head_dim: int = 1) -> None:
        self.device = torch.device(device)
        self.partials: Tensor = torch.empty(rows * head_dim, dtype=torch.float32, device=self.device)
        self.partial_lse: Tensor = torch.empty(rows, dtype=torch.float32, device=self.device)

    @classmethod
    def for_choice(cls, choice: Choice, head_dim: int, device: torch.device) -> DecodeWorkspace:
        """Just what one choice of kernel needs."""
        return cls(device, choice.partial_rows, head_dim)

    def reserve(self, rows: int, head_dim: int) -> None:
        """Grows to at least this size; what is large enough is left alone.

        Raises:
            InputError: It would have to grow while a CUDA graph is being captured.
        """
        if self.partials.numel() >= rows * head_dim and self.partial_lse.numel() >= rows:
            return
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise InputError(
                f"workspace: expected {rows} rows of {head_dim}, given {self.partial_lse.numel()} rows; "
                "it cannot grow during a graph capture: call once with these shapes before"
            )
        self.partials = torch.empty(rows * head_dim, dtype=torch.float32, device=self.device)
        self.partial_lse = torch.empty(rows, dtype=torch.float32, device=self.device)
