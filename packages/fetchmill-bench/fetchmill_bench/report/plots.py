"""What plots have in common: one SVG each, as wide as a telephone and scaled from there; the style sheet has colours.

Drawn here and not by a library in the browser: then the report needs no script, every mark is an element that readers
and tests can find, and it can be printed. Texts are not measured, for there is no font here: labels have lines of
their own, and ticks keep apart.
"""

from collections.abc import Sequence

from fetchmill_bench.report.markup import Markup, tag

WIDTH = 460
LABEL_LENGTH = 48
_EDGE = 20


def picture(title: str, description: str, height: float, parts: Sequence[Markup]) -> Markup:
    """An SVG with its texts for those who do not see it."""
    named = (tag("title", title), tag("desc", description))
    return tag("svg", *named, *parts, viewBox=f"0 0 {WIDTH} {height:g}", role="img")


def hatching() -> Markup:
    """The stripes of published figures, once a page: the style sheet refers to them."""
    stripe = tag("path", d="M-1 1L1 -1M0 6L6 0M5 7L7 5", class_="stripe")
    pattern = tag("pattern", stripe, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return tag("svg", tag("defs", pattern), width=0, height=0, class_="hatching", aria_hidden="true")


def upright(x: float, top: float, bottom: float, text: str) -> Markup:
    """A line of the grid from an axis upwards, and its label: below it, or beside it where the picture begins."""
    line = tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid")
    kind = "tick" if x < _EDGE else "tick middle"
    return tag("g", line, tag("text", text, x=x, y=bottom + 15, class_=kind))


def level(y: float, left: float, right: float, text: str) -> Markup:
    """A line of the grid from an axis to the right, and its label."""
    line = tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
    return tag("g", line, tag("text", text, x=left - 6, y=y + 4, class_="tick end"))


def shorten(text: str, length: int = LABEL_LENGTH) -> str:
    """A text that has a line of a plot for itself."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
