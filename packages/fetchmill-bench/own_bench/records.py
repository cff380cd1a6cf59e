"""`make bench-records`: compares how fetchmill, aiohttp and obstore read records from large WARC files.

In half of the files, every record is wanted. In the others, only one in every few records is wanted. All clients get
the same list in Parquet, and use the same number of requests in flight. nginx is at the far end of the tests' wide-area
network (docs/internals/testing.md), with a round trip of 50 ms. Every stored record is verified: it must be the right
record, with the right gzip checksum and WARC digest.
"""

import argparse
import concurrent.futures
import contextlib
import gzip
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from own_bench.machine import ROOT, program
from own_bench.processes import FETCHMILL, Process, Usage, cpu_seconds, measure
from own_bench.servers import OPEN_FILE_CACHE

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
from wide_area import HOSTS, SITE, WideArea, wide_area

ROUND_TRIP = 0.05
BYTES_AT_MOST, REQUESTS_AT_MOST = 1.05, 0.1
# Minimum and maximum of a record's block size in bytes, and of the gap in records between two wanted records in the
# second half.
BLOCK = (100, 1200)
BETWEEN = (2, 6)
READERS = Path(__file__).with_name("record_readers.py")
COALESCE = "512"
CONFIGURATION = """
user root root;
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
    log_format ranges '$uri $status $body_bytes_sent';
    access_log {prefix}/access.log ranges buffer=256k flush=1s;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    tcp_nodelay on;
    {cache}
    keepalive_requests 1000000000;
    server {{ listen {address}:80; root {root}; }}
}}
"""

T = TypeVar("T")


@dataclass(frozen=True)
class Files:
    """The served files, and the list of wanted records.

    Args:
        root: the folder.
        listed: the sorted list, with `url`, `offset` and `length`.
        count: number of wanted records.
        clustered: number of wanted records in the first files, of which every record is wanted.
        clustered_files: number of these files.
        size: bytes of the wanted records.
    """

    root: Path
    listed: Path
    count: int
    clustered: int
    clustered_files: int
    size: int


@dataclass(frozen=True)
class Found:
    """The results of a client."""

    name: str
    usage: Usage
    server: float
    requests: int
    clustered_requests: int
    sent: int
    wrong: int


