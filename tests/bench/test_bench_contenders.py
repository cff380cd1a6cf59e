"""The published ways, each as a process against a real server: their requests, counts and endings."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bare_client import ask
from fetchmill.testing import Fault, Server, s3, synthetic_body, world
from fetchmill_bench import hosts_file
from fetchmill_bench.published import PUBLISHED
from fetchmill_bench.task import Task
from raw_server import RawServer, bare_reply, page, reply
from s3_stores import ENVIRONMENT, Versitygw, bodies, fill

pytestmark = pytest.mark.of_files("packages/fetchmill-bench")

Serve = Callable[..., Server]
Raw = Callable[[Mapping[str, Any]], RawServer]

BY_LISTING = ("a_sync", "a_threads", "a_processes_by_page", "a_asyncio", "a_combined")
BY_URLS = (
    "cd_sync",
    "semaphore_gather",
    "polling_as_completed",
    "callback_as_completed",
    "task_pool",
    "pypeln_each",
)
BY_SITES = ("e_sync", "e_pool", "e_threads", "e_gather")
BY_BUCKET = ("boto3_threads", "aiobotocore", "aiobotocore_all", "obstore")
# Time limit in seconds that no test reaches.
FOREVER = 200.0
# Time limit in seconds for events that take a few seconds on a quiet machine.
PATIENCE = 150.0
COUNT = 250
PAGE = 100
LIMIT = 7


@dataclass(frozen=True)
class Contended:
    """A contender's output and its process group."""

    done: int
    failed: int
    seconds: float
    steps: list[int]
    error: str | None
    set_up: float | None
    group: int


@pytest.fixture
def contend(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Contended]]:
    """Runs a contender to its end: `contend("a_sync", url=server.url, count=10)`."""
    groups: list[int] = []

    def run(name: str, **given: Any) -> Contended:  # noqa: ANN401 - a task's values
        values: dict[str, Any] = {"scenario": "billion", "url": "", "urls": "", "limit": LIMIT, "seconds": FOREVER}
        command = [sys.executable, "-m", "fetchmill_bench.contender_entry", name, Task(**values | given).to_json()]
        with subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            groups.append(process.pid)
            out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
        return Contended(**json.loads(out), group=process.pid)

    yield run
    for group in filter(runs, groups):
        os.killpg(group, signal.SIGKILL)


def url_of(source: Server, index: int) -> str:
    """Returns the URL of a synthetic object."""
    return f"{source.url}/get/file-{index:012}"


def written(folder: Path, lines: Iterator[str] | list[str]) -> str:
    """Writes a file of lines."""
    path = folder / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def runs(group: int) -> bool:
    """Returns whether a process of the group is still running; zombies do not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(of) == group and state != "Z":
            return True
    return False


def runs_on(found: Contended) -> bool:
    """Returns whether a contender's child is still running after some time."""
    deadline = time.monotonic() + PATIENCE
    while runs(found.group) and time.monotonic() < deadline:
        time.sleep(0.01)
    return runs(found.group)


# Ways that list


@pytest.mark.parametrize("name", BY_LISTING)
def test_listing_contender_stores_each_object_once(
    contend: Callable[..., Contended], server: Serve, tmp_path: Path, name: str
) -> None:
    """Pages are listed until the requested number of objects is reached."""
    source = server(synthetic=1000, page_size=PAGE)
    folder = tmp_path / "files"
    folder.mkdir()

    found = contend(name, url=source.url, count=COUNT, folder=str(folder))

    assert (found.done, found.failed, found.error) == (COUNT, 0, None)
    assert sum(found.steps) == COUNT
    objects = [f"file-{index:012}" for index in range(COUNT)]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: synthetic_body(name, 100) for name in objects
    }
    assert source.stats()["get"] == COUNT
    assert source.stats()["list"] == 3


