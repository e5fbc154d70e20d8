"""Requests, and the truth about each one: what happened to it, when, and for whose sake."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pagefault.errors import InputError
from pagefault.paging.block_keys import as_keys, key_bytes

if TYPE_CHECKING:
    from pagefault.paging.arrays import Keys


class Hasher(Protocol):
    """Makes the keys of blocks from token ids as they come; `paging.BlockHasher` is one."""

    def update(self, tokens: list[int]) -> Keys:
        """Keys of the blocks that these next tokens fill."""
        ...


class State(StrEnum):
    """Where a sequence is."""

    QUEUED = "queued"
    RUNNING = "running"
    PREEMPTED = "preempted"
    SWAPPED = "swapped"
    FINISHED = "finished"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a client asks for.

    Raises:
        InputError: Less than a token of prompt or output, or keys of another shape, or twice the same.

    Attributes:
        id: The caller's number for it; unique among the scheduler's unfinished requests.
        prompt_tokens: Tokens of the prompt, at least 1.
        max_tokens: Stop rule: the sequence is finished when it has so many output tokens, at least 1.
        priority: Smaller is more urgent; only read under the ``priority`` policy.
        keys: Keys of its full blocks, uint64 [n, 2], for the prefix cache; may go past the prompt where the
            keys of later blocks are known (in a simulation).
        stop_ids: Stop rule: token ids that end the sequence.
        hasher: Turns generated token ids into keys; None where `keys` has them or nothing is cached. It has
            seen the prompt already; it is copied, not changed.
    """

    id: int
    prompt_tokens: int
    max_tokens: int
    priority: int = 0
    keys: Keys | None = None
    stop_ids: frozenset[int] = frozenset()
    hasher: Hasher | None = None

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.max_tokens < 1:
            raise InputError(
                f"request {self.id} has a prompt of {self.prompt_tokens} tokens and asks for {self.max_tokens}; "
                "expected at least 1 of each"
            )
        if self.keys is not None:
            keys = as_keys(self.keys)
            if len(set(key_bytes(keys))) < len(keys):
                raise InputError(
                    f"request {self.id} has the same key for two blocks; a block's key stands for its whole prefix"
                )


@dataclass(frozen=True, slots=True)
class Preemption:
    """One sequence lost its frames.

    Attributes:
        time_ns: When it was decided.
        request: Who lost them.
        beneficiary: The sequence whose fault it was for; the same as `request` if it gave up itself.
        how: ``restart``, ``recompute`` or ``swap``.
        frames: Frames that came free (for swap: when the step is committed).
        lost_tokens: Computed tokens that must be computed again unless the prefix cache still has them.
        decoding: Whether it had produced a token already.
        recompute_ns: What recomputing would cost, where a cost object was asked.
        swap_ns: What swapping out and in would cost, where a cost object was asked.
    """

    time_ns: int
    request: int
    beneficiary: int
    how: str
    frames: int
    lost_tokens: int
    decoding: bool
    recompute_ns: int | None = None
    swap_ns: int | None = None


@dataclass(slots=True, eq=False)
class SequenceRecord:
    """The life of one sequence. Times are nanoseconds of whatever clock the caller's `now` comes from.

    Attributes:
        request: What was asked for.
        number: Its rank by order of submission.
        state: Where it is.
        queued_ns: When it was submitted.
        admitted_ns: When it first got frames, or None.
        first_token_ns: When its first output token was there, or None.
        finished_ns: When it ended, finished or cancelled, or None.
        row: Its row in the pager while it holds one, else -1.
        generated: Output tokens it has.
        computed_tokens: Tokens computed for it, counted again each time they are computed again.
        discarded_tokens: Output tokens that restarts threw away.
        hit_tokens: Prompt tokens the prefix cache had.
        repeated_hit_tokens: Tokens the prefix cache still had after a preemption.
        preemptions: Each time it lost its frames.
        token_ids: Output token ids, where the executor reports ids.
        keys: Keys of its full blocks as far as they are known, uint64 [n, 2].
        hasher: Makes the next ones.
    """

    request: Request
    number: int
    queued_ns: int
    state: State = State.QUEUED
    admitted_ns: int | None = None
    first_token_ns: int | None = None
    finished_ns: int | None = None
    row: int = -1
    generated: int = 0
    computed_tokens: int = 0
    discarded_tokens: int = 0
    hit_tokens: int = 0
    repeated_hit_tokens: int = 0
    preemptions: list[Preemption] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    keys: Keys | None = None
    hasher: Hasher | None = None

    @property
    def tokens(self) -> int:
        """Tokens whose content is known: the prompt and what was generated."""
        return self.request.prompt_tokens + self.generated

    def count_hit(self, tokens: int, again: bool) -> None:
        """The prefix cache had so many tokens; `again`: work of its own that a preemption had taken."""
        if again:
            self.repeated_hit_tokens += tokens
        else:
            self.hit_tokens += tokens

    def add_keys(self, keys: Keys) -> None:
        """Its next blocks are known by these keys."""
        self.keys = keys if self.keys is None else np.concatenate((self.keys, keys))

    def forget_output(self) -> None:
        """Back to the prompt: no output token, and only the keys that came with the request."""
        self.discarded_tokens += self.generated
        self.generated = 0
        self.token_ids.clear()
        self.keys, self.hasher = self.request.keys, copy(self.request.hasher)
