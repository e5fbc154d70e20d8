"""Is it right? Asked before anything is timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from pagefault.bench.problem import NAIVE
from pagefault.errors import CheckFailed
from pagefault.reference import attention

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.bench.problem import Problem


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison.

    Attributes:
        what: What was compared with what.
        error: Largest absolute difference, as a share of the largest value where that exceeds 1; NaN counts as
            infinite.
        tolerance: The most it may be.
    """

    what: str
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance


def run_checks(problem: Problem) -> list[Check]:
    """Attention of every layout against the oracle and against each other, and the pools read back.

    Naive is held to the float64 oracle for every sequence, each paged layout to naive, and what the page tables
    lead to must be bit for bit what the contiguous cache holds.
    """
    allowed = problem.setup.allowed
    results = {name: calls[0]().clone() for name, calls in problem.calls().items()}
    right = oracle(problem)
    checks = [Check("naive = oracle, every sequence", _error(results[NAIVE], right), allowed)]
    for name, result in results.items():
        if name != NAIVE:
            checks.append(Check(f"{name} = naive", _error(result, results[NAIVE]), allowed))
    checks += [Check(f"{name} reads back", _read_back(problem, name), 0.0) for name in problem.paged]
    return checks


def require(checks: list[Check]) -> None:
    """Let nobody use results that are wrong.

    Raises:
        CheckFailed: Names every check that failed.
    """
    failed = [
        f"{check.what}: error {check.error:.3g}, allowed {check.tolerance:g}"
        for check in checks
        if not check.passed
    ]
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(checks)} checks failed: {'; '.join(failed)}")


def oracle(problem: Problem) -> Tensor:
    """Float64 attention of the first copy's sequences over what the contiguous cache holds of them."""
    tokens = problem.tokens[0]
    rows = []
    for row in range(problem.setup.seqs):
        k, v = (_float64(part) for part in problem.naive.read(0, row))
        rows.append(attention(_float64(tokens.q[row : row + 1]), k, v, scale=tokens.scale)[0][0])
    return torch.from_numpy(np.stack(rows))


def _read_back(problem: Problem, name: str) -> float:
    """Largest difference between a pool, read through its page tables, and the contiguous cache: all copies."""
    cache, worst = problem.paged[name], 0.0
    for index, row in enumerate(problem.rows[name].tolist()):
        for stored, right in zip(cache.read(0, row), problem.naive.read(0, index), strict=True):
            worst = max(worst, _error(stored, right))
    return worst


def _float64(part: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return part.double().cpu().numpy()


def _error(result: Tensor, right: Tensor) -> float:
    one, other = result.double().cpu(), right.double().cpu()
    error = float((one - other).abs().max() / max(1.0, float(other.abs().max())))
    return error if error == error else float("inf")
