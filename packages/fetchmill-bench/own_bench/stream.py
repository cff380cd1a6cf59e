"""Compares streaming replies into Python with pycurl, aiohttp, requests and wrk, and Arrow batches with `get`."""

import json
import sys
from typing import Any

from own_bench.clients import run_null, run_wrk
from own_bench.keepalive import NAME
from own_bench.measured import Bar, Measured, median_ratio, summary
from own_bench.processes import Process, cpu_seconds, fetchmill_server, measure
from own_bench.settings import SIZE, Settings
from own_bench.streamers import versions

USER_AT_MOST_OF_PYCURL = 0.5
USER_OF_AIOHTTP_AT_LEAST = 15.0
SYSTEM_AT_MOST_OF_WRK = 1.1
BATCHES_AT_MOST_OF_NULL = 1.3
STREAMERS = ("stream", "pycurl", "aiohttp", "requests", "stream_batches")
# These clients are 10 and 50 times slower. Fewer replies are enough, because the cost per reply does not depend on
# their number.
FEWER = {"aiohttp": 10, "requests": 50}
CLIENTS = ("wrk", *STREAMERS, "null")


def stream(settings: Settings) -> dict[str, Any]:
    """Measures user and system CPU per reply.

    The bars are the ratios to the other clients, with equal numbers of requests in flight.
    """
    with fetchmill_server(settings.cores.server, *settings.synthetic(settings.replies)) as (server, url):
        rounds = [_round(settings, server, url) for _ in range(settings.rounds)]
    return {
        "replies": settings.replies,
        "connections": settings.connections,
        "versions": versions(),
        "clients": {name: summary(found[name] for found in rounds) for name in CLIENTS},
        "bars": [bar.to_dict() for bar in _bars(rounds)],
        "rounds": [{name: run.to_dict() for name, run in found.items()} for found in rounds],
        "commands": [
            f"fetchmill serve {' '.join(settings.synthetic(settings.replies))}",
            f"wrk -t1 -c{settings.connections} -d{max(1, round(settings.seconds))}s URL/get/{NAME}",
            f"python -m own_bench.streamers NAME URL {settings.replies} {settings.connections}",
            f"fetchmill get URL DEST --concurrency {settings.connections} --format null --json",
        ],
    }


def _round(settings: Settings, server: Process, url: str) -> dict[str, Measured]:
    """Runs each client once, in turn."""
    core, connections = settings.cores.client, settings.connections
    target = f"{url}/get/{NAME}"
    found = {"wrk": run_wrk(server, target, connections=connections, seconds=settings.seconds, core=core)}
    for name in STREAMERS:
        found[name] = _run(settings, server, url, name)
    found["null"] = run_null(server, url, settings.folder, connections=connections, core=core)
    return found


def _run(settings: Settings, server: Process, url: str, name: str) -> Measured:
    """Runs one client of `own_bench.streamers`, which reports the CPU time of its loop."""
    count = max(settings.connections, settings.replies // FEWER.get(name, 1))
    module = (sys.executable, "-m", "own_bench.streamers")
    before = cpu_seconds(server.pid)
    usage = measure((*module, name, url, str(count), str(settings.connections)), settings.cores.client)
    server_cpu = cpu_seconds(server.pid) - before
    said = json.loads(usage.output)
    if (said["replies"], said["bytes"]) != (count, count * SIZE):
        raise SystemExit(f"{name} did not get all replies: {said}")
    return Measured(
        client=name,
        objects=count,
        seconds=said["seconds"],
        wall=usage.seconds,
        user=said["user"],
        system=said["system"],
        server=server_cpu,
        peak_mib=usage.peak_mib,
    )


def _bars(rounds: list[dict[str, Measured]]) -> list[Bar]:
    def ratio(figure: str, above: str, below: str) -> float:
        return median_ratio((getattr(found[above], figure), getattr(found[below], figure)) for found in rounds)

    return [
        Bar("user CPU / pycurl's", ratio("user_us", "stream", "pycurl"), at_most=USER_AT_MOST_OF_PYCURL),
        Bar("aiohttp's user CPU / ours", ratio("user_us", "aiohttp", "stream"), at_least=USER_OF_AIOHTTP_AT_LEAST),
        Bar("system CPU / wrk's", ratio("system_us", "stream", "wrk"), at_most=SYSTEM_AT_MOST_OF_WRK),
        Bar(
            "batches: CPU / `get`'s to null", ratio("cpu_us", "stream_batches", "null"), at_most=BATCHES_AT_MOST_OF_NULL
        ),
    ]
