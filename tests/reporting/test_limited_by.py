"""The limit of a job: each deliberate bottleneck is named within five seconds."""

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

import fetchmill
from conftest import COMMAND, SUPPORT
from fetchmill._native import Job
from fetchmill._options.get import GetOptions
from fetchmill.testing import Fault, Server
from wide_area import wide_area

Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]

LOG = logging.getLogger(__name__)
# Seconds within which a bottleneck is named.
WITHIN = 5.0
MANY = 1_000_000


def named(
    process: "subprocess.Popen[str]",
    kind: str,
    *,
    within: float = WITHIN,
    since: float | None = None,
    ends_group: bool = False,
) -> str:
    """Returns the message of a running job that names this limit in time, and then ends the job.

    `since`: seconds after the start of the job when the bottleneck began. `ends_group`: whether the command has a
    child.
    """
    seen = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] != "progress":
                continue
            limited_by = event["limited_by"] or {"kind": None, "text": ""}
            seen.append((round(event["seconds"], 1), limited_by["kind"], limited_by["text"]))
            begun = since or 0.0
            if event["seconds"] > begun and limited_by["kind"] == kind:
                LOG.info("%s", seen[-1])
                return str(limited_by["text"])
            # Progress is written once per second.
            if event["seconds"] > begun + within + 1.0:
                break
    finally:
        if ends_group:
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.communicate(timeout=60)
    pytest.fail(f"{kind} was not named: {seen}")


class QueueingServer:
    """A server that answers four requests at a time, each in ten milliseconds; all others wait in a queue."""

    PLACES, SECONDS = 4, 0.01

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _run(self) -> None:
        """Runs until it is cancelled; `asyncio.run` ends the tasks of connections."""
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._places = asyncio.Semaphore(self.PLACES)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._ended.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                async with self._places:
                    await asyncio.sleep(self.SECONDS)
                body = head.split(b" ", 2)[1]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()


def urls(folder: Path, *origins: str, count: int = 20_000) -> Path:
    """Writes a list of this many URLs, alternating between these origins."""
    path = folder / "urls.txt"
    path.write_text("".join(f"{origins[number % len(origins)]}/get/{number}\n" for number in range(count)))
    return path


@pytest.mark.timing
def test_limit_is_listing_when_pages_are_slow(server: Serve, start: Start, dest: Path) -> None:
    """The limit is the listing if a page takes longer than fetching its objects."""
    served = server(synthetic=MANY, page_size=100, list_delay=(0.2, 0.2))

    text = named(start("get", served.url, dest, "--format", "null", "--json"), "listing")

    assert text.startswith("the listing: it delivers ")
    assert "names/s, but about " in text


@pytest.mark.alone
def test_limit_is_server_when_replies_slow_down_under_load(start: Start, tmp_path: Path) -> None:
    """The limit is the server if replies take longer with many requests in flight, but connecting does not."""
    with QueueingServer() as queueing:
        source = urls(tmp_path, queueing.url)
        # During the search for a number, this is the result.
        command = start("get", source, tmp_path / "out", "--format", "null", "--allow-private", "--json", "-j", 64)
        text = named(command, "server")
    assert "in flight" in text


@pytest.mark.timing
def test_limit_is_concurrency_when_more_would_be_faster(server: Serve, start: Start, dest: Path) -> None:
    """The limit is --concurrency if replies take as long as with few requests in flight."""
    served = server(synthetic=MANY, delay=(0.1, 0.1))

    text = named(start("get", served.url, dest, "--format", "null", "--json", "-j", 16), "concurrency")

    assert text.startswith("--concurrency: 16 in flight, and replies take 1")


@pytest.mark.alone
def test_limit_is_network_when_link_is_full(tmp_path: Path) -> None:
    """The limit is the network if packets queue before a link of 10 Mbit/s, including those of new connections."""
    content = {"synthetic": {"count": MANY, "size": 4000}}
    with (
        wide_area(tmp_path, round_trip=0.01, megabits=10) as area,
        area.serving(content=content) as site,
    ):
        # During the search for a number, this is the result.
        options = ("--format", "null", "--json", "--ca-file", area.ca_file, "-j", 64)
        arguments = ("get", site.url, tmp_path / "out", *options)
        command = area.near.command(*COMMAND, *map(str, arguments))
        text = named(subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True), "network")
    assert "connecting takes" in text


@pytest.mark.alone
def test_limit_is_cpu_when_processor_is_busy(server: Serve, start: Start, dest: Path) -> None:
    """The limit is the CPU if the job keeps its only processor busy."""
    served = server(synthetic=100 * MANY)
    processor = min(os.sched_getaffinity(0))

    command = start(
        "get",
        served.url,
        dest,
        *("--format", "parquet", "--json", "-j", 256),
        preexec_fn=lambda: os.sched_setaffinity(0, {processor}),
    )

    assert "of 1.0 are busy" in named(command, "cpu")


