"""Byte ranges from a list: the right bytes, or a failure with the reason."""

import gzip
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates
from fetchmill.errors import UsageError
from lists import write_list
from nginx import Nginx, Site
from ranges import BODY, COLUMNS, Part, asked, get, kinds, part, serve_part, write_records
from raw_server import Behaviour, Exchange, RawServer, bare_reply, in_turn, reply, then_close, then_flood
from s3_stores import Versitygw
from stored import find_wrong, read_objects

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

HUGE = 10**12


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("listed_as", "format"), [("csv", "files"), ("jsonl", "jsonl"), ("parquet", "parquet"), ("tsv", "tar")]
)
def test_ranges_of_files_are_stored(
    run: Run, nginx: Callable[..., Nginx], served: Path, dest: Path, tmp_path: Path, listed_as: str, format: str
) -> None:
    """Two thousand records are stored as Parquet with exactly their bytes.

    They can be listed, read, verified and exported by name.
    """
    parts = write_records(served, 4, 500 if format == "parquet" else 25)
    url = nginx(files=Site()).url("files", "127.0.0.1")
    listed = write_list(tmp_path, [each.row(url) for each in parts], listed_as)
    done = get(run, listed, dest, format=format)

    assert done.code == 0, done.err
    below = url.removeprefix("http://") if format == "files" else url
    expected = {each.name(below): each.body for each in parts}
    assert find_wrong(dest, format, expected) == []
    assert run("verify", dest).code == 0
    assert set(run("ls", dest).out.splitlines()) == expected.keys()
    name = parts[0].name(below)
    with fetchmill.open(dest) as stored:
        assert gzip.decompress(stored[name]).startswith(b"WARC/1.0")
    assert run("cat", dest, "no such name").code != 0
    exported = run("export", dest, tmp_path / "again", "--format", "tar")
    assert exported.code == 0, exported.err
    assert find_wrong(tmp_path / "again", "tar", expected) == []
    # Refused commands: comparing whole objects, and a format that needs the sources of objects.
    assert run("verify", dest, "--sample", 3).code == 2
    assert run("export", dest, tmp_path / "warc", "--format", "warc").code == 2


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_ranges_are_requested_over_tls(
    run: Run,
    nginx: Callable[..., Nginx],
    certificates: Certificates,
    served: Path,
    dest: Path,
    tmp_path: Path,
    http2: bool,
) -> None:
    """HTTP/2 works like HTTP/1.1: existing ranges are stored, and those beyond the end fail."""
    parts = write_records(served, 1, 100)
    size = (served / parts[0].file).stat().st_size
    server = nginx(tls=Site(leaf=certificates.good, http2=http2))
    beyond = [Part(parts[0].file, size - 3, b"1234"), Part(parts[0].file, size, b"1")]
    listed = write_list(tmp_path, [each.row(server.url("tls")) for each in parts + beyond], "csv")
    done = get(run, listed, dest, "--ca-file", certificates.ca_file, "--http2" if http2 else "--no-http2")

    assert done.code == 3, done.err
    assert find_wrong(dest, "jsonl", {each.name(server.url("tls")): each.body for each in parts}) == []
    assert sorted(str(kind) for kind in kinds(dest).values()) == ["bad-range", "range-unsatisfied"]
    assert {seen.http for seen in server.seen("tls")} == {"HTTP/2.0" if http2 else "HTTP/1.1"}


def multipart(first: int, last: int) -> bytes:
    """Returns a multipart reply with this range."""
    inner = (
        f"--x\r\nContent-Range: bytes {first}-{last}/1000\r\n\r\n".encode() + BODY[first : last + 1] + b"\r\n--x--\r\n"
    )
    return reply(inner, "Content-Type: multipart/byteranges; boundary=x", status="206 Partial Content")


