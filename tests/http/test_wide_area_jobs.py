"""Jobs over a wide-area network with latency, loss, DNS names and TLS store every object once and intact.

FETCHMILL_SEED makes the moments of kills reproducible, and the lost packets as far as the packets are the same.
FETCHMILL_WIDE_AREA_ROUNDS is the number of runs of each part, each with another seed (`make wide-area`: 10).
"""

import csv
import hashlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import COMMAND, format_options
from engines import IN_PYTHON, limit_of
from fetchmill.testing import Fault, synthetic_body
from foreign import READERS, read_objects
from independent import (
    Expected,
    find_problems,
    find_unbalanced,
    find_wrong,
    has_journal,
    read_ledger,
    synthetic,
    synthetic_name,
)
from s3_stores import ENVIRONMENT, named_versitygw
from wide_area import CLEAN, WideArea, wide_area

SEED = int(os.environ.get("FETCHMILL_SEED") or random.randrange(1 << 32))
ROUNDS = int(os.environ.get("FETCHMILL_WIDE_AREA_ROUNDS") or 1)
# A latency as between two continents' coasts, and a bad line.
ROUND_TRIP, LOSS = 0.05, 0.005
COUNT = 3000
KILLS = 3
# Maximum jitter of the link and the server at which an unsolicited response is still detected.
LATE = 0.01
# Some targets get no first reply.
FOR_A_MOMENT = [
    Fault("status", status=503, times=1, rate=0.01),
    Fault("reset", times=1, rate=0.01),
    Fault("truncate", times=1, rate=0.01),
]
S3_HOST, BUCKET = "s3.us-east-1.amazonaws.com", "some-bucket"
S3_HOSTS = {S3_HOST: "198.51.100.10", f"*.{S3_HOST}": "198.51.100.10"}
S3_OBJECTS = {f"p/{index // 100:02}/{index:04}": f"object {index}".encode() * (index % 7) for index in range(1500)}

in_rounds = pytest.mark.parametrize("number", range(ROUNDS))


def far_away(folder: Path, number: int, **settings: Any) -> Any:  # noqa: ANN401 - what `wide_area` gives
    """A network with the latency and the loss of these tests."""
    return wide_area(folder, **{"round_trip": ROUND_TRIP, "loss": LOSS, "seed": SEED + number, **settings})


def content(count: int = COUNT, size: int = 100) -> dict[str, Any]:
    """Returns the content of a server."""
    return {"synthetic": {"count": count, "size": size}}


