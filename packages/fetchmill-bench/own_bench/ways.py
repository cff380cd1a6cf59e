"""`make ways`: compares published ways to fetch with fetchmill's engines, for docs/reference/ways-to-fetch.md.

Usage: python -m own_bench.ways [--again NAME]...

Each contender of each scenario is a separate piece: `fetchmill bench SCENARIO --published --only CONTENDER`. The
results of a piece are stored in a file in `build/ways`, so the command resumes where it was stopped. `--again` repeats
the pieces whose names contain NAME. If a run was too long for its piece, the table shows its extrapolated time, marked
with `≈`.
"""

import argparse
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from fetchmill_bench.contender_table import CONTENDERS
from own_bench.machine import ROOT
from own_bench.processes import FETCHMILL

PAGE = ROOT / "docs" / "reference" / "ways-to-fetch.md"
PIECES = ROOT / "build" / "ways"
COUNTS = (10, 100, 10_000, 100_000)
MILLION = 1_000_000
SITES = (10, 100, 500, 1000)
# Numbers of objects and of requests in flight at which S3 clients are compared.
BUCKET, BUCKET_LIMIT = 30_000, 50
KIB_A_MIB = 1024
NOTHING = "-"
DAY = 86_400.0
# Times up to this many seconds are shown with two decimals.
SHORT = 10.0

Run = dict[str, Any]
Cells = Callable[[str, str], list[str]]


class Runs:
    """The runs from several documents."""

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        self.last = max(documents, key=lambda document: str(document["started"]))
        self._runs: list[Run] = [run for document in documents for run in document["runs"]]

    def find(self, scenario: str, contender: str, **wanted: int) -> Run | None:
        """Returns the first run with these properties that completed any requests."""
        for run in self._runs:
            is_meant = run["scenario"] == scenario and run["contender"] == contender and run["done"]
            if is_meant and all(run[name] == value for name, value in wanted.items()):
                return run
        return None


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--again", action="append", default=[], metavar="NAME", help="repeat pieces whose names contain NAME"
    )
    parser.add_argument(
        "--tables", action="store_true", help="write the page from existing results, and measure nothing"
    )
    options = parser.parse_args()
    PIECES.mkdir(parents=True, exist_ok=True)
    if not options.tables:
        for scenario, contender in pieces():
            measure(scenario, contender, options.again)
    documents = [json.loads(path.read_text("utf-8")) for path in sorted(PIECES.glob("*.json"))]
    if documents:
        write_page(Runs(documents))


def pieces() -> Iterator[tuple[str, str]]:
    """Yields scenarios with contenders, fastest first."""
    for scenario in ("billion", "s3", "sites", "slow"):
        for contender in CONTENDERS:
            if scenario in contender.scenarios:
                yield scenario, contender.name


def measure(scenario: str, contender: str, again: list[str]) -> None:
    """Measures a piece, unless its results exist."""
    path = PIECES / f"{scenario}-{contender}.json"
    if path.exists() and not any(text in path.stem for text in again):
        return
    print(f"{scenario} {contender}", flush=True)
    command = [*FETCHMILL, "bench", scenario, "--published", "--only", contender, "--json"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    document = json.loads(ended.stdout)
    # An incomplete measurement must not count as a result.
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(document, indent=1), "utf-8")
    unfinished.rename(path)


def write_page(runs: Runs) -> None:
    """Fills in the tables, and draws the charts."""
    from own_bench.ways_charts import draw_charts

    text = PAGE.read_text("utf-8")
    for table, cells in _tables(runs).items():
        before, _, rest = text.partition(f"<!-- ways:{table} -->\n")
        inside, _, behind = rest.partition(f"<!-- /ways:{table} -->")
        inside = "".join(_filled(line, cells) for line in inside.splitlines(keepends=True))
        text = f"{before}<!-- ways:{table} -->\n{inside}<!-- /ways:{table} -->{behind}"
    PAGE.write_text(text, "utf-8")
    draw_charts(text, PAGE.parent / "plots")


