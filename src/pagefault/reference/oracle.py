"""Attention written the way a textbook writes it: one sequence and one query head at a time, float64.

Nothing here is fast and nothing here is clever; that is its purpose. The paged form gathers a
sequence's tokens through its page table and then calls the contiguous form on them, so that the two
agree bit for bit whatever order the frames have in the pool.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Attention of one sequence: ``softmax(scale · q kᵀ) v`` in float64.

    The queries are the last ones of the sequence: query *i* of *n* stands at position
    ``tokens - n + i``. Query head *h* reads KV head ``h // (heads // kv_heads)``. A logit goes through,
    in this order: scale, soft cap, ALiBi bias, mask.

    Args:
        q: ``[queries, heads, head_dim]``.
        k: ``[tokens, kv_heads, head_dim]``; `heads` is a multiple of `kv_heads`.
        v: Like `k`.
        scale: Factor of the logits; ``1 / sqrt(head_dim)`` if not given.
        causal: A query sees no position after its own. A single query at the end sees all of them
            either way.
        window: A query sees only the newest `window` positions up to its own, its own included
            (Mistral's sliding window).
        softcap: Logits become ``softcap · tanh(logit / softcap)`` (Gemma 2).
        alibi_slopes: ``[heads]``; ``slope · distance`` is taken off the logit of a key that stands
            `distance` positions before the query (ALiBi, Press et al. 2022).
        sinks: ``[heads]``; one more logit in the softmax's denominator, with no value (gpt-oss).

    Returns:
        The output ``[queries, heads, head_dim]`` and the natural logarithm of the softmax's
        denominator ``[queries, heads]``, sink included. A query that sees nothing gets zeros, and minus
        infinity (its sink, if there is one).

    Raises:
        InputError: The shapes do not go together.
    """
    q64, k64, v64 = (np.asarray(array, np.float64) for array in (q, k, v))
    _check_shapes(q64, k64, v64)
    queries, heads, head_dim = q64.shape
    tokens, kv_heads, _ = k64.shape
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    slopes = np.zeros(heads) if alibi_slopes is None else np.asarray(alibi_slopes, np.float64)
    sink = np.full(heads, -np.inf) if sinks is None else np.asarray(sinks, np.float64)

    # How far each key stands before each query; negative ones lie in the query's future.
    distance = (tokens - queries + np.arange(queries))[:, None] - np.arange(tokens)[None, :]
    seen = np.ones((queries, tokens), bool)
    if causal:
        seen &= distance >= 0
    if window is not None:
        seen &= distance < window

    out = np.zeros((queries, heads, head_dim))
    lse = np.empty((queries, heads))
    for head in range(heads):
        kv_head = head // (heads // kv_heads)
        logits = scale * (q64[:, head] @ k64[:, kv_head].T)
        if softcap is not None:
            logits = softcap * np.tanh(logits / softcap)
        logits = np.where(seen, logits - slopes[head] * distance, -np.inf)
        highest = np.maximum(logits.max(axis=1, initial=-np.inf), sink[head])
        shift = np.where(np.isfinite(highest), highest, 0.0)
        weights = np.exp(logits - shift[:, None])
        total = weights.sum(axis=1) + np.exp(sink[head] - shift)
        some = total > 0
        out[some, head] = (weights[some] @ v64[:, kv_head]) / total[some, None]
        lse[:, head] = shift + np.log(total, where=some, out=np.full(queries, -np.inf))
    return out, lse


