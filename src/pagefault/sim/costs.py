"""How long a step takes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pagefault.capacity import find_dtype
from pagefault.errors import ConfigError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.capacity import Gpu, KVDtype, ModelShape
    from pagefault.scheduling import StepPlan


@dataclass(frozen=True)
class ConstantCost:
    """The classic cost: every step is one tick, whatever it does.

    Attributes:
        tick_ns: Nanoseconds.
    """

    tick_ns: int

    def __post_init__(self) -> None:
        if self.tick_ns < 1:
            raise InputError(f"a tick of {self.tick_ns} ns; expected at least 1")

    def step_ns(self, plan: StepPlan) -> int:  # noqa: ARG002
        """See `simulator.CostModel`."""
        return self.tick_ns


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """What of a GPU's peaks a server reaches. Each is a plain number with a plain meaning; none is fitted to a request.

    Attributes:
        bandwidth: Share of peak memory bandwidth; a large read reaches 0.90 to 0.95.
        compute: Share of the peak matrix rate that prefill reaches; a large bf16 product on an H200 runs at about 790
            of its 989 TFLOP/s, the power limit sets it.
        host_link: Share of the host link's rate.
        step_ns: Fixed cost a step: launches, sampling, the engine's own work.
        sequence_ns: Cost a sequence and step: sampling, detokenizing, block-table updates.
    """

    bandwidth: float = 0.9
    compute: float = 0.8
    host_link: float = 0.8
    step_ns: int = 1_000_000
    sequence_ns: int = 10_000

    def __post_init__(self) -> None:
        for name in ("bandwidth", "compute", "host_link"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name} efficiency is {getattr(self, name)}; expected a share, 0 < e <= 1")
        for name in ("step_ns", "sequence_ns"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; expected nanoseconds, 0 or more")


@dataclass(frozen=True)
class StepCost:
    """The parts of a step's time, in nanoseconds.

    Attributes:
        linear_compute: Multiplying with the weights.
        linear_memory: Reading the weights; overlaps with multiplying, the longer of the two counts.
        attention_compute: Attention of prompts over their context.
        attention_memory: Reading the KV cache for decoding rows.
        swap: Frames over the host link.
        overhead: Fixed, and a sequence.
    """

    linear_compute: float
    linear_memory: float
    attention_compute: float
    attention_memory: float
    swap: float
    overhead: float

    @property
    def total(self) -> float:
        """What the step takes."""
        linear = max(self.linear_compute, self.linear_memory)
        return linear + self.attention_compute + self.attention_memory + self.swap + self.overhead

    @property
    def arithmetic(self) -> float:
        """Of this, what arithmetic takes and not memory."""
        linear = self.linear_compute if self.linear_compute > self.linear_memory else 0.0
        return linear + self.attention_compute


class RooflineCost:
    """A step's time from the model's shape and the GPU's peaks.

    Linear layers: 2 · active parameters · tokens over the compute rate, or the weights that the step touches over
    bandwidth, whichever is longer (Williams et al., "Roofline", CACM 2009). Attention: KV bytes of the decoding
    rows over bandwidth; for prompt chunks, 2 · heads · (k_dim + v_dim) · layers · (context of each token) operations.
    A mixture of experts reads the experts that its tokens hit: E · (1 − (1 − k/E)^tokens) of E in expectation.
    Under tensor parallelism each rank has its share; the cost of communication is in `Efficiency.step_ns`.

    Args:
        model: Its shape, with weights.
        gpu: Its peaks.
        block_size: Tokens a frame, for what a swap moves.
        tp: GPUs that share the model.
        kv_dtype: Format of the cache; default: the model's.
        efficiency: What of the peaks is reached.

    Raises:
        ConfigError: The model needs more than one KV group or keeps a fixed state (refused by name), or its weights
            are not known.
    """

    def __init__(
        self,
        model: ModelShape,
        gpu: Gpu,
        block_size: int,
        tp: int = 1,
        kv_dtype: KVDtype | None = None,
        efficiency: Efficiency | None = None,
    ) -> None:
        check_one_group(model)
        if model.weights is None:
            raise ConfigError(
                f"the weights of {model.name} (model_type {model.model_type!r}) are not known, so neither is the time "
                "to read them; simulate a model of a family whose parameters can be counted"
            )
        self.efficiency = efficiency or Efficiency()
        group, weights = model.groups[0], model.weights
        self.kv_bytes = group.bytes_per_token(kv_dtype or find_dtype(model.dtype), tp)
        self._block_size = block_size
        per_parameter = weights.bytes / weights.parameters
        read = weights.parameters - weights.lookup
        idle = weights.parameters - weights.active
        self._expert = idle / (weights.experts - weights.experts_per_token) if idle else 0.0
        self._experts = weights.experts
        self._unrouted = (weights.experts_per_token / weights.experts) if weights.experts else 0.0
        self._dense_bytes = (read - self._expert * self._experts) * per_parameter / tp
        self._expert_bytes = self._expert * per_parameter / tp
        self._flops_token = 2 * (weights.active - weights.lookup) / tp
        value = group.v_dim or group.k_dim
        self._flops_pair = 2 * model.attention_heads * (group.k_dim + value) * group.layers / tp
        self._bandwidth = gpu.bandwidth * self.efficiency.bandwidth / 1e9  # bytes a ns
        self._compute = gpu.flops_16 * self.efficiency.compute / 1e9  # operations a ns
        self._link = gpu.host_bytes_per_s * self.efficiency.host_link / 1e9
        self.spent_ns = self.arithmetic_ns = 0.0  # over all steps asked for

    def parts(self, plan: StepPlan) -> StepCost:
        """A step's time by what it is spent on."""
        prefill, decode = plan.prefill, plan.decode
        tokens = plan.tokens
        weight_bytes = self._dense_bytes + self._touched(tokens) * self._expert_bytes if tokens else 0.0
        contexts = float(decode.starts.sum()) + len(decode)
        pairs = float((prefill.counts * (prefill.starts + (prefill.counts + 1) / 2)).sum())
        swapped = (len(plan.swap_out) + len(plan.swap_in)) * self._block_size * self.kv_bytes
        sequences = len(prefill) + len(decode)
        return StepCost(
            linear_compute=tokens * self._flops_token / self._compute,
            linear_memory=weight_bytes / self._bandwidth,
            attention_compute=pairs * self._flops_pair / self._compute,
            attention_memory=contexts * self.kv_bytes / self._bandwidth,
            swap=swapped / self._link,
            overhead=self.efficiency.step_ns + self.efficiency.sequence_ns * sequences,
        )

    def step_ns(self, plan: StepPlan) -> int:
        """See `simulator.CostModel`."""
        parts = self.parts(plan)
        total = parts.total
        self.spent_ns += total
        self.arithmetic_ns += parts.arithmetic
        return max(1, round(total))

    @property
    def compute_share(self) -> float:
        """Share of the time of all steps so far that arithmetic took, not memory, links or overhead."""
        return self.arithmetic_ns / self.spent_ns if self.spent_ns else 0.0

    def alone_ns(self, tokens: int) -> int:
        """Nanoseconds of a step that does nothing but a prompt (or, with 1, a decode) of so many tokens."""
        linear = max(
            tokens * self._flops_token / self._compute,
            (self._dense_bytes + self._touched(tokens) * self._expert_bytes) / self._bandwidth,
        )
        pairs = tokens * (tokens + 1) / 2 * self._flops_pair / self._compute
        return round(linear + pairs + self.efficiency.step_ns + self.efficiency.sequence_ns)

    def _touched(self, tokens: int) -> float:
        """Experts of a layer that so many tokens hit, in expectation."""
        return self._experts * (1 - (1 - self._unrouted) ** tokens) if self._experts else 0.0

    def recompute_ns(self, tokens: int) -> int:
        """Nanoseconds to prefill so many tokens again, for `scheduling.PreemptionCosts`."""
        pairs = tokens * (tokens + 1) / 2
        return round((tokens * self._flops_token + pairs * self._flops_pair) / self._compute)

    def swap_ns(self, frames: int) -> int:
        """Nanoseconds to move so many frames to the host and back, for `scheduling.PreemptionCosts`."""
        return round(2 * frames * self._block_size * self.kv_bytes / self._link)


