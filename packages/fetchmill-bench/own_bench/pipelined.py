"""Compares `--pipeline 32` with wrk, which sends one request at a time, and with h2load, which sends 32 together.

nginx answers pipelined requests one by one. With nginx, the job is therefore compared with a job without `--pipeline`.
"""

import shutil
from pathlib import Path
from typing import Any

from fetchmill.testing import synthetic_body
from own_bench.clients import run_get, run_wrk
from own_bench.https import run_h2load
from own_bench.keepalive import NAME
from own_bench.measured import Bar, Measured, median_ratio, summary
from own_bench.processes import Process, fetchmill_server
from own_bench.servers import nginx
from own_bench.settings import SIZE, Settings

AT_ONCE = 32
CONNECTIONS = 16
FORMATS = ("null", "parquet")
H2LOAD = ("--h1", f"-c{CONNECTIONS}", f"-m{AT_ONCE}")
# Minimum rate, as a multiple of wrk's rate with one request at a time.
RATE_AT_LEAST = 1.8
# Number of folders with nginx's files. nginx cannot keep all of the files open, so it reopens each file.
FOLDERS = 20
NGINX = "autoindex on;"
NGINX_CLIENTS = {"nginx": (), "nginx, 32 at once": ("--pipeline", str(AT_ONCE))}
CPU_US_AT_MOST = {"null": 1.7, "parquet": 2.4}


def pipelined(settings: Settings) -> dict[str, Any]:
    """Measures the ratio of objects/s to wrk's rate, and the CPU time per object, with limits for both."""
    client = settings.cores.client
    with fetchmill_server(settings.cores.server, *settings.synthetic(1)) as (server, url):
        warm = run_wrk(server, f"{url}/get/{NAME}", connections=settings.connections, seconds=1, core=client)
    count = settings.count(warm.rate * RATE_AT_LEAST)
    with fetchmill_server(settings.cores.server, *settings.synthetic(count)) as (server, url):
        rounds = [_round(settings, server, url, count) for _ in range(settings.rounds)]
    root = settings.folder / "served-pipelined"
    _write_files(root, settings.files // FOLDERS)
    with nginx(settings.folder / "nginx-pipelined", root, settings.cores.server, cache=NGINX) as (server, url):
        for found in rounds:
            found.update(_nginx_round(settings, server, url))
    return {
        "objects": count,
        "connections": settings.connections,
        "clients": {name: summary(found[name] for found in rounds) for name in rounds[0]},
        "bars": [bar.to_dict() for bar in _bars(rounds)],
        "rounds": [{name: run.to_dict() for name, run in found.items()} for found in rounds],
        "commands": [
            f"fetchmill serve {' '.join(settings.synthetic(count))}",
            f"wrk -t1 -c{settings.connections} -d{max(1, round(settings.seconds))}s URL/get/{NAME}",
            f"h2load {' '.join(H2LOAD)} -n{count} URL/get/{NAME}",
            f"fetchmill get URL DEST --concurrency {CONNECTIONS} --pipeline {AT_ONCE} --format FORMAT --json",
            f"fetchmill get URL-OF-NGINX DEST --concurrency {settings.connections} --format null --json",
        ],
    }


def _round(settings: Settings, server: Process, url: str, count: int) -> dict[str, Measured]:
    """Runs each client once, in turn. Stored objects are removed afterwards."""
    core, target = settings.cores.client, f"{url}/get/{NAME}"
    found = {
        "wrk": run_wrk(server, target, connections=settings.connections, seconds=settings.seconds, core=core),
        "h2load": run_h2load(server, target, H2LOAD, count, core),
    }
    for name in FORMATS:
        dest = settings.folder / name
        options = ("--format", name, "--pipeline", str(AT_ONCE))
        found[name] = run_get(server, url, dest, *options, name=name, connections=CONNECTIONS, core=core)
        shutil.rmtree(dest)
    return found


def _write_files(root: Path, each: int) -> None:
    for folder in range(FOLDERS):
        (root / f"{folder}").mkdir(parents=True)
        for number in range(each):
            name = f"{folder}/{number:08}"
            (root / name).write_bytes(synthetic_body(name, SIZE))


def _nginx_round(settings: Settings, server: Process, url: str) -> dict[str, Measured]:
    """Fetches all files from nginx, first without and then with `--pipeline`."""
    found = {}
    for name, more in NGINX_CLIENTS.items():
        connections = CONNECTIONS if more else settings.connections
        dest = settings.folder / "null"
        options = ("--format", "null", *more)
        found[name] = run_get(
            server, url, dest, *options, name=name, connections=connections, core=settings.cores.client
        )
        shutil.rmtree(dest)
    return found


def _bars(rounds: list[dict[str, Measured]]) -> list[Bar]:
    rate = median_ratio((found["null"].rate, found["wrk"].rate) for found in rounds)
    # Divide by one microsecond, so that the ratio is the CPU time itself.
    cpu = {name: median_ratio((found[name].cpu_us, 1.0) for found in rounds) for name in FORMATS}
    return [
        Bar("null: objects/s / wrk's", rate, at_least=RATE_AT_LEAST),
        *(Bar(f"{name}: CPU us per object", cpu[name], at_most=CPU_US_AT_MOST[name]) for name in FORMATS),
    ]