# Replies to a request for bytes 10 to 19, and the expected outcomes.
RIGHT = BODY[10:20]
WRONG: dict[str, tuple[str, Behaviour]] = {
    "whole": ("range-ignored", reply(BODY)),
    "whole-and-huge": ("range-ignored", then_flood(reply(length=HUGE), b"x")),
    "whole-in-chunks": (
        "range-ignored",
        then_flood(bare_reply("Transfer-Encoding: chunked"), b"4\r\nxxxx\r\n"),
    ),
    "whole-and-as-long": ("range-ignored", reply(RIGHT)),
    "whole-with-content-range": ("range-ignored", reply(RIGHT, "Content-Range: bytes 10-19/1000")),
    "no-content": ("range-ignored", bare_reply(status="204 No Content")),
    "behind-its-end": ("range-unsatisfied", reply(b"x", "Content-Range: bytes */5", status="416 No")),
    "shifted": ("bad-range", part(BODY[11:21], 11, 20, 1000)),
    "shorter": ("bad-range", part(BODY[10:19], 10, 18, 1000)),
    "longer": ("bad-range", part(BODY[10:21], 10, 20, 1000)),
    "right-range-of-a-short-body": ("bad-range", part(RIGHT[:9], 10, 19, 1000)),
    "right-range-of-a-long-body": ("bad-range", part(RIGHT + b"x", 10, 19, 1000)),
    "endless": (
        "bad-range",
        then_flood(
            bare_reply("Transfer-Encoding: chunked", "Content-Range: bytes 10-19/1000", status="206 Part"),
            b"4\r\nxxxx\r\n",
        ),
    ),
    "no-content-range": ("bad-range", reply(RIGHT, status="206 Partial Content")),
    "two-content-ranges": ("bad-range", part(RIGHT, 10, 19, 1000, "Content-Range: bytes 10-19/1000")),
    "other-unit": ("bad-range", reply(RIGHT, "Content-Range: items 10-19/1000", status="206 Partial Content")),
    "no-total": ("bad-range", reply(RIGHT, "Content-Range: bytes 10-19", status="206 Partial Content")),
    "a-total-below-it": ("bad-range", part(RIGHT, 10, 19, 15)),
    "multipart": ("bad-range", multipart(10, 19)),
    "multipart-with-content-range": ("bad-range", part(RIGHT, 10, 19, 1000, "Content-Type: multipart/byteranges")),
    "encoded": ("bad-range", part(RIGHT, 10, 19, 1000, "Content-Encoding: gzip")),
    "status": ("status", reply(b"no", status="403 No")),
    "cut": ("truncated", then_close(part(RIGHT, 10, 19, 1000)[:-3])),
}


