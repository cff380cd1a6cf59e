"""Compares the cost per object of `null` with that of wrk, for one or more numbers of requests in flight."""

from typing import Any

from own_bench.clients import run_null, run_wrk
from own_bench.measured import Bar, Measured, median_ratio, summary
from own_bench.processes import FETCHMILL, fetchmill_server, measure
from own_bench.settings import Settings

CPU_AT_MOST = 1.15
RATE_AT_LEAST = 0.90
NAME = "file-000000000000"
START_UPS = 5


def null(settings: Settings) -> dict[str, Any]:
    """Measures CPU time per object and requests/s, with limits for their ratios to those of wrk."""
    runs = _alternate(settings, settings.connections)
    start_up = [measure((*FETCHMILL, "--version"), settings.cores.client).cpu for _ in range(START_UPS)]
    return {
        **runs,
        "bars": [bar.to_dict() for bar in _bars(runs["rounds"])],
        "start_up_seconds": sorted(start_up)[START_UPS // 2],
        "rounds": [[run.to_dict() for run in pair] for pair in runs["rounds"]],
    }


def in_flight(settings: Settings) -> dict[str, Any]:
    """Measures several numbers of requests in flight. The ratios have no limits."""
    levels = [_alternate(settings, connections) for connections in settings.levels]
    for level in levels:
        level["bars"] = [bar.to_dict() for bar in _bars(level["rounds"])]
        level["rounds"] = [[run.to_dict() for run in pair] for pair in level["rounds"]]
    return {"levels": levels}


def _bars(rounds: list[tuple[Measured, Measured]]) -> list[Bar]:
    return [
        Bar(
            "CPU per object / wrk's",
            median_ratio((ours.cpu_us, wrks.cpu_us) for wrks, ours in rounds),
            at_most=CPU_AT_MOST,
        ),
        Bar(
            "objects/s / wrk's",
            median_ratio((ours.rate, wrks.rate) for wrks, ours in rounds),
            at_least=RATE_AT_LEAST,
        ),
    ]


def _alternate(settings: Settings, connections: int) -> dict[str, Any]:
    """Runs rounds of wrk and fetchmill. A warm-up run of wrk determines the number of objects per run."""
    client = settings.cores.client
    with fetchmill_server(settings.cores.server, *settings.synthetic(1)) as (server, url):
        warm = run_wrk(server, f"{url}/get/{NAME}", connections=connections, seconds=1, core=client)
    count = settings.count(warm.rate)
    rounds = []
    with fetchmill_server(settings.cores.server, *settings.synthetic(count)) as (server, url):
        for _ in range(settings.rounds):
            target = f"{url}/get/{NAME}"
            wrks = run_wrk(server, target, connections=connections, seconds=settings.seconds, core=client)
            ours = run_null(server, url, settings.folder, connections=connections, core=client)
            rounds.append((wrks, ours))
    return {
        "connections": connections,
        "objects": count,
        "rounds": rounds,
        "wrk": summary(wrks for wrks, _ in rounds),
        "fetchmill": summary(ours for _, ours in rounds),
        "commands": [
            f"fetchmill serve {' '.join(settings.synthetic(count))}",
            f"wrk -t1 -c{connections} -d{max(1, round(settings.seconds))}s URL/get/{NAME}",
            f"fetchmill get URL DEST --concurrency {connections} --format null --json",
        ],
    }
