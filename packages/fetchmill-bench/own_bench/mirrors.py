"""`make bench-sync`: compares `fetchmill sync` with `wget -N -m`, `rclone sync` and `s5cmd sync` on the same trees.

nginx serves a tree of small files in folders, with HTML listings on one port and JSON listings on another. versitygw
serves the same tree. Each client mirrors it into its own folder. Then 500 of 20,000 files are changed (50 of them keep
their size), 300 are added, 200 are removed and 50 are renamed. Each client updates its mirror, and then runs once more
with nothing to do. For each client, the bench prints requests, seconds, CPU time, peak memory, and the differences
between mirror and tree: files that are missing, that have different bytes or a different time, or that should not
exist.
"""

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fetchmill_bench.versitygw import ENVIRONMENT, run_versitygw
from own_bench import machine
from own_bench.processes import FETCHMILL, Cores, Process, listens, measure

FOLDER_FILES = 100
BYTES = (100, 5000)
# Modification time of the files in the tree, in seconds since 1970: 2026-01-01.
WRITTEN = 1_767_225_600
CHANGED, SAME_SIZE, NEW, GONE, RENAMED = 0.025, 0.0025, 0.015, 0.01, 0.0025
CONFIGURATION = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log;
events {{ worker_connections 1024; }}
http {{
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    default_type application/octet-stream;
    keepalive_requests 1000000;
    access_log {log};
    autoindex on;
    server {{ listen 127.0.0.1:{html}; root {root}; }}
    server {{ listen 127.0.0.1:{json}; root {root}; autoindex_format json; }}
}}
"""


@dataclass(frozen=True)
class Client:
    """A mirroring client, with its command for a destination and the log of its server."""

    name: str
    command: Callable[[Path], tuple[str | Path, ...]]
    log: Path


@dataclass(frozen=True)
class Pass:
    """The resources that a client used in one pass, and the state of the mirror afterwards."""

    requests: int
    seconds: float
    cpu: float
    peak_mib: float
    missing: int
    wrong: int
    other_time: int
    left_over: int


def main() -> int:
    """Runs all clients and prints a table for each pass. Returns 1 if a mirror made by fetchmill is wrong."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.update(ENVIRONMENT)
    # Debian's rclone fails if this variable is set, even without TLS.
    os.environ.pop("AWS_CA_BUNDLE", None)
    folder = arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cores = Cores.pick()
    chance = random.Random(arguments.seed)  # noqa: S311 - not for cryptography
    try:
        with _servers(folder, cores.server) as (tree, all_clients):
            clients = [client for client in all_clients if arguments.only in client.name]
            _make_tree(tree, arguments.count, chance)
            is_right = True
            for title, prepare in (("first", None), ("changed", _change), ("unchanged", None)):
                if prepare is not None:
                    prepare(tree, chance)
                is_right &= _table(title, clients, tree, folder, cores.client)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return int(not is_right)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="number of files in the tree (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed for the tree and its changes (default: %(default)s)")
    parser.add_argument("--only", default="", help="run only clients whose names contain this text")
    parser.add_argument(
        "--folder", type=Path, default=machine.ROOT / "build" / "mirrors", help="working folder, on a real disk"
    )
    return parser.parse_args()


@contextlib.contextmanager
def _servers(folder: Path, core: int | None) -> Iterator[tuple[Path, list[Client]]]:
    """Starts nginx and versitygw, which serve the same tree. Returns the clients."""
    store = folder / "store"
    store.mkdir()
    prefix = folder / "nginx"
    prefix.mkdir()
    ports = {name: machine.free_port() for name in ("html", "json")}
    log, store_log = prefix / "access.log", folder / "store.log"
    text = CONFIGURATION.format(prefix=prefix, root=store / "bucket", log=log, **ports)
    (prefix / "nginx.conf").write_text(text)
    with run_versitygw(store, log=store_log) as gateway:
        if core is not None:
            os.sched_setaffinity(gateway.pid, {core})
        command = (machine.program("nginx"), "-e", prefix / "error.log", "-p", prefix, "-c", prefix / "nginx.conf")
        server = Process(command, core)
        try:
            for port in ports.values():
                listens(port, server)
            urls = {name: f"http://127.0.0.1:{port}/" for name, port in ports.items()}
            yield store / "bucket", [*_web_clients(urls, log), *_store_clients(gateway.endpoint, store_log)]
        finally:
            server.stop()


def _web_clients(urls: dict[str, str], log: Path) -> list[Client]:
    sync = (*FETCHMILL, "sync", "--delete", "--quiet")
    rclone = (machine.program("rclone"), "sync", "--config", os.devnull, "--http-url", urls["html"], ":http:")
    many = ("--transfers", "32", "--checkers", "32")
    wget = (machine.program("wget"), "-N", "-m", "-nH", "-q", urls["html"], "-P")
    return [
        Client("`fetchmill sync`, JSON", lambda dest: (*sync, urls["json"], dest), log),
        Client("`fetchmill sync`, HTML", lambda dest: (*sync, urls["html"], dest), log),
        Client("`wget -N -m`", lambda dest: (*wget, dest), log),
        Client("`rclone sync`", lambda dest: (*rclone, dest), log),
        Client("`rclone sync`, 32 at once", lambda dest: (*rclone, dest, *many), log),
    ]


