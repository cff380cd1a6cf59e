"""The promises of every engine, whatever its transports: the real command, real servers, and the ledger.

test_engine_endings.py covers interrupted and killed jobs, and test_engine_functions.py covers your own function.
`FETCHMILL_ENGINES` selects engines (tests/support/engines.py).
"""

import gzip
import json
import os
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from awkward_names import REFUSED, STORED
from engines import (
    ENGINES,
    IN_PYTHON,
    WITH_LISTS,
    WITH_PROCESSES,
    InFlight,
    engine_keywords,
    engine_options,
    limit_of,
    limit_options,
    wait_for,
)
from engines import worker_processes as workers_of
from fetchmill.testing import Fault, Server, synthetic_body
from foreign import READERS
from foreign import read_objects as read_with
from independent import Expected, find_problems, find_unlike, synthetic, synthetic_name
from ports import closed_port
from raw_server import (
    Behaviour,
    Exchange,
    RawServer,
    bare_reply,
    chunked_reply,
    get_target,
    in_turn,
    mirror,
    page,
    reply,
    then_close,
    then_reset,
    then_stall,
)
from stored import read_objects

Run = Callable[..., Any]
Raw = Callable[..., RawServer]
Serve = Callable[..., Server]

COUNT = 2000
GOOD = [f"good-{number}" for number in range(12)]
MIB = 1 << 20

of_all_engines = pytest.mark.parametrize("engine", ENGINES)
of_engines_with_lists = pytest.mark.parametrize("engine", WITH_LISTS)
of_engines_in_python = pytest.mark.parametrize("engine", IN_PYTHON)


def kinds(dest: Path) -> dict[str, str]:
    """Returns failure kinds by name."""
    return {failure.name: failure.kind for failure in fetchmill.failures(dest)}


def attempts(dest: Path) -> dict[str, int]:
    """Returns the attempts of absent and failed targets by name."""
    return {failure.name: failure.attempts for failure in fetchmill.failures(dest)}


def error_of(ended: Any) -> str:  # noqa: ANN401 - how a command ended
    """Returns the one line with which a command ended."""
    *_, last = ended.err.splitlines()
    assert last.startswith("fetchmill: error: ")
    assert ended.err.count("fetchmill: error: ") == 1
    assert "Traceback" not in ended.err
    return str(last)


def write_urls(folder: Path, *urls: str) -> Path:
    """Writes a list."""
    path = folder / "urls.txt"
    path.write_text("".join(f"{url}\n" for url in urls))
    return path


@pytest.fixture
def refusing() -> Iterator[str]:
    """Returns host and port of an address where nothing listens."""
    with closed_port() as port:
        yield f"127.0.0.1:{port}"


# --- the ledger --------------------------------------------------------------------------------------------------

# Possible outcomes of a target, and its row in the ledger: outcome, kind, status, and attempts out of two.
MIXED: dict[str, tuple[Behaviour, tuple[str, str, int | None, int]]] = {
    "gone-404": (reply(b"gone", status="404 Not Found"), ("absent", "absent", 404, 1)),
    "gone-410": (reply(b"gone", status="410 Gone"), ("absent", "absent", 410, 1)),
    "status-400": (reply(b"no", status="400 Bad Request"), ("failed", "status", 400, 1)),
    "status-403": (reply(b"no", status="403 Forbidden"), ("failed", "status", 403, 1)),
    "status-500": (reply(b"oops", status="500 Oops"), ("failed", "server-error", 500, 2)),
    "status-502": (reply(b"oops", status="502 Oops"), ("failed", "server-error", 502, 2)),
    "status-408": (reply(b"slow", status="408 Slow"), ("failed", "server-error", 408, 2)),
    "moved": (reply(b"", "Location: /get/good-0", status="302 Found"), ("failed", "redirect", 302, 1)),
    "cut": (then_close(reply(b"cu", length=3)), ("failed", "truncated", None, 2)),
}
NAMES_REFUSED = ("../x", "a//b", "/abs", "")


