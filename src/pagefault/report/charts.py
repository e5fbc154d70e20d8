"""What a chart is, and the parts that all charts share: colours, axes, numbers in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Spec = dict[str, Any]

BLUE, VERMILLION, GREEN, PURPLE, OCHRE, BROWN, GREY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b58900",
    "#a0603f",
    "#7f7f7f",
)
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, OCHRE, BROWN, GREY)
"""Okabe and Ito's that stand out by 3 to 1 on white and on near-black, an ochre for their pale orange, brown, grey."""

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [10, 2, 2, 2], [4, 1])
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-left", "triangle-down")
SHORT = "format(datum.value, '~s')"
"""Labels of an axis as 0, 500, 10k, 2M."""

GUTTER = 58
"""Pixels left of every panel, so that panels of one chart line up."""


@dataclass(frozen=True)
class Table:
    """The figures of a chart for those who do not see it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    """A picture of results.

    Attributes:
        id: Names it in links and files: lower case letters, digits and hyphens.
        title: What it shows, as a sentence.
        subtitle: Of what, and what the axes are.
        commands: What made its figures; none where the files do not say.
        spec: A Vega-Lite specification whose views are as wide as their container. With `vconcat` it is a pile of
            panels, each of them whole.
        alt: What is to be seen, in words.
        table: The figures.
        caveat: What it does not show, if that matters.
        thinned: What was left out for drawing.
        sources: The files it comes from.
    """

    id: str
    title: str
    subtitle: str
    commands: tuple[str, ...]
    spec: Spec
    alt: str
    table: Table
    caveat: str = ""
    thinned: str = ""
    sources: tuple[str, ...] = ()

    @property
    def panels(self) -> list[Spec]:
        """Its views, each a specification of its own."""
        return list(self.spec["vconcat"]) if "vconcat" in self.spec else [self.spec]


def apart(charts: Iterable[Chart]) -> list[Chart]:
    """The charts; the second with an id gets it with -2, and so on."""
    seen: dict[str, int] = {}
    found = []
    for chart in charts:
        seen[chart.id] = number = seen.get(chart.id, 0) + 1
        found.append(chart if number == 1 else replace(chart, id=f"{chart.id}-{number}"))
    return found


def once(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once, in order, without empty ones."""
    return tuple(dict.fromkeys(text for text in texts if text))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; numbers are shown as people read them."""
    return Table(tuple(columns), tuple(tuple(map(shown, row)) for row in rows))


def shown(value: object) -> str:
    """A cell: a number with up to four digits that count, a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def figure(value: float) -> float:
    """A value with six digits that count: more cannot be seen, and would only make the page longer."""
    return float(f"{float(value):.6g}")


def factor(value: float) -> str:
    """A ratio in words: ``3.2×``, ``0.59×``, ``202×``."""
    return f"{value:.2f}×" if value < 2 else f"{value:.1f}×" if value < 10 else f"{value:,.0f}×"


def percent(share: float) -> str:
    """A share in words: ``1.3%``, ``48%``."""
    return f"{100 * share:.1f}%" if 0 < share < 0.1 else f"{100 * share:.0f}%"


def several(count: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def byte_unit(largest: float) -> tuple[str, float]:
    """The decimal unit that suits sizes up to this, and its bytes."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if largest >= size:
            return unit, size
    return "B", 1.0


def time_unit(largest_ns: float) -> tuple[str, float]:
    """The unit that suits times up to this, and its nanoseconds."""
    for unit, size in (("min", 60e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if largest_ns >= 2 * size:
            return unit, size
    return "µs", 1e3


def brief(value: float) -> str:
    """A number in words: three digits that count, and all of those before the point."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """A time in words: ``0.97 s``, ``43 ms``."""
    unit, size = time_unit(seconds * 1e9)
    return f"{brief(seconds * 1e9 / size)} {unit}"


def view(rows: Sequence[Spec], height: int, **parts: Any) -> Spec:
    """A specification of one view, as wide as its container.

    Args:
        rows: Its data.
        height: Pixels.
        **parts: Mark, encoding, layer and so on.
    """
    return {
        "data": {"values": list(rows)},
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        **parts,
    }


def left_axis(**parts: Any) -> Spec:
    """A vertical axis whose labels take `GUTTER` pixels."""
    return {"minExtent": GUTTER - 20, "maxExtent": GUTTER - 20, "tickCount": 4, **parts}


def scale_of(names: Sequence[str], values: Sequence[Any]) -> Spec:
    """Gives names their colours, dashes or shapes, in order and around again."""
    return {"domain": list(names), "range": [values[i % len(values)] for i in range(len(names))]}


def legend(**parts: Any) -> Spec:
    """A legend above the view."""
    return {"title": None, "orient": "top", **parts}