@pytest.mark.parametrize("name", BY_LISTING)
def test_contender_ends_with_short_listing(contend: Callable[..., Contended], server: Serve, name: str) -> None:
    """The listing has fewer objects than requested."""
    source = server(synthetic=150, page_size=PAGE)

    found = contend(name, url=source.url, count=COUNT)

    assert (found.done, found.failed, found.error) == (150, 0, None)


@pytest.mark.parametrize("name", BY_LISTING)
def test_failed_objects_count_as_done(contend: Callable[..., Contended], server: Serve, name: str) -> None:
    """Truncated bodies count as failed, too."""
    faults = [Fault("status", status=500, match="file-00000000000*"), Fault("truncate", match="file-00000000001*")]
    source = server(synthetic=50, faults=faults)

    found = contend(name, url=source.url, count=50)

    assert (found.done, found.failed, found.error) == (50, 20, None)


@pytest.mark.parametrize("name", BY_LISTING)
def test_object_name_or_redirect_cannot_escape_folder(
    contend: Callable[..., Contended], raw: Raw, tmp_path: Path, name: str
) -> None:
    """Such names are percent-encoded or refused, and redirects are not followed."""
    wicked = ["../out", "..", "a/b", "moved", "good"]
    moved = bare_reply("Location: /get/good", "Content-Length: 0", status="302 Found")
    behind = {f"/{part}": reply(b"x") for part in ("out", "get/../out", "get/..", "", "get/a/b", "get/good")}
    source = raw({"/list": page(wicked), "/get/moved": moved, **behind})
    folder = tmp_path / "around" / "files"
    folder.mkdir(parents=True)

    found = contend(name, url=source.url, count=len(wicked), folder=str(folder))

    assert (found.done, found.failed, found.error) == (5, 2, None)
    assert [path.name for path in folder.parent.iterdir()] == ["files"]
    assert sorted(path.name for path in folder.iterdir()) == ["..%2Fout", "a%2Fb", "good"]
    assert len(source.asked("/get/good")) == 1


@pytest.mark.parametrize("name", BY_LISTING)
def test_contender_result_has_listing_error(contend: Callable[..., Contended], server: Serve, name: str) -> None:
    """The error ends the way, and no process is left."""
    source = server(synthetic=1000, page_size=PAGE, faults=[Fault("status", status=500, on="list", times=1)])

    found = contend(name, url=source.url, count=COUNT, seconds=5.0)

    assert found.done == 0
    assert found.error is not None
    assert "500" in found.error
    assert not runs_on(found)


def test_each_request_opens_connection_without_session(contend: Callable[..., Contended], server: Serve) -> None:
    """The published program does the same. With a session, each process has one connection."""
    source = server(synthetic=50)
    contend("a_sync", url=source.url, count=50)
    without = source.stats()["connections"]
    contend("a_processes_by_page", url=source.url, count=50)

    assert without == 51
    assert source.stats()["connections"] - without <= 1 + len(os.sched_getaffinity(0))


# Ways that start from URLs


@pytest.mark.parametrize("name", BY_URLS)
def test_contender_requests_each_url_once(
    contend: Callable[..., Contended], server: Serve, tmp_path: Path, name: str
) -> None:
    """URLs of the file are requested up to the requested number."""
    source = server(synthetic=1000)
    urls = written(tmp_path, [url_of(source, index) for index in range(COUNT + 10)])

    found = contend(name, scenario="slow", urls=urls, count=COUNT)

    assert (found.done, found.failed, found.error) == (COUNT, 0, None)
    assert sum(found.steps) == COUNT
    assert source.stats()["get"] == COUNT
    if name != "cd_sync":
        assert source.stats()["connections"] <= LIMIT


@pytest.mark.parametrize("name", BY_URLS)
def test_failed_urls_are_counted(contend: Callable[..., Contended], server: Serve, tmp_path: Path, name: str) -> None:
    """Failed URLs do not end the way."""
    source = server(synthetic=30, faults=[Fault("reset", match="file-00000000000*")])
    urls = written(tmp_path, [url_of(source, index) for index in range(40)])

    found = contend(name, scenario="slow", urls=urls, count=40)

    assert (found.done, found.failed, found.error) == (40, 20, None)


