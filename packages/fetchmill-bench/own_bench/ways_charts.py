"""The charts in docs/reference/ways-to-fetch.md. They are drawn from the page's tables, so that both always agree."""

import re
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

mpl.use("svg")
# Keep text as text, and make the files reproducible.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "fetchmill", "font.size": 7})

NUMBER = re.compile(r"[\d,]*\.?\d+")


@dataclass(frozen=True)
class Chart:
    """The parts of a table that a chart shows.

    Args:
        title: the meaning of the bars.
        here: column of this machine's measurements, from 0.
        published: column of the published figures; None if there are none.
        unit: text after the number to use, if a cell contains several numbers.
        label: columns that name a row.
    """

    title: str
    here: int
    published: int | None = None
    unit: str = ""
    label: tuple[int, ...] = (0,)


CHARTS = {
    "A": Chart("seconds a request", here=4, published=2),
    "B": Chart("seconds", here=3, published=2),
    "s3": Chart("requests/s", here=1),
    "C": Chart("peak memory of 100,000 requests, KB", here=5, published=2),
    "D": Chart("peak memory of 10,000 requests, MiB", here=3, unit=" MiB"),
    "E": Chart("seconds for 1,000 sites", here=9, published=5),
    "engines": Chart("requests/s, objects of 100 bytes into files", here=1),
}


def draw_charts(page: str, folder: Path) -> None:
    """Draws a chart for each table with figures."""
    for name, chart in CHARTS.items():
        inside = page.partition(f"<!-- ways:{name} -->\n")[2].partition(f"<!-- /ways:{name} -->")[0]
        rows = [row for line in inside.splitlines() if (row := _row(line, chart)) is not None]
        if rows:
            _draw(rows, chart, folder / f"ways-{name}.svg")


def _row(line: str, chart: Chart) -> tuple[str, float | None, float] | None:
    """Returns the label of a row, its published figure and its measured figure."""
    cells = [cell.strip() for cell in line.strip("| ").split("|")]
    if len(cells) <= chart.here or not any(re.fullmatch(r"`\w+`", cell) for cell in cells[:2]):
        return None
    here = _number(cells[chart.here], chart.unit)
    published = None if chart.published is None else _number(cells[chart.published], "")
    label = ", ".join(cells[column].strip("`") for column in chart.label)
    return None if here is None else (label, published, here)


def _number(cell: str, unit: str) -> float | None:
    """Returns the first number in a cell, or the number before the unit."""
    found = re.search(rf"({NUMBER.pattern}){re.escape(unit)}", cell)
    return float(found[1].replace(",", "")) if found else None


def _draw(rows: list[tuple[str, float | None, float]], chart: Chart, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.34 * len(rows)), layout="constrained")
    places = range(len(rows))
    known = [(place, row[1]) for place, row in zip(places, rows, strict=True) if row[1] is not None]
    axes.barh([place - 0.18 for place in places], [row[2] for row in rows], 0.34, label="here")
    if known:
        heights = [value for _, value in known]
        axes.barh([place + 0.2 for place, _ in known], heights, 0.34, color="0.75", label="published, another machine")
        axes.legend(loc="best")
    axes.set_yticks(list(places), [row[0] for row in rows])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel=chart.title)
    axes.grid(visible=True, axis="x", alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
