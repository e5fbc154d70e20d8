"""Which layers look back how far: ``layer_types`` where a configuration has it, else the rule of its family."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pagefault.capacity.parts import Window

if TYPE_CHECKING:
    from pagefault.capacity.fields import Fields

Windows = list[Window | None]
WindowRule = Callable[["Fields", int], Windows]


def layer_windows(fields: Fields, layers: int, rule: WindowRule | None, size: int | None = None) -> Windows:
    """The window of each layer, None where it looks back over everything.

    Args:
        fields: The configuration.
        layers: How many layers.
        rule: The family's own rule, for configurations without ``layer_types``; None where no layer has a window.
        size: The family's default of ``sliding_window``.

    Raises:
        ConfigError: A kind of layer that is not known, or a window without a size.
    """
    kinds = fields.items("layer_types", str, layers)
    if kinds is None:
        return rule(fields, layers) if rule else [None] * layers
    return [_window(fields, kind, size) for kind in kinds]


def _window(fields: Fields, kind: str, size: int | None) -> Window | None:
    if kind == "full_attention":
        return None
    if kind == "sliding_attention":
        return _capped(fields, Window("sliding", fields.count("sliding_window", default=size)))
    if kind == "chunked_attention":
        return _capped(fields, Window("chunked", fields.count("attention_chunk_size")))
    raise fields.error("layer_types", repr(kind), "full_attention, sliding_attention or chunked_attention")


def _capped(fields: Fields, window: Window) -> Window | None:
    """None where the model cannot hold more tokens than the window anyway."""
    longest = fields.optional("max_position_embeddings")
    return None if longest is not None and window.tokens >= longest else window


def everywhere(default: int | None = None) -> WindowRule:
    """Every layer has ``sliding_window``; none where it is null, or absent without a default."""

    def rule(fields: Fields, layers: int) -> Windows:
        if fields.is_null("sliding_window") or (default is None and "sliding_window" not in fields):
            return [None] * layers
        return [_capped(fields, Window("sliding", fields.count("sliding_window", default=default)))] * layers

    return rule


def every_other(period: int, default: int, phase: int = 0) -> WindowRule:
    """One layer in `period` (or ``sliding_window_pattern``) looks back over everything, the others slide.

    Args:
        period: The family's default.
        default: The family's default of ``sliding_window``.
        phase: 0 where the last layer of each period is the full one.
    """

    def rule(fields: Fields, layers: int) -> Windows:
        if fields.is_null("sliding_window"):
            return [None] * layers
        every = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=period)
        window = _capped(fields, Window("sliding", fields.count("sliding_window", default=default)))
        return [window if (number + 1 + phase) % every else None for number in range(layers)]

    return rule


def above_max_window_layers(fields: Fields, layers: int) -> Windows:
    """Qwen2's rule: nothing slides unless ``use_sliding_window``; then the layers from ``max_window_layers`` on do."""
    if not fields.flag("use_sliding_window", False) or fields.is_null("sliding_window"):
        return [None] * layers
    window = _capped(fields, Window("sliding", fields.count("sliding_window")))
    first = fields.count("max_window_layers", least=0)
    return [window if number >= first else None for number in range(layers)]


def if_used(fields: Fields, layers: int) -> Windows:
    """Qwen3-MoE's rule: every layer slides if ``use_sliding_window``."""
    if not fields.flag("use_sliding_window", False) or fields.is_null("sliding_window"):
        return [None] * layers
    return [_capped(fields, Window("sliding", fields.count("sliding_window")))] * layers
