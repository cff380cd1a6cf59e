"""Shows a comparison as a table in the terminal, and its progress as lines."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from fetchmill._options.units import format_count
from fetchmill_bench.contender_table import BUCKETS, CONTENDERS
from fetchmill_bench.scenarios import SCENARIOS
from fetchmill_bench.summary import Row

if TYPE_CHECKING:
    from rich.console import RenderableType

_MILLI, _MICRO = 1e3, 1e6
# Width if the output is not a terminal, so that nothing is truncated.
_WIDTH = 160
_FEW = 100
_NAME_MAX = 40
_EXAMPLES_SHOWN = 3


def write_tables(document: Row, stream: TextIO) -> None:
    """Prints a table for each scenario and number of sites, followed by notes on the figures."""
    # Imported late, because importing rich takes as long as the rest of the start-up.
    from rich.console import Console

    console = Console(file=stream, highlight=False, width=None if stream.isatty() else _WIDTH)
    for title, results in _parts(document["results"]):
        console.print(_table(title, results))
    for line in [*_reasons(document["results"]), *_differences(document["results"]), *_remarks(document)]:
        console.print(line, markup=False, soft_wrap=True)


def run_line(run: Row) -> str:
    """Returns a line about a run that has just ended."""
    of = "" if run["sites"] is None else f" of {format_count(run['sites'])} sites"
    what = f"{run['scenario']}{of}: {_short(run['contender'])}, limit {format_count(run['limit'])}"
    if run["status"] == "failed":
        return f"{what}: failed: {_plain(run['reason'])}"
    done = f"{format_count(run['done'])} requests in {run['seconds']:.2f} s"
    return f"{what}: {done}, {_rate(run['requests_per_second'])} requests/s"


def contender_lines() -> list[str]:
    """Returns all contenders with their scenarios and the published rows that they represent."""
    lines = [f"{scenario.name:<10} {scenario.what}" for scenario in SCENARIOS.values()]
    lines.append("")
    names = max(len(contender.name) for contender in CONTENDERS)
    ways = max(len(contender.way) for contender in CONTENDERS)
    for contender in CONTENDERS:
        scenarios = ", ".join(contender.scenarios)
        line = f"{contender.name:<{names}}  {contender.way:<{ways}}  {scenarios:<20}  {contender.row or ''}"
        lines.append(line.rstrip())
    return lines


def format_duration(seconds: float | None) -> str:
    """Formats a time per request: `12.3 us`, `4.56 ms`, `1.20 s`."""
    if seconds is None:
        return "-"
    if seconds < 1 / _MILLI:
        return f"{seconds * _MICRO:.1f} us"
    return f"{seconds * _MILLI:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _parts(results: Sequence[Row]) -> Iterable[tuple[str, list[Row]]]:
    parts: dict[tuple[str, int | None], list[Row]] = {}
    for result in results:
        parts.setdefault((result["scenario"], result["sites"]), []).append(result)
    for (scenario, sites), found in parts.items():
        of = "" if sites is None else f", {format_count(sites)} sites"
        yield f"{scenario}{of}: {SCENARIOS[scenario].what}", found


def _table(title: str, results: Sequence[Row]) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    has_counts = len({result["requests"] for result in results}) > 1 and results[0]["sites"] is None
    has_steady = any(result["steady_per_second"] is not None for result in results)
    has_set_up = results[0]["scenario"] == BUCKETS
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("contender", overflow="fold")
    heads = ["limit", *(["asked for"] if has_counts else []), "requests/s", *(["steady"] if has_steady else [])]
    heads += ["least-most", "a request", "days for 1e9*", "CPU us", "peak MiB", "failures", "x best"]
    heads += ["set-up s", "server us"] if has_set_up else []
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        cells = [format_count(result["limit"])]
        cells += [format_count(result["requests"])] if has_counts else []
        cells += _cells(result, has_steady=has_steady)
        cells += [_figures(result["set_up_seconds"]), _figures(result["server_cpu_us_a_request"])] if has_set_up else []
        table.add_row(Text(_short(result["contender"])), *cells)
    return table


def _cells(result: Row, *, has_steady: bool) -> list[str]:
    if result["seconds_a_request"] is None:
        return ["failed" if result["status"] == "failed" else "-", *["-"] * (8 if has_steady else 7)][: 8 + has_steady]
    rates = result["requests_per_second"]
    is_single = result["repeats"] == 1
    return [
        _rate(rates["median"]),
        *([_rate(result["steady_per_second"])] if has_steady else []),
        "-" if is_single else f"{_rate(rates['least'])}-{_rate(rates['most'])}",
        format_duration(result["seconds_a_request"]),
        _figures(result["days_for_a_billion"]),
        _figures(result["cpu_us_a_request"]),
        _figures(result["peak_mib"]["median"]),
        format_count(result["failures"]),
        _figures(result["ratio_to_best"]),
    ]


def _reasons(results: Iterable[Row]) -> list[str]:
    """Returns the reasons why contenders failed, without duplicates."""
    lines = [
        f"failed: {_short(result['contender'])}: {_plain(result['reason'])}"
        for result in results
        if result["status"] == "failed"
    ]
    return list(dict.fromkeys(lines))


def _differences(results: Iterable[Row]) -> list[str]:
    """Returns sites whose answers differ between ways and `fetchmill check`."""
    lines = []
    for result in results:
        differs = result["differs"]
        if differs is None or result["sites"] is None:
            continue
        line = f"{_short(result['contender'])}: {differs['rows']} of {result['sites']} sites differ from check"
        some = [f"{url} {other} for {checked}" for url, checked, other in differs["examples"][:_EXAMPLES_SHOWN]]
        lines.append(f"{line}: {', '.join(some)}" if some else line)
    return lines


def _remarks(document: Row) -> list[str]:
    lines = ["* extrapolated from the requests of this run. The figures apply only to this machine."]
    if any(run["status"] == "stopped" for run in document["runs"]):
        lines.append("For contenders that ran out of time, only requests completed by then count.")
    return lines


def _rate(rate: float | None) -> str:
    """Formats requests/s, without decimals if the number is large."""
    if rate is None:
        return "-"
    return format_count(rate) if rate >= _FEW else f"{rate:.1f}"


def _figures(value: float | None) -> str:
    """Formats a number with about three digits."""
    if value is None:
        return "-"
    if value >= _FEW:
        return format_count(value)
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004 - three digits


def _short(name: str) -> str:
    """Returns a contender's name, or the start of a user's command."""
    plain = _plain(name)
    return plain if len(plain) <= _NAME_MAX else plain[: _NAME_MAX - 3] + "..."


def _plain(text: str) -> str:
    """Returns a text without control characters for the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
