"""Drawing charts as inline SVG with pygal (docs/adr/0004-report-charts.md).

A chart leaves here without scripts, comments, links or any other reference, with a title and a
description for those who cannot see it, and coloured by the page's CSS variables so that it
follows the light or dark theme. pygal is imported when the first chart is drawn.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree as ET

_COLOURS: Final = tuple(f"var(--series-{number})" for number in range(1, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawn chart: ``svg`` is safe to embed as it is, ``alt`` says in words what it shows."""

    title: str
    alt: str
    svg: str


def pygal() -> Any:
    """Import the library, without the import hook of an old kind that it puts in place for its plug-ins.

    Whatever the program imports afterwards would stumble over that hook.
    """
    import pygal as library  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, only reports need it

    sys.meta_path[:] = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return library


def look() -> dict[str, Any]:
    """Return the settings that every chart begins with."""
    style = pygal().style.Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--ink-soft)",
        foreground_strong="var(--ink)",
        foreground_subtle="var(--rule)",
        guide_stroke_color="var(--rule)",
        major_guide_stroke_color="var(--rule)",
        guide_stroke_dasharray="none",
        major_guide_stroke_dasharray="none",
        colors=_COLOURS,
        value_colors=("var(--ink)",) * len(_COLOURS),
        ci_colors=("var(--ink)",) * len(_COLOURS),
        font_family="inherit",
        label_font_size=13,
        major_label_font_size=13,
        value_font_size=13,
        legend_font_size=13,
        title_font_size=13,
        opacity="1",
        transition="0s",
    )
    return {"style": style, "js": (), "margin": 8, "margin_right": 26, "rounded_bars": 2, "show_title": False}


def drawn(chart: Any, name: str, title: str, words: Sequence[str], lead: str) -> Chart:
    """Draw a chart of the library; ``lead`` and ``words`` say what it shows."""
    chart.uuid = name.removeprefix("chart-")  # the default is random; pygal puts "chart-" before it
    chart.no_data_text = "no data"
    alt = lead + "; ".join(words)
    return Chart(title=title, alt=alt, svg=_embeddable(chart.render(is_unicode=True), title, alt))


def _embeddable(document: str, title: str, alt: str) -> str:
    """Return an SVG document as an element for HTML: figures only, named and described."""
    # The parser drops comments (they hold the date and links) and processing instructions.
    root = ET.fromstring(document.encode())  # noqa: S314 - pygal's own output
    for parent in list(root.iter()):
        for child in list(parent):
            tag = child.tag.rpartition("}")[2]
            if tag in {"script", "desc", "title"} or "tooltip-overlay" in child.get("class", ""):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # HTML knows the namespace by itself
    for tag, text in (("desc", alt), ("title", title)):
        label = ET.Element(tag)
        label.text = text
        root.insert(0, label)
    root.set("role", "img")
    root.set("aria-label", f"{title}. {alt}")
    root.set("preserveAspectRatio", "xMinYMid meet")
    return ET.tostring(root, encoding="unicode", short_empty_elements=False)
