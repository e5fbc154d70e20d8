"""Swap space: frames of host memory, filled and emptied in batches."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from pagefault.attention import gather_frames, scatter_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

STAGING_BYTES = 64 * 2**20
"""Device memory that a batch of frames is collected in: large enough for the host link's full rate."""


class HostFrames:
    """The host pool's memory, pinned where the device is a GPU.

    Frames of a batch are collected in one device buffer by one kernel and cross the link in pieces as long as
    their host frames follow one another. All work is queued on the current stream; nothing waits.

    Args:
        count: Frames.
        pool: The device pool, ``[num_blocks, ...]``: gives the frame's shape, dtype and device.
    """

    def __init__(self, count: int, pool: Tensor) -> None:
        shape, pinned = tuple(pool.shape[1:]), pool.is_cuda
        self.frames = torch.empty((count, *shape), dtype=pool.dtype, pin_memory=pinned)
        frame_bytes = pool[0].numel() * pool.element_size()
        self._batch = max(1, min(count, STAGING_BYTES // frame_bytes))
        self._staging = torch.empty((self._batch, *shape), dtype=pool.dtype, device=pool.device)

    def store(self, pool: Tensor, src: NDArray[np.int32], dst: NDArray[np.int32]) -> None:
        """Device frames to host frames.

        Args:
            pool: The device pool.
            src: Device frames, int32 [n].
            dst: Host frames, int32 [n], distinct.
        """
        for device, host in self._batches(pool, src, dst):
            gather_frames(pool, device, self._staging)
            for staged, kept in self._pieces(host):
                kept.copy_(staged, non_blocking=True)

    def load(self, pool: Tensor, src: NDArray[np.int32], dst: NDArray[np.int32]) -> None:
        """Host frames to device frames.

        Args:
            pool: The device pool.
            src: Host frames, int32 [n].
            dst: Device frames, int32 [n], distinct.
        """
        for device, host in self._batches(pool, dst, src):
            for staged, kept in self._pieces(host):
                staged.copy_(kept, non_blocking=True)
            scatter_frames(self._staging, device, pool)

    def _batches(
        self, pool: Tensor, device: NDArray[np.int32], host: NDArray[np.int32]
    ) -> Iterator[tuple[Tensor, NDArray[np.int32]]]:
        """Pairs in order of their host frames, as many at once as the staging buffer holds."""
        order = np.argsort(host)
        for start in range(0, order.size, self._batch):
            part = order[start : start + self._batch]
            yield torch.from_numpy(device[part]).to(pool.device), host[part]

    def _pieces(self, host: NDArray[np.int32]) -> Iterator[tuple[Tensor, Tensor]]:
        """The staging buffer and the host memory, piece by piece: host frames that follow one another."""
        cuts = [0, *(np.flatnonzero(np.diff(host) != 1) + 1).tolist(), host.size]
        for start, stop in pairwise(cuts):
            first = int(host[start])
            yield self._staging[start:stop], self.frames[first : first + stop - start]
