"""`make lookup`: measures the time to find one name among millions.

It fetches synthetic objects into a pack once (build/lookup-FORMAT; ten million objects take several minutes and, as
tar, 10 GB) and drops the pack from the page cache. In fresh processes, it then measures the time from `fetchmill.open`
to the bytes of a random name. It also measures `fetchmill cat`, compared with `fetchmill --version`.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from fetchmill.testing import serve

COMMAND = (sys.executable, "-m", "fetchmill")
ROUNDS = 15
SIZE = 100
LOOK = """
import sys, time
from fetchmill._destination.objects import Objects
start = time.perf_counter()
body = Objects(sys.argv[1])[sys.argv[2]]
print(time.perf_counter() - start)
"""


def make(dest: Path, format: str, count: int) -> None:
    """Fetches the objects, unless they exist. After an interruption, the same command resumes the download."""
    with serve(synthetic=count, size=SIZE, page_size=10_000) as origin:
        if not (dest / ".fetchmill" / "job.sqlite").exists():
            print(f"fetching {count:,} objects into {dest}")
            subprocess.run(
                (*COMMAND, "get", origin.url, dest, "--format", format, "--durability", "process", "--quiet"),
                check=True,
            )
    os.sync()  # only written pages can be dropped


def drop(folder: Path) -> None:
    """Removes all files below a folder from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def run(*command: str) -> tuple[float, str]:
    """Returns the duration of a command in seconds, and its output."""
    start = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    return time.perf_counter() - start, ended.stdout


def show(what: str, seconds: list[float]) -> None:
    """Formats times in milliseconds."""
    middle, most = statistics.median(seconds) * 1e3, max(seconds) * 1e3
    print(f"{what:<52} median {middle:6.1f} ms, maximum {most:6.1f} ms")


def measure(dest: Path, count: int) -> None:
    """Prints the figures of a destination."""
    names = [f"file-{random.randrange(count):012}" for _ in range(ROUNDS)]  # noqa: S311 - any random names will do
    inside, whole, warm, version = [], [], [], []
    for name in names:
        drop(dest)
        inside.append(float(run(sys.executable, "-c", LOOK, str(dest), name)[1]))
        drop(dest)
        whole.append(run(*COMMAND, "cat", str(dest), name)[0])
        warm.append(run(*COMMAND, "cat", str(dest), name)[0])
        version.append(run(*COMMAND, "--version")[0])
    show("open to bytes, cold index", inside)
    show("fetchmill cat, cold index", whole)
    show("fetchmill cat, warm", warm)
    show("fetchmill --version", version)
    more = statistics.median(whole) - statistics.median(version)
    print(f"{'cat above --version, cold':<52} median {more * 1e3:6.1f} ms")


def main() -> None:
    """Reads the options and runs the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=float, default=1e7, help="number of objects (default: %(default)g)")
    parser.add_argument("--formats", nargs="+", default=["parquet", "tar"], help="formats (default: parquet tar)")
    parser.add_argument(
        "--folder", type=Path, default=Path("build"), help="folder that keeps the objects (default: build)"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for format in options.formats:
        dest = options.folder / f"lookup-{format}"
        make(dest, format, int(options.count))
        print(f"{format}: {int(options.count):,} objects, {len(list(dest.glob('shard-*')))} shards")
        measure(dest, int(options.count))


if __name__ == "__main__":
    main()
