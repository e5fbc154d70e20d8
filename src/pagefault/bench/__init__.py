"""What paging costs on the GPU: the same decode step in a contiguous and in a paged cache, checked, then timed."""

from __future__ import annotations

import pagefault.attention  # noqa: F401  # first: it says what to install where PyTorch is missing
from pagefault.bench.activations import activation_options as activation_options
from pagefault.bench.activations import load_activations as load_activations
from pagefault.bench.checks import Check as Check
from pagefault.bench.checks import require as require
from pagefault.bench.checks import run_checks as run_checks
from pagefault.bench.problem import Problem as Problem
from pagefault.bench.problem import Tokens as Tokens
from pagefault.bench.rows import Environment as Environment
from pagefault.bench.rows import Row as Row
from pagefault.bench.rows import environment as environment
from pagefault.bench.rows import make_row as make_row
from pagefault.bench.rows import read_results as read_results
from pagefault.bench.rows import rows_as_csv as rows_as_csv
from pagefault.bench.runner import BenchReport as BenchReport
from pagefault.bench.runner import build as build
from pagefault.bench.runner import profile as profile
from pagefault.bench.runner import run as run
from pagefault.bench.setup import DTYPES as DTYPES
from pagefault.bench.setup import ROTATE_BYTES as ROTATE_BYTES
from pagefault.bench.setup import BenchSetup as BenchSetup
from pagefault.bench.setup import default_device as default_device
from pagefault.bench.setup import model_options as model_options
from pagefault.bench.stages import stage as stage
from pagefault.bench.timing import Timing as Timing
from pagefault.bench.timing import time_calls as time_calls

__all__ = [
    "DTYPES",
    "ROTATE_BYTES",
    "BenchReport",
    "BenchSetup",
    "Check",
    "Environment",
    "Problem",
    "Row",
    "Timing",
    "Tokens",
    "activation_options",
    "build",
    "default_device",
    "environment",
    "load_activations",
    "make_row",
    "model_options",
    "profile",
    "read_results",
    "require",
    "rows_as_csv",
    "run",
    "run_checks",
    "stage",
    "time_calls",
]
