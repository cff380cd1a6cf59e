"""The second half of `make memory`: measures the peak memory of jobs for bodies of each size, in each format.

Usage: python -m own_bench.memory_sizes [--formats A,B] [--sizes N,N] [--limits N,N] [--threads N,N] [--engines A,B]
[--bytes N] [--stall S]

Each run fetches about N bytes (default: 300 MB). `mix` contains objects of all sizes in turn. `sorted` lists the small
ones first, so a thousand requests may be in flight when the first large object is requested. `heads` consists of
56-byte objects with heads of 60 KB. With `--stall`, each of the first syncs takes S seconds. The bench prints a table
for docs/reference/performance.md: the peak anonymous memory of the largest process in MiB, and MB/s. Only `native`
writes WARC. The exit code is nonzero if a run is not below 256 MiB.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fetchmill import status
from fetchmill._server import ServeOptions, Server
from own_bench.anonymous_peak import anonymous_peak
from own_bench.memory_growth import FETCHMILL, PEAK_MIB_MAX

FORMATS = "files,tar,parquet,warc,jsonl,null"
SIZES = "100,10000,200000,1000000,5000000,60000000,mix,sorted,heads"
MIXED = (100, 10_000, 200_000, 1_000_000, 5_000_000)
OBJECTS_MAX = 50_000
# Maximum number of objects of each size in `sorted`.
SORTED_MAX = 2_000
# Minimum number of objects of 60 MB, which is twice the number of threads.
LARGE_MIN = 16
HEAD_BYTES = 60_000


def main() -> int:
    """Runs the jobs one at a time. Returns the exit code."""
    chosen = _arguments()
    print("| engine | threads | in flight | bytes | " + " | ".join(chosen.formats) + " |")
    print("|---|---:|---:|---:|" + "---:|" * len(chosen.formats))
    worst = 0.0
    for engine, threads, limit, size in itertools.product(chosen.engines, chosen.threads, chosen.limits, chosen.sizes):
        cells = []
        for format_name in chosen.formats:
            if format_name == "warc" and engine != "native":
                cells.append("-")
                continue
            peak, rate = _measure(chosen, (engine, threads, limit), size, format_name)
            worst = max(worst, peak)
            cells.append(f"{peak:.0f} ({rate:.0f} MB/s)")
        print(f"| `{engine}` | {threads} | {limit} | {size} | " + " | ".join(cells) + " |", flush=True)
    good = worst < PEAK_MIB_MAX
    print(f"{'memory passed' if good else 'MEMORY FAILED'}: peak {worst:.1f} MiB")
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    """Parses the options."""

    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser()
    parser.add_argument("--formats", type=words, default=words(FORMATS))
    parser.add_argument("--sizes", type=words, default=words(SIZES))
    parser.add_argument("--limits", type=words, default=words("8,64,1000"))
    parser.add_argument("--threads", type=words, default=words("2,8"))
    parser.add_argument("--engines", type=words, default=words("native,combo"))
    parser.add_argument("--bytes", type=int, default=300_000_000)
    parser.add_argument("--stall", type=float, default=0.0)
    return parser.parse_args()


def _measure(chosen: argparse.Namespace, how: tuple[str, str, str], size: str, format_name: str) -> tuple[float, float]:
    """Measures one run. The server runs in another process, so only the client is measured."""
    engine, threads, limit = how
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder, "content"), size, chosen.bytes) as served:
        url, count, total = served
        dest = Path(folder, "out")
        started = time.monotonic()
        command = [*_stalls(chosen.stall), *FETCHMILL, "get", url, str(dest), "--format", format_name]
        command += ["--concurrency", limit, "--threads", threads, "--engine", engine, "--quiet"]
        # On a slow disk, a body of 60 MB may take longer than a minute.
        ended, peak = anonymous_peak([*command, "--total-timeout", "600s"])
        seconds = time.monotonic() - started
        found = status(dest)
        if ended or found.fetched != count or not found.balanced:
            sys.exit(f"the client ended with exit code {ended}: {found}")
        return peak, total / seconds / 1e6


@contextmanager
def _server(folder: Path, size: str, total: int) -> Iterator[tuple[str, int, int]]:
    """Starts the server. Returns its URL, and the numbers of objects and bytes."""
    if size == "heads":
        count = total // HEAD_BYTES
        command = [sys.executable, str(Path(__file__).with_name("long_heads.py")), str(count), str(HEAD_BYTES)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            port = next(iter(process.stdout or []), "").strip()
            yield f"http://127.0.0.1:{port}", count, count * HEAD_BYTES
            process.terminate()
        return
    options, count, size_of_all = _content(folder, size, total)
    with Server(options) as server:
        yield server.url, count, size_of_all


def _content(folder: Path, size: str, total: int) -> tuple[ServeOptions, int, int]:
    """Returns the server's contents, and the numbers of objects and bytes."""
    if size not in ("mix", "sorted"):
        count = min(max(total // int(size), 100 if int(size) < MIXED[-1] else LARGE_MIN), OBJECTS_MAX)
        return ServeOptions(synthetic=count, size=int(size)), count, count * int(size)
    folder.mkdir()
    rounds = max(total // sum(MIXED), 10)
    names = {
        f"{each:07}-{number:05}" if size == "sorted" else f"{number:05}-{each}": each
        for each in MIXED
        for number in range(rounds if size == "mix" else min(max(total // len(MIXED) // each, 10), SORTED_MAX))
    }
    for number, (name, each) in enumerate(names.items()):
        Path(folder, name).write_bytes(bytes([number % 251]) * each)
    return ServeOptions(folder=str(folder)), len(names), sum(names.values())


def _stalls(seconds: float) -> list[str]:
    """Returns the command that delays the first syncs of each thread."""
    if not seconds:
        return []
    inject = f"inject=fdatasync,syncfs:delay_enter={round(seconds * 1e6)}:when=1..3"
    watched = "trace=fdatasync,syncfs"
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", watched, "-e", inject]


if __name__ == "__main__":
    sys.exit(main())
