"""What must be free before a sequence starts."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import NeverFits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.paging import Pager, PrefixHit
    from pagefault.scheduling.config import SchedulerConfig
    from pagefault.scheduling.running import RunningSet
    from pagefault.scheduling.sequence import Request, SequenceRecord

_MEMORY = 4096  # finished sequences that the estimate learns from


@dataclass(frozen=True, slots=True)
class Offer:
    """What a sequence would take if it were admitted now.

    Attributes:
        frames: Frames that must be free for it: new ones, and cached ones that it would take by reference.
        reserve_tokens: Tokens to reserve room for at once; 0 where its pages come on demand.
        contiguous: Whether the reservation must be one run of frames.
    """

    frames: int
    reserve_tokens: int = 0
    contiguous: bool = False


class AdmissionControl:
    """Says yes or no to the next sequence in line; takes nothing itself."""

    def __init__(self, config: SchedulerConfig, pager: Pager) -> None:
        self._config = config
        self._pager = pager
        self.reserve_frames = int(config.watermark * pager.num_blocks)
        self._outputs: list[int] = []  # sorted output lengths of the last finished sequences
        self._recent: deque[int] = deque()

    def pages(self, tokens: int) -> int:
        """Blocks that so many tokens fill, the last one perhaps in part."""
        return -(-tokens // self._pager.block_size)

    def most_tokens(self, request: Request) -> int:
        """Tokens a sequence stores at its end: the last output token is stored only where KV is delivered."""
        return request.prompt_tokens + request.max_tokens - (self._config.prefill != "delivered")

    def refuse(self, request: Request) -> None:
        """Turn down what could never run, however long it waits.

        Raises:
            NeverFits: Its longest is more than `max_model_len`, the pool or the page tables, or with ``whole``
                prefill more than a step's tokens.
        """
        config, total = self._config, request.prompt_tokens + request.max_tokens
        what = f"request {request.id} (prompt {request.prompt_tokens} + output {request.max_tokens})"
        if total > config.max_model_len:
            raise NeverFits(
                f"{what} is longer than max_model_len {config.max_model_len}; raise it or cut the request"
            )
        naive = config.admission == "naive"
        stored = config.max_model_len if naive else self.most_tokens(request)
        pages = self.pages(stored)
        if pages > self._pager.num_blocks:
            raise NeverFits(
                f"{what} needs {pages} blocks for {stored} tokens{' (naive reserves max_model_len)' if naive else ''}, "
                f"more than the whole pool of {self._pager.num_blocks}; give the pool at least {pages} blocks"
            )
        if pages > self._pager.max_pages:
            raise NeverFits(
                f"{what} needs {pages} blocks for {stored} tokens, but a row of the page tables has "
                f"{self._pager.max_pages}; make the pager with max_seq_len={stored}"
            )
        at_once = request.prompt_tokens if config.preempt == "restart" else total - 1
        if config.prefill == "whole" and at_once > config.max_num_batched_tokens:
            raise NeverFits(
                f"{what} may have to prefill {at_once} tokens in one step, more than max_num_batched_tokens "
                f"{config.max_num_batched_tokens}; raise it, or use chunked prefill"
            )

    def offer(self, sequence: SequenceRecord, stored: int, hit: PrefixHit) -> Offer:
        """What admission would take.

        Args:
            sequence: Who.
            stored: Tokens that have to fit before it starts.
            hit: What of them the prefix cache has. Taking blocks that nobody references uses up free frames, too.
        """
        if self._config.admission == "naive":
            total = self._config.max_model_len
            return Offer(self.pages(total), total, contiguous=True)
        if self._config.admission == "max_output":
            total = self.most_tokens(sequence.request)
            return Offer(self.pages(total) - hit.blocks + hit.cached, total)
        return Offer(self.pages(stored) - hit.blocks + hit.cached)

    def admits(self, sequence: SequenceRecord, offer: Offer, running: RunningSet) -> bool:
        """Whether the offer fits, with the reserve that running sequences may grow into left free."""
        free = self._pager.free_frames
        if not len(running) or offer.reserve_tokens:
            return offer.frames <= free
        if offer.frames > free - self.reserve_frames:
            return False
        if self._config.admission == "estimate":
            return self.expected_peak(sequence, running) <= self._pager.num_blocks - self.reserve_frames
        return True

    def learn(self, output_tokens: int) -> None:
        """A sequence finished with so many output tokens."""
        if len(self._recent) == _MEMORY:
            gone = self._recent.popleft()
            self._outputs.pop(bisect_left(self._outputs, gone))
        self._recent.append(output_tokens)
        insort(self._outputs, output_tokens)

    def expected_peak(self, sequence: SequenceRecord, running: RunningSet) -> int:
        """Frames that everything running and this sequence will hold at their fullest, as far as one can tell.

        Each sequence is expected to end at the mean output length of those finished sequences that went further
        than it has, at most its `max_tokens`; with none to learn from, at `max_tokens`. As the sequences end one
        after another, the fullest moment is one of these ends: with remaining outputs in descending order r₁ ≥ r₂ …,
        it is the largest over k of Σ_{i≤k} (tokens of i) + k·r_k, the rule of LightLLM's past-future
        scheduler (Gong et al., ASPLOS 2025). A block a sequence is added for partly filled tails.
        """
        rows = running.rows
        generated = np.append(running.generated[rows], sequence.generated)
        limit = np.append(running.limit[rows], sequence.request.max_tokens)
        tokens = np.append(running.known[rows], sequence.tokens)
        remaining = np.maximum(self._expected_output(generated, limit) - generated, 1)
        order = np.argsort(-remaining, kind="stable")
        held = np.cumsum(tokens[order]) + remaining[order] * np.arange(1, order.size + 1)
        return int(held.max()) // self._pager.block_size + order.size

    def _expected_output(self, generated: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self._outputs:
            return limit
        seen = np.array(self._outputs)
        tails = np.append(np.cumsum(seen[::-1])[::-1], 0)  # tails[i]: sum of seen[i:]
        first = np.searchsorted(seen, generated, side="right")
        longer = seen.size - first  # how many went further
        mean = np.where(longer > 0, -(-tails[first] // np.maximum(longer, 1)), limit)
        return np.minimum(mean, limit)
