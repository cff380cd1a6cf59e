"""`make bench-ray`: compares how fetchmill, Ray Data and Daft download a list of URLs in a Ray cluster.

The cluster consists of a head and two nodes with one CPU each. It runs in a network namespace, together with a server
of synthetic objects of 100 bytes. One in a hundred URLs is answered with a 404. With --reset-rate, connections for some
names are always reset. Each client runs with its defaults, and writes the URLs and bodies as Parquet. Ray Data and Daft
are installed into build/, because Daft needs an older pyarrow.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import fetchmill.shared_jobs
from own_bench.machine import ROOT
from own_bench.processes import FETCHMILL, cpu_seconds

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
from network import Network, network

PEERS = ("ray==2.60.0", "daft==0.7.26", "pyarrow<26", "fsspec[http]<2026.8.0", "obstore", "pandas", "click", "rich")
URL = "http://127.0.0.1:8080"
MISSING = 100
NODES = 2
LIMIT_SECONDS = 240
RAY_DATA = """
import os, sys, ray
from ray.data.expressions import download
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")
ray.data.read_parquet(sys.argv[1]).with_column("body", download("url")).write_parquet(sys.argv[2])
"""
DAFT = """
import os, sys, daft
daft.set_runner_ray(os.environ["RAY_ADDRESS"])
frame = daft.read_parquet(sys.argv[1])
frame.with_column("body", daft.col("url").download(on_error="null")).write_parquet(sys.argv[2])
"""


@dataclass(frozen=True)
class Client:
    """A client to compare.

    Args:
        name: the name of the client in the table.
        command: the command, with placeholders for the list and the output.
        shards: pattern of the Parquet files below the output.
        failures: extracts the report about failed URLs from the client's output.
    """

    name: str
    command: tuple[str, ...]
    shards: str
    failures: Callable[[Path], str]


@dataclass
class Measured:
    """The resources that a run used."""

    seconds: float
    cpu: float
    peak_mib: float
    requests: int


def main() -> int:
    """Runs all clients, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--reset-rate", type=float, default=0.0)
    arguments = parser.parse_args()
    python = install(ROOT / "build" / "ray-peers")
    folder = ROOT / "build" / "bench-ray"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "network").mkdir(parents=True)
    write_list(folder / "urls.parquet", arguments.count)
    print("| | seconds | objects/s | CPU us per object | peak MiB | requests per object | bodies | failed URLs |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    try:
        for client in clients(python):
            run(client, python, folder, (arguments.count, arguments.reset_rate))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def install(folder: Path) -> Path:
    """Installs the other clients. Returns their Python interpreter."""
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
        (folder / "installed").touch()
    return python


def write_list(path: Path, count: int) -> None:
    """Writes the list, in 16 row groups, so that all clients can divide it."""
    urls = [url_of(number) for number in range(count)]
    pq.write_table(pa.table({"url": urls}), path, row_group_size=max(count // 16, 1))


def url_of(number: int) -> str:
    """Returns the URL of a row."""
    if number % MISSING == MISSING - 1:
        return f"{URL}/get/missing-{number}"
    return f"{URL}/get/file-{number:012}"


def clients(python: Path) -> list[Client]:
    """Returns the clients, each with its documented way to download in a Ray cluster."""
    own = ("{python}", "-m", "fetchmill", "get", "{list}", "{out}", "--on", "ray", "--format", "parquet")
    fetchmill = (*own, "--allow-private", "--quiet")
    return [
        Client("`fetchmill get --on ray`", fetchmill, "data/*/*.parquet", causes_of),
        Client("Ray Data, `download`", (str(python), "-c", RAY_DATA, "{list}", "{out}"), "*.parquet", nulls_of),
        Client("Daft, `download`", (str(python), "-c", DAFT, "{list}", "{out}"), "*.parquet", nulls_of),
    ]


def causes_of(out: Path) -> str:
    """Returns the failures and absent objects by kind, from the commit records of a shared job."""
    status = fetchmill.shared_jobs.status(out)
    kinds = {"absent": status.ledger["absent"], **status.failures}
    return ", ".join(f"{kind}: {number:,}" for kind, number in kinds.items() if number)


def nulls_of(out: Path) -> str:
    """Returns the number of rows without a body. The output does not contain the causes."""
    return f"null body: {duckdb.read_parquet(f'{out}/*.parquet').filter('body IS NULL').count('*').fetchall()[0][0]:,}"


def run(client: Client, python: Path, folder: Path, objects: tuple[int, float]) -> None:
    """Runs a client in its own cluster, and prints its row."""
    out, count = folder / "out", objects[0]
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(folder / "network", ignore_errors=True)
    (folder / "network").mkdir()
    with network(folder / "network", {}) as inside, cluster(inside, python, objects) as environment:
        places = {"python": str(python), "list": str(folder / "urls.parquet"), "out": str(out)}
        command = [places[word[1:-1]] if word.strip("{}") in places else word for word in client.command]
        took, ended = measure(inside, command, environment)
    if not list(out.glob(client.shards)):
        last = (ended.splitlines() or ["nothing"])[-1]
        print(f"| {client.name} | {took.seconds:.1f} | | | | | 0 | {last[:120]} |", flush=True)
        return
    rows = duckdb.read_parquet(f"{out}/{client.shards}")
    bodies = rows.filter("octet_length(body) = 100").count("*").fetchall()[0][0]
    per_object = took.requests / count
    print(
        f"| {client.name} | {took.seconds:.1f} | {count / took.seconds:,.0f} | {took.cpu / count * 1e6:.0f} "
        f"| {took.peak_mib:,.0f} | {per_object:.3f} | {bodies:,} | {client.failures(out)} |",
        flush=True,
    )


@contextmanager
def cluster(inside: Network, python: Path, objects: tuple[int, float]) -> Iterator[dict[str, str]]:
    """Starts a server and a cluster. Yields the environment for clients."""
    serve = (*FETCHMILL, "serve", "--synthetic", objects[0], "--reset-rate", objects[1], "--port", "8080")
    environment = {
        **os.environ,
        "HOME": str(inside.folder),
        "PYTHONPATH": str(ROOT / "python"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "DAFT_ANALYTICS_ENABLED": "0",
    }
    # Use a short path, because a socket's path has at most 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as sockets,
        inside.running(*serve, ready=8080),
    ):
        program = ROOT / "tests" / "support" / "ray_cluster.py"
        started = subprocess.Popen(
            inside.command(python, program, sockets, NODES, "1"),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert started.stdout is not None  # noqa: S101 - it is a pipe
        try:
            line = next(line for line in started.stdout if line.startswith("address "))
            yield environment | {"RAY_ADDRESS": line.split()[1], "RAY_TMPDIR": sockets}
        finally:
            try:
                started.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def measure(inside: Network, command: list[str], environment: dict[str, str]) -> tuple[Measured, str]:
    """Runs a command until it ends. Returns the resources that it used, and its output to standard error.

    Some processes of a cluster end early, so CPU time is that of the whole machine minus that of the server. Memory is
    the proportional set size of all processes in the namespace except the server, minus that of the idle cluster.
    """
    server = _server(inside)
    idle, peak, is_over = _memory(inside, server), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(0.5):
            peak = max(peak, _memory(inside, server))

    watching = threading.Thread(target=watch)
    requests, busy, of_server = _requests(inside), _busy_seconds(), cpu_seconds(server)
    started = time.monotonic()
    watching.start()
    try:
        ended = subprocess.run(
            inside.command(*command),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        err = ended.stderr
    except subprocess.TimeoutExpired:
        err = f"did not end within {LIMIT_SECONDS} s"
    finally:
        is_over.set()
        watching.join()
    seconds = time.monotonic() - started
    cpu = _busy_seconds() - busy - (cpu_seconds(server) - of_server)
    return Measured(seconds, cpu, peak - idle, _requests(inside) - requests), err


def _requests(inside: Network) -> int:
    program = f"import urllib.request as r; print(r.urlopen('{URL}/stats').read().decode())"
    found = subprocess.run(inside.command(sys.executable, "-c", program), capture_output=True, text=True, check=True)
    return int(json.loads(found.stdout)["get"])


def _busy_seconds() -> float:
    """Returns the CPU seconds of all processes on this machine so far."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _processes(inside: Network) -> Iterator[Path]:
    """Yields the /proc folders of all processes in the namespace."""
    own = Path(f"/proc/{inside.holder}/ns/net").readlink()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "ns" / "net").readlink() == own:
                yield folder
        except OSError:
            continue


def _server(inside: Network) -> int:
    port = urlsplit(URL).port
    found = [each for each in _processes(inside) if f"--port\0{port}".encode() in (each / "cmdline").read_bytes()]
    return max(int(each.name) for each in found)


def _memory(inside: Network, server: int) -> float:
    """Returns the memory in MiB of all processes except the server."""
    total = 0
    for folder in _processes(inside):
        if int(folder.name) == server:
            continue
        try:
            line = next(line for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
            total += int(line.split()[1])
        except (OSError, StopIteration):
            continue
    return total / 1024


if __name__ == "__main__":
    sys.exit(main())
