"""Requests that must not be made twice: with kills, stops, redirects, broken connections and unsolicited responses."""

import json
import os
import random
import signal
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill._job.get import GetItem
from independent import open_journal
from lists import write_list
from methods_server import MethodsServer, Received
from ports import free_ports
from stored import read_objects
from system_calls import JOURNAL, JournalCopy, Traced

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]
Command = tuple[object, ...]

SEED = int(os.environ.get("FETCHMILL_SEED") or random.randrange(1 << 32))


@pytest.fixture
def methods() -> Iterator[MethodsServer]:
    """A server that records its requests."""
    with MethodsServer() as server:
        yield server


def post_ids(listed: Path, dest: Path, url: str, *options: object, format: str = "jsonl") -> Command:
    """Returns a job that posts the id of each row."""
    start = ("get", listed, dest, "--format", format, "--key-column", "id", "--allow-private")
    return (*start, "--template", url, "--data", "{id}", *options)


def ids(folder: Path, count: int) -> Path:
    """Writes a list of numbers."""
    return write_list(folder, [{"id": str(index)} for index in range(count)], "csv")


def counts(server: MethodsServer) -> Counter[bytes]:
    """Counts how often each body was posted."""
    return Counter(request.body for request in server.received if request.method == "POST")


def begun(dest: Path) -> set[int]:
    """Returns the targets that the journal has as begun or finished."""
    with closing(open_journal(dest)) as db:
        return begun_in(db)


