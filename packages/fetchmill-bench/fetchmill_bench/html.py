"""Writes the report of `fetchmill bench --html`, a self-contained file that uses neither the network nor scripts.

The report shows only figures from the document that `--json` prints. Its parts are in the package `report`: `markup`
escapes text; `tables`, `bars` and `lines` draw; and `selection` chooses the results that are shown next to each other.
"""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from fetchmill_bench.report import bars, figures, lines, markup
from fetchmill_bench.report.lines import Axis, Line
from fetchmill_bench.report.markup import Child, Markup, join, tag
from fetchmill_bench.report.plots import hatching
from fetchmill_bench.report.published import Entry, entries, published_seconds, published_tables
from fetchmill_bench.report.selection import (
    Record,
    by_scenario,
    common_size,
    comparison_bars,
    is_measured,
    signs,
    size,
    sweep,
)
from fetchmill_bench.report.tables import differences_table, results_table

# Even if a document accidentally contains markup, nothing is fetched and no script runs.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MEMORY = Axis("peak MiB of all processes together", figures.tick_count, figures.mebibytes)
_RATE = Axis("requests/s", figures.tick_count, lambda rate: f"{figures.figure(rate)} requests/s")
_LIMIT = Axis("limit on requests in flight", figures.tick_count, lambda limit: f"limit {figures.count(limit)}")

Published = Callable[[Record], float | None]


def write_report(document: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the report of a bench.

    Args:
        document: the output of `fetchmill bench --json`.
        path: the file. It is replaced if it exists.

    Raises:
        OSError: the file cannot be written.
    """
    # A name that is not UTF-8 contains surrogates, which UTF-8 cannot express.
    Path(path).write_text(_page(document), encoding="utf-8", errors="xmlcharrefreplace")


def _page(document: Record) -> str:
    title = f"fetchmill bench: {document['scenario']}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        markup.style(files("fetchmill_bench.report").joinpath("report.css").read_text(encoding="utf-8")),
    )
    body = tag("body", hatching(), tag("header", tag("h1", title), _facts(document)), _main(document))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _facts(document: Record) -> Markup:
    machine = document["machine"]
    started = datetime.fromisoformat(document["started"])
    given = {name: _format_setting(value) for name, value in document["settings"].items()}
    settings = ", ".join(f"{name} {text}" for name, text in given.items() if text)
    facts = {
        "Started": f"{started:%Y-%m-%d %H:%M:%S} UTC",
        "Machine": f"{machine['processors']} processors, {machine['memory_mib']:,} MiB, {machine['system']}",
        "Versions": f"fetchmill {document['fetchmill']}, Python {document['python']}",
        "Settings": settings or figures.NONE,
    }
    if document.get("interrupted"):
        facts["Interrupted"] = "before all contenders had run"
    return tag("dl", *(join([tag("dt", name), tag("dd", text)]) for name, text in facts.items()))


def _format_setting(value: object) -> str | None:
    """Returns an option as it was given, possibly with several values; None if it was not given."""
    if value is None:
        return None
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _main(document: Record) -> Markup:
    results = document["results"]
    numbers = signs(results)
    published = entries(document["published"])
    sections = [
        _scenario(name, own, numbers, published_seconds(published)) for name, own in by_scenario(results).items()
    ]
    return tag("main", _explanation(), *sections, _published(published, results))


def _explanation() -> Markup:
    return tag(
        "p",
        "Figures are medians of the repeats, with the lowest and highest values below. Contenders ran one at a time"
        " and shared this machine with the server, unless you used your own server. Days for a billion are extrapolated"
        " from the rate. A stopped contender ran out of time before all of its requests were made; its rate still"
        " counts. CPU and memory include all processes of a contender. The axes are logarithmic.",
    )


def _scenario(name: str, results: Sequence[Record], numbers: dict[str, int], published: Published) -> Markup:
    plots = [_bars(name, results, published), _memory(name, results, numbers), _rates(name, results, numbers)]
    differing = differences_table(results)
    return tag(
        "section",
        tag("h2", name),
        results_table(results),
        tag("div", *plots, class_="plots"),
        None if differing is None else join([tag("h3", "Differences from check"), differing]),
    )


def _bars(name: str, results: Sequence[Record], published: Published) -> Markup | None:
    if not any(map(is_measured, results)):
        return None
    rows = comparison_bars(results, published)
    fastest = rows[0]
    title = f"Time per request by way, {figures.count(common_size(results))} {_unit_of(results)}"
    description = (
        f"Scenario {name}, {len(rows)} bars; the fastest is {fastest.way}: {figures.duration(fastest.seconds)}."
    )
    legend = bars.legend() if any(row.published for row in rows) else None
    return _figure(title, bars.bars(title, description, rows), legend)


def _memory(name: str, results: Sequence[Record], numbers: dict[str, int]) -> Markup | None:
    series = sweep(results, numbers, size, None, _peak)
    return _lines(name, f"Memory by number of {_unit_of(results)}", _count_axis(_unit_of(results)), _MEMORY, series)


def _rates(name: str, results: Sequence[Record], numbers: dict[str, int]) -> Markup | None:
    series = sweep(results, numbers, lambda result: result["limit"], size, _rate)
    return _lines(name, "Requests per second by concurrency", _LIMIT, _RATE, series)


def _lines(name: str, title: str, x: Axis, y: Axis, series: Sequence[Line]) -> Markup | None:
    if not series:
        return None
    description = f"Scenario {name}, {len(series)} lines: {', '.join(line.way for line in series)}."
    return _figure(title, lines.lines(title, description, x, y, series), lines.legend(series))


def _figure(title: str, *children: Child) -> Markup:
    return tag("figure", tag("figcaption", title), *children)


def _unit_of(results: Sequence[Record]) -> str:
    return "requests" if results[0]["sites"] is None else "sites"


def _count_axis(what: str) -> Axis:
    return Axis(what, figures.tick_count, lambda value: f"{figures.count(value)} {what}")


def _peak(result: Record) -> float:
    found: float = result["peak_mib"]["median"]
    return found


def _rate(result: Record) -> float:
    found: float = result["requests_per_second"]["median"]
    return found


def _published(published: Sequence[Entry], results: Sequence[Record]) -> Markup:
    note = (
        "These figures come from other machines and years, so compare them only within a table. If the contender that"
        " is built like a row took part, the row also shows this machine's figures at the fastest limit."
        " ~ marks values extrapolated from a run that did not finish. 100 % of CPU is one processor."
    )
    return tag(
        "section",
        tag("h2", "Published figures next to this machine's"),
        tag("p", note),
        published_tables(published, results),
    )
