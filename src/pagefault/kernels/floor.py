"""Reads the valid K and V of a batch through its block table and does no attention: the floor of a case."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl


@triton.jit
def read_floor(
    k,
    v,
    block_table,
    lengths,
    checksums,
    stride_table,
    stride_block,
    stride_token,
    stride_head,
    KV_HEADS: tl.constexpr,
    HEAD_WORDS: tl.constexpr,
    HEADS_FIRST: tl.constexpr,
    BLOCK: tl.constexpr,
    TOKENS: tl.constexpr,
    WORDS_P2: tl.constexpr,
):
    """`TOKENS` tokens of one sequence a program; K and V are words of 4 bytes, and so are the strides.

    The exclusive or of what was read is stored, so that no load can be left out. Lanes run along whatever
    is contiguous in a frame (`HEADS_FIRST`: the tokens of one head), in loads of 16 bytes.
    """
    row = tl.program_id(1)
    first = tl.program_id(0) * TOKENS
    tokens = tl.load(lengths + row)
    if first < tokens:
        at = tl.arange(0, WORDS_P2)
        word = at % HEAD_WORDS
        if HEADS_FIRST:
            lane = (at // HEAD_WORDS) % TOKENS
            head = at // (HEAD_WORDS * TOKENS)
        else:
            head = (at // HEAD_WORDS) % KV_HEADS
            lane = at // (HEAD_WORDS * KV_HEADS)
        token = first + lane
        mask = (token < tokens) & (head < KV_HEADS) & (lane < TOKENS)
        table_row = block_table + row.to(tl.int64) * stride_table
        if BLOCK % TOKENS == 0:
            frame = tl.load(table_row + first // BLOCK).to(tl.int64)
        else:
            frame = tl.load(table_row + token // BLOCK, mask=mask, other=0).to(tl.int64)
        offset = frame * stride_block + (token % BLOCK) * stride_token + head * stride_head + word
        seen = tl.load(k + offset, mask=mask, other=0) ^ tl.load(v + offset, mask=mask, other=0)
        tl.store(checksums + row * tl.num_programs(0) + tl.program_id(0), tl.xor_sum(seen, 0))