def test_wrong_reply_to_range_is_not_stored(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Each wrong reply has its own failure kind, and the detail has the requested range. Correct replies are stored."""
    right = {
        "good": serve_part(BODY),
        "without-a-total": part(RIGHT, 10, 19, "*"),
        "identity": part(RIGHT, 10, 19, 1000, "Content-Encoding: identity"),
        "in-chunks": bare_reply("Transfer-Encoding: chunked", "content-range: BYTES 10-19/1000", status="206 Part")
        + b"4\r\n" + RIGHT[:4] + b"\r\n6\r\n" + RIGHT[4:] + b"\r\n0\r\n\r\n",
    }  # fmt: skip
    server = raw(
        {f"/{name}": route for name, route in {**right, **{name: it[1] for name, it in WRONG.items()}}.items()}
    )
    parts = [Part(name, 10, RIGHT) for name in (*right, *WRONG, "none")]
    listed = write_list(tmp_path, [each.row(server.url) for each in parts], "csv")
    done = get(run, listed, dest, "--attempts", 2, "-j", 4)

    assert done.code == 3, done.err
    assert find_wrong(dest, "jsonl", {each.name(server.url): RIGHT for each in parts[: len(right)]}) == []
    expected = {f"/{name}#bytes=10-19": kind for name, (kind, _) in WRONG.items()}
    assert kinds(dest) == {**expected, "/none#bytes=10-19": "absent"}
    for found in fetchmill.failures(dest):
        if found.kind and "range" in found.kind:
            assert found.detail is not None
            assert "requested bytes=10-19" in found.detail


def test_full_reply_to_range_request_is_not_read(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The server cannot send more than the socket buffers hold, and the connection is closed."""
    sent = []

    def pour(exchange: Exchange) -> None:
        exchange.send(reply(length=HUGE))
        try:
            while True:
                exchange.send(bytes(1 << 16))
                sent.append(1 << 16)
        finally:
            exchange.close()

    server = raw({"/x": pour})
    listed = write_list(tmp_path, [Part("x", 10, RIGHT).row(server.url)], "csv")
    done = get(run, listed, dest, "--max-size", "1KiB")

    assert done.code == 3, done.err
    assert kinds(dest) == {"/x#bytes=10-19": "range-ignored"}
    assert server.count("/x") == 1
    assert sum(sent) < 16 << 20


HOSTILE: list[tuple[dict[str, object], str]] = [
    ({"offset": "0", "length": "0"}, "length is 0"),
    ({"offset": "-1", "length": "5"}, "column offset is not a number"),
    ({"offset": "1", "length": "-5"}, "column length is not a number"),
    ({"offset": "+1", "length": "5"}, "not a number"),
    ({"offset": "1e3", "length": "5"}, "not a number"),
    ({"offset": "1.0", "length": "5"}, "not a number"),
    ({"offset": " 1", "length": "5"}, "not a number"),
    ({"offset": "", "length": "5"}, "not a number"),
    ({"offset": "0-1,5", "length": "5"}, "not a number"),
    ({"offset": "1\r\nX-Evil: 1", "length": "5"}, "not a number"),
    ({"offset": "\u0661", "length": "5"}, "not a number"),
    ({"offset": "9223372036854775807", "length": "2"}, "beyond 2^63"),
    ({"offset": "18446744073709551615", "length": "1"}, "beyond 2^63"),
    ({"offset": "1", "length": "18446744073709551615"}, "beyond 2^63"),
    ({"offset": "18446744073709551616", "length": "1"}, "not a number"),
    ({"offset": None, "length": "5"}, "no column offset"),
    ({"offset": 5}, "no column length"),
    ({"offset": 1.5, "length": 5}, "not a number"),
    ({"offset": [1], "length": 5}, ""),
]


def test_row_without_range_fails(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The row fails without a request, and the detail has the reason. A JSON number works like a string."""
    server = raw({"/x": serve_part(BODY)})
    rows = [{"url": server.url + "/x", **values} for values, _ in HOSTILE]
    rows.append({"url": server.url + "/x", "offset": 10, "length": 10})
    listed = tmp_path / "list.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = get(run, listed, dest)

    assert done.code == 3, done.err
    found = {each.name: (each.kind, each.detail or "") for each in fetchmill.failures(dest)}
    assert {kind for kind, _ in found.values()} == {"url"}
    for line, (values, said) in enumerate(HOSTILE, 1):
        assert said in found[f"line {line}"][1], (values, found[f"line {line}"])
    assert len(found) == len(HOSTILE)
    assert server.requests == ["/x"]
    assert dict(read_objects(dest, "jsonl")) == {f"{server.url}/x#bytes=10-19": RIGHT}


def test_ranges_of_one_object_have_unique_names(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Names are unique even with a template without columns, with keys, and with numbers.

    A request never has a fragment.
    """
    server = raw({"/x?a=b": serve_part(BODY), "/x": serve_part(BODY)})
    rows = [{"k": f"key {at}", "offset": str(at), "length": "7"} for at in range(0, 70, 7)]
    listed = write_list(tmp_path, rows, "csv")
    template = ("--template", server.url + "/x?a=b")
    bodies = [BODY[at : at + 7] for at in range(0, 70, 7)]
    named: dict[str, tuple[tuple[str, ...], list[str]]] = {
        "url": ((), [f"{server.url[7:]}/x?a=b#bytes={at}-{at + 6}" for at in range(0, 70, 7)]),
        "key": (("--key-column", "k"), [row["k"] for row in rows]),
        "seq": (("--names", "seq"), [f"000000/{number:09}" for number in range(10)]),
    }
    for kind, (options, names) in named.items():
        done = get(run, listed, dest / kind, *template, *options, format="files")
        assert done.code == 0, done.err
        assert find_wrong(dest / kind, "files", dict(zip(names, bodies, strict=True))) == []
    assert set(server.requests) == {"/x?a=b"}


def test_retry_run_requests_same_ranges(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """A failed range is retried like any GET, and stored under the same name."""
    first = in_turn(reply(BODY), serve_part(BODY))
    server = raw({"/x": in_turn(reply(status="503 Later"), serve_part(BODY)), "/y": first})
    listed = write_list(tmp_path, [Part(name, 10, RIGHT).row(server.url) for name in "xy"], "csv")
    failed = get(run, listed, dest, "-j", 1, format="files")
    assert failed.code == 3, failed.err
    assert "range-ignored 1" in failed.err
    assert server.count("/x") == 2

    done = get(run, listed, dest, "--retry-failed", format="files")
    assert done.code == 0, done.err
    names = [f"{server.url[7:]}/{name}#bytes=10-19" for name in "xy"]
    assert find_wrong(dest, "files", dict.fromkeys(names, RIGHT)) == []
    assert run("verify", dest).code == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "parquet"])
def test_killed_range_job_resumes(run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path, format: str) -> None:
    """After two kills, every range is stored once, with its own bytes."""

    def slowly(exchange: Exchange) -> bytes | None:
        time.sleep(0.002)
        behaviour = serve_part(body)
        assert callable(behaviour)
        return behaviour(exchange)

    body = random.Random(3).randbytes(5400)
    server = raw({"/x": slowly})
    listed = write_list(tmp_path, [Part("x", at, body[at : at + 9]).row(server.url) for at in range(0, 5400, 9)], "csv")
    options = ("--format", format, "--allow-private", *COLUMNS, "-j", 4, "--commit-window", "50ms")
    for kill in range(1, 3):
        process = start("get", listed, dest, *options)
        until = time.monotonic() + 20
        while len(server.requests) < kill * 150 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = run("get", listed, dest, *options)

    assert done.code == 0, done.err
    below = server.url[7:] if format == "files" else server.url
    expected = {f"{below}/x#bytes={at}-{at + 8}": body[at : at + 9] for at in range(0, 5400, 9)}
    assert find_wrong(dest, format, expected) == []
    assert len(server.requests) < 1200


def test_redirect_keeps_requested_range(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The target of a redirect gets the same range, also at another origin."""
    other = raw({"/y": serve_part(BODY)})
    with RawServer({"/x": reply(b"", f"Location: {other.url}/y", status="302 There")}) as server:
        listed = write_list(tmp_path, [Part("x", 10, RIGHT).row(server.url)], "csv")
        done = get(run, listed, dest)

        assert done.code == 0, done.err
        assert dict(read_objects(dest, "jsonl")) == {f"{server.url}/x#bytes=10-19": RIGHT}


def test_max_size_applies_to_range(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """--max-size limits the range, not the object.

    Sizes and names of a manifest are ignored, because they are for whole objects. Its ETags are compared.
    """
    tagged = {"/new": "new", "/old": "old"}

    def answer(exchange: Exchange) -> bytes:
        first, last = asked(exchange)
        return part(BODY[first : last + 1], first, last, 1000, f'ETag: "{tagged[exchange.target]}"')

    server = raw(dict.fromkeys(tagged, answer))
    described = {"name": "same", "size": "1000", "etag": "new", "last_modified": ""}
    parts = [
        Part("new", 0, BODY[:100]),
        Part("new", 500, BODY[500:]),
        Part("new", 7, BODY[7:57]),
        Part("old", 0, BODY[:9]),
    ]
    listed = write_list(tmp_path, [{**described, **each.row(server.url)} for each in parts], "csv")
    done = get(run, listed, dest, "--max-size", "100")

    assert done.code == 3, done.err
    stored = {each.name(server.url): each.body for each in (parts[0], parts[2])}
    assert dict(read_objects(dest, "jsonl")) == stored
    assert kinds(dest) == {"/new#bytes=500-999": "body-too-large", "/old#bytes=0-8": "changed"}


def test_ranges_of_bucket_objects_are_signed(
    run: Run, versitygw: Versitygw, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """The requests are signed, which the store checks. A range beyond the end fails."""
    versitygw.put("a/b.tar", BODY)
    url = f"s3://{versitygw.bucket}/a"
    parts = [Part("b.tar", at, BODY[at : at + 100]) for at in range(0, 1000, 100)]
    listed = write_list(tmp_path, [each.row(url) for each in [*parts, Part("b.tar", 1000, b"1")]], "csv")
    options = ("--endpoint-url", versitygw.endpoint, "--format", "jsonl", *COLUMNS)
    done = run("get", listed, dest, *options, env=environment | versitygw.environment())

    assert done.code == 3, done.err
    assert find_wrong(dest, "jsonl", {each.name(url): each.body for each in parts}) == []
    assert [found.kind for found in fetchmill.failures(dest)] == ["range-unsatisfied"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--offset-column", "offset"), "must be given together"),
        (("--length-column", "length"), "must be given together"),
        ((*COLUMNS, "--method", "POST"), "use GET requests"),
        ((*COLUMNS, "--method", "HEAD"), "use GET requests"),
        ((*COLUMNS, "--data", "a=b"), "use GET requests"),
        ((*COLUMNS, "--format", "warc"), "--format warc"),
        ((*COLUMNS, "--engine", "threads"), "--engine native"),
        (("--offset-column", "nothing", "--length-column", "length"), "nothing"),
        (("--header", "Range: bytes=0-1"), "--offset-column"),
    ],
)
def test_invalid_range_options_get_one_line_error(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    """Invalid options get exit code 2, before any request."""
    server = raw({"/x": serve_part(BODY)})
    listed = write_list(tmp_path, [Part("x", 10, RIGHT).row(server.url)], "csv")
    refused = run("get", listed, dest, "--allow-private", *options)

    assert (refused.code, server.requests) == (2, [])
    assert said in refused.err
    assert len(refused.err.splitlines()) == 1, refused.err


def test_other_range_columns_are_refused_as_another_job(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Other range columns are refused, because the stored ranges would differ. The same command has nothing to do."""
    server = raw({"/x": serve_part(BODY)})
    listed = write_list(tmp_path, [{**Part("x", 10, RIGHT).row(server.url), "other": "3"}], "csv")
    assert get(run, listed, dest).code == 0

    assert get(run, listed, dest, "--length-column", "other").code == 2
    assert get(run, listed, dest).code == 0
    assert len(server.requests) == 1


def test_python_has_same_range_keywords(raw: Raw, tmp_path: Path) -> None:
    """Keywords for ranges apply to lists. Items of a program have no columns, and their own Range header is refused."""
    server = raw({"/x": serve_part(BODY)})
    listed = write_list(tmp_path, [Part("x", 10, RIGHT).row(server.url)], "parquet")
    columns: Any = {"offset_column": "offset", "length_column": "length"}
    report = fetchmill.get(listed, tmp_path / "out", format="tar", allow_private=True, **columns)

    assert (report.fetched, report.bytes) == (1, 10)
    assert dict(read_objects(tmp_path / "out", "tar")) == {f"{server.url}/x#bytes=10-19": RIGHT}
    with pytest.raises(UsageError, match="columns"):
        fetchmill.get([server.url + "/x"], tmp_path / "no", **columns)
    with pytest.raises(UsageError, match="--offset-column"):
        fetchmill.Request(server.url + "/x", headers={"Range": "bytes=0-1"})
