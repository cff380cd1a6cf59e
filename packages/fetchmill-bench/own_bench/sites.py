"""`make check-sites`: tests `fetchmill check` on a world of sites on loopback, whose answers are known.

The requirements are:
- no wrong rows except suspect ones, and few suspect rows,
- 100,000 https hosts, a fifth of them dead, in less than two minutes and 256 MiB,
- a million names in 256 MiB,
- hardly any slowdown of other hosts because of names without an answer, or of a host with nearly all targets,
- at most 2.5 times the CPU time of a bare loop that looks up, connects, requests, reads and closes.

The exit code is nonzero if a requirement is not met.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fetchmill.world import DEFAULT_MIX, Site, sites
from own_bench.machine import ROOT, program
from own_bench.processes import FETCHMILL, Cores, Process, Usage, measure, peak_mib

PEAK_MIB_MAX = 256
SPEED_SECONDS_MAX = 120
SUSPECT_SHARE_MAX = 0.001
TIMEOUT = 3
# Number of hosts in the second correctness test. Each host has many targets.
FEW_HOSTS = 3000
# Maximum drop in the rate of other hosts that is caused by names without an answer.
LOST_MAX = 0.10
# Request rate per second: two thirds of the maximum that one processor achieves with https.
SILENT_RATE = 2000
# One host's share of all targets.
HOT_SHARE = 0.99
HOT_SECONDS_MAX = 2.0
# The bare loop, which only makes the requests of a check. It is followed by its number of requests in flight, the
# number of rounds, and the maximum ratio of a check's CPU time to the loop's.
LOOP = ROOT / "target" / "release" / "examples" / "bare_check"
LOOP_PLACES = 256
LOOP_ROUNDS = 3
LOOP_CPU_MAX = 2.5
# Behaviours whose second answer differs from the first by design.
FICKLE = ("rebind",)
BUSY = (429, 200)


@dataclass(frozen=True)
class World:
    """A world in its own process."""

    dns: str
    ports: tuple[int, int]
    ca_file: Path


class Measurement:
    """Runs the checks one at a time, and records violated requirements."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._folder = folder
        self._count: int = arguments.count
        self._only: set[str] = set(arguments.only)
        self._cores = Cores.pick()
        self._world = World("", (0, 0), folder)
        self.problems: list[str] = []

    def run(self) -> None:
        """Runs the requested checks, or all of them."""
        parts = {
            "correct": self._correct,
            "speed": self._speed,
            "names": self._names,
            "silent": self._silent,
            "hot": self._hot,
            "loop": self._loop,
        }
        for name, part in parts.items():
            if self._only and name not in self._only:
                continue
            with world(self._folder, self._cores.server) as self._world:
                part()

    def _correct(self) -> None:
        """Checks targets with one host each, and then a few thousand hosts with many targets each."""
        own = list(sites(self._world.ports, self._count, seed=1, patient=False))
        self._compare("hosts with one target each", own)
        mix = {name: weight for name, weight in DEFAULT_MIX.items() if name not in FICKLE}
        hosts = list(sites(self._world.ports, FEW_HOSTS, mix=mix, seed=2, patient=False))
        times = -(-self._count // FEW_HOSTS)
        many = [
            Site(f"{host.url}?{number}", host.behaviour, host.expected) for number in range(times) for host in hosts
        ]
        self._compare("hosts with many targets each", many)

    def _compare(self, what: str, expected: list[Site]) -> None:
        rows, _ = self._check(f"{len(expected):,} {what}", [site.url for site in expected], "--redirects", "20")
        answers = defaultdict(list)
        for row in rows.select(["url", "status", "kind", "suspect"]).to_pylist():
            answers[row["url"]].append(row)
        wrong: Counter[tuple[str, Any, Any]] = Counter()
        suspect = 0
        for site in expected:
            row = answers[site.url].pop() if answers[site.url] else {"status": None, "kind": "no row", "suspect": False}
            if row["suspect"]:
                suspect += 1
            elif not is_right(site, row):
                wrong[site.behaviour, row["status"], row["kind"]] += 1
        left = sum(map(len, answers.values()))
        print(f"    {sum(wrong.values())} wrong, {suspect} suspect, {left} too many", flush=True)
        self._demand(not wrong and not left, f"{what}: wrong rows {dict(wrong)}, {left} too many")
        self._demand(suspect < SUSPECT_SHARE_MAX * len(expected), f"{what}: {suspect} suspect rows")

    def _speed(self) -> None:
        """Checks https hosts, a fifth of them dead, with default settings except for the timeout."""
        mix = {"good": 0.8, "dead": 0.2}
        urls = (site.url for site in sites(self._world.ports, self._count, mix=mix, seed=3, https=1.0))
        _, usage = self._check(f"{self._count:,} https hosts, a fifth of them dead", urls)
        self._demand(usage.seconds < SPEED_SECONDS_MAX, f"{self._count} https hosts took {usage.seconds:.0f} s")

    def _names(self) -> None:
        """Checks names, nine in ten of which do not exist."""
        mix = {"good": 0.1, "nxdomain": 0.9}
        count = 10 * self._count
        urls = (site.url for site in sites(self._world.ports, count, mix=mix, seed=4, https=0.0))
        self._check(f"{count:,} names, nine in ten of which do not exist", urls)

    def _silent(self) -> None:
        """Checks good hosts alone, and then mixed with as many names without an answer.

        On a fully used processor, the queries for each such name take CPU time from the other hosts. The test therefore
        uses a rate that leaves some CPU time.
        """
        good = [site.url for site in sites(self._world.ports, self._count // 2, mix={"good": 1}, seed=5, https=1.0)]
        silent = [site.url for site in sites(self._world.ports, self._count // 2, mix={"nodns": 1}, seed=6, https=1.0)]
        between = [url for pair in zip(good, silent, strict=True) for url in pair]
        for said, options in (("as fast as possible", ()), ("at a limited rate", ("--rate", str(SILENT_RATE)))):
            alone, _ = self._check(f"{len(good):,} good hosts, {said}", good, *options)
            beside, _ = self._check("the same hosts, mixed with as many names without an answer", between, *options)
            before, after = rate(alone, "good-"), rate(beside, "good-")
            print(f"    good hosts per second: {before:,.0f} alone, {after:,.0f} mixed", flush=True)
            is_met = not options or after > before * (1 - LOST_MAX)
            self._demand(is_met, f"names without an answer slow the others down by {1 - after / before:.0%}")

    def _hot(self) -> None:
        """Checks one host with nearly all of the targets, and measures how much this slows down the others."""
        others = round(self._count * (1 - HOT_SHARE))
        urls = [site.url for site in sites(self._world.ports, others, mix={"good": 1}, seed=7, https=0.0)]
        _, usage = self._check(f"{others:,} hosts", urls)
        every = round(1 / (1 - HOT_SHARE))
        hot = f"http://good-999999.test:{self._world.ports[0]}/"
        mixed = [line for n, url in enumerate(urls) for line in (*(f"{hot}?{n}.{k}" for k in range(every - 1)), url)]
        self._watch_others(mixed, others, usage.seconds)

    def _watch_others(self, urls: list[str], others: int, alone: float) -> None:
        """Measures the time for the other hosts while the hot host is also checked.

        After that, it stops the check, because checking the hot host to the end would take too long.
        """
        path = self._folder / "hot.txt"
        path.write_text("".join(f"{url}\n" for url in urls))
        state = self._folder / "hot"
        process = Process(self._command(path, self._folder / "hot.jsonl", "--state", state), self._cores.client)
        started = time.monotonic()
        while fetched_others(state) < others and time.monotonic() < started + SPEED_SECONDS_MAX:
            time.sleep(0.1)
        took = time.monotonic() - started
        process.stop()
        print(
            f"{others:,} hosts plus one with {len(urls) - others:,} targets: {took:.1f} s, alone {alone:.1f} s",
            flush=True,
        )
        self._demand(
            took < alone + HOT_SECONDS_MAX, f"with a hot host, the others took {took:.1f} s instead of {alone:.1f} s"
        )

    def _loop(self) -> None:
        """Compares a check with the bare loop for good hosts over plain http. The two take turns."""
        urls = [site.url for site in sites(self._world.ports, self._count, mix={"good": 1}, seed=8, https=0.0)]
        path = self._folder / "loop.txt"
        path.write_text("".join(f"{url}\n" for url in urls))
        ratios = []
        for _ in range(LOOP_ROUNDS):
            _, usage = self._check(f"{len(urls):,} good hosts", urls)
            least = self._run_loop(path)
            print(f"    the bare loop: {1e6 * least / len(urls):.0f} us of CPU", flush=True)
            ratios.append(usage.cpu / least)
        ratio = statistics.median(ratios)
        print(f"    {ratio:.2f} times the bare loop's CPU time (median)", flush=True)
        self._demand(ratio <= LOOP_CPU_MAX, f"a check takes {ratio:.2f} times the bare loop's CPU time")

    def _run_loop(self, path: Path) -> float:
        """Returns the CPU seconds of a run of the loop. Every host must answer."""
        if not LOOP.exists():
            sys.exit("build the loop first with cargo build --release -p fetchmill-engine --example bare_check")
        command = (LOOP, path, self._world.dns, str(LOOP_PLACES))
        good, cpu = measure(command, self._cores.client).output.split()
        if int(good) != self._count:
            sys.exit(f"the bare loop lost {self._count - int(good)} of {self._count} targets")
        return float(cpu)

    def _command(self, path: Path, results: Path, *options: str | Path) -> tuple[str | Path, ...]:
        trust = ("--resolver", self._world.dns, "--allow-private", "--ca-file", self._world.ca_file)
        return (*FETCHMILL, "check", path, results, "--timeout", str(TIMEOUT), *trust, *options, "--quiet")

    def _check(self, what: str, urls: Iterable[str], *options: str) -> tuple[pa.Table, Usage]:
        path, results = self._folder / "urls.txt", self._folder / "results.parquet"
        with path.open("w") as file:
            file.writelines(f"{url}\n" for url in urls)
        results.unlink(missing_ok=True)
        state = tempfile.mkdtemp(dir=self._folder)
        command = self._command(path, results, "--state", state, *options)
        process = Process(command, self._cores.client, stdout=subprocess.DEVNULL)
        # The value that the kernel reports at the end would include the time before the process executed the command.
        peak = 0.0
        while process.runs():
            with contextlib.suppress(OSError, IndexError):
                peak = peak_mib(process.pid)
            time.sleep(0.1)
        usage = replace(process.wait(), peak_mib=peak)
        self._demand(usage.code == 0, f"{what}: exit code {usage.code}")
        rows = pq.read_table(results)
        each = 1e6 * usage.cpu / rows.num_rows
        print(
            f"{what}: {usage.seconds:.1f} s, {rows.num_rows / usage.seconds:,.0f} targets/s, {each:.0f} us of CPU, "
            f"{usage.peak_mib:.0f} MiB",
            flush=True,
        )
        self._demand(usage.peak_mib < PEAK_MIB_MAX, f"{what}: {usage.peak_mib:.0f} MiB")
        return rows, usage

    def _demand(self, is_met: bool, problem: str) -> None:
        if not is_met:
            self.problems.append(problem)


def is_right(site: Site, row: dict[str, Any]) -> bool:
    """Returns whether a row matches the site's behaviour."""
    if site.behaviour == "busy":
        return row["kind"] is None and row["status"] in BUSY
    if site.expected.status is not None:
        return row["kind"] is None and row["status"] == site.expected.status
    return row["kind"] in site.expected.kinds


def rate(rows: pa.Table, host: str) -> float:
    """Returns the answers/s for one kind of host, measured over the middle 80 % of the answers."""
    answered = rows.filter(pc.and_(pc.match_substring(rows["url"], host), pc.is_valid(rows["status"])))
    started = sorted(pc.cast(answered["started_at"], pa.int64()).to_pylist())
    first, last = len(started) // 10, len(started) * 9 // 10
    return float((last - first) * 1e6 / (started[last] - started[first]))


def fetched_others(state: Path) -> int:
    """Returns the number of durable rows in the shards that belong to hosts other than the hot one."""
    count = 0
    for shard in state.glob("**/failures/*"):
        lines = subprocess.run((program("zstd"), "-dcq", shard), capture_output=True, check=False).stdout.splitlines()
        count += sum(b"good-999999" not in line for line in lines)
    return count


class world:  # noqa: N801 - used as a function
    """Starts a world in its own process and on its own core."""

    def __init__(self, folder: Path, core: int | None) -> None:
        self._ca_file = folder / "ca.pem"
        command = (sys.executable, "-m", "fetchmill.world", "--ca-file", self._ca_file, "--timeout", str(TIMEOUT))
        self._process = Process(command, core, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> World:
        said = json.loads(next(self._process.popen.stdout or iter(())))
        return World(said["dns"], (said["http_port"], said["https_port"]), self._ca_file)

    def __exit__(self, *_: object) -> None:
        self._process.stop()


def main(arguments: list[str] | None = None) -> Iterator[str]:
    """Runs the checks and prints violated requirements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="*", help="checks to run: correct, speed, names, silent, hot, loop (default: all)"
    )
    parser.add_argument("--count", type=int, default=100_000, help="number of targets per check (default: 100,000)")
    with tempfile.TemporaryDirectory(prefix="fetchmill-sites-") as folder:
        measurement = Measurement(Path(folder), parser.parse_args(arguments))
        measurement.run()
    yield from measurement.problems


if __name__ == "__main__":
    PROBLEMS = list(main())
    sys.exit("\n".join(PROBLEMS) or 0)
