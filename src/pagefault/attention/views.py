"""What attention asks of a cache: K, V, where the tokens are, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class KVView(Protocol):
    """What a paged and a contiguous view have in common."""

    @property
    def k(self) -> Tensor:
        """The keys of one layer, four axes, the last one `head_dim` and contiguous."""

    @property
    def v(self) -> Tensor:
        """The values: shape, strides and dtype as `k`."""

    @property
    def lengths(self) -> Tensor:
        """int32 ``[batch]``: tokens each sequence holds."""

    @property
    def k_scale(self) -> Tensor | None:
        """fp32 ``[1]`` or ``[kv_heads]``, above 0: what stored fp8 keys are multiplied by; None for 16 and 32 bit."""

    @property
    def v_scale(self) -> Tensor | None:
        """The same for the values."""


class PagedView(KVView, Protocol):
    """One layer of a paged cache, for one batch.

    `k` and `v` are ``[num_blocks, block_size, kv_heads, head_dim]`` with any strides but the last, so a layer
    may lie inside larger frames, K and V side by side, tokens or heads first; those of `v` are those of `k`. Lengths
    and frame numbers live on the device: the kernels do not check them, PyTorch's path does.
    """

    @property
    def block_table(self) -> Tensor:
        """int32 ``[batch, max_pages]``: page → frame.

        What stands past a sequence's last page does not matter, nor what stands before the first that a window shows.
        """

    @property
    def block_size(self) -> int:
        """Tokens a block: a power of two, 1 to 256."""


class ContiguousView(KVView, Protocol):
    """One layer of a contiguous cache: `k` and `v` are ``[batch, max_tokens, kv_heads, head_dim]``."""


@dataclass(frozen=True, slots=True)
class PagedKV:
    """Plain tensors as a `PagedView`."""

    k: Tensor
    v: Tensor
    block_table: Tensor
    lengths: Tensor
    k_scale: Tensor | None = None
    v_scale: Tensor | None = None

    @property
    def block_size(self) -> int:
        """Tokens a block, read off the pool's shape."""
        return int(self.k.shape[1])


@dataclass(frozen=True, slots=True)
class ContiguousKV:
    """Plain tensors as a `ContiguousView`."""

    k: Tensor
    v: Tensor
    lengths: Tensor
    k_scale: Tensor | None = None
    v_scale: Tensor | None = None


def scale_stride(view: KVView) -> int:
    """From one KV head's scales to the next one's: 0 where all share one, or there are none."""
    return 0 if view.k_scale is None or view.k_scale.numel() == 1 else 1
