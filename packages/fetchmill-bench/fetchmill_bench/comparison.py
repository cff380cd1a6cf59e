"""`run_bench`: makes all runs of a comparison and returns one document."""

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fetchmill import __version__
from fetchmill._options.units import format_count, format_seconds
from fetchmill_bench.contender_table import BUCKETS
from fetchmill_bench.options import BenchOptions
from fetchmill_bench.plan import Run, duration, plan_runs
from fetchmill_bench.runner import Bench
from fetchmill_bench.scenarios import MEAN_SECONDS, ceiling
from fetchmill_bench.summary import results_of
from fetchmill_bench.tables import run_line

# Version of the document. It changes whenever programs that read the document must be adapted.
FORMAT = 1
_MIB = 1 << 20


def run_bench(options: BenchOptions, say: Callable[[str], object] = lambda _: None) -> dict[str, Any]:
    """Compares ways to make requests, one at a time.

    Args:
        options: the contenders and the duration.
        say: called with progress lines. The first line states the expected duration.

    Returns:
        The document, which contains the machine, the settings, each run, the results over repeats, and the published
        figures. In the results, `ratio_to_best` is the time per request divided by the best way's time per request. A
        KeyboardInterrupt ends the comparison, but the call still returns: `interrupted` is then set, and the document
        contains all finished measurements.

    Raises:
        ListingError: the user's own server lists no objects.
    """
    runs = plan_runs(options)
    for line in _first_lines(runs, options):
        say(line)
    started = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="fetchmill-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), options.url, warm_up=options.warm_up)
        try:
            for number, run in enumerate(runs, 1):
                rows.append(bench.run(run))
                say(f"{number}/{len(runs)} {run_line(rows[-1])}")
        except KeyboardInterrupt:
            say(f"stopped after {len(rows)} of {len(runs)} runs")
    return {
        "format": FORMAT,
        "fetchmill": __version__,
        "python": platform.python_version(),
        "machine": _machine(),
        "started": started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "scenario": options.scenario or ("all" if options.published else "billion"),
        "published_mode": options.published,
        "interrupted": len(rows) < len(runs),
        "settings": _settings(options),
        "runs": rows,
        "results": results_of(rows, by_requests=options.published or options.scenario == BUCKETS),
        "published": _published(),
    }


def _first_lines(runs: list[Run], options: BenchOptions) -> list[str]:
    """Returns lines that state the expected duration and the rates that cannot be exceeded."""
    expected, bound = duration(runs, warm_up=options.warm_up)
    lines = [f"{len(runs)} runs: about {format_seconds(expected)}, at most {format_seconds(bound)} unless one hangs"]
    limits = sorted({run.limit for run in runs if run.scenario.name == "slow" and run.contender.fixed is None})
    for limit in limits:
        rate = format_count(ceiling(limit))
        lines.append(f"slow: {limit} in flight, replies after {MEAN_SECONDS:g} s on average: at most {rate} requests/s")
    return lines


def _machine() -> dict[str, Any]:
    """Returns the properties of the machine that affect figures, without its name or any path."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return {"processors": len(os.sched_getaffinity(0)), "memory_mib": memory // _MIB, "system": system}


def _settings(options: BenchOptions) -> dict[str, Any]:
    """Returns the given options. An option is None if the scenario's value was used, which each run states."""
    values = {name: value for name, value in asdict(options).items() if name not in ("scenario", "published")}
    return values | {name: None if values[name] is None else list(values[name]) for name in ("contender", "only")}


def _published() -> list[dict[str, Any]]:
    from fetchmill_bench.published import PUBLISHED

    return [asdict(row) for row in PUBLISHED]