# Ways that request sites


@dataclass(frozen=True)
class Sites:
    """A small world in the form that contenders get, and the correct classes."""

    task: dict[str, Any]
    classes: dict[str, str]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Writes files with good hosts and some others."""
    expected = {
        "good": "200",
        "notfound": "404",
        "redirecting": "302",
        "big": "200",
        "nxdomain": "connection-error",
        "refusing": "connection-error",
        "resetting": "connection-error",
        "expired": "connection-error",
        "unknownca": "connection-error",
        "dead": "timeout",
        "stalling": "timeout",
        "stalledtls": "timeout",
    }
    folder = tmp_path_factory.mktemp("world")
    with world(timeout=1.0) as running:
        classes = {}
        hosts = []
        for number in range(2):
            for behaviour, found in expected.items():
                host = f"{behaviour}-{number:06}.test"
                classes[f"https://{host}:{running.https_port}/"] = found
                hosts += [f"{address} {host}\n" for address in ask(running.dns, host).addresses]
        (folder / "hosts").write_text("".join(hosts))
        (folder / "ca.pem").write_text(running.ca_pem)
        files = {"hosts": str(folder / "hosts"), "ca_file": str(folder / "ca.pem"), "urls": written(folder, [*classes])}
        yield Sites({"scenario": "sites", "timeout": 1.0, "count": len(classes), **files}, classes)


@pytest.mark.parametrize("name", BY_SITES)
def test_each_site_gets_status_or_error_class(
    contend: Callable[..., Contended], small: Sites, tmp_path: Path, name: str
) -> None:
    """Each site has a status, `timeout` or `connection-error`; sites without a status count as failed."""
    answers = tmp_path / "answers"

    found = contend(name, **small.task, answers=str(answers))

    failed = sum(not each.isdigit() for each in small.classes.values())
    assert (found.done, found.failed, found.error) == (len(small.classes), failed, None)
    lines = [line.split("\t") for line in answers.read_text().splitlines()]
    assert len(lines) == len(small.classes)
    assert dict(lines) == small.classes


def test_host_names_resolve_only_from_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only names of the file are found, in any case and with several addresses; no name server is queried."""
    path = tmp_path / "hosts"
    path.write_text("127.0.0.2 One.test\n127.0.0.3 one.test\n::1 one.test\n")
    monkeypatch.setattr(socket, "getaddrinfo", socket.getaddrinfo)
    hosts_file.answer_from(str(path))

    def addresses(name: str, family: int = 0) -> list[Any]:
        return [each[4][0] for each in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)]

    assert addresses("ONE.test.") == ["127.0.0.2", "127.0.0.3", "::1"]
    assert addresses("one.test", socket.AF_INET) == ["127.0.0.2", "127.0.0.3"]
    assert addresses("127.0.0.9") == ["127.0.0.9"]
    for unknown in ("localhost", "two.test"):
        with pytest.raises(socket.gaierror) as caught:
            socket.getaddrinfo(unknown, 80)
        assert caught.value.errno == socket.EAI_NONAME


# Ways that read a bucket


@pytest.mark.parametrize("name", BY_BUCKET)
def test_bucket_contender_stores_each_object_once(
    contend: Callable[..., Contended],
    versitygw: Versitygw,
    environment: dict[str, str],
    tmp_path: Path,
    name: str,
) -> None:
    """Objects are on several pages. The time to create the clients is reported and included in the total."""
    objects = bodies(1001)
    fill(versitygw, objects)
    folder = tmp_path / "files"
    folder.mkdir()
    environment |= versitygw.environment()

    found = contend(name, **task_of(versitygw), count=len(objects), folder=str(folder))

    assert (found.done, found.failed, found.error) == (len(objects), 0, None)
    assert sum(found.steps) == len(objects)
    assert found.set_up is not None
    assert 0 < found.set_up < found.seconds
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        quote(key, safe=""): body for key, body in objects.items()
    }


