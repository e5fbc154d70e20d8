"""Parsers of the formats with one JSON object a line.

The only module of the room that needs msgspec; the reader imports it when it meets such a file.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pagefault.workload.batch import BadLine, Batch, decode, to_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.workload.batch import Parser
    from pagefault.workload.formats import Format


class Mooncake(msgspec.Struct, gc=False):
    """``timestamp`` in milliseconds; ids are global over the trace."""

    timestamp: int | float
    input_length: int
    output_length: int
    hash_ids: list[int]

    unit_ns = 10**6


class Bailian(msgspec.Struct, gc=False):
    """``timestamp`` in seconds; ``parent_chat_id`` is -1 for the first turn of a conversation."""

    chat_id: int
    parent_chat_id: int
    timestamp: int | float
    input_length: int
    output_length: int
    hash_ids: list[int]

    unit_ns = 10**9


class LLMServingSim(msgspec.Struct, gc=False):
    """Lengths and arrivals only."""

    input_toks: int
    output_toks: int
    arrival_time_ns: int | float

    unit_ns = 1


ROWS: dict[str, type[Mooncake | Bailian | LLMServingSim]] = {
    "mooncake": Mooncake,
    "bailian": Bailian,
    "llmservingsim": LLMServingSim,
}


def json_parser(layout: Format) -> Parser:
    """A parser of lines in this format (see `batch.Parser`); further keys are ignored."""
    row_type = ROWS[layout.name]
    decode_line = msgspec.json.Decoder(row_type).decode

    def parse(lines: list[bytes]) -> Batch | None:
        filled = [line for line in lines if line.strip()]
        if not filled:
            return None
        decode(filled)
        try:
            rows: list[Any] = [decode_line(line) for line in filled]
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadLine(_explain(layout, str(error))) from None

        def column(field: str) -> NDArray[np.int64]:
            return _integers(field, [getattr(row, field) for row in rows])

        batch = Batch(
            arrival_ns=to_ns(layout.time, [getattr(row, layout.time) for row in rows], row_type.unit_ns),
            prompt_tokens=column(layout.prompt),
            output_tokens=column(layout.output),
        )
        if layout.hash_tokens:
            ids = [row.hash_ids for row in rows]
            batch.hash_counts = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
            batch.hash_ids = _integers("hash_ids", list(chain.from_iterable(ids)))
        if row_type is Bailian:
            batch.session, batch.parent = column("chat_id"), column("parent_chat_id")
        return batch.checked(layout)

    return parse


def _integers(field: str, values: list[int]) -> NDArray[np.int64]:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        raise BadLine(f"{field}: expected numbers below 2^63, found {max(values, key=abs)}") from None


def _explain(layout: Format, error: str) -> str:
    """What msgspec says, in this room's words."""
    place = re.search(r" - at `\$\.?(.*?)`$", error)
    if place:
        what = error[: place.start()].replace("`", "")
        return f"{place[1] or 'line'}: {what[0].lower()}{what[1:]}"
    return f"expected a JSON object with {', '.join(layout.required)}: {error.replace('`', '')}"
