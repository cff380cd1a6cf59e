"""The table and the plots of `make bench-concurrency`, for docs/guide/concurrency.md."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from own_bench.machine import ROOT

mpl.use("svg")
# Keep text as text, and make the files reproducible.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "fetchmill", "font.size": 7})

DOCS = ROOT / "docs"
COLUMNS = 3


def write_page(found: dict[str, Any]) -> None:
    """Draws the plots and fills in the tables of the page, using the measurements made so far."""
    tables = {}
    if found["cases"]:
        cases = list(found["cases"].values())
        draw_cases(cases, DOCS / "plots" / "concurrency.svg")
        tables["cases"] = case_table(cases)
    if "changing" in found:
        draw_change(found["changing"], DOCS / "plots" / "concurrency-change.svg")
        tables["changing"] = change_table(found["changing"])
    if "shared" in found:
        tables["shared"] = share_table(found["shared"])
    page = DOCS / "guide" / "concurrency.md"
    marked = re.compile(r"(<!-- concurrency:(\w+) -->\n).*?(<!-- /concurrency:\2 -->)", re.DOTALL)
    filled = marked.sub(lambda match: f"{match[1]}{tables.get(match[2], '')}{match[3]}", page.read_text())
    page.write_text(filled)


def case_table(cases: list[dict[str, Any]]) -> str:
    """Returns a table with a row for each network."""
    lines = [
        "| network or server | best fixed number | objects/s | `auto` | of the best | in flight |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for case in cases:
        best = max(case["fixed"].values())
        least, most = case["limits"]
        lines.append(
            f"| {case['name']} | {case['best']:,} | {best:,.0f} | {case['auto']:,.0f} | {case['ratio']:.2f} | "
            f"{least:,} to {most:,} |"
        )
    return "\n".join(lines) + "\n"


def change_table(changing: dict[str, Any]) -> str:
    """Returns a table with a row for each interval between two changes."""
    lines = [
        "The round trip changes while the job runs. Counting starts 10 s after each change:\n",
        "| round trip | best fixed number | objects/s | `auto` | of the best |",
        "|---|--:|--:|--:|--:|",
    ]
    rates = changing["rates"]
    for part, (_, round_trip) in enumerate(changing["changes"]):
        fixed = {number: rate[part] for number, rate in rates.items() if number != "auto"}
        best = max(fixed, key=lambda number: fixed[number])
        lines.append(
            f"| {round_trip * 1000:g} ms | {int(best):,} | {fixed[best]:,.0f} | {rates['auto'][part]:,.0f} | "
            f"{changing['ratios'][part]:.2f} |"
        )
    lines.append("\n![Rate and number in flight over time](../plots/concurrency-change.svg)")
    return "\n".join(lines) + "\n"


def share_table(shared: list[dict[str, Any]]) -> str:
    """Returns a table with the goodput of each of two jobs."""
    lines = [
        "Two jobs use one server. The second starts 5 s later. Counting lasts from the 20th to the 40th second:\n",
        "| network or server | objects/s | larger share |",
        "|---|--:|--:|",
    ]
    for found in shared:
        first, second = found["rates"]
        larger = max(first, second) / (first + second)
        lines.append(f"| {found['name']} | {first:,.0f} and {second:,.0f} | {larger:.0%} |")
    return "\n".join(lines) + "\n"


def draw_cases(cases: list[dict[str, Any]], path: Path) -> None:
    """Draws each network's rate by number of requests in flight, and the result of `auto`."""
    rows = math.ceil(len(cases) / COLUMNS)
    figure, places = plt.subplots(rows, COLUMNS, figsize=(8.5, 1.7 * rows), squeeze=False, layout="constrained")
    for axes, case in zip(places.flat, cases, strict=False):
        _draw_case(axes, case)
    for axes in list(places.flat)[len(cases) :]:
        axes.axis("off")
    _save(figure, path)


def _draw_case(axes: Axes, case: dict[str, Any]) -> None:
    numbers = sorted(case["fixed"], key=int)
    axes.plot([int(number) for number in numbers], [case["fixed"][number] for number in numbers], "o-", ms=3, lw=1)
    least, most = case["limits"]
    axes.plot([least, most], [case["auto"]] * 2, color="tab:red", lw=1)
    axes.plot([math.sqrt(least * most)], [case["auto"]], "D", color="tab:red", ms=4)
    axes.set(title=case["name"], xscale="log", xlim=(12, 22_000), ylim=(0, None))
    axes.set_xticks([16, 256, 4096], ["16", "256", "4,096"])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(which="minor", labelbottom=False)
    axes.grid(visible=True, alpha=0.3)


def draw_change(changing: dict[str, Any], path: Path) -> None:
    """Draws the rate and the number of requests in flight over time."""
    points = changing["points"]
    figure, (rates, limits) = plt.subplots(2, 1, figsize=(6, 3.6), sharex=True, layout="constrained")
    pairs = list(itertools.pairwise(points))
    rates.plot([after[0] for _, after in pairs], [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs], lw=1)
    rates.set(ylabel="objects/s", yscale="log")
    limits.plot([point[0] for point in points], [point[2] for point in points], color="tab:red", lw=1)
    limits.set(ylabel="may be in flight", xlabel="seconds", yscale="log")
    for axes in (rates, limits):
        axes.grid(visible=True, alpha=0.3)
        for at, round_trip in changing["changes"]:
            axes.axvline(at, color="grey", lw=0.7, ls="--")
            if axes is rates:
                axes.annotate(f"{round_trip * 1000:g} ms", (at, 1), xycoords=("data", "axes fraction"), va="bottom")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