def _filled(line: str, cells: Cells) -> str:
    """Returns a row with its last cells replaced. A row without a contender stays unchanged."""
    parts = line.rstrip("\n").split("|")[1:-1]
    names = (re.fullmatch(r" `(\w+)` ", part) for part in parts[:2])
    name = next((found[1] for found in names if found), "")
    found = cells(name, parts[0].strip()) if parts else []
    if not found or "---" in line:
        return line
    return "| " + " | ".join([*(part.strip() for part in parts[: len(parts) - len(found)]), *found]) + " |\n"


def _tables(runs: Runs) -> dict[str, Cells]:
    return {
        "machine": lambda _name, first: _machine(runs) if first in (NOTHING, _machine(runs)[0]) else [],
        "A": lambda name, way: _of_a(runs, name, way),
        "B": lambda name, way: _of_b(runs, name, way),
        "s3": lambda name, _way: _of_client(runs, name),
        "C": lambda name, _way: _of_c(runs, name),
        "D": lambda name, way: _of_d(runs, name) if way == f"`{name}`" else [],
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
    return [f"{each:.7f}", f"≈ {each * 1e9 / DAY:.2f}"]


def _of_b(runs: Runs, name: str, way: str) -> list[str]:
    """Returns the cells of table B for this number of objects and, if the text states one, this number of threads."""
    facts = {"requests": r"([\d,]+) objects", "limit": r"(\d+) threads"}
    found = {fact: re.search(pattern, way) for fact, pattern in facts.items()}
    wanted = {fact: int(number[1].replace(",", "")) for fact, number in found.items() if number}
    if not name:
        return []
    run = runs.find("s3", name, **wanted)
    if run is None:
        return [NOTHING, NOTHING]
    return [_seconds(run), _set_up(run)]


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


def _seconds(run: Run, requests: int | None = None) -> str:
    """Returns a run's duration, extrapolated if the run did not complete or had a different number of requests."""
    wanted = requests or run["requests"]
    if run["status"] == "ok" and wanted == run["requests"]:
        return f"{run['seconds']:,.2f}" if run["seconds"] < SHORT else f"{run['seconds']:,.1f}"
    return f"≈ {run['seconds'] / run['done'] * wanted:,.0f}"


def _of_c(runs: Runs, name: str) -> list[str]:
    run = _slow(runs, name, 100_000) if name else None
    if run is None:
        return [NOTHING] * 3 if name else []
    return [f"{run['peak_mib'] * KIB_A_MIB:,.0f}", _seconds(run), f"{100 * run['cpu_seconds'] / run['seconds']:.0f} %"]


def _of_d(runs: Runs, name: str) -> list[str]:
    """Returns the cells of table D for each count. The cell for a million is extrapolated from the largest count."""
    found = [_slow(runs, name, count) for count in COUNTS]
    cells = [NOTHING if run is None else f"{_seconds(run)} s, {run['peak_mib']:.0f} MiB" for run in found]
    last = next((run for run in reversed(found) if run is not None), None)
    return [*cells, NOTHING if last is None else f"{_seconds(last, MILLION)} s"]


def _of_e(runs: Runs, name: str) -> list[str]:
    if not name:
        return []
    found = [runs.find("sites", name, sites=sites) for sites in SITES]
    seconds = [NOTHING if run is None else _seconds(run) for run in found]
    differs = found[-1]["differs"] if found[-1] else None
    return [*seconds, NOTHING if differs is None else str(differs["rows"])]


def _of_engine(runs: Runs, name: str) -> list[str]:
    if not name:
        return []
    fast, slow = runs.find("billion", name), _slow(runs, name, 100_000)
    cells = [NOTHING] * 6
    if fast is not None:
        rate, each = fast["done"] / fast["seconds"], fast["cpu_seconds"] / fast["done"] * 1e6
        cells[:4] = [f"{rate:,.0f}", f"{each:,.1f}", f"≈ {1e9 / rate / DAY:.2f}", f"{fast['peak_mib']:.0f}"]
    if slow is not None:
        rate = slow["steady_per_second"] or slow["done"] / slow["seconds"]
        cells[4:] = [f"{rate:,.0f}", f"{slow['peak_mib']:.0f}"]
    return cells


if __name__ == "__main__":
    main()
