"""The tensors behind the page tables: the paged cache, its host pool, and the contiguous baseline."""

from __future__ import annotations

import pagefault.attention  # noqa: F401  # first: it says what to install where PyTorch is missing
from pagefault.cache.batch import SequenceBatch as SequenceBatch
from pagefault.cache.contiguous import ContiguousKVCache as ContiguousKVCache
from pagefault.cache.host import HostFrames as HostFrames
from pagefault.cache.paged import PagedKVCache as PagedKVCache
from pagefault.cache.shape import KVShape as KVShape

__all__ = ["ContiguousKVCache", "HostFrames", "KVShape", "PagedKVCache", "SequenceBatch"]
