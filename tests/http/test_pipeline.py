"""`--pipeline` sends requests together on a connection. Each object has its own bytes, whatever the server does.

A seed determines the batches and is printed if one fails; FETCHMILL_SEED reproduces them. FETCHMILL_BATCHES is the
total number of batches (`make hostile-batches`: 100,000), and FETCHMILL_PIPELINE_KILLS the number of kills for each
format (`make contract-pipelined`: 50).
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates
from conftest import Ended
from crashes import KILLS_IN_A_JOB, Case, crash
from fetchmill import Report
from fetchmill.testing import Fault, Server, synthetic_body
from foreign import SUFFIXES
from independent import synthetic, synthetic_name
from nginx import Nginx, Site, offer
from pipelined_server import LARGE, WRONG, PipelinedServer, body_of
from stored import read_objects

Run = Callable[..., Ended]
Serve = Callable[..., Server]

SEED = int(os.environ.get("FETCHMILL_SEED") or random.randrange(1 << 32))
BATCHES = int(os.environ.get("FETCHMILL_BATCHES") or 2000)
# Servers stall nearly all of the time, and jobs wait for them, so many batches are divided among parallel tests.
PARTS = -(-BATCHES // 12_500)
# The second of them ends pipelining.
BROKEN_MAX = 2
ENDED = "--pipeline was turned off"
KILLS = int(os.environ.get("FETCHMILL_PIPELINE_KILLS") or 6)
# The other formats share the code of these two.
KILLED_FORMATS = ("files", "null", *SUFFIXES) if "FETCHMILL_PIPELINE_KILLS" in os.environ else ("files", "parquet")


def get(server: PipelinedServer, dest: Path, **options: Any) -> Report:  # noqa: ANN401 - those of `get`
    """Runs a job of one thread: with few connections, its batches are predictable."""
    defaults: dict[str, Any] = {"format": "jsonl", "pipeline": 16, "limit": 4, "threads": 1, "head_timeout": 1}
    return fetchmill.get(server.url, dest, **(defaults | options))


def assert_right(server: PipelinedServer, dest: Path, report: Report) -> None:
    """Checks that all objects are stored once, each with its own bytes."""
    count = len(server.names)
    assert (report.listed, report.fetched, report.doubtful) == (count, count, ())
    objects = list(read_objects(dest, "jsonl"))
    assert len(objects) == count
    assert dict(objects) == {name: body_of(name) for name in server.names}


def names_of(drawn: random.Random, count: int) -> list[str]:
    """Returns names of different lengths, so that objects differ in length, too."""
    return [f"{number}-{'n' * drawn.randrange(12)}" for number in range(count)]


@pytest.mark.thorough
@pytest.mark.timeout(120 + BATCHES // PARTS // 20)
@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_batches_never_corrupt_stored_bytes(tmp_path: Path, part: int) -> None:
    """Replies are missing, additional, duplicated or malformed.

    There are also closes, resets, stalls, chunks and preceding 100s.
    """
    drawn = random.Random(f"{SEED}-{part}")
    batches = 0
    number = 0
    while batches * PARTS < BATCHES:
        number += 1
        seed, pipeline, limit = drawn.randrange(1 << 32), drawn.randrange(2, 33), drawn.choice((1, 2, 8))
        names = names_of(drawn, 80 * pipeline)
        with PipelinedServer(names, str(seed), wrong=BROKEN_MAX) as server:
            dest = tmp_path / f"out-{number}"
            report = get(server, dest, pipeline=pipeline, limit=limit)
            told = f"FETCHMILL_SEED={SEED}, part {part}, job {number}: {seed}, {pipeline}, {limit}, {server.happened}"
            try:
                assert_right(server, dest, report)
            except AssertionError as error:
                raise AssertionError(told) from error
            # A reset may overtake the batch before it, and the batch that reveals an unsolicited response may be one
            # more.
            assert any(ENDED in notice for notice in report.notices) or sum(server.happened.values()) < BROKEN_MAX, told
        batches += server.batches


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wrong", WRONG)
def test_second_broken_batch_ends_pipelining(tmp_path: Path, wrong: str) -> None:
    """Requests are then sent one by one, and a notice says so."""
    names = names_of(random.Random(1), 2000)
    with PipelinedServer(names, "1", wrong=1000, kinds=(wrong,), share=0.2) as server:
        # A batch that times out on a busy machine would also be broken.
        report = get(server, tmp_path / "out", limit=1, head_timeout=10)

        assert_right(server, tmp_path / "out", report)
        assert [notice for notice in report.notices if notice.startswith(ENDED)]
        # A reset may overtake the batch before it: one reset then breaks two batches.
        least = 1 if wrong == "reset" else BROKEN_MAX
        assert least <= sum(server.happened.values()) <= BROKEN_MAX
        assert server.singles > len(names) // 3


def test_good_server_gets_pipelined_batches_to_job_end(tmp_path: Path) -> None:
    """Batches follow one plain reply on each connection, and are never larger than requested."""
    with PipelinedServer(names_of(random.Random(2), 3000), "2") as server:
        report = get(server, tmp_path / "out")

        assert_right(server, tmp_path / "out", report)
        assert not report.notices
        assert server.largest == 16
        assert server.batches >= 3000 // 16
        assert set(server.asked.values()) == {1}


def test_plan_pipelines_requests_like_job(tmp_path: Path) -> None:
    """The sample of a plan is requested one by one, because it has a rate. Other probes are pipelined."""
    with PipelinedServer(names_of(random.Random(SEED), 20_000), str(SEED)) as server:
        plan = fetchmill.plan(server.url, tmp_path / "out", pipeline=16, concurrency=2, probe_seconds=2)

        assert plan.objects == 20_000
        assert server.batches >= 20


def test_pipelining_continues_when_server_limits_connections(tmp_path: Path) -> None:
    """nginx, for example, ends connections after 1,000 requests. The first end breaks a batch but is not an error."""
    with PipelinedServer(names_of(random.Random(3), 3000), "3", replies_max=100) as server:
        report = get(server, tmp_path / "out", limit=1)

        assert_right(server, tmp_path / "out", report)
        assert not report.notices
        # Only the replies held by the connection that ended within a batch, and that batch, were requested twice.
        assert sum(server.asked.values()) <= 3000 + 100 + 16


def test_large_reply_ends_pipelining(tmp_path: Path) -> None:
    """The reply is too large for a batch, and is fetched alone."""
    names = names_of(random.Random(4), 1000)
    with PipelinedServer(names, "4", large=names[500]) as server:
        report = get(server, tmp_path / "out", limit=1)

        assert report.fetched == len(names)
        wanted = {name: body_of(name) for name in names} | {names[500]: LARGE}
        assert dict(read_objects(tmp_path / "out", "jsonl")) == wanted
        assert [notice for notice in report.notices if notice.startswith(ENDED) and "64 KiB" in notice]


def test_failure_in_batch_belongs_to_its_target(server: Serve, dest: Path) -> None:
    """An absent or failed target is first requested alone, and then retried as usual."""
    faults = [
        Fault("status", status=404, match="file-00000000012*"),
        Fault("status", status=403, match="file-00000000034*"),
        Fault("status", status=500, times=1, rate=0.02),
    ]
    source = server(synthetic=2000, faults=faults)

    report = fetchmill.get(source.url, dest, format="parquet", pipeline=32, limit=2)

    assert (report.listed, report.fetched, report.absent, report.failed) == (2000, 1980, 10, 10)
    wanted = {number for number in range(2000) if number // 10 not in (12, 34)}
    assert dict(read_objects(dest, "parquet")) == {
        synthetic_name(number): synthetic_body(synthetic_name(number), 100) for number in wanted
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_tls", [False, True])
def test_nginx_objects_are_fetched_in_batches(
    nginx: Callable[..., Nginx], served: Path, certificates: Certificates, tmp_path: Path, *, is_tls: bool
) -> None:
    """Files have different sizes, and each is stored with its own bytes and time."""
    objects = {f"f{number:05}": f"{number};".encode() * (number % 40) for number in range(5000)}
    offer(served, objects)
    leaf = certificates.good if is_tls else None
    web = nginx(site=Site(leaf=leaf))
    trusted: dict[str, Any] = {"ca_file": certificates.ca_file} if is_tls else {}

    report = fetchmill.get(web.url("site"), tmp_path / "out", format="jsonl", pipeline=32, limit=2, **trusted)

    assert (report.fetched, report.failed) == (len(objects), 0)
    assert not report.notices
    assert dict(read_objects(tmp_path / "out", "jsonl")) == objects


@pytest.mark.thorough
@pytest.mark.timeout(120 + 5 * KILLS)
@pytest.mark.parametrize("format", KILLED_FORMATS)
def test_killed_pipelined_job_completes_correctly(
    server: Serve, environment: dict[str, str], tmp_path: Path, format: str
) -> None:
    """Nothing is lost, duplicated or left over."""
    numbers = iter(range(100))

    def make_case() -> Case:
        source = server(synthetic=3000, page_size=200, delay=(0.0, 0.01), list_delay=(0.0, 0.03))
        dest = tmp_path / f"out{next(numbers)}"
        return Case(source, dest, synthetic(3000), environment, format, more=("--pipeline", "32"))

    cases = crash(make_case, f"{SEED}", KILLS)

    problems = [f"{case.dest.name}: {problem}" for case in cases for problem in case.problems]
    assert not problems, f"FETCHMILL_SEED={SEED}: {problems[:20]}"
    assert sum(case.killed for case in cases) >= min(KILLS, KILLS_IN_A_JOB - 1)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--rate", "100"), "leave out --rate"),
        (("--bwlimit", "1MB"), "leave out --rate"),
        (("--proxy", "http://127.0.0.1:1"), "leave out --proxy"),
        (("--engine", "threads"), "needs --engine native"),
        (("--concurrency", "4000"), "a --concurrency of at most 2048"),
    ],
)
def test_pipeline_is_refused_with_incompatible_options(
    run: Run, server: Serve, dest: Path, options: tuple[str, ...], why: str
) -> None:
    """The error comes before the first request."""
    source = server(synthetic=10)

    done = run("get", source.url, dest, "--pipeline", "32", *options)

    assert done.code == 2
    assert "--pipeline" in done.err
    assert why in done.err
    assert not source.stats()["requests"]


def test_pipeline_is_refused_for_url_list(run: Run, tmp_path: Path, dest: Path) -> None:
    """URLs of a list may have different origins."""
    (tmp_path / "list.txt").write_text("http://127.0.0.1:1/a\n")

    done = run("get", tmp_path / "list.txt", dest, "--pipeline", "32")

    assert done.code == 2
    assert "--pipeline works only for a server that lists its own objects" in done.err