def _store_clients(endpoint: str, log: Path) -> list[Client]:
    sync = (*FETCHMILL, "sync", "--delete", "--quiet", "--endpoint-url", endpoint, "s3://bucket")
    remote = f":s3,provider=Other,env_auth,force_path_style,endpoint='{endpoint}':bucket"
    rclone = (machine.program("rclone"), "sync", "--config", os.devnull, remote)
    s5cmd = (Path(sys.executable).with_name("s5cmd"), "--log", "error", "--endpoint-url", endpoint, "sync", "--delete")
    return [
        Client("`fetchmill sync`, S3", lambda dest: (*sync, dest), log),
        Client("`rclone sync`, S3", lambda dest: (*rclone, dest), log),
        Client(
            "`rclone sync --fast-list`, S3, 32 at once",
            lambda dest: (*rclone, dest, "--fast-list", "--transfers", "32"),
            log,
        ),
        Client("`s5cmd sync`, S3", lambda dest: (*s5cmd, "s3://bucket/*", f"{dest}/"), log),
    ]


def _make_tree(tree: Path, count: int, chance: random.Random) -> None:
    for number in range(count):
        _write(tree / f"folder-{number // FOLDER_FILES:04}" / f"file-{number:06}", chance)


def _write(path: Path, chance: random.Random, size: int | None = None, *, age: int | None = WRITTEN) -> None:
    path.parent.mkdir(exist_ok=True)
    body = chance.randbytes(size or chance.randint(*BYTES))
    path.write_bytes(body)
    # The format in which versitygw stores the time of an object that it has received.
    os.setxattr(path, "user.etag", f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'.encode())
    if age is not None:
        os.utime(path, (age, age))


def _change(tree: Path, chance: random.Random) -> None:
    """Changes, creates, removes and renames files. Changed files get the current time."""
    files = _files(tree)
    count = len(files)
    chance.shuffle(files)
    taken = iter(files)
    for number in range(round(count * CHANGED)):
        path = tree / next(taken)
        _write(path, chance, path.stat().st_size if number < count * SAME_SIZE else None, age=None)
    for number in range(round(count * NEW)):
        _write(tree / f"new-{number // FOLDER_FILES:04}" / f"new-{number:06}", chance, age=None)
    for _ in range(round(count * GONE)):
        (tree / next(taken)).unlink()
    for number in range(round(count * RENAMED)):
        path = tree / next(taken)
        path.rename(path.with_name(f"renamed-{number:06}"))


def _files(folder: Path) -> list[str]:
    """Returns the sorted files below a folder, without a client's own files."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if path.parts[0] not in {".fetchmill", ".sgwtmp"})


def _table(title: str, clients: list[Client], tree: Path, folder: Path, core: int | None) -> bool:
    """Measures and prints one pass of each client. Returns whether all of fetchmill's mirrors are correct."""
    print(f"\n| {title} pass | requests | seconds | CPU s | MiB | missing | wrong | other time | left over |")
    print("|---|---|---|---|---|---|---|---|---|")
    is_right = True
    for number, client in enumerate(clients):
        dest = folder / f"mirror-{number}"
        done = _measure(client, tree, dest, core)
        differing = (done.missing, done.wrong, done.other_time, done.left_over)
        print(
            f"| {client.name} | {done.requests:,} | {done.seconds:.1f} | {done.cpu:.2f} | {done.peak_mib:.0f} | "
            + " | ".join(f"{count:,}" for count in differing)
            + " |",
            flush=True,
        )
        is_right &= not (client.name.startswith("`fetchmill") and any(differing))
    return is_right


def _measure(client: Client, tree: Path, dest: Path, core: int | None) -> Pass:
    before = _lines(client.log)
    used = measure(client.command(dest), core)
    requests = _lines(client.log) - before
    wanted, found = set(_files(tree)), set(_files(dest))
    both = sorted(wanted & found)
    return Pass(
        requests,
        used.seconds,
        used.cpu,
        used.peak_mib,
        missing=len(wanted - found),
        wrong=sum((tree / name).read_bytes() != (dest / name).read_bytes() for name in both),
        other_time=sum(int((tree / name).stat().st_mtime) != int((dest / name).stat().st_mtime) for name in both),
        left_over=len(found - wanted),
    )


def _lines(log: Path) -> int:
    """Returns the number of requests so far, each of which is a line in the log."""
    if not log.exists():
        return 0
    with log.open("rb") as lines:
        return sum(1 for _ in lines)


if __name__ == "__main__":
    sys.exit(main())
