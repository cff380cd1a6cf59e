"""`make memory-lists`: measures the memory of jobs with lists and generators, and of endless streams.

The requirements are:
- less than 256 MiB for any number of targets, and less than 10 MiB more for ten times the objects,
- constant memory use of a stream after a while,
- no reading ahead of the input while no replies are taken,
- less than a minute of fetchmill's own time to skip 100 million items.

The exit code is nonzero if a requirement is not met.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from json import loads
from pathlib import Path
from subprocess import PIPE

import fetchmill
from fetchmill._options.units import parse_count
from own_bench.memory_programs import UNSAVED, urls
from own_bench.processes import FETCHMILL, Cores, Process, Usage, fetchmill_server, resident_mib

PEAK_MIB_MAX = 256
# Resident memory varies by a few pages from second to second.
FLAT_MIB_MAX = 4
# Number of memory samples of the endless stream: one per second, unless it runs only briefly.
LOOKS = 60
# The requests in flight and the window beyond them (docs/guide/streaming.md).
AHEAD_MAX = 64 + 256
SKIPPED = 100_000_000
# A job parses the first 200,000 items again to find repeated ones. The test must skip more items than that.
SKIPPED_MIN = 400_000
KILLED = -9


class Measurement:
    """Runs the programs one at a time, and records violated requirements."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._folder = folder
        self._count: int = arguments.count
        self._seconds: float = arguments.seconds
        self._settle: float = arguments.settle
        self._growth: float = arguments.growth
        self._skip: float = arguments.skip
        self._cores = Cores.pick()
        self._url = ""
        self.problems: list[str] = []

    def run(self) -> None:
        """Runs all programs."""
        skipped = max(5 * self._count, SKIPPED_MIN)
        content = ("--synthetic", str(max(10 * self._count, skipped)), "--port", "0")
        with fetchmill_server(self._cores.server, *content) as (_, self._url):
            self._grows("a list", self._get_list)
            self._grows("a generator", self._get_generator)
            self._endless("stream", self._seconds)
            self._endless("astream", self._seconds / 3)
            self._pauses()
            self._skips("get", skipped)
            self._skips("stream", skipped)

    def _grows(self, what: str, get: Callable[[Path, int], Usage]) -> None:
        """Runs a job, and then another one with ten times as many targets."""
        peaks = []
        for count in (self._count, 10 * self._count):
            dest = self._folder / f"{what} of {count}"
            usage = self._shown(f"get: {what} of {count:,} targets", get(dest, count))
            self._demand(
                fetchmill.status(dest).fetched == count, f"{what}: not all of the {count:,} targets were fetched"
            )
            peaks.append(usage.peak_mib)
        growth = peaks[1] - peaks[0]
        print(f"    {growth:.1f} MiB more for ten times the targets", flush=True)
        self._demand(growth < self._growth, f"{what}: {growth:.1f} MiB more for ten times the targets")

    def _get_list(self, dest: Path, count: int) -> Usage:
        """Runs `fetchmill get` with a list."""
        path = self._folder / "urls.txt"
        with path.open("w") as file:
            file.writelines(f"{url}\n" for url in urls(self._url, count, count))
        command = (*FETCHMILL, "get", path, dest, "--allow-private", "--format", "null", "--quiet")
        return Process(command, self._cores.client).wait()

    def _get_generator(self, dest: Path, count: int) -> Usage:
        return self._start("get", dest, count).wait()

    def _endless(self, program: str, seconds: float) -> None:
        """Runs an endless loop, and samples its memory every second."""
        process = self._start(program, self._folder, self._count, seconds)
        interval = self._seconds / LOOKS
        resident = []
        while process.runs():
            resident.append(resident_mib(process.pid))
            time.sleep(interval)
        usage = self._shown(f"{program} of an endless generator", process.wait())
        # The last sample may have been taken while the process was ending.
        settled = resident[round(self._settle / interval) : -1]
        print(
            f"    {loads(usage.output)['fetched']:,} replies; resident from {self._settle:g} s on, sampled every "
            f"{interval:g} s: {min(settled):.1f} to {max(settled):.1f} MiB",
            flush=True,
        )
        # Compare the second half with the first, because reaching the maximum early or late does not count as growth.
        middle = len(settled) // 2
        growth = max(settled[middle:]) - max(settled[:middle])
        self._demand(growth < FLAT_MIB_MAX, f"{program} grew by {growth:.1f} MiB after {self._settle:g} s")

    def _pauses(self) -> None:
        """Runs a loop that pauses in the middle."""
        process = self._start("pause", self._folder, self._count // 5, self._seconds / 6)
        usage = self._shown(f"stream whose loop pauses for {self._seconds / 6:.0f} s", process.wait())
        found = loads(usage.output)
        print(f"    {found}", flush=True)
        self._demand(found["moved"] == 0, f"{found['moved']} items were taken during the pause")
        self._demand(found["ahead"] <= AHEAD_MAX, f"{found['ahead']} items were taken ahead of the loop")
        self._demand(found["missing"] == found["doubled"] == 0, f"replies were lost or arrived twice: {found}")

    def _skips(self, program: str, count: int) -> None:
        """Resumes a killed program with the same items."""
        state = self._folder / f"killed {program}"
        killed = self._start(f"{program}_killed", state, count).wait()
        self._demand(
            killed.code == KILLED, f"{program} should have been killed, but ended with exit code {killed.code}"
        )
        resumed = self._start(f"{program}_resumed", state, count).wait()
        found = loads(self._shown(f"{program} of {count:,} items, killed and resumed", resumed).output)
        own = found["skip_us"] - found["generator_us"]
        self._demand(found["again"] <= UNSAVED, f"{program} fetched {found['again']:,} items again")
        seconds = own * SKIPPED / 1e6
        print(f"    {found}: {own:.3f} us per item of our own, {seconds:.0f} s for {SKIPPED:,}", flush=True)
        self._demand(seconds < self._skip, f"{program} takes {seconds:.0f} s to skip {SKIPPED:,} items")

    def _start(self, program: str, folder: Path, count: int, seconds: float = 0) -> Process:
        arguments = (program, self._url, folder, str(count), str(seconds))
        command = (sys.executable, "-m", "own_bench.memory_programs", *arguments)
        process = Process(command, self._cores.client, stdout=PIPE)
        assert process.popen.stdout is not None  # noqa: S101 - it is a pipe
        process.popen.stdout.readline()  # wait until it is running, so that its start is not measured
        return process

    def _shown(self, what: str, usage: Usage) -> Usage:
        """Checks a run that must succeed within the limit."""
        print(f"{what}: {usage.seconds:.1f} s, {usage.cpu:.1f} s of CPU, peak {usage.peak_mib:.1f} MiB", flush=True)
        if usage.code:
            sys.exit(f"{what} failed with exit code {usage.code}")
        self._demand(usage.peak_mib < PEAK_MIB_MAX, f"{what}: peak of {usage.peak_mib:.1f} MiB")
        return usage

    def _demand(self, is_met: bool, problem: str) -> None:
        if not is_met:
            self.problems.append(problem)


def main() -> int:
    """Measures everything. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=parse_count, default=1_000_000, help="number of targets of the smaller jobs")
    parser.add_argument("--seconds", type=float, default=60, help="duration of the endless stream in seconds")
    parser.add_argument("--settle", type=float, default=10, help="seconds after which memory must be flat")
    parser.add_argument("--growth", type=float, default=10, help="maximum extra MiB for ten times the targets")
    parser.add_argument("--skip", type=float, default=60, help="maximum seconds to skip 100,000,000 items")
    with tempfile.TemporaryDirectory(prefix="fetchmill-") as folder:
        measurement = Measurement(Path(folder), parser.parse_args())
        measurement.run()
    for problem in measurement.problems:
        print(f"MEMORY FAILED: {problem}")
    print("memory passed" if not measurement.problems else f"{len(measurement.problems)} requirements are not met")
    return 1 if measurement.problems else 0


if __name__ == "__main__":
    sys.exit(main())
