"""Comparisons with other libraries, run by hand on a GPU machine: ``python -m benchmarks.attention``."""
