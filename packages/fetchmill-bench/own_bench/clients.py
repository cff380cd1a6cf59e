"""The clients to compare. Each function runs a client once and reports the resources that the client used."""

import json
import re
import shutil
from pathlib import Path

from own_bench.machine import program
from own_bench.measured import Measured
from own_bench.processes import FETCHMILL, Process, cpu_seconds, measure


def run_wrk(server: Process, url: str, *options: str, connections: int, seconds: float, core: int | None) -> Measured:
    """Runs wrk on one URL."""
    command = (program("wrk"), "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", *options, url)
    before = cpu_seconds(server.pid)
    usage = measure(command, core)
    server_cpu = cpu_seconds(server.pid) - before
    found = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m),", usage.output)
    if not found or "Non-2xx" in usage.output or "Socket errors" in usage.output:
        raise SystemExit(f"wrk could not measure {url}:\n{usage.output}")
    unit = {"ms": 1e-3, "s": 1.0, "m": 60.0}[found[3]]
    return Measured(
        client="wrk",
        objects=int(found[1]),
        seconds=float(found[2]) * unit,
        wall=usage.seconds,
        user=usage.user,
        system=usage.system,
        server=server_cpu,
        peak_mib=usage.peak_mib,
    )


def run_get(
    server: Process, url: str, dest: Path, *options: str, name: str, connections: int, core: int | None
) -> Measured:
    """Runs `fetchmill get` with a new destination, which the caller removes."""
    command: list[str | Path] = [*FETCHMILL, "get", url, dest, "--concurrency", str(connections), "--json", *options]
    before = cpu_seconds(server.pid)
    usage = measure(command, core)
    server_cpu = cpu_seconds(server.pid) - before
    report = json.loads(usage.output.splitlines()[-1])
    if report["fetched"] != report["listed"]:
        raise SystemExit(f"not all objects were fetched: {report}")
    return Measured(
        client=name,
        objects=report["fetched"],
        seconds=report["seconds"],
        wall=usage.seconds,
        user=usage.user,
        system=usage.system,
        server=server_cpu,
        peak_mib=usage.peak_mib,
    )


def run_null(server: Process, url: str, folder: Path, *, connections: int, core: int | None) -> Measured:
    """Runs `fetchmill get --format null` with its journal in `folder`, which is removed afterwards."""
    dest = folder / "null"
    shutil.rmtree(dest, ignore_errors=True)
    run = run_get(server, url, dest, "--format", "null", name="fetchmill", connections=connections, core=core)
    shutil.rmtree(dest)
    return run
