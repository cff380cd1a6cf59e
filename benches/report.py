"""`make bench-report`: figures as Markdown tables, on the terminal and in the pages that show them."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from benches.machine import ROOT

RESULTS = ROOT / "benches" / "results" / "latest.json"
PAGES = (ROOT / "docs" / "performance.md", ROOT / "README.md")

Row = tuple[str, ...]


def main() -> int:
    """Writes the tables between the markers `<!-- bench NAME -->` and `<!-- end -->` of the pages."""
    results = json.loads(RESULTS.read_text())
    for page in PAGES:
        text = page.read_text()
        page.write_text(re.sub(r"(<!-- bench (\w+) -->\n).*?(<!-- end -->)", _filled(results), text, flags=re.DOTALL))
    return 0


def render(name: str, results: dict[str, Any]) -> str:
    """One table, or several."""
    if name not in TABLES:
        raise SystemExit(f"there is no table called {name}")
    needed = {"facts": (), "summary": ()}.get(name, (name,))
    if not all(scenario in results["scenarios"] for scenario in needed):
        return "Not measured yet.\n"
    return TABLES[name](results)


def _filled(results: dict[str, Any]) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{found[1]}{render(found[2], results)}{found[3]}"


def _table(heads: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; all but the first column are numbers."""
    body = [heads, *rows]
    widths = [max(len(row[column]) for row in body) for column in range(len(heads))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def line(row: Iterable[str]) -> str:
        cells = [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(cells)} |"

    return "\n".join([line(heads), line(rule), *map(line, body[1:])]) + "\n"


def _bars(bars: Iterable[dict[str, Any]]) -> str:
    rows = []
    for bar in bars:
        word, bound = ("at most", bar["at_most"]) if bar["at_most"] is not None else ("at least", bar["at_least"])
        rows.append((bar["name"], f"{bar['ratio']:.2f}", f"{word} {bound:.2f}", "yes" if bar["is_met"] else "NO"))
    return _table(("ratio, median of the rounds", "measured", "bar", "met"), rows)


CLIENT_HEADS = (
    "",
    "objects/s",
    "CPU us an object",
    "user",
    "system",
    "lowest - highest",
    "server's CPU us",
    "peak MiB",
)


def _client_row(name: str, values: dict[str, float]) -> Row:
    return (
        name,
        f"{values['rate']:,.0f}",
        f"{values['cpu_us']:.2f}",
        f"{values['user_us']:.2f}",
        f"{values['system_us']:.2f}",
        f"{values['cpu_us_low']:.2f} - {values['cpu_us_high']:.2f}",
        f"{values['server_us']:.2f}",
        f"{values['peak_mib']:.0f}",
    )


def _null(results: dict[str, Any]) -> str:
    found = results["scenarios"]["null"]
    rows = [_client_row(name, found[name]) for name in ("wrk", "fetchmill")]
    start_up = f"Start-up of the command (`fetchmill --version`): {1000 * found['start_up_seconds']:.0f} ms of CPU"
    start_up += f", which is {1e6 * found['start_up_seconds'] / found['objects']:.2f} us for each of"
    start_up += f" {found['objects']:,} objects; it is in the figures.\n"
    return f"{_table(CLIENT_HEADS, rows)}\n{_bars(found['bars'])}\n{start_up}"


def _in_flight(results: dict[str, Any]) -> str:
    rows = []
    for level in results["scenarios"]["in_flight"]["levels"]:
        ours, wrks = level["fetchmill"], level["wrk"]
        cpu, rate = level["bars"]
        rows.append(
            (
                str(level["connections"]),
                f"{ours['rate']:,.0f}",
                f"{wrks['rate']:,.0f}",
                f"{rate['ratio']:.2f}",
                f"{ours['cpu_us']:.2f}",
                f"{wrks['cpu_us']:.2f}",
                f"{cpu['ratio']:.2f}",
            )
        )
    heads = ("in flight", "objects/s", "wrk's", "ratio", "CPU us an object", "wrk's", "ratio")
    return _table(heads, rows)


def _facts(results: dict[str, Any]) -> str:
    facts, settings = results["machine"], results["settings"]
    changed = " with changes" if results["changed"] else ""
    return (
        f"Measured at {results['measured_at']}, commit {results['commit'][:12]}{changed}; {facts['processor']}, "
        f"{facts['processors']} processors, {facts['memory_mib']:,} MiB, {facts['kernel']}; Python {facts['python']}, "
        f"{facts['rustc']}, {facts['nginx'].removeprefix('nginx version: ')}, {facts['wrk']}. "
        f"{settings['rounds']} rounds of about {settings['seconds']:g} s a run, objects of {settings['size']} B, "
        f"seed {settings['seed']}.\n"
    )


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {"facts": _facts, "null": _null, "in_flight": _in_flight}


if __name__ == "__main__":
    sys.exit(main())
