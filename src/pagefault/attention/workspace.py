"""Memory for pieces of results: made once, used by every decode step."""

from __future__ import annotations

import torch

from pagefault.attention import backend as backends
from pagefault.attention.choose import most_partial_rows
from pagefault.errors import InputError


class DecodeWorkspace:
    """Scratch memory of `paged_decode`: partial sums of values, fp32, and what they were scaled by.

    One workspace serves any number of calls on one stream, one after another; two streams need two. It
    never grows, so that a captured graph can rely on it.

    Args:
        device: Where the kernels run.
        rows: Partial results to hold: a piece of an item is one row a query head.
        head_dim: Width of a partial result.
    """

    def __init__(self, device: torch.device | str, rows: int, head_dim: int) -> None:
        self.partials = torch.empty(rows * head_dim, dtype=torch.float32, device=device)
        # Highest logit and sum of weights of each row.
        self.partial_stats = torch.empty(2 * rows, dtype=torch.float32, device=device)

    @classmethod
    def for_decode(
        cls,
        *,
        heads: int,
        kv_heads: int,
        head_dim: int,
        device: torch.device | str,
        split_tokens: int | None = None,
        batch: int = 0,
        max_tokens: int = 0,
    ) -> DecodeWorkspace:
        """Enough for every batch of these heads; with fixed splits, for batches up to the one named, split or not.

        Args:
            heads: Query heads.
            kv_heads: KV heads.
            head_dim: Values a head.
            device: Where the kernels run.
            split_tokens: As in `paged_decode`.
            batch: The largest batch; only with `split_tokens`.
            max_tokens: The most tokens a table can name; only with `split_tokens`.

        Returns:
            A workspace, some megabytes large.

        Raises:
            InputError: A number is not positive, the heads do not divide, or there is no such device.
        """
        sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
        if split_tokens is not None:
            sizes |= {"split_tokens": split_tokens, "batch": batch, "max_tokens": max_tokens}
        for name, size in sizes.items():
            if size < 1:
                raise InputError(
                    f"{name}: expected at least 1{' with split_tokens' * (split_tokens is not None)}, given {size}"
                )
        if heads % kv_heads:
            raise InputError(f"heads: expected a multiple of the {kv_heads} KV heads, given {heads}")
        where = backends.usable(device)
        rows = most_partial_rows(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            multiprocessors=backends.multiprocessors(where),
        )
        if split_tokens is not None:
            rows = max(rows, batch * heads * -(-max_tokens // split_tokens))
        return cls(where, rows, head_dim)

    def check(self, rows: int, head_dim: int, device: torch.device) -> None:
        """That it can hold this much.

        Raises:
            InputError: It cannot, or lies on another device.
        """
        if self.partials.device != device:
            raise InputError(f"workspace: expected on {device}, given on {self.partials.device}")
        if self.partials.numel() < rows * head_dim or self.partial_stats.numel() < 2 * rows:
            raise InputError(
                f"workspace: expected room for {rows} rows of {head_dim}, given {self.partials.numel()} values and "
                f"{self.partial_stats.numel() // 2} rows; make it with DecodeWorkspace.for_decode, for fixed splits "
                "with its split_tokens, batch and max_tokens"
            )
