"""Plots one quantity against another by way, as lines on logarithmic axes. Each line has its own marks and dashes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fetchmill_bench.report.markup import Markup, tag
from fetchmill_bench.report.plots import WIDTH, level, picture, upright
from fetchmill_bench.report.scale import Scale

_HEIGHT = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, WIDTH - 16, 24, _HEIGHT - 40
# Maximum width of a tick's label.
_TICK_WIDTH = 40
# Marks around a point, as paths. Marks and the dashes below distinguish lines without relying on colour.
_FORMS = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "m-3.5 -3.5h7v7h-7z",
    "m0 -4.8l4.6 8h-9.2z",
    "m0 -5l5 5l-5 5l-5 -5z",
    "m0 4.8l4.6 -8h-9.2z",
)
_DASHES = (None, "6 3", "2 3", "9 3 2 3")
_COLOURS = 8


@dataclass(frozen=True)
class Axis:
    """The texts of an axis.

    Args:
        title: the quantity with its unit.
        tick: function that formats the label of a tick.
        value: function that formats a value, including its unit.
    """

    title: str
    tick: Callable[[float], str]
    value: Callable[[float], str]


@dataclass(frozen=True)
class Line:
    """A way's points.

    Args:
        way: name of the way.
        points: pairs of x and y, both above 0, with ascending x.
        sign: number that determines colour, marks and dashes. A way has the same number in every plot.
    """

    way: str
    points: Sequence[tuple[float, float]]
    sign: int


def lines(title: str, description: str, x: Axis, y: Axis, series: Sequence[Line]) -> Markup:
    """Draws one quantity against another by way.

    Args:
        title: a short description, for people who cannot see the picture.
        description: a longer description, for the same readers.
        x: the horizontal axis.
        y: the vertical axis.
        series: the lines, at least one.

    Returns:
        The SVG. `legend` explains the lines.
    """
    points = [point for line in series for point in line.points]
    across = Scale.around((point[0] for point in points), _LEFT, _RIGHT)
    up = Scale.around((point[1] for point in points), _BOTTOM, _TOP)
    asked = across.ticks_at([point[0] for point in points], _TICK_WIDTH)
    parts = [upright(across.at(tick), _TOP, _BOTTOM, x.tick(tick)) for tick in asked]
    parts += [level(up.at(tick), _LEFT, _RIGHT, y.tick(tick)) for tick in up.ticks()]
    parts.append(tag("text", y.title, x=0, y=12, class_="axis"))
    parts.append(tag("text", x.title, x=_RIGHT, y=_HEIGHT - 6, class_="axis end"))
    parts += [_draw(line, across, up, x, y) for line in series]
    return picture(title, description, _HEIGHT, parts)


def legend(series: Sequence[Line]) -> Markup:
    """Returns the legend that names the way of each line."""
    return tag("ul", *(tag("li", _key(line.sign), line.way) for line in series), class_="legend")


def _draw(line: Line, across: Scale, up: Scale, x: Axis, y: Axis) -> Markup:
    places = [(across.at(point[0]), up.at(point[1])) for point in line.points]
    way = "M" + "L".join(f"{left} {top}" for left, top in places)
    marks = [
        _mark(line.sign, left, top, f"{line.way}: {x.value(point[0])}, {y.value(point[1])}")
        for (left, top), point in zip(places, line.points, strict=True)
    ]
    return tag("g", _stroke(line.sign, way), *marks, class_=_colour(line.sign), data_way=line.way)


def _key(sign: int) -> Markup:
    drawn = tag("g", _stroke(sign, "M1 7H29"), _mark(sign, 15, 7), class_=_colour(sign))
    return tag("svg", drawn, width=30, height=14, aria_hidden="true")


def _stroke(sign: int, path: str) -> Markup:
    return tag("path", d=path, class_="line", stroke_dasharray=_DASHES[sign // len(_FORMS) % len(_DASHES)])


def _mark(sign: int, left: float, top: float, text: str | None = None) -> Markup:
    said = None if text is None else tag("title", text)
    return tag("path", said, d=f"M{left} {top}{_FORMS[sign % len(_FORMS)]}", class_="mark")


def _colour(sign: int) -> str:
    return f"sign-{sign % _COLOURS}"