def start(area: WideArea, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Starts the command in the near namespace."""
    command = area.near.command(*COMMAND, *arguments, "--ca-file", area.ca_file)
    return subprocess.Popen(
        command, env={**CLEAN, **environment}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def await_settled(dest: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Waits until the given number of targets have finished, or until the run has ended."""
    while process.poll() is None and not (has_journal(dest) and read_ledger(dest).settled >= count):
        time.sleep(0.01)


def killed_and_finished(
    area: WideArea, arguments: tuple[object, ...], dest: Path, expected: Expected, format: str, **environment: str
) -> list[str]:
    """Kills a job several times and lets it finish. Returns the problems found."""
    drawn = random.Random(f"{area.seed} {format}")
    moments = sorted(drawn.sample(range(1, expected.listed * 4 // 5), KILLS))
    problems, killed = [], 0
    for moment in moments:
        process = start(area, *arguments, **environment)
        await_settled(dest, moment, process)
        process.kill()
        _, err = process.communicate(timeout=120)
        if process.returncode != -signal.SIGKILL:
            # The job ended before it could be killed.
            assert process.returncode == 0, err
            break
        killed += 1
        problems += [f"{problem} after {moment}" for problem in find_wrong(dest, expected, format)]
        problems += [f"{problem} after {moment}" for problem in find_unbalanced(dest)]
    process = start(area, *arguments, **environment)
    _, err = process.communicate(timeout=240)
    assert (process.returncode, killed > 0) == (0, True), err
    return problems + find_problems(dest, expected, format)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@in_rounds
@pytest.mark.parametrize("format", ["files", "parquet"])
def test_distant_job_resumes_after_kills(tmp_path: Path, memory_path: Path, format: str, number: int) -> None:
    """A job killed with SIGKILL resumes and stores everything, despite resets and truncated replies."""
    dest = memory_path / "out"
    serving: dict[str, Any] = {"content": content(), "page_size": 250, "faults": FOR_A_MOMENT}
    with far_away(tmp_path, number) as area, area.serving(**serving) as site:
        options = ("--quiet", "--commit-window", "100ms", *format_options(format))
        arguments = ("get", site.url, dest, *options)
        assert killed_and_finished(area, arguments, dest, synthetic(COUNT), format) == []
    assert site.stats["faults"].keys() == {"status", "reset", "truncate"}


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@in_rounds
@pytest.mark.parametrize("engine", [name for name in IN_PYTHON if name in ("threads", "asyncio") or ROUNDS > 1])
def test_every_engine_stores_distant_objects_once(tmp_path: Path, engine: str, number: int) -> None:
    """Every engine stores each distant object once, with its own bytes."""
    count = 60 * limit_of(engine, 16)
    dest = tmp_path / "out"
    with far_away(tmp_path, number) as area, area.serving(content=content(count), page_size=100) as site:
        options = ("--engine", engine, "--concurrency", limit_of(engine, 16), "--format", "jsonl", "--quiet")
        ended = area.fetchmill("get", site.url, dest, *options)
    assert ended.code == 0, ended.err
    assert find_problems(dest, synthetic(count), "jsonl") == []


@pytest.mark.thorough
@in_rounds
def test_outage_and_rising_latency_lose_no_object(tmp_path: Path, number: int) -> None:
    """A job survives three seconds without any packet, and then a round trip of 0.3 s for a while."""
    dest = tmp_path / "out"
    with far_away(tmp_path, number) as area, area.serving(content=content(), page_size=250) as site:
        # Slow enough that the job is far from its end when its start is noticed.
        pace = ("-j", "32", "--commit-window", "200ms")
        process = start(area, "get", site.url, dest, "--format", "parquet", "--quiet", *pace)
        await_settled(dest, COUNT // 10, process)
        area.link.change(loss=1)
        time.sleep(3)
        assert process.poll() is None
        area.link.change(loss=LOSS, round_trip=0.3)
        await_settled(dest, COUNT // 2, process)
        area.link.change(round_trip=ROUND_TRIP)
        _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert find_problems(dest, synthetic(COUNT), "parquet") == []


@in_rounds
@pytest.mark.parametrize("limit", [8, 64])
def test_unsolicited_responses_never_mix_distant_bodies(tmp_path: Path, limit: int, number: int) -> None:
    """Unsolicited responses up to 20 ms after a real reply are not stored for another object. The line has no loss.

    The limit is 50 ms (docs/reference/http-support.md); a retransmission would exceed it. A run does not count if the
    link or the server had to wait for a CPU.
    """
    count = limit * 25
    dest = tmp_path / "out"
    stray = Fault("stray", times=2 * limit, requests=10, seconds=0.02)
    with (
        far_away(tmp_path, number, loss=0.0) as area,
        area.serving(content=content(count), page_size=100, faults=[stray]) as site,
    ):
        ended = area.fetchmill("get", site.url, dest, "--format", "jsonl", "--concurrency", limit, "--quiet")
        late = max(counters.late for counters in area.link.counters())
    report = fetchmill.status(dest)
    assert ended.code == (3 if report.doubtful else 0), ended.err
    assert site.stats["faults"]["stray"] > 0
    stored = list(read_objects(dest, "jsonl", next(iter(READERS["jsonl"]))))
    assert sorted(each.name.decode() for each in stored) == [synthetic_name(index) for index in range(count)]
    wrong = {each.name.decode() for each in stored if each.body != synthetic_body(each.name.decode(), 100)}
    is_excused = site.stats["strays_late"] or late > LATE
    assert wrong <= set(report.doubtful) or is_excused, (area.seed, late, sorted(wrong)[:5])


@in_rounds
def test_distant_listing_of_many_pages_is_complete(tmp_path: Path, number: int) -> None:
    """The manifest of a long distant listing has one row per name."""
    manifest = tmp_path / "manifest.csv"
    with far_away(tmp_path, number) as area, area.serving(content=content(), page_size=100) as site:
        ended = area.fetchmill("list", site.url, manifest, "--quiet")
    assert ended.code == 0, ended.err
    with manifest.open(newline="") as rows:
        names = [row["url"].rpartition("/")[2] for row in csv.DictReader(rows)]
    assert sorted(names) == [synthetic_name(index) for index in range(COUNT)]
    assert site.stats["list"] >= COUNT // 100


STREAM = """
import fetchmill, hashlib, json
urls = (f"{url}/get/file-{{index:012}}" for index in range({count}))
with fetchmill.stream(urls, ca_file={ca_file!r}, limit=64, certain=True) as replies:
    print(json.dumps([(reply.index, reply.status, hashlib.sha256(reply.body).hexdigest()) for reply in replies]))
"""


@in_rounds
def test_distant_stream_yields_each_reply_once(tmp_path: Path, number: int) -> None:
    """Each reply of a stream has the bytes of its URL."""
    with far_away(tmp_path, number) as area, area.serving(content=content(2000)) as site:
        program = STREAM.format(url=site.url, count=2000, ca_file=str(area.ca_file))
        ended = area.near.python(program, environment=CLEAN, timeout=240)
    assert ended.code == 0, ended.err
    bodies = (synthetic_body(synthetic_name(index), 100) for index in range(2000))
    wanted = [[index, 200, hashlib.sha256(body).hexdigest()] for index, body in enumerate(bodies)]
    assert sorted(json.loads(ended.out)) == wanted


@pytest.fixture
def store_folder(memory_path: Path) -> Path:
    """Returns the folder of a store with one bucket."""
    folder = memory_path / "store"
    for name, body in S3_OBJECTS.items():
        path = folder / BUCKET / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


@pytest.mark.thorough
@in_rounds
@pytest.mark.needs_versitygw
def test_distant_bucket_is_fetched_by_its_aws_name(tmp_path: Path, store_folder: Path, number: int) -> None:
    """A bucket of a third-party store that answers to AWS's host name survives kills of the job."""
    dest = tmp_path / "out"
    keys = {name: value for name, value in ENVIRONMENT.items() if name.startswith("AWS_")}
    with far_away(tmp_path, number, hosts=S3_HOSTS) as area:
        store = named_versitygw(store_folder, S3_HOST, S3_HOSTS[S3_HOST], area.leaf)
        with area.far.running(*store, ready=443, HOME=str(tmp_path)):
            arguments = ("get", f"s3://{BUCKET}/p", dest, "--format", "tar", "--quiet", "--commit-window", "100ms")
            expected = Expected(S3_OBJECTS)
            assert killed_and_finished(area, arguments, dest, expected, "tar", **keys) == []