@pytest.mark.timing
def test_limit_is_disk_when_syncs_are_slow(server: Serve, memory_path: Path, environment: dict[str, str]) -> None:
    """The limit is the disk if each sync takes a second, and later objects find no room in memory."""
    served = server(synthetic=MANY, size=100_000)
    strace = shutil.which("strace")
    assert strace, "strace is missing: make servers"
    calls = "syncfs,fsync,fdatasync"
    slow = [strace, "-f", "--seccomp-bpf", "-o", os.devnull, "-e", f"trace={calls}"]
    slow += ["-e", f"inject={calls}:delay_enter=1000000"]
    get = ("get", served.url, str(memory_path / "out"), "--format", "tar", "--json", "--commit-window", "100ms")

    command = subprocess.Popen(
        [*slow, *COMMAND, *get], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )

    # The first pages also wait for the disk.
    assert "storing takes" in named(command, "disk", within=WITHIN + 3, ends_group=True)


@pytest.mark.alone
def test_limit_is_transform_when_transform_is_slow(
    server: Serve, start: Start, dest: Path, environment: dict[str, str]
) -> None:
    """The limit is a transform that takes five milliseconds per reply."""
    served = server(synthetic=MANY)
    arguments = ("--transform", "transforms:takes_its_time", "--format", "jsonl", "--json")

    command = start("get", served.url, dest, *arguments, env=environment | {"PYTHONPATH": str(SUPPORT)})

    assert "its function runs" in named(command, "transform")


@pytest.mark.timing
def test_limit_is_rate_when_rate_options_apply(server: Serve, start: Start, tmp_path: Path) -> None:
    """--rate and --bwlimit are named if they limit the job."""
    served = server(synthetic=MANY, size=1000)

    rate = start("get", served.url, tmp_path / "rate", "--format", "null", "--json", "--rate", 100)
    bwlimit = start("get", served.url, tmp_path / "bwlimit", "--format", "null", "--json", "--bwlimit", "200kB")

    assert named(rate, "rate") == "--rate: 100 requests/s"
    assert named(bwlimit, "bwlimit", within=2 * WITHIN).startswith("--bwlimit: 195")


@pytest.mark.timing
@pytest.mark.parametrize(
    ("command", "hosts", "options", "kind", "text"),
    [
        ("check", 1, (), "courtesy", "courtesy: at most 30 requests/s per host (--rate-per-host)"),
        (
            "get",
            2,
            ("--format", "null"),
            "courtesy",
            "courtesy: at most 30 requests/s per host (--rate-per-host)",
        ),
        ("get", 1, ("--format", "null"), "rate", "--rate-per-host: 30 requests/s"),
        ("get", 1, ("--format", "null", "--engine", "threads"), "rate", "--rate-per-host: 30 requests/s"),
    ],
)
def test_limit_is_host_rate_when_it_applies(
    server: Serve,
    start: Start,
    tmp_path: Path,
    command: str,
    hosts: int,
    options: tuple[str, ...],
    kind: str,
    text: str,
) -> None:
    """A rate per host that applies is named instead of the limit of requests in flight."""
    served = [server(synthetic=MANY) for _ in range(hosts)]
    source = urls(tmp_path, *(each.url for each in served))
    bounds = ("--rate-per-host", 30, "--allow-private", "--json")

    results = tmp_path / ("out.jsonl" if command == "check" else "out")
    assert named(start(command, source, results, *options, *bounds), kind) == text


@pytest.mark.timing
def test_limit_is_server_or_last_targets_without_replies(server: Serve, start: Start, tmp_path: Path) -> None:
    """Without replies, the message has no reply time. The last targets are named with their deadline."""
    served = server(synthetic=MANY, delay=(60.0, 60.0))
    many, few = urls(tmp_path, served.url), tmp_path / "few.txt"
    few.write_text(f"{served.url}/get/1\n{served.url}/get/2\n")
    options = ("--format", "null", "--json", "--allow-private", "-j", 16)

    all_out = start("get", many, tmp_path / "many", *options)
    last = start("get", few, tmp_path / "few", *options)

    assert re.fullmatch(
        r"the server: no reply for \d+(\.\d)? m?s, with 16 requests in flight", named(all_out, "server")
    )
    assert re.fullmatch(
        r"the last targets: 2 in flight \(until 20[-:\dT]+Z at the latest\)", named(last, "last-targets")
    )


@pytest.mark.timing
@pytest.mark.parametrize("engine", ["native", "threads"])
def test_limit_is_throttling_when_server_answers_429(server: Serve, start: Start, dest: Path, engine: str) -> None:
    """If the server answers 429 above 200 requests/s, fetchmill finds this rate in a few seconds and names it."""
    served = server(synthetic=MANY, faults=[Fault("status", status=429, above=200)])

    command = start("get", served.url, dest, "--format", "null", "--json", "--engine", engine)

    text = named(command, "throttling", within=WITHIN + 2)
    assert text.startswith(f"throttled by {served.url.removeprefix('http://')} to ")