def gather(pool: ArrayLike, pages: ArrayLike, tokens: int) -> Floats:
    """A sequence's first tokens in order, read through its page table.

    Token *t* lies in frame ``pages[t // block_size]`` at offset ``t % block_size``.

    Args:
        pool: ``[num_blocks, block_size, kv_heads, head_dim]``.
        pages: ``[pages]``, the frame of each page; entries past the last token are not read.
        tokens: How many tokens the sequence holds.

    Returns:
        ``[tokens, kv_heads, head_dim]`` in float64.

    Raises:
        InputError: The table has too few pages, or names a frame that the pool does not have.
    """
    pool = np.asarray(pool)
    frames = np.asarray(pages)
    num_blocks, block_size = pool.shape[:2]
    if tokens > frames.size * block_size:
        raise InputError(
            f"a sequence of {tokens} tokens needs {math.ceil(tokens / block_size)} pages of {block_size}, "
            f"but its page table has {frames.size}"
        )
    out = np.empty((tokens, *pool.shape[2:]))
    for token in range(tokens):
        frame = int(frames[token // block_size])
        if not 0 <= frame < num_blocks:
            raise InputError(
                f"page {token // block_size} names frame {frame}; the pool has {num_blocks} frames"
            )
        out[token] = pool[frame, token % block_size]
    return out


def paged_attention(
    q: ArrayLike,
    k_pool: ArrayLike,
    v_pool: ArrayLike,
    block_table: ArrayLike,
    lengths: ArrayLike,
    *,
    query_lengths: ArrayLike | None = None,
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Attention of a batch whose K and V lie in the frames of a pool: `gather`, then `attention`.

    Args:
        q: ``[queries, heads, head_dim]``, the sequences' queries one after another; without
            `query_lengths` one each (a decode step), so ``[batch, heads, head_dim]``.
        k_pool: ``[num_blocks, block_size, kv_heads, head_dim]``.
        v_pool: Like `k_pool`.
        block_table: ``[batch, max_pages]``, page → frame.
        lengths: ``[batch]``, tokens each sequence holds, its new ones included.
        query_lengths: ``[batch]``, how many of the last tokens are queries.
        scale: As in `attention`, and so are the others.
        causal: See `attention`.
        window: See `attention`.
        softcap: See `attention`.
        alibi_slopes: See `attention`.
        sinks: See `attention`.

    Returns:
        Output ``[queries, heads, head_dim]`` and log-sum-exp ``[queries, heads]``.

    Raises:
        InputError: The shapes do not go together, or a table is wrong.
    """
    q64 = np.asarray(q, np.float64)
    tables, counts = np.asarray(block_table), np.asarray(lengths)
    chunks = np.ones(len(counts), np.int64) if query_lengths is None else np.asarray(query_lengths, np.int64)
    if not len(tables) == len(counts) == len(chunks):
        raise InputError(
            f"block_table, lengths and query_lengths must have one row a sequence; given {len(tables)}, "
            f"{len(counts)} and {len(chunks)} rows"
        )
    if chunks.sum() != len(q64):
        raise InputError(f"the sequences have {chunks.sum()} queries in all; q has {len(q64)} rows")
    out = np.zeros(q64.shape)
    lse = np.empty(q64.shape[:2])
    start = 0
    for pages, tokens, chunk in zip(tables, counts, chunks, strict=True):
        rows = slice(start, start + int(chunk))
        out[rows], lse[rows] = attention(
            q64[rows],
            gather(k_pool, pages, int(tokens)),
            gather(v_pool, pages, int(tokens)),
            scale=scale,
            causal=causal,
            window=window,
            softcap=softcap,
            alibi_slopes=alibi_slopes,
            sinks=sinks,
        )
        start = rows.stop
    return out, lse


def _check_shapes(q: Floats, k: Floats, v: Floats) -> None:
    if q.ndim != 3 or k.ndim != 3 or k.shape != v.shape:
        raise InputError(
            "expected q [queries, heads, head_dim] and k, v [tokens, kv_heads, head_dim]; "
            f"given q {q.shape}, k {k.shape}, v {v.shape}"
        )
    if q.shape[2] != k.shape[2] or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise InputError(
            "q and k must have one head_dim, and q's heads must be a multiple of k's; "
            f"given q {q.shape}, k {k.shape}"
        )
