"""`make bench-concurrency`: compares `--concurrency auto` with the best fixed number on many kinds of networks.

On each network, a job (`null`, 100 bytes per object) runs with several fixed numbers. It then runs with the neighbours
of the best number, and finally with `auto`. Only replies in the last seconds of a job count. With `auto`, counting
starts after 10 s or 12 mean latencies, whichever is longer. With a fixed number, it starts once all connections are
open, or on narrow links, once the listing's first read-ahead is used up. The wide-area networks are those of the tests
(docs/internals/testing.md). The other networks are on loopback. The table and the plots are in
docs/guide/concurrency.md.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from own_bench.machine import ROOT, commit, facts
from own_bench.processes import FETCHMILL, fetchmill_server

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
from wide_area import CLEAN, WideArea, wide_area

RESULT = Path(__file__).with_name("results") / "concurrency.json"
COARSE = (64, 512, 4096)
MOST = 16_384
COUNT = 1_000_000_000
# With fewer names per page, the listing would be the bottleneck, because its pages arrive one at a time.
PAGE = 10_000
FIXED_SECONDS, COUNTED_SECONDS = 3.0, 3.0
SETTLE_SECONDS, SETTLE_LATENCIES = 10.0, 12.0
AUTO_COUNTED_SECONDS = 5.0
# On a narrow link, the listing's first read-ahead is used up after this time. From then on, pages arrive in waves,
# together with objects. Before that, too many requests in flight look better than they are.
NARROW_MEGABITS, NARROW_SECONDS, NARROW_COUNTED_SECONDS = 10, 15.0, 10.0
# Number of connections above which the server slows down, and its latency in seconds up to that number.
CROWD, CROWD_LATENCY = 200, 0.05

Runner = Callable[..., subprocess.CompletedProcess[str]]
# Starts a job's server, or uses a running one. Returns the URL of the server.
Site = Callable[[], contextlib.AbstractContextManager[str]]


@dataclass(frozen=True)
class Case:
    """A network with a server. Latencies are in seconds."""

    name: str
    latency: float
    round_trip: float | None = None
    loss: float = 0.0
    megabits: float = 0.0
    delay: str | None = None

    @property
    def settled(self) -> float:
        """Seconds before the measurement of `auto` starts."""
        return max(SETTLE_SECONDS, SETTLE_LATENCIES * self.latency)

    @property
    def is_narrow(self) -> bool:
        """Whether listing pages use a significant part of the link."""
        return self.megabits == NARROW_MEGABITS


@dataclass(frozen=True)
class Job:
    """A job's progress, as one point per second: the time, the replies so far, and the limit on requests in flight."""

    number: int | str
    points: list[tuple[float, int, int]] = field(repr=False)

    def rate(self, since: float, until: float = float("inf")) -> float:
        """Returns the rate in objects/s during this period."""
        points = [point for point in self.points if since <= point[0] <= until]
        (first, before, _), (last, after, _) = points[0], points[-1]
        return (after - before) / max(last - first, 1e-3)

    def limits(self, since: float) -> tuple[int, int]:
        """Returns the lowest and the highest limit on requests in flight."""
        limits = [limit for seconds, _, limit in self.points if seconds >= since]
        return min(limits), max(limits)


def wide_area_cases() -> list[Case]:
    """Returns all combinations of round-trip times, losses and bandwidths."""
    return [
        Case(
            f"{round_trip * 1000:g} ms, {loss:.1%} loss, {megabits:g} Mbit/s",
            max(round_trip, 0.001),
            round_trip=round_trip,
            loss=loss,
            megabits=megabits,
        )
        for round_trip in (0.0002, 0.01, 0.05, 0.15)
        for loss in (0.0, 0.005)
        for megabits in (10, 100)
    ]


LOCAL = [
    Case("delay 0.1 ms", 0.0001, delay="0.1ms"),
    Case("delay 10 ms", 0.01, delay="10ms"),
    Case("delay 100 ms", 0.1, delay="100ms"),
    Case("delay 0 to 3 s", 1.5, delay="0-3"),
    Case(f"worse beyond {CROWD} connections", CROWD_LATENCY),
]


def points_of(output: str) -> list[tuple[float, int, int]]:
    """Returns the points of a job's progress."""
    events = [json.loads(line) for line in output.splitlines()]
    report = events[-1]
    if report["event"] != "report" or report["failed"] or report["absent"]:
        raise SystemExit(f"the job failed: {report}")
    return [
        (event["seconds"], event["attempts"], event["concurrency"]) for event in events if event["event"] == "progress"
    ]


