"""Common parts of all plots.

Each plot is one SVG, drawn at the width of a phone and scaled to the page. The style sheet sets the colours.

Plots are drawn here rather than by a library in the browser. The report therefore needs no script and can be printed,
and readers and tests can find every mark as an element. Texts cannot be measured, because no font is available. Labels
therefore have their own lines, and ticks are placed far enough apart.
"""

from collections.abc import Sequence

from fetchmill_bench.report.markup import Markup, tag

WIDTH = 460
LABEL_LENGTH = 48
_EDGE = 20


def picture(title: str, description: str, height: float, parts: Sequence[Markup]) -> Markup:
    """Creates an SVG, with descriptions for people who cannot see it."""
    named = (tag("title", title), tag("desc", description))
    return tag("svg", *named, *parts, viewBox=f"0 0 {WIDTH} {height:g}", role="img")


def hatching() -> Markup:
    """Creates the stripes for published figures, to which the style sheet refers. Needed once per page."""
    stripe = tag("path", d="M-1 1L1 -1M0 6L6 0M5 7L7 5", class_="stripe")
    pattern = tag("pattern", stripe, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return tag("svg", tag("defs", pattern), width=0, height=0, class_="hatching", aria_hidden="true")


def upright(x: float, top: float, bottom: float, text: str) -> Markup:
    """Draws a vertical grid line with its label below, or next to it at the left edge of the picture."""
    line = tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid")
    kind = "tick" if x < _EDGE else "tick middle"
    return tag("g", line, tag("text", text, x=x, y=bottom + 15, class_=kind))


def level(y: float, left: float, right: float, text: str) -> Markup:
    """Draws a horizontal grid line with its label."""
    line = tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
    return tag("g", line, tag("text", text, x=left - 6, y=y + 4, class_="tick end"))


def shorten(text: str, length: int = LABEL_LENGTH) -> str:
    """Shortens a text so that it fits on one line of a plot."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