@pytest.mark.sampled(2)
@of_all_engines
def test_each_target_is_counted_once(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """Targets are fetched, absent, refused, or failed with or without retries.

    The sum, the list of failures and the exit code are correct.
    """
    scripted = {name: behaviour for name, (behaviour, _) in MIXED.items()}
    server = raw(mirror([*GOOD, *scripted, *NAMES_REFUSED], scripted))

    ended = run("get", server.url, dest, "--attempts", 2, *engine_options(engine))
    expected = Expected({name: name.encode() for name in GOOD}, frozenset([*MIXED, *NAMES_REFUSED]))
    problems = find_problems(dest, expected)
    shown = run("status", dest, "--failures", "--json")

    assert ended.code == 3, ended.err
    assert "25 listed = 12 fetched + 2 absent + 11 failed + 0 skipped\n" in ended.err
    assert problems == []
    rows = [json.loads(line) for line in shown.out.splitlines()]
    found = [(row["name"], (row["outcome"], row["kind"], row["status"], row["attempts"])) for row in rows]
    settled = [(name, how) for name, (_, how) in MIXED.items()]
    assert sorted(found, key=str) == sorted(
        settled + [(name, ("failed", "name", None, 0)) for name in NAMES_REFUSED], key=str
    )


@pytest.mark.sampled(4)
@of_all_engines
def test_allow_absent_permits_absent_targets(run: Run, server: Serve, dest: Path, engine: str) -> None:
    """With `--allow-absent`, absent targets end with exit code 0."""
    source = server(synthetic=30, faults=[Fault("status", status=404, match="file-00000000001*")])

    ended = run("get", source.url, dest, "--allow-absent", *engine_options(engine))

    assert ended.code == 0, ended.err
    assert "30 listed = 20 fetched + 10 absent + 0 failed + 0 skipped\n" in ended.err


@pytest.mark.sampled(2)
@of_all_engines
def test_engine_retry_failed_requests_only_failed_targets(run: Run, server: Serve, dest: Path, engine: str) -> None:
    """A third run of the command sends no request."""
    source = server(synthetic=30, faults=[Fault("status", status=403, match="file-00000000001*", times=1)])

    first = run("get", source.url, dest, *engine_options(engine))
    second = run("get", source.url, dest, "--retry-failed", *engine_options(engine))
    third = run("get", source.url, dest, *engine_options(engine))

    assert (first.code, second.code, third.code) == (3, 0, 0), second.err
    assert "30 listed = 30 fetched + 0 absent + 0 failed + 0 skipped\n" in second.err
    assert "already complete" in third.err
    assert source.stats()["get"] == 40
    assert find_problems(dest, synthetic(30)) == []


@of_all_engines
def test_python_get_returns_ledger_of_engine(server: Serve, dest: Path, engine: str) -> None:
    """`fetchmill.get` runs the same job as the command."""
    faults = [
        Fault("status", status=410, match="file-000000000003"),
        Fault("status", status=401, match="file-000000000005"),
    ]
    source = server(synthetic=10, faults=faults)

    report = fetchmill.get(source.url, dest, **engine_keywords(engine))

    assert (report.listed, report.fetched, report.absent, report.failed, report.skipped) == (10, 8, 1, 1, 0)
    assert (report.failures, report.bytes, report.attempts) == ({"status": 1}, 800, 10)
    assert report.balanced
    assert report.finished


# --- bytes as they were sent -------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@of_all_engines
@pytest.mark.parametrize("format", ["files", "parquet", "tar", "jsonl", "null"])
def test_each_object_is_stored_once_in_each_format(
    run: Run, server: Serve, memory_path: Path, engine: str, format: str
) -> None:
    """Each object has its name and the origin's bytes, as independent readers confirm; the exit code is 0."""
    source = server(synthetic=COUNT)
    dest = memory_path / "out"

    ended = run("get", source.url, dest, "--format", format, *engine_options(engine))

    assert ended.code == 0, ended.err
    assert "2,000 listed = 2,000 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert find_problems(dest, synthetic(COUNT), format) == []
    assert source.stats()["get"] == COUNT


@pytest.mark.sampled(3)
@of_all_engines
@pytest.mark.parametrize("format", ["files", "jsonl"])
def test_each_name_is_requested_byte_for_byte(run: Run, raw: Raw, memory_path: Path, engine: str, format: str) -> None:
    """Each name is percent-encoded once, whatever a library does, and stored as it was listed."""
    dest = memory_path / "out"
    stored = [name for name, _ in STORED.values()] + ([] if format == "files" else list(REFUSED.values()))
    server = raw(mirror([*REFUSED.values(), *(name for name, _ in STORED.values())]))

    ended = run("get", server.url, dest, "--format", format, *engine_options(engine))

    assert ended.code == (3 if format == "files" else 0), ended.err
    # A name above 64 KiB has a body above 64 KiB here: its batch is requested again, one by one.
    asked = set(server.asked()) if engine == "pipelined" else server.asked()
    assert sorted(asked) == sorted(map(get_target, stored))
    objects = read_with(dest, format, next(iter(READERS[format])))
    assert find_unlike(objects, {name: name.encode() for name in stored}) == []
    assert kinds(dest) == (dict.fromkeys(REFUSED.values(), "name") if format == "files" else {})


BODIES = {
    "empty": b"",
    "one": b"\0",
    "all-bytes": bytes(range(256)) * 5,
    "lines": "a\nb\r\nc\rd\u2028e\x85f\n".encode(),
    "no-utf8": b"text\xff\xfe",
    **{f"{size}": random.Random(size).randbytes(size) for size in (MIB - 1, MIB, MIB + 1, 5 * MIB)},
}


@pytest.mark.sampled(3)
@of_all_engines
@pytest.mark.parametrize("format", ["files", "parquet"])
def test_empty_binary_and_large_bodies_are_stored(
    run: Run, server: Serve, memory_path: Path, engine: str, format: str
) -> None:
    """Some bodies are larger than the memory for one body."""
    folder, dest = memory_path / "served", memory_path / "out"
    folder.mkdir()
    for name, body in BODIES.items():
        (folder / name).write_bytes(body)

    ended = run("get", server(folder).url, dest, "--format", format, *engine_options(engine))

    assert ended.code == 0, ended.err
    assert find_problems(dest, Expected(BODIES), format) == []


@of_all_engines
def test_bodies_are_not_decoded(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """Engines ignore content encodings, true or false, and also cookies and file names."""
    packed = gzip.compress(b"packed" * 100)
    bodies = {
        "gzip": (packed, "Content-Encoding: gzip"),
        "no-gzip": (b"plain", "Content-Encoding: gzip"),
        "deflate": (b"plain", "Content-Encoding: deflate"),
        "br": (b"plain", "Content-Encoding: br"),
        "zstd": (b"plain", "Content-Encoding: zstd"),
        "charset": ("größe".encode("utf-16"), "Content-Type: text/plain; charset=latin-1"),
        "file-name": (b"plain", 'Content-Disposition: attachment; filename="../../evil"'),
    }
    scripted: dict[str, Behaviour] = {name: reply(body, field) for name, (body, field) in bodies.items()}
    scripted["gzip-in-chunks"] = bare_reply("Content-Encoding: gzip", "Transfer-Encoding: chunked") + (
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    )

    ended = run("get", raw(mirror(scripted, scripted)).url, dest, *engine_options(engine))

    assert ended.code == 0, ended.err
    expected = {name: body for name, (body, _) in bodies.items()} | {"gzip-in-chunks": packed}
    assert find_problems(dest, Expected(expected)) == []


@pytest.mark.sampled(4)
@of_all_engines
def test_chunked_bodies_are_reassembled(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """Bodies have no chunk, one chunk, many chunks, or a chunk that looks like the end."""
    chunks: dict[str, tuple[bytes, ...]] = {
        "none": (),
        "one": (b"one",),
        "many": tuple(b"%d," % number for number in range(1000)),
        "large": (b"a" * 100_000, b"\r\n0\r\n\r\n", b"b" * 70_000),
    }

    ended = run(
        "get",
        raw(mirror(chunks, {name: chunked_reply(*pieces) for name, pieces in chunks.items()})).url,
        dest,
        *engine_options(engine),
    )

    assert ended.code == 0, ended.err
    assert find_problems(dest, Expected({name: b"".join(pieces) for name, pieces in chunks.items()})) == []


@pytest.mark.sampled(5)
@of_all_engines
def test_redirects_of_server_source_are_not_followed(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """The target fails as `redirect` with its status; the redirect's URL is not requested."""
    scripted: dict[str, Behaviour] = {
        f"{status}": reply(b"", "Location: /elsewhere", status=f"{status} Go") for status in (301, 302, 303, 307, 308)
    }
    server = raw(mirror([*scripted, *GOOD], scripted) | {"/elsewhere": reply(b"elsewhere")})

    ended = run("get", server.url, dest, *engine_options(engine))

    assert ended.code == 3, ended.err
    assert kinds(dest) == dict.fromkeys(scripted, "redirect")
    assert {failure.status for failure in fetchmill.failures(dest)} == {301, 302, 303, 307, 308}
    assert server.count("/elsewhere") == 0


@of_all_engines
def test_reply_metadata_is_stored(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """Status, type, ETag and date are kept, whatever the case of field names; missing values are not invented."""
    scripted: dict[str, Behaviour] = {
        "all": reply(
            b"all",
            "content-type: text/plain; charset=utf-8",
            'ETAG: W/"abc,1"',
            "Last-Modified: Fri, 13 Feb 2015 12:34:56 GMT",
            status="203 Whatever",
        ),
        "nothing": reply(b"nothing"),
    }

    ended = run("get", raw(mirror(scripted, scripted)).url, dest, "--format", "jsonl", *engine_options(engine))

    assert ended.code == 0, ended.err
    found = {
        stored.name: (stored.status, stored.content_type, stored.etag, stored.last_modified)
        for stored in read_with(dest, "jsonl", "json")
    }
    assert found == {
        b"all": (203, "text/plain; charset=utf-8", 'W/"abc,1"', datetime(2015, 2, 13, 12, 34, 56, tzinfo=UTC)),
        b"nothing": (200, None, None, None),
    }


# --- incomplete replies ------------------------------------------------------------------------------------------

SHORT: dict[str, Behaviour] = {
    "shorter": then_close(reply(b"bod", length=4)),
    "shorter-reset": then_reset(reply(b"bod", length=4)),
    "no-body": then_close(reply(length=4)),
    "encoded": then_close(reply(gzip.compress(b"body")[:-1], "Content-Encoding: gzip", length=24)),
    "no-last-chunk": then_close(bare_reply("Transfer-Encoding: chunked") + b"4\r\nbody\r\n"),
    "chunk-cut": then_close(bare_reply("Transfer-Encoding: chunked") + b"4\r\nbod"),
}


@pytest.mark.sampled(4)
@of_all_engines
def test_truncated_body_is_retried_and_never_stored(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """A target fails as `truncated` if all attempts were short; a complete body after a short one is stored."""
    mended = {f"{name}-once": in_turn(behaviour, reply(b"whole")) for name, behaviour in SHORT.items()}
    server = raw(mirror([*SHORT, *mended, *GOOD], SHORT | mended))

    ended = run("get", server.url, dest, "--attempts", 3, *engine_options(engine))

    bodies = {name: name.encode() for name in GOOD} | dict.fromkeys(mended, b"whole")
    assert ended.code == 3, ended.err
    assert find_problems(dest, Expected(bodies, frozenset(SHORT))) == []
    assert kinds(dest) == dict.fromkeys(SHORT, "truncated")
    assert attempts(dest) == dict.fromkeys(SHORT, 3)


@pytest.mark.sampled(3)
@of_all_engines
@pytest.mark.parametrize("allowed", [False, True], ids=["refused", "allowed"])
def test_body_without_length_fails_unless_allowed(run: Run, raw: Raw, dest: Path, engine: str, allowed: bool) -> None:
    """The target fails as `unverified-length` and is not retried. With `--allow-eof-bodies`, the body is stored."""
    scripted: dict[str, Behaviour] = {
        "plain": then_close(bare_reply() + b"plain"),
        "http-1.0": then_close(bare_reply(version="HTTP/1.0") + b"http-1.0"),
        "told": then_close(bare_reply("Connection: close") + b"told"),
    }
    server = raw(mirror([*scripted, "none"], scripted | {"none": bare_reply(status="204 No Content")}))
    more = ["--allow-eof-bodies"] if allowed else []

    ended = run("get", server.url, dest, *more, *engine_options(engine))

    assert ended.code == (0 if allowed else 3), ended.err
    assert kinds(dest) == ({} if allowed else dict.fromkeys(scripted, "unverified-length"))
    assert {server.count(get_target(name)) for name in scripted} == {1}
    stored = {"none": b""} | ({name: name.encode() for name in scripted} if allowed else {})
    assert dict(read_objects(dest, "files")) == stored


def trickled_body(exchange: Exchange) -> None:
    """Sends a head immediately, and a body that would take 20 s."""
    exchange.send(reply(length=1000))
    exchange.trickle(b"x" * 1000, 0.02)


@pytest.mark.sampled(3)
@of_all_engines
def test_slow_large_and_broken_replies_fail_with_own_kind(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """Other targets are not affected."""
    scripted: dict[str, tuple[Behaviour, str]] = {
        "no-answer": (then_stall(b""), "head-timeout"),
        "head-stalls": (then_stall(reply(b"body")[:20]), "head-timeout"),
        "body-stalls": (then_stall(reply(b"bod", length=4)), "idle-timeout"),
        "body-trickles": (
            trickled_body,
            "total-timeout",
        ),
        "large": (reply(b"x" * 70_000), "body-too-large"),
        "large-chunks": (chunked_reply(b"x" * 70_000), "body-too-large"),
        "reset": (then_reset(b""), "reset"),
        "no-http": (then_close(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), "not-http"),
    }
    server = raw(mirror([*scripted, *GOOD], {name: behaviour for name, (behaviour, _) in scripted.items()}))

    ended = run(
        *("get", server.url, dest, "--attempts", 1, "--max-size", "64KiB", "--head-timeout", "1s"),
        *("--idle-timeout", "1s", "--total-timeout", "2s", *engine_options(engine)),
    )

    assert ended.code == 3, ended.err
    assert kinds(dest) == {name: kind for name, (_, kind) in scripted.items()}
    assert dict(read_objects(dest, "files")) == {name: name.encode() for name in GOOD}


# --- retries -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@of_all_engines
def test_retry_after_delays_only_its_target(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """The target is not requested too early and does not fail; other targets are fetched in the meantime."""
    asked: list[float] = []
    others: list[float] = []

    def busy_once(exchange: Exchange) -> bytes:
        asked.append(time.monotonic())
        return reply(b"busy") if exchange.number > 1 else reply(b"", "Retry-After: 1", status="503 Busy")

    def noted(name: str) -> Behaviour:
        def behave(_exchange: Exchange) -> bytes:
            others.append(time.monotonic())
            return reply(name.encode())

        return behave

    scripted: dict[str, Behaviour] = {"busy": busy_once} | {name: noted(name) for name in GOOD}
    ended = run("get", raw(mirror(scripted, scripted)).url, dest, "--attempts", 1, *engine_options(engine))

    assert ended.code == 0, ended.err
    assert len(asked) == 2
    assert asked[1] - asked[0] >= 1
    assert max(others) < asked[1]


@pytest.mark.sampled(4)
@of_all_engines
def test_target_is_retried_until_attempts_are_used_up(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """A target with two replies of 500 and then 200 is fetched. A target that always gets 500 fails as `server-error`.

    Each attempt counts. On a busy machine, a reply may not become certain in time. It is then requested once more,
    which is not an attempt.
    """
    oops = reply(b"oops", status="500 Oops")
    scripted = {"late": in_turn(oops, oops, reply(b"late")), "never": oops}
    server = raw(mirror([*scripted, *GOOD], scripted))

    ended = run("get", server.url, dest, "--attempts", 3, "--json", *engine_options(engine))

    assert ended.code == 3, ended.err
    assert json.loads(ended.out.splitlines()[-1])["attempts"] == 3 + 3 + len(GOOD)
    assert {server.count("/get/late"), server.count("/get/never")} <= {3, 4}
    assert (kinds(dest), attempts(dest)) == ({"never": "server-error"}, {"never": 3})
    assert dict(read_objects(dest, "files")) == {name: name.encode() for name in ("late", *GOOD)}


@pytest.mark.sampled(4)
@of_engines_with_lists
def test_refused_connection_fails_only_its_targets(
    run: Run, server: Serve, dest: Path, tmp_path: Path, refusing: str, engine: str
) -> None:
    """Refused targets fail after their attempts; targets of another server are not affected."""
    source = server(synthetic=5)
    names = [synthetic_name(index) for index in range(5)]
    there = {f"{source.url}/get/{name}": synthetic_body(name, 100) for name in names}
    listed = write_urls(tmp_path, f"http://{refusing}/a", *there, f"http://{refusing}/b")

    ended = run(
        *("get", listed, dest, "--allow-private", "--attempts", 2, "--format", "jsonl"), *engine_options(engine)
    )

    assert ended.code == 3, ended.err
    refused = [f"http://{refusing}/a", f"http://{refusing}/b"]
    assert (kinds(dest), attempts(dest)) == (dict.fromkeys(refused, "refused"), dict.fromkeys(refused, 2))
    assert dict(read_objects(dest, "jsonl")) == there


@pytest.mark.sampled(3)
@of_all_engines
def test_closed_kept_alive_connection_costs_no_attempt(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """A server may close kept-alive connections after each reply, announced or not, without a failed target."""
    told = {f"told-{number}": then_close(reply(b"x", "Connection: close")) for number in range(10)}
    silent = {f"silent-{number}": then_close(reply(b"x")) for number in range(10)}
    server = raw(mirror([*told, *silent], told | silent))

    ended = run("get", server.url, dest, "--attempts", 1, *engine_options(engine))

    assert ended.code == 0, ended.err
    assert dict(read_objects(dest, "files")) == dict.fromkeys([*told, *silent], b"x")


# --- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@of_all_engines
@pytest.mark.parametrize("limit", [1, 3])
def test_requests_in_flight_stay_within_limit(run: Run, raw: Raw, dest: Path, engine: str, limit: int) -> None:
    """The server counts the requests; `sync` sends one at a time.

    The limit is also reached if workers cannot share it evenly.
    """
    names = [f"n{number}" for number in range(40)]
    counted = InFlight()

    ended = run(
        *("get", raw(mirror(names, {name: counted.answer(name) for name in names})).url, dest, "--format", "null"),
        *(*limit_options(engine, limit), *engine_options(engine)),
    )

    assert ended.code == 0, ended.err
    assert min(2, limit_of(engine, limit)) <= counted.most <= limit_of(engine, limit)


@pytest.mark.sampled(2)
@of_engines_with_lists
def test_each_host_has_separate_concurrency_limit(run: Run, raw: Raw, dest: Path, tmp_path: Path, engine: str) -> None:
    """With a list of two servers, neither gets more than its limit, counted over all workers."""
    counted = [InFlight(), InFlight()]
    paths = [f"/get/n{number}" for number in range(15)]
    servers = [raw({path: each.answer(path) for path in paths}) for each in counted]
    listed = write_urls(tmp_path, *(f"{server.url}{path}" for path in paths for server in servers))

    ended = run(
        *("get", listed, dest, "--allow-private", "--format", "null", "--limit-per-host", 2),
        *(*limit_options(engine, 16), *engine_options(engine)),
    )

    assert ended.code == 0, ended.err
    assert "30 listed = 30 fetched" in ended.err
    assert all(1 <= each.most <= 2 for each in counted)


@pytest.mark.parametrize("engine", [engine for engine in WITH_PROCESSES if engine == "processes"])
def test_each_engine_process_has_one_request_in_flight(start: Run, raw: Raw, dest: Path, engine: str) -> None:
    """The engine `processes` has as many requests in flight as processes."""
    names = [f"n{number}" for number in range(30)]
    counted = InFlight(0.1)
    server = raw(mirror(names, {name: counted.answer(name) for name in names}))
    process = start("get", server.url, dest, "--format", "null", *engine_options(engine))
    most = 0

    def has_ended() -> bool:
        nonlocal most
        most = max(most, len(workers_of(process.pid)))
        return process.poll() is not None

    assert wait_for(has_ended, pause=0.02)
    assert process.returncode == 0
    assert counted.most == most == len(os.sched_getaffinity(0))


@pytest.mark.sampled(3)
@pytest.mark.timing
@of_all_engines
def test_request_rate_applies_to_all_workers_together(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """All workers together send 50 requests per second, after an initial burst of up to 0.1 s."""
    names = [f"n{number}" for number in range(120)]
    asked: list[float] = []
    listed: list[float] = []

    def note(_exchange: Exchange) -> bytes:
        asked.append(time.monotonic())
        return reply(b"x")

    def give_names(_exchange: Exchange) -> bytes:
        listed.append(time.monotonic())
        return page(names)

    server = raw({**mirror(names, dict.fromkeys(names, note)), "/list": give_names})

    ended = run("get", server.url, dest, "--rate", 50, "--format", "null", *engine_options(engine))

    assert ended.code == 0, ended.err
    assert len(asked) == 120
    asked.sort()
    # No request comes too early after the arrival of the names. A slow server or process can only delay requests.
    assert all(at >= listed[0] + (place - 5) / 50 for place, at in enumerate(asked))
    assert asked[-1] - asked[0] < 22
    # Requests that waited in a slow process arrive together, but not in half of the last 60 intervals.
    assert statistics.median(later - at for at, later in zip(asked[60:90], asked[90:], strict=True)) >= 0.57


# --- exit codes --------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@of_all_engines
def test_failed_listing_ends_job_with_exit_code_4(
    run: Run, raw: Raw, tmp_path: Path, refusing: str, engine: str
) -> None:
    """The listing is refused, its host does not exist, or it gets a 403. One line says which."""
    forbidden = raw({"/list": reply(status="403 Forbidden")})
    causes = {
        f"http://{refusing}": "refused",
        "http://no-such-host.invalid": "dns-not-found",
        forbidden.url: "status 403",
    }

    with ThreadPoolExecutor(len(causes)) as pool:
        jobs = [
            pool.submit(run, "get", url, tmp_path / f"out{number}", *engine_options(engine))
            for number, url in enumerate(causes)
        ]
        ended = {word: job.result() for word, job in zip(causes.values(), jobs, strict=True)}

    assert {word: each.code for word, each in ended.items()} == dict.fromkeys(causes.values(), 4)
    assert all(word in error_of(each) for word, each in ended.items())


@pytest.mark.sampled(4)
@of_engines_with_lists
def test_unknown_host_fails_only_its_targets(run: Run, server: Serve, dest: Path, tmp_path: Path, engine: str) -> None:
    """Other targets of the list are fetched. An impossible host name is not reported as a bug in fetchmill."""
    good = f"{server(synthetic=1).url}/get/{synthetic_name(0)}"
    lost = ["http://no-such-host.invalid/", f"http://{'a' * 64}.test/"]

    ended = run(
        "get", write_urls(tmp_path, *lost, good), dest, "--format", "jsonl", "--allow-private", *engine_options(engine)
    )

    assert ended.code == 3, ended.err
    assert kinds(dest) == dict.fromkeys(lost, "dns-not-found")
    assert [name for name, _ in read_objects(dest, "jsonl")] == [good]


@pytest.mark.sampled(4)
@of_engines_with_lists
def test_list_reaches_no_private_address_by_default(
    run: Run, server: Serve, dest: Path, tmp_path: Path, engine: str
) -> None:
    """Without `--allow-private`, no connection is made."""
    source = server(synthetic=1)
    port = source.url.rpartition(":")[2]
    urls = [f"http://{host}:{port}/get/{synthetic_name(0)}" for host in ("127.0.0.1", "localhost", "[::ffff:7f00:1]")]

    ended = run("get", write_urls(tmp_path, *urls), dest, "--format", "jsonl", *engine_options(engine))

    assert ended.code == 3, ended.err
    assert kinds(dest) == dict.fromkeys(urls, "private-address")
    assert source.stats()["connections"] == 0


@of_all_engines
def test_invalid_option_is_refused_before_destination_exists(run: Run, dest: Path, engine: str) -> None:
    """The exit code is 2, and the error is one line."""
    ended = run("get", "http://127.0.0.1:1", dest, "--concurrency", 0, *engine_options(engine))

    assert ended.code == 2
    assert "concurrency" in error_of(ended)
    assert not dest.exists()


@pytest.mark.skipif(not IN_PYTHON, reason="needs the option engine")
def test_unknown_engine_is_refused(run: Run, dest: Path) -> None:
    """The error lists the known engines."""
    ended = run("get", "http://127.0.0.1:1", dest, "--engine", "steam")

    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert all(engine in ended.err for engine in ("steam", "native", "sync", "threads", "processes", "asyncio"))
    with pytest.raises(fetchmill.UsageError, match="steam"):
        fetchmill.get("http://127.0.0.1:1", dest, **engine_keywords("steam"))
    assert not dest.exists()


NATIVE_ONLY: dict[str, tuple[str, ...]] = {
    "format": ("--format", "warc"),
    "redirects": ("--redirects", "3"),
    "resolver": ("--resolver", "127.0.0.1"),
}


@of_engines_in_python
@pytest.mark.parametrize("option", NATIVE_ONLY)
def test_native_only_option_is_refused_in_one_line(
    run: Run, server: Serve, dest: Path, engine: str, option: str
) -> None:
    """The error has the option and the engine; nothing was created, and no request was sent."""
    source = server(synthetic=1)

    ended = run("get", source.url, dest, *NATIVE_ONLY[option], *engine_options(engine))

    assert ended.code == 2, ended.err
    assert option in error_of(ended)
    assert engine in error_of(ended)
    assert ended.err.count("\n") == 1
    assert source.stats()["requests"] == 0
    assert not dest.exists()


# --- sources -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@of_engines_with_lists
def test_list_source_fetches_each_url_once(run: Run, server: Serve, dest: Path, tmp_path: Path, engine: str) -> None:
    """The name of each object is its URL; a line without a URL is a failure."""
    source = server(synthetic=200)
    bodies = {f"{source.url}/get/{synthetic_name(i)}": synthetic_body(synthetic_name(i), 100) for i in range(200)}
    listed = write_urls(tmp_path, *bodies, "no url")

    ended = run("get", listed, dest, "--allow-private", "--format", "parquet", *engine_options(engine))

    assert ended.code == 3, ended.err
    assert find_problems(dest, Expected(bodies, frozenset({"line 201"})), "parquet") == []
    assert kinds(dest) == {"line 201": "url"}


@pytest.mark.sampled(4)
@of_engines_in_python
def test_list_redirects_are_followed_only_by_native_engine(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, engine: str
) -> None:
    """With other engines, a target that redirects fails as `redirect`."""
    site = raw({"/a": reply(b"", "Location: /b", status="302 Found"), "/b": reply(b"b")})
    urls = [f"{site.url}/a", f"{site.url}/b"]

    ended = run(
        "get", write_urls(tmp_path, *urls), dest, "--allow-private", "--format", "jsonl", *engine_options(engine)
    )

    assert ended.code == 3, ended.err
    assert kinds(dest) == {urls[0]: "redirect"}
    assert dict(read_objects(dest, "jsonl")) == {urls[1]: b"b"}


@pytest.mark.sampled(6)
@of_engines_with_lists
@pytest.mark.parametrize("kind", ["iterable", "async"])
def test_iterable_source_fetches_each_item_once(server: Serve, dest: Path, engine: str, kind: str) -> None:
    """The name of each object is its URL, or the name that comes with it."""
    source = server(synthetic=100)
    items = [(f"{source.url}/get/{synthetic_name(index)}", f"name {index}") for index in range(100)]
    bodies = {f"name {index}": synthetic_body(synthetic_name(index), 100) for index in range(100)}

    def plain() -> Iterator[tuple[str, str]]:
        yield from items

    async def awaited() -> AsyncIterator[tuple[str, str]]:
        for item in items:
            yield item

    given: Any = plain() if kind == "iterable" else awaited()
    report = fetchmill.get(given, dest, format="jsonl", **engine_keywords(engine))

    assert (report.listed, report.fetched) == (100, 100)
    assert find_problems(dest, Expected(bodies), "jsonl") == []


@pytest.mark.sampled(3)
@of_engines_with_lists
def test_iterable_error_is_raised_after_checkpoint(server: Serve, dest: Path, engine: str) -> None:
    """Earlier items are finished. Once the iterable is fixed, the job continues."""
    source = server(synthetic=100)

    def targets(last: int) -> Iterator[str]:
        for index in range(last):
            yield f"{source.url}/get/{synthetic_name(index)}"
        if last < 100:
            raise LookupError("no more of them")

    with pytest.raises(LookupError, match="no more of them"):
        fetchmill.get(targets(50), dest, format="null", **engine_keywords(engine))
    report = fetchmill.get(targets(100), dest, format="null", **engine_keywords(engine))

    assert (report.fetched, report.resumed) == (100, True)
    assert source.stats()["get"] == 100
