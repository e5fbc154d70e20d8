"""The one door to vl-convert, a heavy package that only the page and still pictures need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.errors import MissingExtra

if TYPE_CHECKING:
    from types import ModuleType

VEGA_LITE = "6.4"
"""The version that draws, in the page and in still pictures."""


def vl_convert() -> ModuleType:
    """The package.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise MissingExtra(
            "the report draws with vl-convert, which is not installed: in PageFault's folder: pip install '.[report]'"
        ) from None
    return vl_convert


def vega_script() -> str:
    """Vega, Vega-Lite and Vega-Embed for a ``<script>``: sets ``window.vegaEmbed``.

    Raises:
        MissingExtra: vl-convert is not installed.
    """
    script: str = vl_convert().javascript_bundle(vl_version=VEGA_LITE)
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
