"""Compares https with h2load, for HTTP/1.1 and HTTP/2 over TLS 1.3, with nginx on the other core."""

import contextlib
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from own_bench.clients import run_get
from own_bench.keepalive import NAME
from own_bench.machine import free_port, program
from own_bench.measured import Measured, median_ratio, summary
from own_bench.processes import Process, cpu_seconds, listens, measure
from own_bench.settings import SIZE, Settings

# All clients use the same cipher. Every path gets the same reply from memory, without files or logs, and connections
# stay open.
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
    default_type application/octet-stream;
    keepalive_requests 1000000000;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {prefix}/server.pem;
        ssl_certificate_key {prefix}/server.key;
        ssl_protocols TLSv1.3;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
        location /get/ {{ return 200 "{body}"; }}
    }}
}}
"""
AUTHORITY = "client.pem"  # trustme's name for the certificate that clients must trust
WARM_UP_REQUESTS = 20_000
OPTIONS = "--allow-private --format null"


@dataclass(frozen=True)
class Version:
    """The options of both clients for one version of HTTP."""

    name: str
    h2load: tuple[str, ...]
    get: str


def versions(connections: int) -> tuple[Version, ...]:
    """Returns the versions. Both use equally many requests in flight: one per connection, or all on one connection."""
    return (
        Version("HTTP/1.1", ("--h1", f"-c{connections}", "-m1"), "--no-http2"),
        Version("HTTP/2", ("-c1", f"-m{connections}"), "--http2"),
    )


def https(settings: Settings) -> dict[str, Any]:
    """Measures both clients and the ratios of their figures. The ratios have no limits."""
    prefix = settings.folder / "nginx-https"
    with nginx(prefix, settings.cores.server) as (server, url):
        found = [_compare(settings, version, server, url, prefix) for version in versions(settings.connections)]
    return {"connections": settings.connections, "versions": found}


def _compare(settings: Settings, version: Version, server: Process, url: str, prefix: Path) -> dict[str, Any]:
    """Runs rounds of h2load and fetchmill. A first run of h2load determines the number of objects per run."""
    core = settings.cores.client
    count = settings.count(run_h2load(server, f"{url}/get/{NAME}", version.h2load, WARM_UP_REQUESTS, core).rate)
    urls = settings.folder / "urls.txt"
    with urls.open("w") as lines:
        lines.writelines(f"{url}/get/file-{number:012}\n" for number in range(count))
    options = (*OPTIONS.split(), "--ca-file", str(prefix / AUTHORITY), version.get)
    rounds = []
    for _ in range(settings.rounds):
        theirs = run_h2load(server, f"{url}/get/{NAME}", version.h2load, count, core)
        dest = settings.folder / "https"
        ours = run_get(server, str(urls), dest, *options, name="fetchmill", connections=settings.connections, core=core)
        shutil.rmtree(dest)
        rounds.append((theirs, ours))
    return {
        "version": version.name,
        "objects": count,
        "h2load": summary(theirs for theirs, _ in rounds),
        "fetchmill": summary(ours for _, ours in rounds),
        "cpu_ratio": median_ratio((ours.cpu_us, theirs.cpu_us) for theirs, ours in rounds),
        "rate_ratio": median_ratio((ours.rate, theirs.rate) for theirs, ours in rounds),
        "rounds": [[run.to_dict() for run in pair] for pair in rounds],
        "commands": [
            f"h2load {' '.join(version.h2load)} -n{count} URL/get/{NAME}",
            f"fetchmill get LIST DEST --concurrency {settings.connections} {OPTIONS} --ca-file CA {version.get} --json",
        ],
    }


def run_h2load(server: Process, url: str, options: tuple[str, ...], count: int, core: int | None) -> Measured:
    """Runs h2load on one URL."""
    before = cpu_seconds(server.pid)
    usage = measure((program("h2load"), "-t1", *options, f"-n{count}", url), core)
    server_cpu = cpu_seconds(server.pid) - before
    finished = re.search(r"finished in ([\d.]+)(us|ms|s|m),", usage.output)
    if not finished or f" {count} succeeded, 0 failed, 0 errored" not in usage.output:
        raise SystemExit(f"h2load could not measure {url}:\n{usage.output}")
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}[finished[2]]
    return Measured(
        client="h2load",
        objects=count,
        seconds=float(finished[1]) * unit,
        wall=usage.seconds,
        user=usage.user,
        system=usage.system,
        server=server_cpu,
        peak_mib=usage.peak_mib,
    )


@contextlib.contextmanager
def nginx(prefix: Path, core: int | None) -> Iterator[tuple[Process, str]]:
    """Starts nginx with a single process, and with its own certificate, signed by `AUTHORITY`."""
    port = free_port()
    prefix.mkdir()
    # Use a separate process, because the memory of this process would count towards the peak of its children.
    measure((sys.executable, "-m", "trustme", "--quiet", "-i", "localhost", "-d", prefix), None)
    configuration = prefix / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(prefix=prefix, port=port, body="x" * SIZE))
    server = Process((program("nginx"), "-e", prefix / "error.log", "-p", prefix, "-c", configuration), core)
    try:
        listens(port, server)
        yield server, f"https://localhost:{port}"
    finally:
        server.stop()
