"""`make asyncio-engine`: compares the CPU time of the `asyncio` engine with that of handwritten aiohttp programs.

Usage: python -m own_bench.asyncio_engine [--count N] [--rounds R] [--limit L]

A synthetic server in its own process returns objects of 100 bytes. The programs take turns. For each program, the bench
prints the medians of requests/s and of the CPU time per object in microseconds, including start-up. The handwritten
programs check only the status, and nothing that they store would survive a crash.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fetchmill.testing import serve

# Usage: python -c HAND_WRITTEN URL COUNT LIMIT FOLDER. FOLDER is empty if nothing is stored.
HAND_WRITTEN = """
import asyncio, os, sys
import aiohttp, uvloop
url, count, limit, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

async def main():
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=limit)) as session:
        names, marker = [], None
        while True:
            page = url + "/list" + (f"?next-marker={marker}" if marker else "")
            async with session.get(page) as reply:
                found = await reply.json()
            names += found["FileNames"]
            marker = found.get("NextMarker")
            if not marker:
                break
        waiting = iter(names[:count])

        async def worker():
            for name in waiting:
                async with session.get(f"{url}/get/{name}") as reply:
                    reply.raise_for_status()
                    body = await reply.read()
                if folder:
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(body)

        await asyncio.gather(*(worker() for _ in range(limit)))

uvloop.run(main())
"""


def measure(command: list[str], count: int) -> tuple[float, float]:
    """Returns the CPU time per object in microseconds, and the rate in objects/s."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1e6 / count, count / seconds


def commands(url: str, folder: Path, count: int, limit: int) -> dict[str, list[str]]:
    """Returns the commands to compare. Each has its own folder."""
    found: dict[str, list[str]] = {}
    for stored in ("null", "files"):
        hand = folder / f"hand-{stored}"
        hand.mkdir()
        program = [sys.executable, "-c", HAND_WRITTEN, url, str(count), str(limit), str(hand) * (stored == "files")]
        engine = [str(Path(sys.executable).with_name("fetchmill")), "get", url, str(folder / f"engine-{stored}")]
        found[f"by hand, {stored}"] = program
        found[f"engine asyncio, {stored}"] = [
            *engine, "--format", stored, "--engine", "asyncio", "--concurrency", str(limit), "--quiet",
        ]  # fmt: skip
    return found


def main() -> int:
    """Runs the commands and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="number of objects")
    parser.add_argument("--limit", type=int, default=64, help="number of requests in flight")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="folder for the stored objects (default: the temporary folder)")
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    # The server runs in this process, because only the CPU time of child processes is measured.
    with serve(synthetic=arguments.count, threads=1) as server:
        for _round in range(arguments.rounds):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                programs = commands(server.url, Path(folder), arguments.count, arguments.limit)
                for name, command in programs.items():
                    found.setdefault(name, []).append(measure(command, arguments.count))
    for name, values in found.items():
        cpu, rate = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"{name:24} {cpu:7.0f} us of CPU per object  {rate:7,.0f} objects/s")
    for stored in ("null", "files"):
        ratios = [
            engine[0] / hand[0]
            for engine, hand in zip(found[f"engine asyncio, {stored}"], found[f"by hand, {stored}"], strict=True)
        ]
        print(f"engine / by hand, {stored}: {statistics.median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
