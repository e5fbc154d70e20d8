"""Who sends requests into a simulation: a trace with its arrivals, or workers that wait for their last job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from pagefault.errors import InputError
from pagefault.paging import keys_from_ids, private_keys
from pagefault.scheduling import Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.paging.arrays import Keys
    from pagefault.workload import Workload

    Ints = NDArray[np.int64]


class Source(Protocol):
    """Requests, handed out one at a time in order of arrival."""

    def __len__(self) -> int:
        """Requests in all."""
        ...

    def start(self) -> list[tuple[int, Request]]:
        """The first arrivals, (time in ns, request), in order."""
        ...

    def after_arrival(self, request: Request) -> list[tuple[int, Request]]:
        """What the arrival of a request brings next."""
        ...

    def after_end(self, request: Request, now_ns: int) -> list[tuple[int, Request]]:
        """What the end of a request (finished, cancelled or refused) brings next."""
        ...


class OpenLoop:
    """Arrivals at their own times, whatever the server does: a trace, or a Poisson process.

    Requests are made when they are due, so a long trace does not hold its block keys all at once. A prompt's keys
    come from the trace's hash ids where it has them; other blocks (and all that is generated) get keys of
    their own, so that a preempted sequence finds its own work and nobody else does.
    """

    def __init__(self, workload: Workload, block_size: int, keys: bool = True) -> None:
        self._workload = workload
        self._block_size = block_size
        self._with_keys = keys

    def __len__(self) -> int:
        return len(self._workload)

    def start(self) -> list[tuple[int, Request]]:
        """See `Source`."""
        return self._at(0)

    def after_arrival(self, request: Request) -> list[tuple[int, Request]]:
        """See `Source`."""
        return self._at(request.id + 1)

    def after_end(self, request: Request, now_ns: int) -> list[tuple[int, Request]]:  # noqa: ARG002
        """See `Source`: nothing waits for an end."""
        return []

    def _at(self, index: int) -> list[tuple[int, Request]]:
        load = self._workload
        if index >= len(load):
            return []
        prompt, output = int(load.prompt_tokens[index]), int(load.output_tokens[index])
        request = Request(
            id=index,
            prompt_tokens=prompt,
            max_tokens=output,
            priority=0 if load.priority is None else int(load.priority[index]),
            keys=self._keys(index, prompt, output) if self._with_keys else None,
        )
        return [(int(load.arrival_ns[index]), request)]

    def _keys(self, index: int, prompt: int, output: int) -> Keys:
        load = self._workload
        blocks = (prompt + output) // self._block_size
        if load.hash_offsets is None or load.hash_ids is None:
            return private_keys(index, 0, blocks)
        ids = load.hash_ids[load.hash_offsets[index] : load.hash_offsets[index + 1]]
        shared = keys_from_ids(ids, load.hash_tokens, self._block_size, num_tokens=prompt)
        return np.concatenate((shared, private_keys(index, len(shared), blocks - len(shared))))


class ClosedLoop:
    """Workers that each put one job in line and the next when it has finished.

    Args:
        prompt_tokens: int64 [n].
        output_tokens: int64 [n].
        workers: How many jobs are in the system at once.

    Raises:
        InputError: No worker.
    """

    def __init__(self, prompt_tokens: Ints, output_tokens: Ints, workers: int) -> None:
        if workers < 1:
            raise InputError(f"{workers} workers would never start a job; expected at least 1")
        self._jobs = [
            Request(index, prompt, output)
            for index, (prompt, output) in enumerate(
                zip(prompt_tokens.tolist(), output_tokens.tolist(), strict=True)
            )
        ]
        self._workers = workers
        self._next = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self) -> list[tuple[int, Request]]:
        """See `Source`: every worker's first job, at time 0."""
        return [arrival for _ in range(self._workers) for arrival in self._take(0)]

    def after_arrival(self, request: Request) -> list[tuple[int, Request]]:  # noqa: ARG002
        """See `Source`: a worker waits for its job."""
        return []

    def after_end(self, request: Request, now_ns: int) -> list[tuple[int, Request]]:  # noqa: ARG002
        """See `Source`: its worker takes the next job."""
        return self._take(now_ns)

    def _take(self, now_ns: int) -> list[tuple[int, Request]]:
        if self._next == len(self._jobs):
            return []
        self._next += 1
        return [(now_ns, self._jobs[self._next - 1])]
