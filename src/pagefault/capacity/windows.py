"""Which layers look back how far: ``layer_types`` where a configuration has it, else the rule of its family."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pagefault.capacity.fields import shown
from pagefault.capacity.parts import Window

if TYPE_CHECKING:
    from pagefault.capacity.fields import Fields

Windows = list[Window | None]
WindowRule = Callable[["Fields", int], Windows]


def layer_windows(fields: Fields, layers: int, rule: WindowRule | None) -> Windows:
    """The window of each layer, None where it looks back over everything.

    Args:
        fields: The configuration.
        layers: How many layers.
        rule: The family's own rule, for configurations without ``layer_types``; None where no layer has a window.

    Raises:
        ConfigError: A kind of layer that is not known, or a window without a size.
    """
    kinds = fields.items("layer_types", str, layers)
    if kinds is None:
        return rule(fields, layers) if rule else [None] * layers
    return [_window(fields, kind) for kind in kinds]


def _window(fields: Fields, kind: str) -> Window | None:
    if kind == "full_attention":
        return None
    if kind == "sliding_attention":
        return _capped(fields, Window("sliding", fields.count("sliding_window")))
    if kind == "chunked_attention":
        return _capped(fields, Window("chunked", fields.count("attention_chunk_size")))
    raise fields.error("layer_types", shown(kind), "full_attention, sliding_attention or chunked_attention")


def _capped(fields: Fields, window: Window) -> Window | None:
    """None where the model cannot hold more tokens than the window anyway."""
    longest = fields.optional("max_position_embeddings")
    return None if longest is not None and window.tokens >= longest else window


def _sliding(fields: Fields) -> Window | None:
    if "sliding_window" not in fields:
        return None
    return _capped(fields, Window("sliding", fields.count("sliding_window")))


def everywhere(fields: Fields, layers: int) -> Windows:
    """Every layer has ``sliding_window``; none where it is null, or absent in a family without a default."""
    return [_sliding(fields)] * layers


def every_other(period: int) -> WindowRule:
    """One layer in `period` (or ``sliding_window_pattern``), the last, looks back over everything; the others slide."""

    def rule(fields: Fields, layers: int) -> Windows:
        every = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=period)
        window = _sliding(fields)
        return [window if (number + 1) % every else None for number in range(layers)]

    return rule


def above_max_window_layers(fields: Fields, layers: int) -> Windows:
    """Qwen2's rule: nothing slides unless ``use_sliding_window``; then the layers from ``max_window_layers`` on do."""
    if not fields.flag("use_sliding_window", False):
        return [None] * layers
    window = _sliding(fields)
    first = fields.count("max_window_layers", least=0)
    return [window if number >= first else None for number in range(layers)]


def if_used(fields: Fields, layers: int) -> Windows:
    """Qwen3-MoE's rule: every layer slides if ``use_sliding_window``."""
    if not fields.flag("use_sliding_window", False):
        return [None] * layers
    return [_sliding(fields)] * layers


def even_below_max_window_layers(fields: Fields, layers: int) -> Windows:
    """Qwen2-MoE's rule: layers 0, 2, 4 … below ``max_window_layers`` slide if ``use_sliding_window``."""
    if not fields.flag("use_sliding_window", False):
        return [None] * layers
    window, last = _sliding(fields), fields.count("max_window_layers", least=0)
    return [window if number % 2 == 0 and number < last else None for number in range(layers)]