def begun_in(db: Any) -> set[int]:  # noqa: ANN401 - a connection
    """Returns the same from an open journal."""
    found: set[int] = set()
    for (blob,) in db.execute("SELECT sequences FROM begun"):
        for first, length in struct.iter_unpack("<QQ", blob):
            found.update(range(first, first + length))
    known = set(range(db.execute("SELECT next_sequence FROM tally").fetchone()[0]))
    for first, count, bits in db.execute("SELECT first, count, settled FROM pages"):
        known -= {first + at for at in range(count) if not (bits and bits[at // 8] >> at % 8 & 1)}
    return found | known


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["jsonl", "files"])
def test_posts_are_not_repeated_after_kills_and_stops(
    start: Start, run: Run, dest: Path, tmp_path: Path, format: str
) -> None:
    """A seed determines the moments. Unknown outcomes are failures, and only `--retry-failed=worker` repeats them."""
    drawn = random.Random(f"{SEED} {format}")
    count = 400
    listed = ids(tmp_path, count)
    with MethodsServer(delay=0.004) as server:
        options = ("--concurrency", 4, "--commit-window", "100ms")
        command = post_ids(listed, dest, server.url + "/echo", *options, format=format)
        # This stop comes soon after a kill: the run has not yet reached the leftovers of the killed one.
        for ending in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
            process = start(*command)
            until = time.monotonic() + 10
            wanted = len(server.received) + drawn.randrange(1, 60) * (ending == signal.SIGKILL)
            while len(server.received) < wanted and process.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            # A stop comes just after the run has begun.
            time.sleep(drawn.random() * 0.2 + 0.3 * (ending == signal.SIGINT))
            process.send_signal(ending)
            process.wait()
        done = run(*command)
        assert done.code == 3, f"seed {SEED}: {done.err}"
        assert max(counts(server).values()) == 1, f"seed {SEED}"

        failed = {failure.name: failure.kind for failure in fetchmill.failures(dest)}
        assert set(failed.values()) == {"worker"}, f"seed {SEED}"
        assert len(failed) + len(list(read_objects(dest, format))) == count
        assert run(*command, "--retry-failed=worker").code == 0
        again = {body.decode() for body, times in counts(server).items() if times > 1}

    assert again <= set(failed)
    assert max(counts(server).values()) <= 2
    assert dict(read_objects(dest, format)) == {str(number): str(number).encode() for number in range(count)}


def test_journal_records_post_before_server_sees_request(run: Run, dest: Path, tmp_path: Path) -> None:
    """On each request, the server reads the journal and finds the target begun."""
    unknown: list[bytes] = []

    def look(request: Received) -> None:
        if int(request.body) not in begun(dest):
            unknown.append(request.body)

    with MethodsServer(watch=look) as server:
        done = run(*post_ids(ids(tmp_path, 60), dest, server.url + "/echo", "--concurrency", 4))
        assert done.code == 0, done.err
        assert len(server.received) == 60
    assert unknown == []


def test_journal_is_synced_before_post_is_sent(
    traced: Callable[..., Traced], methods: MethodsServer, dest: Path, tmp_path: Path
) -> None:
    """System calls show that the last synced journal has the target of each request."""
    ended = traced(*post_ids(ids(tmp_path, 40), dest, methods.url + "/echo", "--concurrency", 4))
    assert ended.code == 0
    journal = JournalCopy(tmp_path / "copy")
    journal.folder.mkdir()
    durable: set[int] = set()
    sent: list[int] = []
    for call in ended.calls:
        if call.result < 0:
            continue
        if Path(call.path).name in JOURNAL:
            if journal.follow(call) == "synced":
                with closing(journal.open()) as db:
                    has_table = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'begun'").fetchone()
                    durable = begun_in(db) if has_table else set()
        elif call.name in {"sendto", "sendmsg", "write", "writev"} and '"POST /echo' in call.arguments:
            body = b"".join(call.text(index) for index in range(call.arguments.count('"') // 2))
            sent.append(int(body.rpartition(b"\r\n\r\n")[2]))
            assert sent[-1] in durable, f"{sent[-1]} was sent before the journal was synced with it"

    assert sorted(sent) == list(range(40))


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
def test_redirected_post_changes_method_like_browsers(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, status: int, method: str
) -> None:
    """If the method becomes `GET`, the request has neither the body nor its type."""
    listed = ids(tmp_path, 1)
    done = run(*post_ids(listed, dest, f"{methods.url}/to-{status}//echo"))

    assert done.code == 0, done.err
    first, second = methods.received
    assert (first.method, first.body, second.path) == ("POST", b"0", "/echo")
    assert (second.method, second.body) == (method, b"0" if method == "POST" else b"")
    assert ("content-type" in second.fields) == (method == "POST")


@pytest.mark.parametrize("status", [303, 307])
def test_post_is_not_repeated_when_redirect_target_fails(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, status: int
) -> None:
    """A failed `GET` after a redirect is final, because another attempt would begin with the `POST`."""
    closed = f"http://127.0.0.1:{free_ports(1)[0]}/x"
    ends = ["/error", "/503", "/429?after=1", "/broken", closed]
    rows = [{"id": str(index), "url": f"{methods.url}/to-{status}/{end}"} for index, end in enumerate(ends)]
    start = ("get", write_list(tmp_path, rows, "csv"), dest, "--format", "jsonl", "--key-column", "id")
    done = run(*start, "--allow-private", "--data", "{id}", "--attempts", 3, "--give-up-after", "5s")

    assert done.code == 3, done.err
    posts = Counter(request.body for request in methods.received if request.path.startswith("/to-"))
    assert posts == {str(index).encode(): 1 for index in range(len(ends))}
    assert {failure.name for failure in fetchmill.failures(dest)} == {row["id"] for row in rows}


def test_post_waiting_for_redirect_is_not_repeated_after_stop(
    start: Start, run: Run, dest: Path, tmp_path: Path
) -> None:
    """Targets that wait for a redirect's host fail at the end of the run, because their POST was sent."""
    with MethodsServer() as first, MethodsServer(delay=0.5) as second:
        rows = [{"id": str(index), "url": f"{first.url}/to-307/{second.url}/echo"} for index in range(30)]
        rows.append({"id": "30", "url": second.url + "/echo"})
        command: Command = ("get", write_list(tmp_path, rows, "csv"), dest, "--format", "jsonl", "--key-column", "id")
        command += ("--allow-private", "--data", "{id}", "--limit-per-host", 2, "--rate-per-host", 1000)
        process = start(*command)
        until = time.monotonic() + 10
        while len(first.received) < 12 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        process.wait()
        done = run(*command)
        posted, led = counts(first), counts(second)

    assert done.code in {0, 3}, done.err
    assert (len(posted), max(posted.values()), max(led.values())) == (30, 1, 1)
    report = json.loads(run("status", dest, "--json").out)
    assert report["listed"] == 31 == report["fetched"] + report["failed"]


def test_unsent_post_is_retried(start: Start, dest: Path, tmp_path: Path) -> None:
    """If no connection is accepted, no server has seen the request."""
    port = free_ports(1)[0]
    process = start(*post_ids(ids(tmp_path, 20), dest, f"http://127.0.0.1:{port}/echo", "--attempts", 50))
    time.sleep(1.5)
    with MethodsServer(port=port) as server:
        assert process.wait(30) == 0
        posted = counts(server)
    assert len(posted) == 20
    assert set(posted.values()) == {1}


@pytest.mark.parametrize(("stray_every", "close_after"), [(7, 0), (0, 3)])
@pytest.mark.parametrize("options", [(), ("--idempotent",)])
def test_bad_connection_does_not_repeat_post(
    run: Run, dest: Path, tmp_path: Path, stray_every: int, close_after: int, options: tuple[str, ...]
) -> None:
    """After unsolicited responses and silent ends, nothing is repeated or stored under another name."""
    with MethodsServer(stray_every=stray_every, close_after=close_after) as server:
        done = run(*post_ids(ids(tmp_path, 200), dest, server.url + "/echo", "--concurrency", 4, *options))
        posted = counts(server)
    stored = dict(read_objects(dest, "jsonl"))

    assert all(body == name.encode() for name, body in stored.items())
    assert len(posted) >= len(stored)
    failed = {failure.name: failure.kind for failure in fetchmill.failures(dest)}
    assert len(stored) + len(failed) == 200
    if options:
        assert (done.code, failed) == (0, {}), done.err
    else:
        assert max(posted.values()) == 1
        assert set(failed.values()) <= {"framing", "reset", "closed", "truncated"}
    assert bool(server.strays) == bool(stray_every)


@pytest.mark.parametrize("status", [401, 429, 503])
def test_refused_post_fails_without_retry(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, status: int
) -> None:
    """The POST is sent once, despite `Retry-After`. Other requests to its origin wait."""
    paths = [f"/{status}?after=1", "/echo", "/echo"]
    rows = [{"id": str(index), "url": methods.url + path} for index, path in enumerate(paths)]
    start = ("get", write_list(tmp_path, rows, "csv"), dest, "--format", "jsonl", "--key-column", "id")
    done = run(*start, "--allow-private", "--data", "{id}", "--concurrency", 1)

    assert done.code == 3, done.err
    assert [(failure.name, failure.status) for failure in fetchmill.failures(dest)] == [("0", status)]
    assert counts(methods) == {b"0": 1, b"1": 1, b"2": 1}


def test_retry_after_failed_transform_repeats_original_request(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path
) -> None:
    """The journal has the original request, and the URL of the list instead of the redirect's."""
    listed = ids(tmp_path, 3)
    (tmp_path / "failing.py").write_text("def f(replies):\n    return [ValueError('no') for _ in replies]\n")
    options = ("--header", "X-Id: {id}", "--transform", "failing:f")
    command = post_ids(listed, dest, f"{methods.url}/to-303//x", *options)
    assert run(*command).code == 3
    first = sorted((r.path, r.method, r.body, r.fields.get("x-id", "")) for r in methods.received)
    methods.received.clear()

    assert run(*command, "--retry-failed").code == 3
    assert sorted((r.path, r.method, r.body, r.fields.get("x-id", "")) for r in methods.received) == first
    assert ("/to-303//x", "POST", b"2", "2") in first


def test_retry_after_name_taken_repeats_original_request(methods: MethodsServer, tmp_path: Path) -> None:
    """With `files`, another file or an earlier target may already have the name."""
    dest = tmp_path / "out"
    items = [
        (fetchmill.Request(methods.url + path, "POST", {"X-Id": "1"}, b"b%d" % index), "same")
        for index, path in enumerate(["/to-307//x", "/to-307//y"])
    ]
    report = fetchmill.get(items, dest, concurrency=1)
    assert (report.fetched, report.failed) == (1, 1)
    taken = next(iter(fetchmill.failures(dest)))
    assert taken.kind == "name-taken"
    methods.received.clear()
    (dest / "same").unlink()

    assert fetchmill.get(items, dest, retry_failed=True).fetched == 2
    seen = [(request.method, request.path, request.body, request.fields["x-id"]) for request in methods.received]
    assert len(seen) == 2
    assert {(method, body, field) for method, _, body, field in seen} == {("POST", seen[0][2], "1")}
    assert seen[0][1].startswith("/to-307/")


def test_retry_failed_repeats_requests_of_program_unchanged(methods: MethodsServer, tmp_path: Path) -> None:
    """Failed requests keep the method, body and fields of a `fetchmill.Request`. A plain URL stays plain."""
    items: list[GetItem] = [
        fetchmill.Request(methods.url + "/error", "PUT", {"X-Id": "1"}, b"\0\xff"),
        fetchmill.Request(methods.url + "/error?plain"),
        methods.url + "/error?url",
    ]
    options: dict[str, Any] = {"format": "jsonl", "method": "DELETE", "attempts": 1}
    assert fetchmill.get(items, tmp_path / "out", **options).failed == 3
    first = sorted((request.method, request.path, request.body) for request in methods.received)
    methods.received.clear()
    assert fetchmill.get(items, tmp_path / "out", **options, retry_failed=True).failed == 3

    assert first == [("DELETE", "/error?url", b""), ("GET", "/error?plain", b""), ("PUT", "/error", b"\0\xff")]
    assert sorted((request.method, request.path, request.body) for request in methods.received) == first


def test_repair_reports_objects_of_unrepeatable_requests(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path
) -> None:
    """The request is not known from the name, so nothing is sent, and the damage is reported."""
    command = post_ids(ids(tmp_path, 3), dest, methods.url + "/echo", format="files")
    assert run(*command).code == 0
    (dest / "1").write_bytes(b"damaged")
    methods.received.clear()
    done = run("verify", dest, "--repair", "--json")

    assert done.code != 0
    assert methods.received == []
    assert json.loads(done.out.splitlines()[-1])["without_url"] == 1
