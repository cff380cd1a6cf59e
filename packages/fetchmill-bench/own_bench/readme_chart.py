"""Draws the README's chart, an SVG that shows the rates in its tables as bars."""

from collections.abc import Iterable
from html import escape

# Width in pixels.
WIDTH = 760
LABEL = 270
ROW = 26
BAR = 16
GAP = 44
FIGURE = 90
OURS, THEIRS, TEXT = "#2f81f7", "#8c959f", "#6e7781"

# A bar, with its label, its rate in objects/s, and whether it is fetchmill's.
Bar = tuple[str, float, bool]


def draw(groups: Iterable[tuple[str, list[Bar]]]) -> str:
    """Returns the chart. Each group has a title and its own scale, which starts at 0."""
    parts: list[str] = []
    y = 0
    for title, bars in groups:
        y += GAP
        parts.append(_text(0, y - 14, title, weight=600))
        widest = max(rate for _, rate, _ in bars)
        for label, rate, is_ours in bars:
            length = max(rate / widest * (WIDTH - LABEL - FIGURE), 1)
            colour = OURS if is_ours else THEIRS
            parts.append(_text(LABEL - 10, y + 13, label, anchor="end"))
            parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
            parts.append(_text(LABEL + length + 8, y + 13, f"{rate:,.0f}"))
            y += ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 8}" width="{WIDTH}" height="{y + 8}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{TEXT}">'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: int = 400) -> str:
    return f'<text x="{x:.0f}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
