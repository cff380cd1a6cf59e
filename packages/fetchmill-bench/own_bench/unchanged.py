"""`make bench-unchanged`: measures the cost of a `fetchmill sync` pass when nothing has changed.

`fetchmill serve` provides synthetic objects, and a manifest states the size, ETag and time of each object. The first
pass fetches all of them into Parquet. The following passes only compare, and request nothing. For each pass, the bench
prints seconds, CPU time per object and peak memory.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from own_bench.processes import FETCHMILL, Cores, Usage, fetchmill_server, measure

BYTES = 100
WRITTEN = "2023-01-01T00:00:00Z"
UNCHANGED_PASSES = 3


def main() -> int:
    """Runs the passes. Returns 1 if a pass requests an unchanged object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="number of objects")
    parser.add_argument(
        "--folder", type=Path, help="folder on the file system to measure (default: the temporary folder)"
    )
    arguments = parser.parse_args()
    count: int = arguments.count
    cores = Cores.pick()
    print(f"{'pass':<10}{'seconds':>9}{'us CPU per object':>18}{'peak MiB':>10}{'requests':>11}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        manifest, dest = Path(folder, "manifest.csv"), Path(folder, "out")
        with fetchmill_server(cores.server, "--synthetic", str(count), "--size", str(BYTES), "--port", "0") as (_, url):
            with manifest.open("w") as file:
                file.writelines(_rows(url, count))
            words = ("sync", str(manifest), str(dest), "--format", "parquet", "--allow-private", "--json")
            asked = [_show(name, measure((*FETCHMILL, *words), cores.client), count) for name in _names()]
    return 1 if asked[0] < count or any(asked[1:]) else 0


def _names() -> Iterator[str]:
    yield "first"
    yield from (f"unchanged {number + 1}" for number in range(UNCHANGED_PASSES))


def _rows(url: str, count: int) -> Iterator[str]:
    yield "name,url,size,etag,last_modified\n"
    for number in range(count):
        name = f"file-{number:012}"
        yield f"{name},{url}/get/{name},{BYTES},{number:x},{WRITTEN}\n"


def _show(name: str, usage: Usage, count: int) -> int:
    """Prints a line for a pass. Returns the number of requests in that pass."""
    report = json.loads(usage.output.splitlines()[-1])
    attempts = int(report["attempts"])
    cost = usage.cpu / count * 1e6
    print(f"{name:<12}{usage.seconds:>7.1f}{cost:>18.2f}{usage.peak_mib:>10.0f}{attempts:>11,}")
    return attempts


if __name__ == "__main__":
    sys.exit(main())
