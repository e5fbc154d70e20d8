"""Append, copy, gather and scatter against plain indexing; each check returns what went wrong, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pagefault.attention import PagedKV, append, copy_frames, gather_frames, scatter_frames

if TYPE_CHECKING:
    from collections.abc import Callable


def check_append(device: str) -> str:
    for heads_first in (False, True):
        rng = torch.Generator().manual_seed(1)
        kv_heads, head_dim, size, frames, tokens = 3, 80, 8, 6, 11
        inner = (kv_heads, size) if heads_first else (size, kv_heads)
        pool = torch.randn(frames, 2, *inner, head_dim, generator=rng).to(device)
        view = pool.transpose(2, 3) if heads_first else pool
        table = torch.zeros(1, 1, dtype=torch.int32, device=device)
        paged = PagedKV(view[:, 0], view[:, 1], table, torch.zeros(1, dtype=torch.int32, device=device))
        fused = torch.randn(tokens, 2 * kv_heads, head_dim, generator=rng).to(device)
        k_new, v_new = fused[:, :kv_heads], fused[:, kv_heads:]
        slots = torch.randperm(frames * size, generator=rng)[:tokens].to(device)
        slots[4] = -1
        expected = view.clone()
        for token, slot in enumerate(slots.tolist()):
            if slot >= 0:
                expected[slot // size, 0, slot % size] = k_new[token]
                expected[slot // size, 1, slot % size] = v_new[token]
        append(k_new, v_new, slots, paged, backend="triton")
        if not torch.equal(view, expected):
            return f"append wrote something else ({heads_first=})"
    return ""


def check_copies(device: str) -> str:
    for dtype, inner in ((torch.float16, (2, 3, 8, 64)), (torch.float16, (5, 3)), (torch.uint8, (7,))):
        rng = torch.Generator().manual_seed(2)
        pool = (
            torch.randint(-100 if dtype != torch.uint8 else 0, 100, (9, *inner), generator=rng)
            .to(dtype)
            .to(device)
        )
        source = torch.tensor([3, 5, -1], dtype=torch.int32, device=device)
        target = torch.tensor([7, 0, 8], dtype=torch.int32, device=device)
        expected = pool.clone()
        expected[7], expected[0] = pool[3], pool[5]
        copy_frames(pool, source, target, backend="triton")
        if not torch.equal(pool, expected):
            return f"copy_frames wrote something else ({dtype}, {inner})"
        staging = torch.zeros(4, *inner, dtype=dtype, device=device)
        frames = torch.tensor([8, 2, 4], device=device)
        gather_frames(pool, frames, staging, backend="triton")
        if not (torch.equal(staging[:3], pool[frames]) and not staging[3].any()):
            return f"gather_frames read something else ({dtype}, {inner})"
        back = torch.zeros_like(pool)
        scatter_frames(staging, frames, back, backend="triton")
        rest = [frame for frame in range(9) if frame not in (8, 2, 4)]
        if not (torch.equal(back[frames], pool[frames]) and not back[rest].any()):
            return f"scatter_frames wrote something else ({dtype}, {inner})"
    return ""


FRAME_CHECKS: dict[str, Callable[[str], str]] = {"append": check_append, "copies": check_copies}
