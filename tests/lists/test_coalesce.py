"""Byte ranges of one object that share a request: each range is stored with its own bytes or not at all."""

import base64
import hashlib
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates
from lists import write_list
from nginx import Nginx, Site
from ranges import BODY, COLUMNS, Part, asked, get, kinds, part, serve_part, write_records
from raw_server import Behaviour, Exchange, RawServer, bare_reply, reply, then_close, then_flood
from s3_stores import Versitygw
from stored import find_wrong, read_objects

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

# Ten ranges of ten bytes, with gaps of five.
TENTHS = [Part("x", at, BODY[at : at + 10]) for at in range(0, 150, 15)]


class Asked:
    """Records the requests to a server.

    Args:
        behaviour: answers them.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self.ranges: list[tuple[int, int]] = []
        self._behaviour = behaviour

    def __call__(self, exchange: Exchange) -> bytes | None:
        """Answers a request."""
        self.ranges.append(asked(exchange))
        return self._behaviour if isinstance(self._behaviour, bytes) else self._behaviour(exchange)


def when_joined(wrong: Behaviour) -> Behaviour:
    """Returns a server's behaviour that differs if more than one range is requested."""
    right = serve_part(BODY)

    def behave(exchange: Exchange) -> bytes | None:
        first, last = asked(exchange)
        behaviour = wrong if last - first >= len(TENTHS[0].body) else right
        return behaviour if isinstance(behaviour, bytes) else behaviour(exchange)

    return behave


def rows_of(dest: Path) -> list[dict[str, Any]]:
    """Returns the stored rows with their metadata."""
    return [json.loads(line) for path in sorted(dest.glob("*.jsonl")) for line in path.read_text().splitlines()]


def bodies_of(dest: Path) -> list[tuple[str, bytes]]:
    """Runs a job with --keep-failed. Returns the names and bodies of its rows."""
    return [(row["name"], base64.b64decode(row["body_base64"])) for row in rows_of(dest)]


def write_parts(folder: Path, url: str, parts: Sequence[Part], **columns: Sequence[str]) -> Path:
    """Writes a list of ranges in the given order."""
    more = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    rows = [each.row(url) for each in parts]
    return write_list(folder, [{**row, **own} for row, own in zip(rows, more or [{}] * len(rows), strict=True)], "csv")


@pytest.mark.parametrize("format", ["files", "jsonl", "parquet", "tar"])
def test_adjacent_ranges_are_joined_and_stored_separately(
    run: Run, nginx: Callable[..., Nginx], served: Path, dest: Path, tmp_path: Path, format: str
) -> None:
    """Files full of records need at most a tenth of the requests, and each record has its own bytes."""
    parts = sorted(write_records(served, 3, 300), key=lambda each: (each.file, each.offset))
    server = nginx(files=Site())
    url = server.url("files", "127.0.0.1")
    done = get(run, write_parts(tmp_path, url, parts), dest, "--coalesce", "1k", format=format)

    assert done.code == 0, done.err
    below = url.removeprefix("http://") if format == "files" else url
    assert find_wrong(dest, format, {each.name(below): each.body for each in parts}) == []
    assert len(server.seen("files")) <= len(parts) / 10
    assert run("verify", dest).code == 0


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_ranges_are_joined_over_tls(
    run: Run,
    nginx: Callable[..., Nginx],
    certificates: Certificates,
    served: Path,
    dest: Path,
    tmp_path: Path,
    http2: bool,
) -> None:
    """HTTP/2 works like HTTP/1.1. Only a range beyond the end of its file fails."""
    parts = sorted(write_records(served, 1, 300), key=lambda each: each.offset)
    size = (served / parts[0].file).stat().st_size
    server = nginx(tls=Site(leaf=certificates.good, http2=http2))
    beyond = [Part(parts[0].file, size - 3, b"1234"), Part(parts[0].file, size, b"1")]
    listed = write_parts(tmp_path, server.url("tls"), parts + beyond)
    options = ("--ca-file", certificates.ca_file, "--http2" if http2 else "--no-http2", "--coalesce", 1)
    done = get(run, listed, dest, *options)

    assert done.code == 3, done.err
    assert find_wrong(dest, "jsonl", {each.name(server.url("tls")): each.body for each in parts}) == []
    assert sorted(str(kind) for kind in kinds(dest).values()) == ["bad-range", "range-unsatisfied"]
    assert {seen.http for seen in server.seen("tls")} == {"HTTP/2.0" if http2 else "HTTP/1.1"}
    # Ranges that were joined with the two failed ones were requested once more.
    assert len(server.seen("tls")) < len(parts)


