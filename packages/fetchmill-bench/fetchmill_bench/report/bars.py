"""Plots durations by way, as bars on a logarithmic axis. A hatched bar below shows the published figure, if any."""

from collections.abc import Sequence
from dataclasses import dataclass

from fetchmill_bench.report import figures
from fetchmill_bench.report.markup import Markup, tag
from fetchmill_bench.report.plots import LABEL_LENGTH, WIDTH, picture, shorten, upright
from fetchmill_bench.report.scale import Scale

_LABEL_HEIGHT = 17
_BAR_HEIGHT = 12
_BETWEEN_BARS = 3
_BETWEEN_ROWS = 8
# Space for the value to the right of the longest bar.
_VALUE_WIDTH = 66


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A way's time per request.

    Args:
        way: name of the way.
        detail: text to show after the name.
        seconds: the median; None if the way failed.
        least: the shortest of several repeats, in seconds.
        most: the longest of several repeats, in seconds.
        published: the published time per request in seconds, if there is one.
        reason: why the way failed.
    """

    way: str
    detail: str = ""
    seconds: float | None = None
    least: float | None = None
    most: float | None = None
    published: float | None = None
    reason: str | None = None

    @property
    def height(self) -> float:
        """Height in the plot, including the gap to the next bar."""
        second = _BAR_HEIGHT + _BETWEEN_BARS if self.published else 0
        return _LABEL_HEIGHT + _BAR_HEIGHT + second + _BETWEEN_ROWS


def bars(title: str, description: str, rows: Sequence[Bar]) -> Markup:
    """Draws the time per request of each way.

    Args:
        title: a short description, for people who cannot see the picture.
        description: a longer description, for the same readers.
        rows: one bar per way, from top to bottom. At least one has a figure.

    Returns:
        The SVG.
    """
    shown = [value for row in rows for value in (row.seconds, row.most, row.published) if value]
    scale = Scale.of_bars(shown, 1, WIDTH - _VALUE_WIDTH)
    bottom = sum(row.height for row in rows)
    parts = [upright(scale.at(tick), 0, bottom, figures.tick_duration(tick)) for tick in scale.ticks()]
    top = 0.0
    for row in rows:
        parts.append(_row(row, top, scale))
        top += row.height
    return picture(title, description, bottom + 22, parts)


def legend() -> Markup:
    """Returns the legend for measured and published bars."""
    return tag("ul", _key("bar", "this machine"), _key("published", "published, another machine"), class_="legend")


def _key(kind: str, text: str) -> Markup:
    box = tag("rect", x=0.5, y=0.5, width=23, height=11, class_=kind)
    return tag("li", tag("svg", box, width=24, height=12, aria_hidden="true"), text)


def _row(row: Bar, top: float, scale: Scale) -> Markup:
    y = top + _LABEL_HEIGHT
    parts = [_label(row, top + 12)]
    if row.seconds is None:
        reason = shorten(f"failed: {row.reason}", LABEL_LENGTH)
        parts.append(tag("text", reason, x=4, y=y + 10, class_="failed"))
    else:
        parts.append(_bar("bar", row.seconds, y, scale))
        parts += _spread(row, y + _BAR_HEIGHT / 2, scale)
        parts.append(_value(row.seconds, scale.at(row.most or row.seconds), y))
    if row.published:
        y += _BAR_HEIGHT + _BETWEEN_BARS
        parts += [_bar("published", row.published, y, scale), _value(row.published, scale.at(row.published), y)]
    return tag("g", *parts, class_="way", data_way=row.way)


def _label(row: Bar, y: float) -> Markup:
    way = shorten(row.way, LABEL_LENGTH - len(row.detail))
    detail = tag("tspan", f"  {row.detail}", class_="detail") if row.detail else None
    return tag("text", tag("title", row.way), way, detail, x=1, y=y, class_="label")


def _bar(kind: str, seconds: float, y: float, scale: Scale) -> Markup:
    return tag("rect", x=1, y=y, width=round(scale.at(seconds) - 1, 1), height=_BAR_HEIGHT, class_=f"mark {kind}")


def _spread(row: Bar, y: float, scale: Scale) -> list[Markup]:
    """Draws the range from the shortest to the longest of several repeats."""
    if not row.least or not row.most or row.least == row.most:
        return []
    left, right = scale.at(row.least), scale.at(row.most)
    return [tag("path", d=f"M{left} {y - 4}v8M{left} {y}H{right}M{right} {y - 4}v8", class_="spread")]


def _value(seconds: float, x: float, y: float) -> Markup:
    return tag("text", figures.duration(seconds), x=x + 5, y=y + 10, class_="value")