@pytest.mark.parametrize("name", BY_BUCKET)
def test_bucket_contender_stops_at_requested_count(
    contend: Callable[..., Contended], versitygw: Versitygw, environment: dict[str, str], name: str
) -> None:
    """Only the first objects of a larger bucket are read."""
    fill(versitygw, bodies(50))
    environment |= versitygw.environment()

    found = contend(name, **task_of(versitygw), count=20)

    assert (found.done, found.failed, found.error) == (20, 0, None)


@pytest.mark.parametrize("name", BY_BUCKET)
def test_failed_bucket_objects_count_as_done(
    contend: Callable[..., Contended], raw: Raw, environment: dict[str, str], name: str
) -> None:
    """The result also has the number of failed objects."""
    refused = {f"/bucket/bad-{number}": bare_reply("Content-Length: 0", status="403 Forbidden") for number in range(5)}
    source = raw({"/bucket": bucket_listing(10, 5), **objects_of(10), **refused})
    environment |= ENVIRONMENT

    found = contend(name, scenario="s3", url=source.url, bucket="bucket", count=15)

    assert (found.done, found.failed, found.error) == (15, 5, None)


@pytest.mark.parametrize("name", BY_BUCKET)
def test_contender_result_has_bucket_listing_error(
    contend: Callable[..., Contended], versitygw: Versitygw, environment: dict[str, str], name: str
) -> None:
    """The error ends the way."""
    environment |= versitygw.environment()
    versitygw.bucket = "elsewhere"

    found = contend(name, **task_of(versitygw), count=10)

    assert found.done == 0
    assert found.error is not None
    assert "bucket does not exist" in found.error


@pytest.mark.parametrize("name", BY_BUCKET)
def test_bucket_contender_stops_at_deadline(
    contend: Callable[..., Contended], raw: Raw, environment: dict[str, str], name: str
) -> None:
    """Objects that were read before the deadline count."""
    silent = {f"/bucket/bad-{number}": lambda exchange: exchange.stall() for number in range(20)}
    source = raw({"/bucket": bucket_listing(5, 20), **objects_of(5), **silent})
    environment |= ENVIRONMENT

    found = contend(name, scenario="s3", url=source.url, bucket="bucket", count=25, seconds=3.0, limit=30)

    assert (found.done, found.failed, found.error) == (5, 0, None)
    assert not runs_on(found)


@pytest.mark.parametrize(("name", "is_refused"), [("aiobotocore", False), ("aiobotocore_all", True)])
def test_request_with_expired_signature_is_refused(
    contend: Callable[..., Contended], environment: dict[str, str], name: str, is_refused: bool
) -> None:
    """A store refuses old signatures: reading takes six seconds here, and signatures expire after three."""
    with s3(bucket="bucket", synthetic=300, max_skew=3.0, get_latency=0.2) as store:
        environment |= store.environment()

        found = contend(name, scenario="s3", url=store.url, bucket=store.bucket, count=300, limit=10)

        assert (found.done, found.error) == (300, None)
        assert (found.failed > 0) == is_refused
        assert store.stats()["skewed"] == found.failed


def task_of(store: Versitygw) -> dict[str, Any]:
    """Returns a contender's task for a store."""
    return {"scenario": "s3", "url": store.endpoint, "bucket": store.bucket}


def bucket_listing(good: int, bad: int) -> bytes:
    """Returns a page that lists a whole bucket."""
    keys = [f"good-{number}" for number in range(good)] + [f"bad-{number}" for number in range(bad)]
    facts = "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>1</Size>"
    contents = "".join(f"<Contents><Key>{key}</Key>{facts}</Contents>" for key in keys)
    count = f"<KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>"
    return reply(f"<ListBucketResult>{count}{contents}</ListBucketResult>".encode())


def objects_of(count: int) -> dict[str, bytes]:
    """Returns answers for the good keys."""
    facts = ("Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT", 'ETag: "e"')
    return {f"/bucket/good-{number}": reply(b"x", *facts) for number in range(count)}