def test_ranges_of_bucket_objects_are_joined_and_signed(
    run: Run, versitygw: Versitygw, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """The joined request is signed, which the store checks."""
    versitygw.put("a/c.tar", BODY)
    url = f"s3://{versitygw.bucket}/a"
    parts = [Part("c.tar", at, BODY[at : at + 90]) for at in range(0, 1000, 100)]
    listed = write_parts(tmp_path, url, parts)
    options = ("--endpoint-url", versitygw.endpoint, "--format", "jsonl", *COLUMNS, "--coalesce", 10, "-j", 1, "--json")
    done = run("get", listed, dest, *options, env=environment | versitygw.environment())

    assert done.code == 0, done.err
    assert find_wrong(dest, "jsonl", {each.name(url): each.body for each in parts}) == []
    assert json.loads(done.out.splitlines()[-1])["attempts"] <= 2


ORDERS: dict[str, tuple[list[Part], int, list[tuple[int, int]]]] = {
    "a gap that is as long": (TENTHS, 5, [(0, 144)]),
    "a gap that is longer": (TENTHS, 4, [(each.offset, each.offset + 9) for each in TENTHS]),
    "from the last one": (TENTHS[::-1], 5, [(0, 144)]),
    "one within the other": ([Part("x", 0, BODY[:100]), Part("x", 10, BODY[10:20]), TENTHS[2]], 1, [(0, 99)]),
    "overlapping": ([Part("x", 0, BODY[:100]), Part("x", 50, BODY[50:150])], 1, [(0, 149)]),
    "another object between": ([TENTHS[0], Part("y", 10, BODY[10:20]), TENTHS[1]], 5, [(0, 9), (10, 19), (15, 24)]),
    "far apart": ([TENTHS[0], TENTHS[1], TENTHS[8], TENTHS[9]], 5, [(0, 24), (120, 144)]),
}


@pytest.mark.parametrize("order", ORDERS)
def test_only_ranges_near_in_list_and_object_are_joined(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, order: str
) -> None:
    """In any order, the gap between two joined ranges is within the limit."""
    parts, gap, expected = ORDERS[order]
    route = Asked(serve_part(BODY))
    server = raw({"/x": route, "/y": route})
    done = get(run, write_parts(tmp_path, server.url, parts), dest, "--coalesce", gap, "-j", 1, "--keep-failed")

    assert done.code == 0, done.err
    assert sorted(bodies_of(dest)) == sorted((each.name(server.url), each.body) for each in parts)
    assert route.ranges == expected
    assert {row["attempts"] for row in rows_of(dest)} == {1}


JOINED = BODY[:145]
WRONG: dict[str, Behaviour] = {
    "whole": reply(BODY),
    "whole-and-huge": then_flood(reply(length=10**12), b"x"),
    "as-long-with-200": reply(JOINED, "Content-Range: bytes 0-144/1000"),
    "nothing-there": reply(b"", "Content-Range: bytes */1000", status="416 No"),
    "absent": reply(b"no", status="404 No"),
    "gone": reply(b"no", status="410 No"),
    "forbidden": reply(b"no", status="403 No"),
    "not-modified": bare_reply(status="304 Not Modified"),
    "elsewhere": reply(b"", "Location: /other", status="302 There"),
    "only-the-first": part(BODY[:10], 0, 9, 1000),
    "shifted": part(BODY[1:146], 1, 145, 1000),
    "longer": part(BODY[:146], 0, 145, 1000),
    "right-range-of-a-short-body": part(BODY[:144], 0, 144, 1000),
    "right-range-of-a-long-body": part(BODY[:146], 0, 144, 1000),
    "no-content-range": reply(JOINED, status="206 Partial Content"),
    "two-content-ranges": part(JOINED, 0, 144, 1000, "Content-Range: bytes 0-144/1000"),
    "a-total-below-it": part(JOINED, 0, 144, 100),
    "multipart": part(JOINED, 0, 144, 1000, "Content-Type: multipart/byteranges; boundary=x"),
    "encoded": part(JOINED, 0, 144, 1000, "Content-Encoding: gzip"),
    "heads-of-16-KiB": part(JOINED, 0, 144, 1000, *[f"X-{n}: {'x' * 15_000}" for n in range(4)]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_ranges_are_requested_alone_after_wrong_joined_reply(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, wrong: str
) -> None:
    """After a wrong reply, each range is requested once separately, as its first attempt."""
    route = Asked(when_joined(WRONG[wrong]))
    server = raw({"/x": route, "/other": reply(b"what nobody asked for")})
    listed = write_parts(tmp_path, server.url, TENTHS)
    done = get(run, listed, dest, "--coalesce", 5, "-j", 1, "--attempts", 1, "--keep-failed")

    assert done.code == 0, done.err
    assert sorted(bodies_of(dest)) == sorted((each.name(server.url), each.body) for each in TENTHS)
    if wrong != "heads-of-16-KiB":
        assert sorted(route.ranges[1:]) == [(each.offset, each.offset + 9) for each in TENTHS]
    assert route.ranges[0] == (0, 144)
    assert {row["attempts"] for row in rows_of(dest)} == {1}


@pytest.mark.parametrize(
    ("trouble", "counts"),
    [
        (reply(status="500 Oh"), True),
        (reply(status="503 Later"), False),
        (reply(status="429 Later"), False),
        (then_close(part(JOINED, 0, 144, 1000)[:-3]), True),
        (then_close(b""), True),
    ],
    ids=["500", "503", "429", "cut", "closed"],
)
def test_temporary_failure_counts_for_first_joined_range_only(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, trouble: Behaviour, counts: bool
) -> None:
    """After a temporary failure, only the first range has used an attempt; the others may be joined again."""
    right = serve_part(BODY)

    def behave(exchange: Exchange) -> bytes | None:
        behaviour = trouble if exchange.number == 1 else right
        return behaviour if isinstance(behaviour, bytes) else behaviour(exchange)

    route = Asked(behave)
    server = raw({"/x": route})
    done = get(run, write_parts(tmp_path, server.url, TENTHS), dest, "--coalesce", 5, "-j", 1, "--keep-failed")

    assert done.code == 0, done.err
    assert sorted(bodies_of(dest)) == sorted((each.name(server.url), each.body) for each in TENTHS)
    assert sorted(row["attempts"] for row in rows_of(dest)) == [1] * 9 + [2 if counts else 1]
    assert route.ranges[0] == (0, 144)
    assert sorted(route.ranges[1:]) == [(0, 9), (15, 144)]


def test_coalesce_is_turned_off_after_two_wrong_replies(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Joining ends after two wrong replies in a row, and a notice says so."""
    route = Asked(when_joined(reply(BODY)))
    server = raw({"/x": route})
    parts = [Part("x", at + more, BODY[at : at + 10]) for more in (0,) for at in range(0, 990, 10)]
    # Three ranges together are within the maximum body size.
    done = get(run, write_parts(tmp_path, server.url, parts), dest, "--coalesce", 1, "-j", 1, "--max-size", 30)

    assert done.code == 0, done.err
    assert find_wrong(dest, "jsonl", {each.name(server.url): each.body for each in parts}) == []
    assert [it for it in route.ranges if it[1] - it[0] > 9] == [(0, 29), (30, 59)]
    assert "--coalesce was turned off" in done.err


@pytest.mark.parametrize("options", [(), ("--coalesce", 5)], ids=["each", "together"])
def test_object_replaced_between_ranges_is_detected(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, options: tuple[object, ...]
) -> None:
    """A strong ETag reveals that the object was replaced; a weak or missing one does not."""
    tags = {"/x": ['"1"', '"1"', '"2"'], "/w": ['W/"1"', 'W/"2"', 'W/"3"'], "/n": ["", "", ""], "/o": ['"7"'] * 3}

    def behave(exchange: Exchange) -> bytes:
        first, last = asked(exchange)
        tag = tags[exchange.target][first // 300]
        return part(BODY[first : last + 1], first, last, 1000, *([f"ETag: {tag}"] if tag else []))

    server = raw(dict.fromkeys(tags, behave))
    parts = [
        Part(name[1:], at + more, BODY[at + more : at + more + 10])
        for at in (0, 300, 600)
        for name in tags
        for more in (0, 15)
    ]
    listed = write_parts(tmp_path, server.url, parts)
    done = get(run, listed, dest, *options, "-j", 1)

    assert done.code == 3, done.err
    replaced = [each for each in parts if each.file == "x" and each.offset >= 600]
    stored = {each.name(server.url): each.body for each in parts if each not in replaced}
    assert find_wrong(dest, "jsonl", stored) == []
    assert kinds(dest) == {each.name("").replace("//", "/"): "changed" for each in replaced}
    assert {found.detail for found in fetchmill.failures(dest)} == {
        "the ETag differs from that of an earlier part, so the object was replaced"
    }


def test_each_range_is_compared_with_its_row(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Each range is compared with its row: hash, ETag of a manifest, and kept columns. One that differs fails alone."""

    def behave(exchange: Exchange) -> bytes:
        first, last = asked(exchange)
        return part(BODY[first : last + 1], first, last, 1000, 'ETag: "e"')

    server = raw({"/x": behave})
    hashes = [hashlib.sha256(each.body).hexdigest() for each in TENTHS]
    hashes[4] = hashes[3]
    etags = ["e"] * len(TENTHS)
    etags[0] = etags[6] = "other"
    listed = write_parts(
        tmp_path,
        server.url,
        TENTHS,
        name=["same"] * 10,
        size=["1000"] * 10,
        etag=etags,
        last_modified=[""] * 10,
        hash=hashes,
        label=[f"no {number}" for number in range(10)],
    )
    options = ("--hash-column", "hash", "--keep-columns", "label", "--attempts", 1)
    done = get(run, listed, dest, *options, "--coalesce", 5, "-j", 1)

    assert done.code == 3, done.err
    failed = {0: "changed", 4: "checksum", 6: "changed"}
    stored = {each.name(server.url): each.body for number, each in enumerate(TENTHS) if number not in failed}
    assert find_wrong(dest, "jsonl", stored) == []
    assert sorted(row["columns"]["label"] for row in rows_of(dest)) == [f"no {n}" for n in range(10) if n not in failed]
    assert kinds(dest) == {TENTHS[n].name("").replace("//", "/"): kind for n, kind in failed.items()}


def test_gaps_count_for_bwlimit_and_max_size(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Gaps count for --bwlimit but not in the report, and a joined request is at most as large as --max-size."""
    body = random.Random(4).randbytes(400_000)
    route = Asked(serve_part(body))
    server = raw({"/x": route})
    parts = [Part("x", at, body[at : at + 10]) for at in range(0, 400_000, 100_000)]
    listed = write_parts(tmp_path, server.url, parts)
    began = time.monotonic()
    done = get(run, listed, dest, "--coalesce", "100k", "--bwlimit", "300k", "-j", 1, "--json")

    assert done.code == 0, done.err
    assert route.ranges == [(0, 300_009)]
    assert time.monotonic() - began > 0.5
    assert json.loads(done.out.splitlines()[-1])["bytes"] == 40
    again = get(run, listed, tmp_path / "small", "--coalesce", "100k", "--max-size", 200_000, "-j", 1)
    assert again.code == 0, again.err
    assert route.ranges[1:] == [(0, 100_009), (200_000, 300_009)]


def test_overlapping_ranges_stay_within_memory_limit(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Three overlapping ranges of 400,000 bytes need two requests, because their separate bodies exceed 1 MiB."""
    body = random.Random(5).randbytes(400_100)
    route = Asked(serve_part(body))
    server = raw({"/x": route})
    parts = [Part("x", at, body[at : at + 400_000]) for at in (0, 1, 2)]
    done = get(run, write_parts(tmp_path, server.url, parts), dest, "--coalesce", 1, "-j", 1)

    assert done.code == 0, done.err
    assert find_wrong(dest, "jsonl", {each.name(server.url): each.body for each in parts}) == []
    assert route.ranges == [(0, 400_000), (2, 400_001)]


def test_job_over_many_hosts_joins_no_ranges(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """A job over many hosts joins no ranges, because each host has its own queue."""
    routes = [Asked(serve_part(BODY)) for _ in range(2)]
    servers = [raw({"/x": route}) for route in routes]
    rows = [each.row(server.url) for server in servers for each in TENTHS]
    done = get(run, write_list(tmp_path, rows, "csv"), dest, "--coalesce", 5)

    assert done.code == 0, done.err
    assert dict(read_objects(dest, "jsonl")) == {
        each.name(server.url): each.body for server in servers for each in TENTHS
    }
    assert [len(route.ranges) for route in routes] == [10, 10]


def test_killed_coalesce_job_resumes_with_other_joins(
    run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path
) -> None:
    """A resumed job may join other ranges or none, because --coalesce does not make it another job."""

    def slowly(exchange: Exchange) -> bytes | None:
        time.sleep(0.01)
        return whole(exchange) if callable(whole) else whole

    body = random.Random(6).randbytes(18_000)
    whole = serve_part(body)
    server = raw({"/x": slowly})
    parts = [Part("x", at, body[at : at + 9]) for at in range(0, 18_000, 10)]
    listed = write_parts(tmp_path, server.url, parts)
    options = ("--format", "jsonl", "--allow-private", *COLUMNS, "-j", 2, "--commit-window", "20ms", "--max-size", 90)
    for coalesce in (1, 3):
        before = len(server.requests)
        process = start("get", listed, dest, *options, "--coalesce", coalesce)
        until = time.monotonic() + 20
        while len(server.requests) < before + 50 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = run("get", listed, dest, *options, "--coalesce", 2)

    assert done.code == 0, done.err
    assert find_wrong(dest, "jsonl", {each.name(server.url): each.body for each in parts}) == []
    assert len(rows_of(dest)) == len(parts)
    assert len(server.requests) < len(parts) / 4


def test_coalesce_requires_byte_ranges(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """--coalesce without byte ranges is refused before any request. Python has a keyword of the same name."""
    route = Asked(serve_part(BODY))
    server = raw({"/x": route})
    listed = write_parts(tmp_path, server.url, TENTHS)
    refused = run("get", listed, dest, "--allow-private", "--coalesce", 5)

    assert (refused.code, server.requests) == (2, [])
    assert "--offset-column" in refused.err
    columns: Any = {"offset_column": "offset", "length_column": "length"}
    report = fetchmill.get(listed, dest, format="null", allow_private=True, coalesce=5, concurrency=1, **columns)
    assert (report.fetched, report.bytes, route.ranges) == (10, 100, [(0, 144)])
