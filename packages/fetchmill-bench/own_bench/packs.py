"""Compares packs with wrk, to measure the cost of storing objects in shards, and the bytes on disk per object."""

import shutil
from pathlib import Path
from typing import Any

from own_bench.clients import run_get, run_null, run_wrk
from own_bench.keepalive import NAME
from own_bench.measured import Bar, Measured, median_ratio, summary
from own_bench.processes import Process, fetchmill_server
from own_bench.settings import Settings

FORMATS = ("parquet", "tar", "jsonl", "warc")
CPU_AT_MOST = {"parquet": 1.5}
RATE_AT_LEAST = {"parquet": 0.80, "tar": 0.70}
BLOCK_BYTES = 512


def packs(settings: Settings) -> dict[str, Any]:
    """Measures CPU time per object and requests/s with a journal, with limits for their ratios to those of wrk."""
    client = settings.cores.client
    with fetchmill_server(settings.cores.server, *settings.synthetic(1)) as (server, url):
        warm = run_wrk(server, f"{url}/get/{NAME}", connections=settings.connections, seconds=1, core=client)
    count = settings.count(warm.rate)
    sizes: dict[str, dict[str, float]] = {}
    with fetchmill_server(settings.cores.server, *settings.synthetic(count)) as (server, url):
        rounds = [_round(settings, server, url, sizes) for _ in range(settings.rounds)]
    clients = ("wrk", "null", *FORMATS)
    return {
        "objects": count,
        "connections": settings.connections,
        "clients": {name: summary(found[name] for found in rounds) for name in clients},
        "disk": sizes,
        "bars": [bar.to_dict() for bar in _bars(rounds)],
        "rounds": [{name: run.to_dict() for name, run in found.items()} for found in rounds],
        "commands": [
            f"fetchmill serve {' '.join(settings.synthetic(count))}",
            f"wrk -t1 -c{settings.connections} -d{max(1, round(settings.seconds))}s URL/get/{NAME}",
            f"fetchmill get URL DEST --concurrency {settings.connections} --format FORMAT --json",
        ],
    }


def _round(settings: Settings, server: Process, url: str, sizes: dict[str, dict[str, float]]) -> dict[str, Measured]:
    """Runs each client once, in turn. Stored objects are removed afterwards."""
    core, connections = settings.cores.client, settings.connections
    target = f"{url}/get/{NAME}"
    found = {
        "wrk": run_wrk(server, target, connections=connections, seconds=settings.seconds, core=core),
        "null": run_null(server, url, settings.folder, connections=connections, core=core),
    }
    for name in FORMATS:
        dest = settings.folder / name
        # Indexes are not part of shards, and no other format has them.
        own = ("--no-cdxj",) if name == "warc" else ()
        found[name] = run_get(server, url, dest, "--format", name, *own, name=name, connections=connections, core=core)
        sizes[name] = disk_bytes(dest, found[name].objects)
        shutil.rmtree(dest)
    return found


def disk_bytes(dest: Path, objects: int) -> dict[str, float]:
    """Returns the bytes on disk per object, in shards and in manifests."""

    def taken(folder: Path, pattern: str) -> float:
        return BLOCK_BYTES * sum(path.stat().st_blocks for path in folder.glob(pattern)) / objects

    return {"shards": taken(dest, "shard-*"), "manifests": taken(dest / ".fetchmill" / "index", "shard-*")}


def _bars(rounds: list[dict[str, Measured]]) -> list[Bar]:
    cpu = [
        Bar(
            f"{name}: CPU per object / wrk's",
            median_ratio((found[name].cpu_us, found["wrk"].cpu_us) for found in rounds),
            at_most=bound,
        )
        for name, bound in CPU_AT_MOST.items()
    ]
    rate = [
        Bar(
            f"{name}: objects/s / wrk's",
            median_ratio((found[name].rate, found["wrk"].rate) for found in rounds),
            at_least=bound,
        )
        for name, bound in RATE_AT_LEAST.items()
    ]
    return cpu + rate