def main() -> int:
    """Runs all clients. Returns 1 if `fetchmill get --coalesce` stores a wrong record, or requests too many bytes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--records", type=int, default=1000, help="number of wanted records per file")
    parser.add_argument("--in-flight", type=int, default=1000)
    parser.add_argument("--only", action="append", help="client to run, as named in the table; repeatable")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "bench-records", help="working folder, on a real disk"
    )
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        files = _elsewhere(write_files, folder, arguments.files, arguments.records)
        with wide_area(folder, round_trip=ROUND_TRIP, seed=7) as area:
            found = list(_all_clients(area, files, folder, arguments.in_flight, arguments.only))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _show(files, found)
    return 1 if any(_fails(files, each) for each in found if each.name.startswith("fetchmill")) else 0


def _elsewhere(work: Callable[..., T], *arguments: object) -> T:
    """Runs a function in another process.

    Otherwise, the kernel would count the function's memory towards every process that this process starts later.
    """
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def write_files(folder: Path, files: int, records: int) -> Files:
    """Writes files of records. Each record is a separate gzip member, as in web crawls."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = random.Random(7)  # noqa: S311 - not for cryptography
    root, listed = folder / "served", folder / "list.parquet"
    root.mkdir()
    others = [_member("http://other.test/", numbers) for _ in range(64)]
    rows: dict[str, list[object]] = {"url": [], "offset": [], "length": []}
    size = 0
    for number in range(files):
        at = 0
        with (root / name_of(number)).open("wb") as file:
            for _ in range(records):
                if number >= files // 2:
                    for _ in range(numbers.randint(*BETWEEN)):
                        at += file.write(numbers.choice(others))
                member = _member(f"http://a.test/{number}/{at}", numbers)
                for column, value in zip(rows, (f"http://{SITE}/{name_of(number)}", at, len(member)), strict=True):
                    rows[column].append(value)
                at += file.write(member)
                size += len(member)
    pq.write_table(pa.table(rows), listed)
    return Files(root, listed, files * records, files // 2 * records, files // 2, size)


def name_of(number: int) -> str:
    """Returns the name of a file."""
    return f"crawl-{number:05}.warc.gz"


def _member(target: str, numbers: random.Random) -> bytes:
    block = numbers.randbytes(numbers.randint(*BLOCK) // 2).hex().encode()
    head = (
        f"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: {target}\r\n"
        f"WARC-Block-Digest: sha1:{hashlib.sha1(block, usedforsecurity=False).hexdigest()}\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", compresslevel=1, mtime=0)


def is_right(body: bytes, number: int, offset: int) -> bool:
    """Returns whether these bytes are the complete record at this position."""
    try:
        head, _, rest = gzip.decompress(body).partition(b"\r\n\r\n")
    except (OSError, EOFError):
        return False
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    block = rest[: int(fields["Content-Length"])]
    digest = hashlib.sha1(block, usedforsecurity=False).hexdigest()
    target = f"http://a.test/{number}/{offset}"
    return (fields["WARC-Target-URI"], fields["WARC-Block-Digest"]) == (target, f"sha1:{digest}")


# --- the clients -----------------------------------------------------------------------------------------------------


def _all_clients(area: WideArea, files: Files, folder: Path, in_flight: int, only: list[str] | None) -> Iterator[Found]:
    """Runs each client once, with the same server."""
    get: tuple[object, ...] = (*FETCHMILL, "get", files.listed, folder / "out", "--format", "parquet", "--json")
    get = (*get, "-j", in_flight, "--allow-private", "--offset-column", "offset", "--length-column", "length")
    commands: dict[str, tuple[object, ...]] = {
        "fetchmill": get,
        f"fetchmill --coalesce {COALESCE}": (*get, "--coalesce", COALESCE),
        f"fetchmill --coalesce {COALESCE}, killed twice": (*get, "--coalesce", COALESCE),
    }
    for client in ("aiohttp", "obstore", "obstore, coalesce=512"):
        commands[client] = (sys.executable, READERS, client, files.listed, folder / "out", in_flight)
    for name, command in commands.items():
        if only and name not in only:
            continue
        with _nginx(area, folder / "nginx", files.root) as (server, log):
            (folder / "out").mkdir()
            before = cpu_seconds(server.pid)
            words = area.near.command(*command)
            usage = _killed(words, folder, files.count) if name.endswith("killed twice") else measure(words, None)
            server_cpu = cpu_seconds(server.pid) - before
            server.stop()
            requests, clustered, sent = _asked(log, files)
        wrong = files.count - _elsewhere(count_right, folder / "out", files)
        shutil.rmtree(folder / "out")
        found = Found(name, usage, server_cpu, requests, clustered, sent, wrong)
        print(f"{name}: {usage.seconds:.1f} s, {wrong} wrong or missing", file=sys.stderr, flush=True)
        yield found


def _killed(command: list[str], folder: Path, count: int) -> Usage:
    """Runs a job that is killed twice before it completes. Returns the resources that all three runs used."""
    usages = []
    for objects in (count // 5, count * 2 // 5):
        process = Process(command, stdout=subprocess.DEVNULL)
        while process.runs() and _fetched(folder / "out") < objects:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        usages.append(process.wait())
    usages.append(measure(command, None))
    return Usage(
        0,
        sum(usage.seconds for usage in usages),
        sum(usage.user for usage in usages),
        sum(usage.system for usage in usages),
        max(usage.peak_mib for usage in usages),
    )


def _fetched(dest: Path) -> int:
    """Returns the number of objects that a job has fetched so far."""
    import fetchmill

    with contextlib.suppress(fetchmill.FetchmillError):
        return int(fetchmill.status(dest).fetched)
    return 0


@contextlib.contextmanager
def _nginx(area: WideArea, prefix: Path, root: Path) -> Iterator[tuple[Process, Path]]:
    """Starts a new nginx in the far namespace. Returns the process and its log."""
    shutil.rmtree(prefix, ignore_errors=True)
    prefix.mkdir()
    text = CONFIGURATION.format(prefix=prefix, root=root, cache=OPEN_FILE_CACHE, address=HOSTS[SITE])
    (prefix / "nginx.conf").write_text(text)
    command = area.far.command(program("nginx"), "-e", prefix / "error.log", "-p", prefix, "-c", prefix / "nginx.conf")
    server = Process(command)
    try:
        while not (prefix / "nginx.pid").exists():
            if not server.runs():
                raise SystemExit("nginx did not start")
            time.sleep(0.02)
        time.sleep(0.2)
        yield server, prefix / "access.log"
    finally:
        server.stop()


def _asked(log: Path, files: Files) -> tuple[int, int, int]:
    """Returns the number of requests, the number of requests for whole files, and the number of body bytes."""
    requests = clustered = sent = 0
    with log.open() as lines:
        for line in lines:
            path, _, size = line.split()
            requests += 1
            clustered += int(path.split("-")[1][:5]) < files.clustered_files
            sent += int(size)
    return requests, clustered, sent


# --- the stored records ----------------------------------------------------------------------------------------------


def count_right(dest: Path, files: Files) -> int:
    """Counts the correct records. A record that is stored twice counts once."""
    import pyarrow.parquet as pq

    right = {(number, offset) for number, offset, body in _stored(dest) if is_right(body, number, offset)}
    wanted = pq.read_table(files.listed, columns=["url", "offset"])
    names = zip(wanted.column("url").to_pylist(), wanted.column("offset").to_pylist(), strict=True)
    return sum((_number(url), offset) in right for url, offset in names)


def _stored(dest: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yields file numbers, offsets and records, from shards or from the single file of another client."""
    import pyarrow.parquet as pq

    for path in sorted(dest.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["name", "body"]):
            for name, body in zip(batch.column("name").to_pylist(), batch.column("body").to_pylist(), strict=True):
                url, _, place = name.partition("#bytes=")
                yield _number(url), int(place.partition("-")[0]), body
    for path in dest.glob("records"):
        with path.open("rb") as file:
            while line := file.readline():
                number, offset, length = map(int, line.split())
                yield number, offset, file.read(length)


def _number(url: str) -> int:
    return int(url.rpartition("-")[2][:5])


def _fails(files: Files, found: Found) -> bool:
    """Returns whether any record is wrong or, with coalescing, whether more bytes were requested than allowed."""
    if found.wrong or "killed" in found.name:
        return found.wrong > 0
    asks_too_often = "coalesce" in found.name and found.clustered_requests > REQUESTS_AT_MOST * files.clustered
    return asks_too_often or found.sent > BYTES_AT_MOST * files.size


def _show(files: Files, found: list[Found]) -> None:
    """Prints the table, followed by the conditions of the measurement as JSON."""
    print(
        "| | seconds | CPU us per record | nginx's | peak MiB | requests | of the half in a row | bytes / asked "
        "| wrong |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for each in found:
        print(
            f"| {each.name} | {each.usage.seconds:.1f} | {each.usage.cpu / files.count * 1e6:.1f} "
            f"| {each.server / files.count * 1e6:.1f} | {each.usage.peak_mib:.0f} | {each.requests:,} "
            f"| {each.clustered_requests:,} | {each.sent / files.size:.3f} | {each.wrong} |"
        )
    print(json.dumps({"records": files.count, "in a row": files.clustered, "bytes": files.size}))


if __name__ == "__main__":
    sys.exit(main())