@pytest.mark.timing
def test_limit_is_courtesy_when_limit_per_host_applies(server: Serve, start: Start, tmp_path: Path) -> None:
    """--limit-per-host is named if two slow hosts get two concurrent requests each."""
    served = [server(synthetic=MANY, delay=(0.2, 0.2)) for _ in range(2)]
    source = urls(tmp_path, *(each.url for each in served))
    bounds = ("--limit-per-host", 2, "--rate-per-host", 0, "--allow-private")

    text = named(start("get", source, tmp_path / "out", "--format", "null", "--json", *bounds), "courtesy")

    assert text == "courtesy: at most 2 concurrent requests per host (--limit-per-host)"


@pytest.mark.timing
def test_limit_is_outage_when_server_is_gone(server: Serve, start: Start, dest: Path) -> None:
    """An outage is named after the server has stopped."""
    # By then, everything is listed and most is not fetched. Otherwise, the failing page would be named.
    served = server(synthetic=30_000, delay=(0.02, 0.02))
    begun = time.monotonic()
    command = start("get", served.url, dest, "--format", "null", "--json", "-j", 64)
    time.sleep(2)
    served.stop()
    # The job first has to notice that all objects fail, and not only one.
    text = named(command, "outage", since=time.monotonic() - begun, within=WITHIN + 2)

    assert text.startswith("an outage: the server returns no valid reply")
    assert " since 20" in text


@pytest.mark.alone
def test_limit_is_cpu_when_python_engine_is_busy(server: Serve, start: Start, dest: Path) -> None:
    """The CPU is named for a Python engine, whose interpreter uses one processor."""
    served = server(synthetic=MANY)

    command = start("get", served.url, dest, "--format", "null", "--json", "--engine", "asyncio")

    assert "Python" in named(command, "cpu")


@pytest.mark.timing
def test_limit_is_in_status_summary_and_report(
    server: Serve, start: Start, run: Callable[..., Any], dest: Path
) -> None:
    """The limit is in the status of a running job, in its summary, and in its report, also in Python."""
    served = server(synthetic=600, delay=(0.1, 0.1))
    command = start("get", served.url, dest, "-j", 8, "--json")
    time.sleep(4)

    status = fetchmill.status(dest)
    shown = run("status", dest).out
    watched = run("status", dest, "--watch", "--json").out.splitlines()

    assert status.running
    assert status.progress is not None
    assert status.progress.limited_by is not None
    assert status.progress.limited_by.kind == "concurrency"
    assert (status.progress.concurrency, status.remaining_seconds is not None) == (8, True)
    assert 40 < status.progress.objects_per_second <= 81
    assert "limited by   --concurrency: 8 in flight" in shown
    assert "ETA          " in shown
    assert len(watched) >= 2
    last = json.loads(watched[-1])
    assert (last["running"], last["pending"], last["progress"]) == (False, 0, None)
    out, _ = command.communicate(timeout=60)
    report = json.loads(out.splitlines()[-1])
    assert (report["event"], report["limited_by"]["kind"]) == ("report", "concurrency")
    assert report["limited_by"]["share"] > 0.5


@pytest.mark.timing
def test_samples_continue_after_kill(server: Serve, start: Start, dest: Path) -> None:
    """The journal has the samples of all runs, and their counts add up to the job's."""
    served = server(synthetic=500, delay=(0.1, 0.1))
    command = start("get", served.url, dest, "-j", 8, "--quiet")
    time.sleep(3)
    command.kill()
    command.communicate()

    job = Job(GetOptions(source=served.url, dest=dest, concurrency=8).to_json())
    while not job.wait(0.1):
        pass
    samples = job.samples()

    first, *_, last = samples
    assert first["time"] < last["time"]
    assert job.samples(samples[-3]["time"]) == samples[-2:]
    # The killed run lost its last second, and uncommitted objects are fetched again.
    fetched = sum(sample["fetched"] for sample in samples)
    assert 500 - 160 <= fetched <= 500 + 160
    assert samples[-1]["in_flight"] == 0
    latencies = [sample["latency"] for sample in samples if sample["latency"]]
    assert latencies
    assert all(0.09 < latency["p50"] < 0.2 for latency in latencies), latencies


def first_with_latency(server: Server, dest: Path) -> dict[str, Any]:
    """Returns a snapshot of a job with its first replies, and then ends the job."""
    job = Job(GetOptions(source=server.url, dest=dest, format="null").to_json())
    until = time.monotonic() + 60
    while not (snapshot := job.snapshot())["latency"]:
        assert time.monotonic() < until, snapshot
        assert not job.wait(0.1)
    job.abort()
    return snapshot


def test_snapshot_has_measured_latency_of_replies(server: Serve, dest: Path) -> None:
    """The latency in a snapshot is the measured one, not an estimate."""
    served = server(synthetic=MANY, delay=(0.05, 0.05))

    last = first_with_latency(served, dest)

    assert last["concurrency"] >= 32
    assert 0.05 <= last["latency"]["p50"] < 5
    assert last["latency"]["p50"] <= last["latency"]["p90"] <= last["latency"]["p99"] <= last["latency"]["max"]
    assert last["attempts"] > 0
