"""Copies rows of one tensor to rows of another: frames of a pool, or of a staging buffer."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl


@triton.jit
def copy_rows(source, target, source_rows, target_rows, words, CHUNK: tl.constexpr):
    """Program *(i, j)* copies the *j*-th `CHUNK` words of the *i*-th row.

    Rows are `words` machine words long and lie one after another. `source_rows` and `target_rows` say which;
    without them it is row *i*. A copy with a negative row on either side is skipped.
    """
    copy = tl.program_id(0)
    from_row = copy.to(tl.int64)
    to_row = copy.to(tl.int64)
    if source_rows is not None:
        from_row = tl.load(source_rows + copy).to(tl.int64)
    if target_rows is not None:
        to_row = tl.load(target_rows + copy).to(tl.int64)
    if (from_row >= 0) & (to_row >= 0):
        word = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
        mask = word < words
        tl.store(
            target + to_row * words + word, tl.load(source + from_row * words + word, mask=mask), mask=mask
        )