@dataclass(frozen=True)
class TableCost:
    """A measured profile: step times at some sizes, linear in between and beyond.

    Attributes:
        tokens: Tokens computed in a step, ascending, at least two different ones.
        step_ns_at: Nanoseconds that such a step takes, without its KV reads.
        kv_ns: Nanoseconds a token of context that decoding rows read.
    """

    tokens: Sequence[int]
    step_ns_at: Sequence[int]
    kv_ns: float = 0.0
    _points: tuple[tuple[int, int], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        points = tuple(zip(self.tokens, self.step_ns_at, strict=True))
        if len(points) < 2 or any(a[0] >= b[0] for a, b in pairwise(points)):
            raise InputError("a cost table needs at least two rows with ascending numbers of tokens")
        if points[0][0] < 0 or any(ns < 1 for _, ns in points) or not 0 <= self.kv_ns < float("inf"):
            raise InputError(
                "a cost table needs tokens of 0 or more, step times of at least 1 ns and kv_ns >= 0"
            )
        object.__setattr__(self, "_points", points)

    def step_ns(self, plan: StepPlan) -> int:
        """See `simulator.CostModel`."""
        contexts = float(np.sum(plan.decode.starts)) + len(plan.decode)
        return max(1, round(self._at(plan.tokens) + self.kv_ns * contexts))

    def _at(self, tokens: int) -> float:
        right = min(max(bisect_left(self.tokens, tokens), 1), len(self._points) - 1)
        (x0, y0), (x1, y1) = self._points[right - 1], self._points[right]
        return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0)


