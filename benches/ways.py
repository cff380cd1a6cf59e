"""Writes what `fetchmill bench --published --json` has measured into the tables of docs/ways-to-fetch.md.

Usage: python -m benches.ways FIGURES.json...

Several documents count as one: a later one adds its scenarios. What was stopped by the bench's time stands with what
was done until then.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path("docs/ways-to-fetch.md")
COUNTS = (10, 100, 10_000, 100_000, 1_000_000)
SITES = (10, 100, 500, 1000)
# Of S3, the objects and the requests in flight that clients are compared with.
BUCKET, BUCKET_LIMIT = 30_000, 50
KIB_A_MIB = 1024
NOTHING = "-"

Run = dict[str, Any]
Cells = Callable[[str, str], list[str]]


class Runs:
    """The runs of some documents."""

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        self.last = documents[-1]
        self._runs: list[Run] = [run for document in documents for run in document["runs"]]

    def find(self, scenario: str, contender: str, **wanted: int) -> Run | None:
        """The first run that did something, of those with these facts."""
        for run in self._runs:
            is_meant = run["scenario"] == scenario and run["contender"] == contender and run["done"]
            if is_meant and all(run[name] == value for name, value in wanted.items()):
                return run
        return None


def main() -> None:
    """Fills the tables."""
    runs = Runs([json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:]])
    text = PAGE.read_text("utf-8")
    for table, cells in _tables(runs).items():
        before, _, rest = text.partition(f"<!-- ways:{table} -->\n")
        inside, _, behind = rest.partition(f"<!-- /ways:{table} -->")
        inside = "".join(_filled(line, cells) for line in inside.splitlines(keepends=True))
        text = f"{before}<!-- ways:{table} -->\n{inside}<!-- /ways:{table} -->{behind}"
    PAGE.write_text(text, "utf-8")


def _filled(line: str, cells: Cells) -> str:
    """A row with its last cells replaced; what is no row of a contender stays."""
    parts = line.rstrip("\n").split("|")[1:-1]
    names = (re.fullmatch(r" `(\w+)` ", part) for part in parts[:2])
    name = next((found[1] for found in names if found), "")
    found = cells(name, parts[0].strip()) if parts else []
    if not found or not set(line) - set("|-: \n"):
        return line
    return "| " + " | ".join([*(part.strip() for part in parts[: len(parts) - len(found)]), *found]) + " |\n"


def _tables(runs: Runs) -> dict[str, Cells]:
    return {
        "machine": lambda _name, first: _machine(runs) if first in (NOTHING, _machine(runs)[0]) else [],
        "A": lambda name, way: _of_a(runs, name, way),
        "B": lambda name, way: _of_b(runs, name, way),
        "s3": lambda name, _way: _of_client(runs, name),
        "C": lambda name, _way: _of_c(runs, name),
        "D": lambda name, way: [_seconds(_slow(runs, name, count)) for count in COUNTS] if way == f"`{name}`" else [],
        "E": lambda name, _way: _of_e(runs, name),
        "engines": lambda name, _way: _of_engine(runs, name),
    }


def _machine(runs: Runs) -> list[str]:
    last = runs.last
    machine = last["machine"]
    size = f"{machine['processors']} processors, {machine['memory_mib'] / KIB_A_MIB:.0f} GiB"
    return [size, machine["system"], last["python"], last["fetchmill"], last["started"][:10]]


def _of_a(runs: Runs, name: str, way: str) -> list[str]:
    if not name:
        return []
    limits = {"limit": int(way.split(maxsplit=1)[0])} if way.endswith(" threads") else {}
    run = runs.find("billion", name, **limits)
    if run is None:
        return [NOTHING, NOTHING]
    each = run["seconds"] / run["done"]
    return [f"{each:.6f}", f"{each * 1e9 / 86_400:.2f}"]


def _of_b(runs: Runs, name: str, way: str) -> list[str]:
    """Of so many objects, and threads where the text names a number."""
    facts = {"requests": r"([\d,]+) objects", "limit": r"(\d+) threads"}
    found = {fact: re.search(pattern, way) for fact, pattern in facts.items()}
    wanted = {fact: int(number[1].replace(",", "")) for fact, number in found.items() if number}
    if not name:
        return []
    run = runs.find("s3", name, **wanted)
    if run is None:
        return [NOTHING, NOTHING]
    return [_done(run), _set_up(run)]


def _of_client(runs: Runs, name: str) -> list[str]:
    if not name:
        return []
    run = runs.find("s3", name, requests=BUCKET, limit=BUCKET_LIMIT)
    if run is None:
        return [NOTHING] * 5
    each = [run["cpu_seconds"] / run["done"] * 1e6, run["server_cpu_seconds"] / run["done"] * 1e6]
    cells = [f"{run['done'] / run['seconds']:,.0f}", *(f"{cpu:,.1f}" for cpu in each)]
    return [*cells, f"{run['peak_mib']:.0f}", _set_up(run)]


def _set_up(run: Run) -> str:
    return NOTHING if run["set_up_seconds"] is None else f"{run['set_up_seconds']:.2f}"


def _slow(runs: Runs, name: str, count: int) -> Run | None:
    return runs.find("slow", name, requests=count)


def _seconds(run: Run | None) -> str:
    if run is None:
        return NOTHING
    if run["status"] == "stopped":
        return f"{run['done']:,} in {run['seconds']:.0f} s, {run['peak_mib']:.0f} MiB"
    return f"{run['seconds']:.1f} s, {run['peak_mib']:.0f} MiB"


def _of_c(runs: Runs, name: str) -> list[str]:
    run = _slow(runs, name, 100_000) if name else None
    if run is None:
        return [NOTHING] * 3 if name else []
    return [f"{run['peak_mib'] * KIB_A_MIB:,.0f}", _done(run), f"{100 * run['cpu_seconds'] / run['seconds']:.0f} %"]


def _done(run: Run) -> str:
    """Seconds; of what was stopped also how many were done."""
    return f"{run['seconds']:.1f}" if run["status"] == "ok" else f"{run['done']:,} in {run['seconds']:.0f}"


def _of_e(runs: Runs, name: str) -> list[str]:
    if not name:
        return []
    found = [runs.find("sites", name, sites=sites) for sites in SITES]
    seconds = [NOTHING if run is None else _bounded(run) for run in found]
    differs = found[-1]["differs"] if found[-1] else None
    return [*seconds, NOTHING if differs is None else str(differs["rows"])]


def _bounded(run: Run) -> str:
    stopped = run["status"] == "stopped"
    return f"{run['done']} in {run['seconds']:.0f}" if stopped else f"{run['seconds']:.2f}"


def _of_engine(runs: Runs, name: str) -> list[str]:
    if not name:
        return []
    fast, slow = runs.find("billion", name), _slow(runs, name, 100_000)
    cells = [NOTHING] * 6
    if fast is not None:
        rate, each = fast["done"] / fast["seconds"], fast["cpu_seconds"] / fast["done"] * 1e6
        days = 1e9 / rate / 86_400
        cells[:4] = [f"{rate:,.0f}", f"{each:,.1f}", f"{days:.2f}", f"{fast['peak_mib']:.0f}"]
    if slow is not None:
        rate = slow["steady_per_second"] or slow["done"] / slow["seconds"]
        cells[4:] = [f"{rate:,.0f}", f"{slow['peak_mib']:.0f}"]
    return cells


if __name__ == "__main__":
    main()
