"""Slow and plainly right attention in NumPy float64: the oracle that everything else is checked against."""

from __future__ import annotations

from pagefault.reference.oracle import attention as attention
from pagefault.reference.oracle import gather as gather
from pagefault.reference.oracle import paged_attention as paged_attention

__all__ = ["attention", "gather", "paged_attention"]