def check_one_group(model: ModelShape) -> None:
    """Refuse what one pager cannot serve.

    Raises:
        ConfigError: Layers of the model keep different things (windows, chunks, fixed state).
    """
    kinds = [group.kind for group in model.groups] + [state.kind for state in model.state]
    if len(kinds) != 1 or model.groups[0].window is not None:
        windows = [f"{group.kind} window {group.window}" for group in model.groups if group.window]
        raise ConfigError(
            f"{model.name} (model_type {model.model_type!r}) needs more than one KV group or a window "
            f"({', '.join(windows or kinds)}): one page table a sequence cannot serve it; simulate a model whose "
            "layers all keep full attention, and size this one with pagefault calc"
        )


def read_cost_table(path: str) -> TableCost:
    """A measured profile from a CSV file with the columns ``tokens,step_us`` and, if wanted, a line ``kv,ns_a_token``.

    Raises:
        InputError: The file cannot be read or a line is broken; the message names the line.
    """
    try:
        with Path(path).open(encoding="utf-8") as lines:
            rows = [line.strip().split(",") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the cost table {path}: {error}") from error
    if not rows or [cell.strip() for cell in rows[0]] != ["tokens", "step_us"]:
        raise InputError(
            f"{path}: expected the header tokens,step_us; got {','.join(rows[0]) if rows else 'nothing'}"
        )
    tokens, steps, kv_ns = [], [], 0.0
    for number, row in enumerate(rows[1:], start=2):
        try:
            if row == [""]:
                continue
            name, value = row
            if name == "kv":
                kv_ns = float(value)
            else:
                tokens.append(int(name))
                steps.append(round(float(value) * 1000))
        except (ValueError, OverflowError):  # not a number, or infinite
            raise InputError(
                f"{path}:{number}: expected two numbers, tokens,step_us; got {','.join(row)}"
            ) from None
    try:
        return TableCost(tokens, steps, kv_ns)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
