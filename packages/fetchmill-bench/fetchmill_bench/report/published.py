"""The published tables next to this machine's figures, and the published figure for a result."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fetchmill_bench.report import figures
from fetchmill_bench.report.markup import Child, Markup, join, tag
from fetchmill_bench.report.selection import Record, is_measured, size
from fetchmill_bench.report.tables import table

# Matches a unit with the number of requests for which it was measured: `s for 10,000`, `MB for 1 million`,
# `s for 500 sites`, `100 million`.
_SIZED = re.compile(r"(?:(.+?) for )?([\d,]+)( million)?(?: sites)?(, .*)?")
_MILLION = 1_000_000
_A_REQUEST = "s a request"
_REMARK = "remark"
_OURS = ("contender", "its limit", "its requests", "in all", "time a request", "peak memory", "CPU")
_TEXTS = frozenset({"way", "contender", _REMARK})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A published way at one size.

    Args:
        row: the way's row in the document.
        size: number of requests, objects or sites; None if the row does not state it.
        figures: the measurements, by unit.
    """

    row: Record
    size: int | None
    figures: dict[str, Any]

    @property
    def seconds(self) -> float | None:
        """Time per request."""
        if _A_REQUEST in self.figures:
            return _number(self.figures[_A_REQUEST])
        total = _number(self.figures.get("s"))
        return total / self.size if total and self.size else None

    def belongs_to(self, result: Record) -> bool:
        """Returns whether a result from this machine is comparable, with equal way, number of requests and limit.

        A published time per request was extrapolated from an unknown number of requests, so it is comparable with any
        number.
        """
        is_size = _A_REQUEST in self.figures or self.size == size(result)
        return self.row["contender"] == result["contender"] and is_size and self._is_limit(result)

    def _is_limit(self, result: Record) -> bool:
        """Returns whether the limits match.

        Ways with processes always match, because they start one process per processor.
        """
        return self.row["limit"] in (None, result["limit"]) or "processes" in self.row["way"]


def entries(rows: Iterable[Record]) -> list[Entry]:
    """Returns the rows of the document, one for each size."""
    return [Entry(row=row, size=asked, figures=found) for row in rows for asked, found in _by_size(row).items()]


def published_seconds(found: Sequence[Entry]) -> Callable[[Record], float | None]:
    """Returns a function that finds a result's published time per request in seconds.

    If several texts state such a time, the first text is used.
    """

    def find(result: Record) -> float | None:
        return next((entry.seconds for entry in found if entry.seconds and entry.belongs_to(result)), None)

    return find


def published_tables(found: Iterable[Entry], results: Sequence[Record]) -> Markup:
    """Returns a table for each text, with this machine's figures for the contenders that are built like its rows."""
    by_text: dict[str, list[Entry]] = {}
    for entry in found:
        by_text.setdefault(f"{entry.row['table']}. {entry.row['title']}", []).append(entry)
    return join(join([tag("h3", title), _table(own, results)]) for title, own in by_text.items())


def _by_size(row: Record) -> dict[int | None, dict[str, Any]]:
    counts = row["counts"]
    found: dict[int | None, dict[str, Any]] = {}
    for name, value in row["figures"].items():
        sized = _SIZED.fullmatch(name)
        asked = int(sized[2].replace(",", "")) * (_MILLION if sized[3] else 1) if sized else None
        if sized is None or asked not in counts:
            unit, asked = name, counts[0] if len(counts) == 1 else None
        else:
            unit = f"{sized[1]}{sized[4] or ''}" if sized[1] else _REMARK
        found.setdefault(asked, {})[unit] = value
    return found


def _table(own: Sequence[Entry], results: Sequence[Record]) -> Markup:
    units = list(dict.fromkeys(unit for entry in own for unit in entry.figures))
    heads = ["way", "for", *units, *_OURS]
    body = [[*_published_cells(entry, units), *_measured_cells(entry, results)] for entry in own]
    return table(heads, body, {position for position, head in enumerate(heads) if head in _TEXTS})


def _published_cells(entry: Entry, units: Sequence[str]) -> list[Child]:
    """Returns the published cells."""
    return [entry.row["way"], figures.count(entry.size), *(_cell(entry.figures.get(unit)) for unit in units)]


def _measured_cells(entry: Entry, results: Sequence[Record]) -> list[Child]:
    """Returns the cells with this machine's figures, at the fastest limit if there are several."""
    name = entry.row["contender"]
    if name is None:
        return ["no contender", *[figures.NONE] * 6]
    own = [result for result in results if entry.belongs_to(result)]
    if not own:
        return [name, "not run", *[figures.NONE] * 5]
    best = max(own, key=lambda result: result["requests_per_second"]["median"])
    asked = [name, figures.count(best["limit"]), figures.count(size(best))]
    if not is_measured(best):
        return [*asked, tag("span", "failed", class_="failed"), *[figures.NONE] * 3]
    seconds, cpu = best["seconds_a_request"], best["cpu_us_a_request"]
    total = f"{'' if best['status'] == 'ok' else '~ '}{figures.duration(seconds * size(best))}"
    share = figures.NONE if cpu is None else f"{cpu / seconds / 1e4:.0f} %"
    return [*asked, total, figures.duration(seconds), figures.mebibytes(best["peak_mib"]["median"]), share]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _cell(value: float | str | None) -> str:
    """Returns a value as it was written."""
    if value is None:
        return figures.NONE
    return value if isinstance(value, str) else f"{value:,.9f}".rstrip("0").rstrip(".")