# Endings


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*BY_LISTING, *BY_URLS])
def test_deadline_ends_contender_and_its_processes(
    contend: Callable[..., Contended], server: Serve, tmp_path: Path, name: str
) -> None:
    """No child process outlives the deadline."""
    waits = Fault("stall", after_bytes=0, seconds=FOREVER, match="file-00000000004*")
    source = server(synthetic=100, faults=[waits])
    urls = written(tmp_path, [url_of(source, index) for index in range(100)])

    found = contend(name, url=source.url, urls=urls, count=100, seconds=5.0)

    assert 0 < found.done < 100
    assert sum(found.steps) == found.done
    assert found.error is None
    assert found.seconds < PATIENCE
    assert not runs_on(found)


@pytest.mark.parametrize("name", BY_SITES)
def test_site_results_before_deadline_are_kept(
    contend: Callable[..., Contended], raw: Raw, tmp_path: Path, name: str
) -> None:
    """Earlier answers are known, even from a pool that was not finished."""
    source = raw({"/good": reply(b"x"), "/silent": lambda exchange: exchange.stall()})
    answers = tmp_path / "answers"
    urls = written(tmp_path, [f"{source.url}/good"] * 10 + [f"{source.url}/silent"] * 10)

    found = contend(name, scenario="sites", urls=urls, count=20, seconds=5.0, answers=str(answers))

    assert (found.done, found.failed, found.error) == (10, 0, None)
    assert answers.read_text() == f"{source.url}/good\t200\n" * 10
    assert not runs_on(found)


def test_contender_reports_missing_library_in_json(contend: Callable[..., Contended], tmp_path: Path) -> None:
    """The message is in its line of JSON, without a traceback."""
    (tmp_path / "pypeln.py").write_text("raise ImportError('no such library')")

    found = contend("pypeln_each", urls=written(tmp_path, []), count=0)

    assert (found.done, found.error) == (0, "ImportError: no such library")


def test_missing_library_error_names_install_command(contend: Callable[..., Contended], tmp_path: Path) -> None:
    """The error names the library and the command that installs it, whether it was never installed or was removed."""
    (tmp_path / "boto3.py").write_text("raise ModuleNotFoundError('No module named boto3', name='boto3')")

    found = contend("boto3_threads", count=0, bucket="bucket")

    assert (found.done, found.error) == (0, "boto3 is missing: pip install boto3")


def test_contenders_ignore_user_proxy(
    contend: Callable[..., Contended], server: Serve, environment: dict[str, str]
) -> None:
    """The user's proxy is ignored, because it would be measured instead."""
    environment |= {"http_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}

    found = contend("a_sync", url=server(synthetic=5).url, count=5)

    assert (found.done, found.failed, found.error) == (5, 0, None)


# Published figures


def test_each_contender_matches_published_row() -> None:
    """The docstring of each contender names the tables of its rows."""
    named = {row.contender for row in PUBLISHED if row.contender is not None}

    assert named == {*BY_LISTING, *BY_URLS, *BY_SITES, "boto3_threads", "aiobotocore_all"}
    for name in named:
        way = import_module(f"fetchmill_bench.contenders.{name}")
        assert callable(way.run)
        tables = {row.table for row in PUBLISHED if row.contender == name}
        assert tables <= set((way.__doc__ or "").partition(",")[0].replace(" and ", " ").split())


def test_published_rows_are_distinct_and_json_serializable() -> None:
    """All tables are there, and their rows have figures."""
    counts = {letter: sum(row.table == letter for row in PUBLISHED) for letter in "ABCDE"}

    assert counts == {"A": 6, "B": 6, "C": 4, "D": 5, "E": 4}
    assert len({(row.title, row.way, row.counts) for row in PUBLISHED}) == len(PUBLISHED)
    assert all(row.figures and json.loads(json.dumps(row.figures)) == row.figures for row in PUBLISHED)
