"""Compares `fetchmill serve` with nginx, both measured by wrk on a single name.

The server must not be the bottleneck when clients are measured.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fetchmill.testing import synthetic_body
from own_bench.clients import run_wrk
from own_bench.keepalive import NAME
from own_bench.machine import free_port, program
from own_bench.measured import Bar, Measured, median_ratio, summary
from own_bench.processes import Process, fetchmill_server, listens
from own_bench.settings import SIZE, Settings

RATE_AT_LEAST = 1.0
# Servers are compared only with servers of the same kind. One kind opens a file per request, and the other keeps its
# replies in memory.
BARS = {"serve FOLDER": "nginx", "serve --synthetic": "nginx, open_file_cache"}
SERVERS = ("nginx", "serve FOLDER", "nginx, open_file_cache", "serve --synthetic")
# The servers that keep replies in memory, with 32 pipelined requests on each of a few connections.
PIPELINED = {name: f"{name}, 32 at once" for name in ("nginx, open_file_cache", "serve --synthetic")}
PIPELINING_CONNECTIONS = 16
PIPELINED_CPU_AT_MOST = 0.40
SCRIPT = Path(__file__).with_name("pipeline.lua")
OPEN_FILE_CACHE = "open_file_cache max=1000 inactive=1h; open_file_cache_valid 1h;"
# For small files, nginx is fastest without a log, without sendfile, and with connections that stay open.
CONFIGURATION = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    sendfile off;
    tcp_nodelay on;
    {cache}
    keepalive_requests 1000000000;
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


def servers(settings: Settings) -> dict[str, Any]:
    """Measures replies/s for each kind of content, with limits for the ratios to nginx's rates."""
    root = settings.folder / "served"
    (root / "get").mkdir(parents=True)
    (root / "get" / NAME).write_bytes(synthetic_body(NAME, SIZE))
    core, seconds = settings.cores.server, f"-d{max(1, round(settings.seconds))}s"
    with (
        nginx(settings.folder / "nginx", root, core, cache="") as opening,
        fetchmill_server(core, str(root / "get"), "--port", "0") as folder,
        nginx(settings.folder / "nginx-cache", root, core, cache=OPEN_FILE_CACHE) as remembering,
        fetchmill_server(core, *settings.synthetic(1)) as synthetic,
    ):
        started = dict(zip(SERVERS, (opening, folder, remembering, synthetic), strict=True))
        if settings.rounds > 1:  # otherwise this is only a test of the bench
            for server in started.values():
                _run(settings, *server, seconds=1)
        rounds = [_round(settings, started) for _ in range(settings.rounds)]
    return {
        "connections": settings.connections,
        "servers": {name: summary(found[name] for found in rounds) for name in (*SERVERS, *PIPELINED.values())},
        "bars": [bar.to_dict() for bar in _bars(rounds)],
        "rounds": [{name: run.to_dict() for name, run in found.items()} for found in rounds],
        "commands": [
            f"wrk -t1 -c{settings.connections} {seconds} URL/get/{NAME}",
            f"wrk -t1 -c{PIPELINING_CONNECTIONS} {seconds} -s {SCRIPT.name} URL/get/{NAME}",
            "fetchmill serve FOLDER --port 0",
            f"fetchmill serve {' '.join(settings.synthetic(1))}",
        ],
    }


def _run(settings: Settings, server: Process, url: str, *, seconds: float) -> Measured:
    return run_wrk(
        server, f"{url}/get/{NAME}", connections=settings.connections, seconds=seconds, core=settings.cores.client
    )


def _round(settings: Settings, started: dict[str, tuple[Process, str]]) -> dict[str, Measured]:
    """Runs each server once, in turn."""
    found = {name: _run(settings, *server, seconds=settings.seconds) for name, server in started.items()}
    for name, shown in PIPELINED.items():
        server, url = started[name]
        found[shown] = run_wrk(
            server,
            f"{url}/get/{NAME}",
            "-s",
            str(SCRIPT),
            connections=PIPELINING_CONNECTIONS,
            seconds=settings.seconds,
            core=settings.cores.client,
        )
    return found


def _bars(rounds: list[dict[str, Measured]]) -> list[Bar]:
    rates = [
        Bar(
            f"replies/s, `{name}` / {other}",
            median_ratio((found[name].rate, found[other].rate) for found in rounds),
            at_least=RATE_AT_LEAST,
        )
        for name, other in BARS.items()
    ]
    one, many = "serve --synthetic", PIPELINED["serve --synthetic"]
    pipelined = median_ratio((found[many].server_us, found[one].server_us) for found in rounds)
    return [*rates, Bar(f"CPU a reply, `{one}`: 32 at once / one", pipelined, at_most=PIPELINED_CPU_AT_MOST)]


@contextlib.contextmanager
def nginx(prefix: Path, root: Path, core: int | None, *, cache: str) -> Iterator[tuple[Process, str]]:
    """Starts nginx with a single process, in its own folder."""
    port = free_port()
    prefix.mkdir()
    configuration = prefix / "nginx.conf"
    text = CONFIGURATION.format(prefix=prefix, port=port, root=root, cache=cache)
    configuration.write_text(text)
    command = (program("nginx"), "-e", prefix / "error.log", "-p", prefix, "-c", configuration)
    server = Process(command, core)
    try:
        listens(port, server)
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.stop()