def run_job(runner: Runner, url: str, number: int | str, seconds: float) -> Job:
    """Runs a job for this number of seconds."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--format", "null", "--concurrency", number, "--max-duration", f"{seconds:.1f}s", "--json")
        ended = runner("get", url, Path(folder, "out"), *options)
    return Job(number, points_of(ended.stdout))


def refined(rates: dict[int, float]) -> list[int]:
    """Returns the neighbours of the best number that have not been tried."""
    best = max(rates, key=lambda number: rates[number])
    return [number for number in (best // 2, best * 2) if number not in rates and number <= MOST]


def sweep(runner: Runner, site: Site, case: Case) -> dict[str, Any]:
    """Measures fixed numbers, then `auto`."""
    rates: dict[int, float] = {}
    start = NARROW_SECONDS if case.is_narrow else max(FIXED_SECONDS, SETTLE_LATENCIES / 2 * case.latency)
    fixed_counted, auto_counted = (
        (NARROW_COUNTED_SECONDS,) * 2 if case.is_narrow else (COUNTED_SECONDS, AUTO_COUNTED_SECONDS)
    )

    def measure(number: int | str, settled: float, counted: float) -> tuple[Job, float]:
        with site() as url:
            job = run_job(runner, url, number, settled + counted)
        # After this time, the job only completes requests in flight.
        return job, job.rate(settled - 0.5, settled + counted)

    for number in COARSE:
        rates[number] = measure(number, start, fixed_counted)[1]
    while untried := refined(rates):
        for number in untried:
            rates[number] = measure(number, start, fixed_counted)[1]
    job, rate = measure("auto", case.settled, auto_counted)
    best = max(rates, key=lambda number: rates[number])
    found = {
        **asdict(case),
        "fixed": dict(sorted(rates.items())),
        "best": best,
        "auto": rate,
        "ratio": rate / rates[best],
        "limits": job.limits(case.settled),
        "points": job.points,
    }
    print(told(found), flush=True)
    return found


def told(found: dict[str, Any]) -> str:
    """Returns the results of a case as one line."""
    least, most = found["limits"]
    rates = ", ".join(f"{number}: {rate:,.0f}" for number, rate in found["fixed"].items())
    return f"{found['name']:32} auto {found['auto']:8,.0f}/s = {found['ratio']:.2f} at {least} to {most}   [{rates}]"


class CrowdedServer:
    """A server that replies within 50 ms.

    If there are more connections than `CROWD`, the extra time per reply grows with the square of the excess.
    """

    PAGE_NAMES = 5000

    def __init__(self) -> None:
        self._connections = 0

    def run(self) -> None:
        """Serves until the process ends."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._reply(head.split(b" ", 2)[1]))
                    await writer.drain()
        finally:
            self._connections -= 1
            writer.close()

    async def _reply(self, target: bytes) -> bytes:
        if target.startswith(b"/list"):
            first = int(target.partition(b"marker=")[2] or 0)
            names = [f"{first + number:012}" for number in range(self.PAGE_NAMES)]
            body = json.dumps({"FileNames": names, "NextMarker": str(first + len(names))}).encode()
        else:
            await asyncio.sleep(CROWD_LATENCY * max(1.0, self._connections / CROWD) ** 2)
            body = target.ljust(100, b".")
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@contextlib.contextmanager
def delayed(delay: str) -> Iterator[str]:
    """Starts a server on loopback that delays its replies by this time."""
    synthetic = ("--synthetic", str(COUNT), "--page-size", str(PAGE), "--delay", delay, "--port", "0")
    with fetchmill_server(None, *synthetic) as (_, url):
        yield url


def running(url: str) -> Site:
    """Provides a server that runs for all jobs of a case."""
    return lambda: contextlib.nullcontext(url)


