"""The tables of a report."""

from collections.abc import Container, Iterable, Sequence

from fetchmill_bench.report import figures
from fetchmill_bench.report.markup import Child, Markup, join, tag
from fetchmill_bench.report.selection import Record, is_measured, size

# Columns that contain text. All others contain figures and are aligned to the right.
_RESULT_TEXTS = frozenset({"contender", "remark"})
# The column for the rate without the first and last seconds, which only some scenarios have.
_STEADY = "steady requests/s"
# The column for the time that a way took to create its clients. Only one scenario reports it.
_SET_UP = "set-up s"


def results_table(results: Sequence[Record]) -> Markup:
    """Returns a scenario's results, with a row for each contender, size and limit."""
    rows = [_columns(result) for result in results]
    for head, name in ((_STEADY, "steady_per_second"), (_SET_UP, "set_up_seconds")):
        if not any(result[name] for result in results):
            for row in rows:
                del row[head]
    heads = list(rows[0])
    return table(heads, [list(row.values()) for row in rows], {heads.index(name) for name in _RESULT_TEXTS})


def differences_table(results: Iterable[Record]) -> Markup | None:
    """Returns the sites on which a way and `fetchmill check` disagree; None if they were not compared."""
    rows = []
    for result in results:
        if result["differs"] is not None:
            examples = [
                tag("div", f"{url}: check says {right}, this way {found}")
                for url, right, found in result["differs"]["examples"]
            ]
            numbers = (figures.count(size(result)), figures.count(result["differs"]["rows"]))
            rows.append([result["contender"], *numbers, join(examples) if examples else figures.NONE])
    return table(["contender", "sites", "answers that differ", "for example"], rows, {0, 3}) if rows else None


def table(heads: Sequence[Child], rows: Iterable[Sequence[Child]], texts: Container[int]) -> Markup:
    """Creates a table in its own scrolling box.

    Args:
        heads: headings of the columns.
        rows: cells of the rows. The first cell is the heading of its row.
        texts: positions of the columns with text. All other columns contain figures and are aligned to the right.

    Returns:
        The box.
    """
    kinds = [None if position in texts else "figure" for position in range(len(heads))]
    head = tag("tr", *(tag("th", text, scope="col", class_=kind) for text, kind in zip(heads, kinds, strict=True)))
    body = join((_row(row, kinds) for row in rows), "\n")
    # Let the box take the keyboard focus; otherwise it cannot be scrolled with the keyboard.
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="box", tabindex=0)


def _row(cells: Sequence[Child], kinds: Sequence[str | None]) -> Markup:
    first = tag("th", cells[0], scope="row")
    rest = (tag("td", cell, class_=kind) for cell, kind in zip(cells[1:], kinds[1:], strict=True))
    return tag("tr", first, *rest)


def _columns(result: Record) -> dict[str, Child]:
    """Returns the cells of a result by column head."""
    rate, peak = result["requests_per_second"], result["peak_mib"]
    is_there = is_measured(result)
    return {
        "contender": join([result["contender"], tag("small", result["way"])]),
        "requests" if result["sites"] is None else "sites": figures.count(size(result)),
        "limit": figures.count(result["limit"]),
        "requests/s": _with_spread(rate) if is_there else figures.NONE,
        _STEADY: figures.figure(result["steady_per_second"]),
        "times the best time": figures.figure(result["ratio_to_best"]),
        "time per request": figures.duration(result["seconds_a_request"]),
        "days for a billion, extrapolated": figures.figure(result["days_for_a_billion"]),
        _SET_UP: figures.figure(result["set_up_seconds"]),
        "CPU us per request": figures.figure(result["cpu_us_a_request"]),
        "server's CPU us": figures.figure(result["server_cpu_us_a_request"]),
        "peak MiB": _with_spread(peak) if is_there else figures.NONE,
        "failures": figures.count(result["failures"]),
        "remark": _remark(result),
    }


def _with_spread(found: Record) -> Markup:
    """Returns the median, with its spread below it."""
    between = None
    if found["least"] != found["most"]:
        between = tag("small", f"{figures.figure(found['least'])} - {figures.figure(found['most'])}")
    return join([figures.figure(found["median"]), between])


def _remark(result: Record) -> Child:
    if result["status"] == "ok":
        return None
    if result["status"] == "stopped":
        return "stopped"
    how_often = "failed at least once" if is_measured(result) else "failed"
    return tag("span", f"{how_often}: {result['reason']}", class_="failed")
