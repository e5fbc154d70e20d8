"""The trace formats PageFault knows: a table, and the rule that recognises one by its first line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Format:
    """What tells a trace format from the others, and which of its fields mean what.

    Attributes:
        name: Short name, as in ``--json``.
        title: For people.
        kind: How a line is written.
        time: Field with the arrival.
        prompt: Field with the prompt's length in tokens.
        output: Field with the output's length in tokens; 0 marks a request that failed.
        required: Fields without which it is not this format.
        optional: Further fields that are read where they are there.
        hash_tokens: Prompt tokens that one of the ids in ``hash_ids`` stands for; 0 without ids.
        absolute: Arrivals are on a clock of their own (a date, a counter), so they are shifted to begin at 0.
        source: Where the format is published.
    """

    name: str
    title: str
    kind: Literal["csv", "jsonl"]
    time: str
    prompt: str
    output: str
    required: tuple[str, ...]
    source: str
    optional: tuple[str, ...] = ()
    hash_tokens: int = 0
    absolute: bool = False


FORMATS = (
    Format(
        name="azure",
        title="Azure LLM inference trace",
        kind="csv",
        time="TIMESTAMP",
        prompt="ContextTokens",
        output="GeneratedTokens",
        required=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        absolute=True,
        source="https://github.com/Azure/AzurePublicDataset",
    ),
    Format(
        name="burstgpt",
        title="BurstGPT trace",
        kind="csv",
        time="Timestamp",
        prompt="Request tokens",
        output="Response tokens",
        required=("Timestamp", "Model", "Request tokens", "Response tokens"),
        optional=("Session ID",),  # from release 2 on
        absolute=True,
        source="https://github.com/HPMLL/BurstGPT",
    ),
    Format(
        name="vidur",
        title="Vidur trace",
        kind="csv",
        time="arrived_at",
        prompt="num_prefill_tokens",
        output="num_decode_tokens",
        required=("num_prefill_tokens", "num_decode_tokens"),
        optional=("arrived_at",),
        source="https://github.com/microsoft/vidur",
    ),
    Format(
        name="bailian",
        title="Qwen-Bailian trace",
        kind="jsonl",
        time="timestamp",
        prompt="input_length",
        output="output_length",
        required=("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids"),
        hash_tokens=16,
        source="https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon",
    ),
    Format(
        name="mooncake",
        title="Mooncake trace",
        kind="jsonl",
        time="timestamp",
        prompt="input_length",
        output="output_length",
        required=("timestamp", "input_length", "output_length", "hash_ids"),
        hash_tokens=512,
        source="https://github.com/kvcache-ai/Mooncake",
    ),
    Format(
        name="llmservingsim",
        title="LLMServingSim trace",
        kind="jsonl",
        time="arrival_time_ns",
        prompt="input_toks",
        output="output_toks",
        required=("input_toks", "output_toks", "arrival_time_ns"),
        source="https://github.com/casys-kaist/LLMServingSim",
    ),
)
"""Formats that `read_trace` knows, in order of recognition: one whose fields include another's comes before it."""


def recognise(kind: str, fields: set[str]) -> Format | None:
    """The format of lines of this kind that have these fields; None if there is none."""
    return next((known for known in FORMATS if known.kind == kind and fields >= set(known.required)), None)


def known_formats() -> str:
    """All formats with their fields, for a message."""
    return "; ".join(f"{known.title} ({known.kind}: {', '.join(known.required)})" for known in FORMATS)
