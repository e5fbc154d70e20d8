"""What a scheduler may be told: admission, order, victims, and how a victim is preempted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pagefault.errors import InputError

Admission = Literal["naive", "max_output", "watermark", "estimate"]
Prefill = Literal["chunked", "whole", "delivered"]
Policy = Literal["fcfs", "priority"]
First = Literal["running", "waiting"]
Victim = Literal["self", "newest", "oldest", "lowest_priority", "most_frames", "fewest_tokens"]
Preempt = Literal["restart", "recompute", "swap", "cheaper"]
Requeue = Literal["front", "back"]


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """How a scheduler decides. The defaults are those of a vLLM server, with a watermark.

    Attributes:
        max_num_seqs: Sequences that may run at once.
        max_num_batched_tokens: Tokens computed in one step, prompts and decodes together.
        max_model_len: Longest sequence, prompt and output together; what ``naive`` reserves for each.
        admission: What must be free before a sequence starts.
            ``naive``: `max_model_len` tokens, reserved in one run. ``max_output``: its prompt and maximal output,
            reserved. ``watermark``: its prompt, leaving `watermark` of the pool free. ``estimate``: its prompt, and
            the expected peak of everything running (with `watermark` on top) stays within the pool.
        watermark: Share of the pool that admission leaves free, 0 ≤ w < 1. It does not apply while nothing runs.
        reserve_full_prompt: The whole prompt must fit before its first chunk starts (it is checked, not reserved);
            otherwise the first chunk is enough. vLLM: ``scheduler_reserve_full_isl``.
        prefill: ``chunked``: as much of a prompt a step as the token budget leaves. ``whole``: a prompt in one step
            or not at all. ``delivered``: the prompt's KV arrives with the sequence (computed elsewhere; after a
            recompute that of its output, too), so it decodes from its first step on and each token is stored in
            the step that makes it.
        policy: ``fcfs`` or ``priority`` (smaller is more urgent, ties by order of submission).
        first: Who is served first in a step: those who ``running`` already (vLLM 1) or the ``waiting`` ones.
        victim: Who gives up frames when a running sequence faults and none is free. ``self``: the faulting one,
            after it stalled for more than `patience` steps in a row. The others are chosen at once. The head
            (see `scheduler`) never is one; where it would have to give way itself, the newest does. Only
            ``self`` with ``restart`` spares nobody: the write-up's rule, with which a run may never end.
        preempt: ``restart`` throws away generated tokens too, ``recompute`` keeps the tokens and prefills them
            again, ``swap`` moves the frames to the pager's host pool (and recomputes where they do not fit),
            ``cheaper`` asks the cost object which of the last two.
        requeue: Preempted sequences come back at the ``front`` (before anyone new) or at the ``back`` of the line.
        patience: Stalled steps in a row that ``self`` bears before it is preempted.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 32_768
    admission: Admission = "watermark"
    watermark: float = 0.01
    reserve_full_prompt: bool = True
    prefill: Prefill = "chunked"
    policy: Policy = "fcfs"
    first: First = "running"
    victim: Victim = "newest"
    preempt: Preempt = "recompute"
    requeue: Requeue = "front"
    patience: int = 48

    def __post_init__(self) -> None:
        for name, least in (
            ("max_num_seqs", 1),
            ("max_num_batched_tokens", 1),
            ("max_model_len", 1),
            ("patience", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} is {value!r}; expected an integer of at least {least}")
        if not 0 <= self.watermark < 1:
            raise InputError(
                f"watermark is {self.watermark}; expected a share of the pool, 0 <= w < 1 "
                "(at 1 nothing could ever be admitted): try 0.05"
            )
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise InputError(f"{name} is {value!r}; expected one of {', '.join(choices)}")

    @property
    def protects_head(self) -> bool:
        """Whether the head is served first and never preempted, so that every run ends."""
        return self.victim != "self" or self.preempt != "restart"


_CHOICES: dict[str, tuple[str, ...]] = {
    "admission": get_args(Admission),
    "prefill": get_args(Prefill),
    "policy": get_args(Policy),
    "first": get_args(First),
    "victim": get_args(Victim),
    "preempt": get_args(Preempt),
    "requeue": get_args(Requeue),
}