@contextlib.contextmanager
def crowded() -> Iterator[str]:
    """Starts the crowded server in its own process."""
    command = [sys.executable, "-m", "own_bench.concurrency", "--serve-crowded"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def run_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command on this machine."""
    return _run([*FETCHMILL, *map(str, arguments)])


def run_near(area: WideArea) -> Runner:
    """Runs the command in the near namespace."""
    return lambda *arguments: _run(area.near.command(*FETCHMILL, *arguments))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(command, env=CLEAN, capture_output=True, text=True, check=False, timeout=600)
    if not ended.stdout:
        raise SystemExit(ended.stderr)
    return ended


CHANGES = ((0.0, 0.01), (15.0, 0.3), (35.0, 0.01))
CHANGED_SECONDS = 50.0
CHANGING, SHARED = "changing", "shared"


def run_changing(number: int | str) -> Job:
    """Runs a job in its own network, while the network's round-trip time changes."""
    with tempfile.TemporaryDirectory() as folder, wide_area(Path(folder)) as area:

        def change() -> None:
            started = time.monotonic()
            for at, round_trip in CHANGES:
                time.sleep(max(0.0, at - (time.monotonic() - started)))
                area.link.change(round_trip=round_trip)

        area.link.change(round_trip=CHANGES[0][1], loss=0.0, megabits=100)
        with area.serving(tls=False, content={"synthetic": {"count": COUNT, "size": 100}}, page_size=PAGE) as site:
            # The job's clock starts within half a second of this moment.
            thread = threading.Thread(target=change)
            thread.start()
            try:
                return run_job(run_near(area), site.url, number, CHANGED_SECONDS)
            finally:
                thread.join()


def follow_changes() -> dict[str, Any]:
    """Changes the round-trip time from 10 ms to 300 ms and back while jobs run."""
    jobs = {number: run_changing(number) for number in ("auto", 512, 1024, 4096, 16_384)}
    starts = [at for at, _ in CHANGES]
    windows = [(start + SETTLE_SECONDS, end) for start, end in zip(starts, [*starts[1:], CHANGED_SECONDS], strict=True)]
    rates = {number: [job.rate(since + 0.5, until - 0.5) for since, until in windows] for number, job in jobs.items()}
    best = [max(rate[part] for number, rate in rates.items() if number != "auto") for part in range(len(windows))]
    ratios = [rate / most for rate, most in zip(rates["auto"], best, strict=True)]
    print("changing: auto " + ", ".join(f"{ratio:.2f}" for ratio in ratios), rates, flush=True)
    return {"rates": rates, "ratios": ratios, "changes": CHANGES, "points": jobs["auto"].points}


# Two jobs run together. The second one starts `SECOND_AFTER` seconds later, and the goodput of both is compared over
# the last `SHARED_SECONDS`.
SECOND_AFTER, BOTH_SECONDS, SHARED_SECONDS = 5.0, 40.0, 20.0


def share_server(area: WideArea) -> list[dict[str, Any]]:
    """Runs two jobs against one server, first with the link and then with the server as the bottleneck."""
    shared = []
    for name, round_trip, megabits, delay in (
        ("10 ms, 10 Mbit/s", 0.01, 10, None),
        ("50 ms, 10 Mbit/s", 0.05, 10, None),
        ("10 ms", 0.01, 0, None),
        ("delay 100 ms", 0.0002, 0, [0.1, 0.1]),
    ):
        area.link.change(round_trip=round_trip, loss=0.0, megabits=megabits)
        options: dict[str, Any] = {} if delay is None else {"delay": delay}
        content = {"synthetic": {"count": COUNT, "size": 100}}
        with area.serving(tls=False, content=content, page_size=PAGE, **options) as site:
            rates = _both(run_near(area), site.url)
        shared.append({"name": name, "rates": rates})
        low, high = sorted(rates)
        print(f"two jobs, {name:24} {low:,.0f} and {high:,.0f} objects/s: {high / (low + high):.0%}", flush=True)
    return shared


def _both(runner: Runner, url: str) -> list[float]:
    """Returns the goodput of each job after both have run for a while."""

    def rate(number: int) -> float:
        later = number * SECOND_AFTER
        time.sleep(later)
        job = run_job(runner, url, "auto", BOTH_SECONDS - later)
        return job.rate(SHARED_SECONDS - later, BOTH_SECONDS - later)

    # An error in one of the jobs ends the bench with its message.
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(rate, range(2)))


class Results:
    """The measurements made so far.

    A repeated measurement replaces the earlier one.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {"cases": {}}

    def keep(self, **found: Any) -> None:  # noqa: ANN401 - JSON
        """Stores a measurement, with the machine on which it was made."""
        self.found |= {"machine": facts(), **commit(), **found}
        RESULT.write_text(json.dumps(self.found, indent=1) + "\n")

    def keep_case(self, found: dict[str, Any]) -> None:
        """Stores the measurement of one case."""
        self.keep(cases={**self.found["cases"], found["name"]: found})


def measure(wanted: str, results: Results) -> None:
    """Measures all cases whose names contain this text."""
    for case in LOCAL:
        if wanted not in case.name:
            continue
        if case.delay is None:
            # Use a new server for each job, because the old one may still be processing requests from ended jobs.
            results.keep_case(sweep(run_here, crowded, case))
            continue
        with delayed(case.delay) as url:
            results.keep_case(sweep(run_here, running(url), case))
    far = [case for case in wide_area_cases() if wanted in case.name]
    if not far and wanted not in (CHANGING, SHARED):
        return
    if wanted in CHANGING:
        results.keep(changing=follow_changes())
    content = {"synthetic": {"count": COUNT, "size": 100}}
    with tempfile.TemporaryDirectory() as folder, wide_area(Path(folder)) as area:
        if wanted in SHARED:
            results.keep(shared=share_server(area))
        for case in far:
            area.link.change(round_trip=case.round_trip, loss=case.loss, megabits=case.megabits)
            with area.serving(tls=False, content=content, page_size=PAGE) as site:
                results.keep_case(sweep(run_near(area), running(site.url), case))


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only the cases whose names contain TEXT")
    parser.add_argument("--serve-crowded", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_crowded:
        CrowdedServer().run()
        return
    from own_bench.concurrency_plots import write_page

    results = Results()
    measure(options.only, results)
    write_page(results.found)


if __name__ == "__main__":
    main()
