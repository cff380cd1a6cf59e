"""Replies with a wrong end, without an end, or without a request, from a scripted server over the network.

Each object's bytes are its own name, so that a file with another object's bytes is detected. Whatever a reply does, its
target has an outcome of the right kind, and the targets around it are fetched normally.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from canary import Canary
from raw_server import (
    Behaviour,
    Exchange,
    RawServer,
    bare_reply,
    chunked_reply,
    in_turn,
    mirror,
    page,
    reply,
    then_close,
    then_flood,
    then_reset,
    then_stall,
)

Run = Callable[..., Any]
Raw = Callable[..., RawServer]

ATTEMPTS = 2
# Requests per object: those on connections that broke later do not count as attempts.
REQUESTS_MAX = 6
SIZE_MAX = 64 << 10
HUGE = 10**15
CHUNKS = "Transfer-Encoding: chunked"


def chunks(text: bytes) -> bytes:
    """Returns a reply with this chunked body, valid or not."""
    return bare_reply(CHUNKS) + text


def fields(count: int) -> list[str]:
    """Returns the given number of header fields."""
    return [f"X-Field-{number}: value" for number in range(count)]


def then_trickle(head: bytes, body: bytes) -> Behaviour:
    """Sends the head immediately and the body byte by byte, more slowly than the client waits."""

    def behave(exchange: Exchange) -> None:
        exchange.send(head)
        exchange.trickle(body, 0.04)

    return behave


def body_of(name: str) -> bytes:
    """Returns the correct body of an object."""
    return name.encode()


# --- complete replies --------------------------------------------------------------------------------------------

# Each of these sends the given bytes.
COMPLETE: dict[str, Callable[[bytes], Behaviour]] = {
    "length": reply,
    "length-twice": lambda body: bare_reply(*[f"Content-Length: {len(body)}"] * 2) + body,
    "length-with-zeros": lambda body: bare_reply(f"Content-Length: 000{len(body)}") + body,
    "lower-case-fields": lambda body: bare_reply(f"content-length:{len(body)}") + body,
    "upper-case-fields": lambda body: bare_reply(f"CONTENT-LENGTH:\t {len(body)}  ") + body,
    "chunks": chunked_reply,
    "chunk-a-byte": lambda body: chunked_reply(*(bytes([byte]) for byte in body)),
    "chunk-extension": lambda body: chunks(b'%x;a=b;c="d"\r\n%s\r\n0;e\r\n\r\n' % (len(body), body)),
    "chunk-size-with-zeros": lambda body: chunks(b"0000%X\r\n%s\r\n000\r\n\r\n" % (len(body), body)),
    "trailers": lambda body: chunks(b"%x\r\n%s\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n" % (len(body), body)),
    "coding-in-upper-case": lambda body: (
        bare_reply("TRANSFER-ENCODING: CHUNKED") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    ),
    "http-1.0": lambda body: then_close(reply(body, version="HTTP/1.0")),
    "http-1.0-kept-alive": lambda body: reply(body, "Connection: keep-alive", version="HTTP/1.0"),
    "http-1.0-left-open": lambda body: then_stall(reply(body, version="HTTP/1.0")),
    "connection-close": lambda body: then_close(reply(body, "Connection: close")),
    "connection-close-left-open": lambda body: then_stall(reply(body, "Connection: close")),
    "closed-without-a-word": lambda body: then_close(reply(body)),
    "reset-after-the-body": lambda body: then_reset(reply(body)),
    "no-reason": lambda body: reply(body, status="200"),
    "empty-reason": lambda body: reply(body, status="200 "),
    "another-2xx": lambda body: reply(body, status="203 Non-Authoritative Information"),
    "unknown-2xx": lambda body: reply(body, status="299 Whatever"),
    "interim": lambda body: bare_reply(status="103 Early Hints") + reply(body),
    "continue": lambda body: bare_reply(status="100 Continue") + reply(body),
    "eight-interims": lambda body: bare_reply(status="102 Processing") * 8 + reply(body),
    "byte-by-byte": lambda body: lambda exchange: exchange.trickle(reply(body), 0.001),
    "chunks-byte-by-byte": lambda body: lambda exchange: exchange.trickle(chunked_reply(body), 0.001),
    "head-then-body": lambda body: lambda exchange: exchange.send(reply(length=len(body)), body, pause=0.05),
    "128-fields": lambda body: reply(body, *fields(127)),
    "long-line": lambda body: reply(body, "X-Long: " + "x" * 15_000),
    "cookies": lambda body: reply(body, *[f"Set-Cookie: c{number}={'x' * 400}" for number in range(100)]),
    "encoded": lambda body: reply(body, "Content-Encoding: gzip"),
    "type-and-disposition": lambda body: reply(body, 'Content-Disposition: attachment; filename="../../evil"'),
    "retry-after": lambda body: reply(body, "Retry-After: 1000"),
    "location": lambda body: reply(body, "Location: http://192.0.2.1/"),
    "length-and-chunks": lambda body: (
        bare_reply("Content-Length: 4", CHUNKS) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    ),
    "chunks-and-length": lambda body: (
        bare_reply(CHUNKS, "Content-Length: 999") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    ),
    "chunk-size-with-blanks-after-it": lambda body: chunks(b"%x  \r\n%s\r\n0   \r\n\r\n" % (len(body), body)),
    "206-with-all-of-it": lambda body: reply(
        body, f"Content-Range: bytes 0-{len(body) - 1}/{len(body)}", status="206 Partial Content"
    ),
    "field-folded": lambda body: reply(body, "X-Y: a\r\n b: c"),
    "field-without-name": lambda body: reply(body, ": 4"),
    "field-without-any-colon": lambda body: reply(body, "not a field"),
    "field-with-a-control-byte": lambda body: reply(body, "X-Y: a\x01b"),
    "field-with-a-blank-before-its-colon": lambda body: reply(body, "X-Y : a"),
    "not-utf-8": lambda body: reply(body, "X-Y: \xff\x80", status="200 \xe9"),
    "longer": lambda body: reply(body + b" and more", length=len(body)),
    "longer-chunks": lambda body: chunked_reply(body) + b"and more",
}
EMPTY: dict[str, Behaviour] = {
    "length-0": reply(b""),
    "no-chunks": chunks(b"0\r\n\r\n"),
    "204": bare_reply(status="204 No Content"),
    "204-with-length": bare_reply("Content-Length: 0", status="204 No Content"),
    "204-with-a-body": reply(b"body", status="204 No Content"),
}

# --- incomplete replies ------------------------------------------------------------------------------------------

REFUSED_AT_ONCE: dict[str, Mapping[str, Behaviour]] = {
    "framing": {
        "length-plus": bare_reply("Content-Length: +4") + b"body",
        "length-minus": bare_reply("Content-Length: -1"),
        "length-hex": bare_reply("Content-Length: 0x4") + b"body",
        "length-space": bare_reply("Content-Length: 4 4") + b"body",
        "length-list": bare_reply("Content-Length: 4, 4") + b"body",
        "length-two-of-a-list": bare_reply("Content-Length: 4, 5") + b"body",
        "length-empty": bare_reply("Content-Length:") + b"body",
        "length-float": bare_reply("Content-Length: 4.0") + b"body",
        "length-exponent": bare_reply("Content-Length: 1e15") + b"body",
        "length-2^64": bare_reply(f"Content-Length: {2**64 + 4}") + b"body",
        "length-two": bare_reply("Content-Length: 4", "Content-Length: 5") + b"body",
        "chunks-in-http-1.0": bare_reply(CHUNKS, version="HTTP/1.0") + b"4\r\nbody\r\n0\r\n\r\n",
        "chunked-twice": bare_reply("Transfer-Encoding: chunked, chunked") + b"4\r\nbody\r\n0\r\n\r\n",
        "chunked-in-two-fields": bare_reply(CHUNKS, CHUNKS) + b"4\r\nbody\r\n0\r\n\r\n",
        "xchunked": bare_reply("Transfer-Encoding: xchunked") + b"4\r\nbody\r\n0\r\n\r\n",
        "chunked-with-parameter": bare_reply("Transfer-Encoding: chunked;q=1") + b"4\r\nbody\r\n0\r\n\r\n",
        "gzip-chunked": bare_reply("Transfer-Encoding: gzip, chunked") + b"4\r\nbody\r\n0\r\n\r\n",
        "chunked-identity": bare_reply("Transfer-Encoding: chunked, identity") + b"4\r\nbody\r\n0\r\n\r\n",
        "identity": bare_reply("Transfer-Encoding: identity", "Content-Length: 4") + b"body",
        "chunk-size-missing": chunks(b"\r\nbody\r\n0\r\n\r\n"),
        "chunk-size-signed": chunks(b"+4\r\nbody\r\n0\r\n\r\n"),
        "chunk-size-0x": chunks(b"0x4\r\nbody\r\n0\r\n\r\n"),
        "chunk-size-space-before": chunks(b" 4\r\nbody\r\n0\r\n\r\n"),
        "chunk-size-overflow": chunks(b"1" + b"0" * 16 + b"\r\nbody"),
        "chunk-size-no-hex": chunks(b"g\r\nbody\r\n0\r\n\r\n"),
        "chunk-bare-lf": chunks(b"4\nbody\n0\n\n"),
        "chunk-bare-cr": chunks(b"4\rbody\r0\r\r"),
        "chunk-junk-behind": chunks(b"4\r\nbodyXX0\r\n\r\n"),
        "chunk-longer": chunks(b"4\r\nbody and more\r\n0\r\n\r\n"),
        "chunk-extension-with-nul": chunks(b"4;\0\r\nbody\r\n0\r\n\r\n"),
        "chunk-extensions-endless": then_flood(chunks(b"4;"), b"a=b;"),
        "chunks-a-byte-with-extensions": then_flood(chunks(b""), b"1;" + b"x" * 100 + b"\r\nb\r\n"),
        "trailers-endless": then_flood(chunks(b"4\r\nbody\r\n0\r\n"), b"X-Y: z\r\n"),
        "trailer-malformed": chunks(b"4\r\nbody\r\n0\r\nX Y: z\r\n\r\n"),
        "trailer-is-a-body": chunks(b"4\r\nbody\r\n0\r\nmore\r\n\r\n"),
        "101": bare_reply("Upgrade: h2c", status="101 Switching Protocols"),
        "interim-with-a-body": reply(b"body", status="103 Early Hints") + reply(b"body"),
        "206": reply(b"body", "Content-Range: bytes 0-3/9", status="206 Partial Content"),
        "status-99": reply(b"body", status="099 What"),
        "status-of-two-digits": reply(b"body", status="20 OK"),
        "status-of-four-digits": reply(b"body", status="2000 OK"),
        "status-missing": reply(b"body", status="OK"),
        "206-without-a-range": reply(b"body", status="206 Partial Content"),
        "206-of-another-length": reply(b"body", "Content-Range: bytes 0-4/5", status="206 Partial Content"),
        "field-folded-length": bare_reply("Content-Length: 4\r\n 0") + b"body",
        "field-folded-into-a-reply": bare_reply("X-Y: a\r\n HTTP/1.1 200 OK", "Content-Length: 4") + b"body",
        "field-is-a-status-line": bare_reply("HTTP/1.1 200 OK", "Content-Length: 4") + b"body",
        "field-of-blanks": bare_reply("X-Y: a\r\n  ", "Content-Length: 4") + b"body",
        "field-space-before-colon": bare_reply("Content-Length : 4") + b"body",
        "field-space-before-name": bare_reply(" Content-Length: 4") + b"body",
        "field-without-colon": bare_reply("Content-Length 4") + b"body",
        "field-with-nul": bare_reply("X-Y: a\0b", "Content-Length: 4") + b"body",
        "field-with-bare-cr": bare_reply("X-Y: a\rContent-Length: 9", "Content-Length: 4") + b"body",
    },
    "not-http": {
        "ssh": then_close(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
        "html": then_close(b"<html><body>hi</body></html>"),
        "http-2": b"HTTP/2.0 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        "http-1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        "icy": b"ICY 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        "lower-case": b"http/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        "empty-line-first": b"\r\n" + reply(b"body"),
        "tls": b"\x15\x03\x01\x00\x02\x02\x28",
        "nul": then_flood(b"", b"\0"),
        "the-body-alone": b"body",
    },
    "head-too-large": {
        "129-fields": reply(b"body", *fields(128)),
        "10,000-fields": reply(b"body", *fields(10_000)),
        "endless-fields": then_flood(b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n"),
        "long-line": reply(b"body", "X-Y: " + "z" * 17_000),
        "endless-line": then_flood(b"HTTP/1.1 200 OK\r\nX-Y: ", b"z"),
        "endless-status-line": then_flood(b"HTTP/1.1 200 ", b"OK "),
        "large-head": reply(b"body", *[f"X-{number}: {'z' * 10_000}" for number in range(7)]),
        "nine-interims": bare_reply(status="103 Early Hints") * 9 + reply(b"body"),
        "endless-interims": then_flood(b"", bare_reply(status="103 Early Hints")),
        "large-interims": bare_reply(*fields(100), "X-Y: " + "z" * 9000, status="103 Hi") * 8 + reply(b"body"),
    },
    "body-too-large": {
        "length-10^15": then_flood(reply(length=HUGE), b"x"),
        "length-one-above": reply(b"x" * (SIZE_MAX + 1)),
        "chunk-of-2^64": then_flood(chunks(b"ffffffffffffffff\r\n"), b"x"),
        "endless-chunks": then_flood(chunks(b""), b"100\r\n" + b"x" * 256 + b"\r\n"),
        "endless-chunks-of-a-byte": then_flood(chunks(b""), b"1\r\nx\r\n"),
        "endless-end": then_flood(bare_reply(), b"x"),
    },
    "unverified-length": {
        "end": then_close(bare_reply() + b"body"),
        "end-at-once": then_close(bare_reply()),
        "end-in-http-1.0": then_close(bare_reply(version="HTTP/1.0") + b"body"),
        "end-that-is-told": then_close(bare_reply("Connection: close") + b"body"),
    },
    "redirect": {
        str(status): reply(b"", "Location: http://192.0.2.1/", status=f"{status} Go")
        for status in (300, 301, 302, 303, 304, 307, 308)
    }
    | {"to-a-file": reply(b"", "Location: file:///etc/passwd", status="301 Go")},
    "status": {
        str(status): reply(b"no", status=f"{status} No")
        for status in (400, 401, 403, 405, 412, 416, 418, 451, 600, 999)
    }
    | {"403-with-an-endless-name": reply(b"", status="403 " + "x" * 9000)},
    "absent": {str(status): reply(b"gone", status=f"{status} Gone") for status in (404, 410)},
}

TRIED_AGAIN: dict[str, Mapping[str, Behaviour]] = {
    "truncated": {
        "shorter": then_close(reply(b"bod", length=4)),
        "shorter-reset": then_reset(reply(b"bod", length=4)),
        "no-body": then_close(reply(length=4)),
        "no-last-chunk": then_close(chunks(b"4\r\nbody\r\n")),
        "last-chunk-cut": then_close(chunks(b"4\r\nbody\r\n0\r\n")),
        "chunk-cut": then_close(chunks(b"4\r\nbod")),
        "trailers-cut": then_close(chunks(b"4\r\nbody\r\n0\r\nX-Y: z\r\n")),
    },
    "reset": {
        "no-reply": then_close(b""),
        "no-reply-reset": then_reset(b""),
        "head-cut": then_close(reply(b"body")[:20]),
        "head-cut-before-its-end": then_close(reply()[:-1]),
        "head-cut-reset": then_reset(reply(b"body")[:20]),
        "interim-alone": then_close(bare_reply(status="103 Early Hints")),
    },
    "head-timeout": {
        "no-answer": then_stall(b""),
        "head-stalls": then_stall(reply(b"body")[:20]),
        "head-trickles": lambda exchange: exchange.trickle(reply(b"body"), 0.1),
        "interim-stalls": then_stall(bare_reply(status="103 Early Hints")),
    },
    "idle-timeout": {
        "body-stalls": then_stall(reply(b"bod", length=4)),
        "no-byte-of-the-body": then_stall(reply(length=4)),
        "chunk-stalls": then_stall(chunks(b"4\r\nbody\r\n")),
        "chunk-size-stalls": then_stall(chunks(b"4")),
        "end-stalls": then_stall(bare_reply() + b"body"),
    },
    "total-timeout": {
        "body-trickles": then_trickle(reply(length=100), b"x" * 100),
        "chunks-trickle": then_trickle(bare_reply(CHUNKS), b"1\r\nx\r\n" * 20),
        "end-trickles": then_trickle(bare_reply(), b"x" * 100),
    },
    "server-error": {
        str(status): reply(b"oops", status=f"{status} Oops") for status in (500, 501, 502, 504, 599, 408, 425)
    },
}


@dataclass(frozen=True)
class Finished:
    """A job with every reply above, each between targets with good replies."""

    report: fetchmill.Report
    dest: Path
    failures: dict[str, fetchmill.Failure]
    server: RawServer


def scripted() -> dict[str, Behaviour]:
    """Returns names and their scripts."""
    found: dict[str, Behaviour] = {
        f"complete-{name}": make(body_of(f"complete-{name}")) for name, make in COMPLETE.items()
    }
    found |= {f"empty-{name}": behaviour for name, behaviour in EMPTY.items()}
    for table in (REFUSED_AT_ONCE, TRIED_AGAIN):
        for kind, behaviours in table.items():
            found |= {f"{kind}-{name}": behaviour for name, behaviour in behaviours.items()}
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """Runs one job, and checks that nothing outside its destination changes."""
    canary = Canary(tmp_path_factory.mktemp("framing"))
    names = [f"{name}{after}" for name in scripted() for after in ("", "~1", "~2", "~3")]
    with RawServer(mirror(names, scripted())) as server:
        report = fetchmill.get(
            server.url,
            canary.dest,
            attempts=ATTEMPTS,
            max_size=SIZE_MAX,
            head_timeout=1.0,
            idle_timeout=1.0,
            total_timeout=2.0,
        )
        failures = {failure.name: failure for failure in fetchmill.failures(canary.dest)}
        yield Finished(report, canary.dest, failures, server)
    canary.assert_untouched()


def named(table: Mapping[str, Mapping[str, Behaviour]]) -> list[Any]:
    """Returns kind and name of each reply in a table."""
    return [
        pytest.param(kind, f"{kind}-{name}", id=f"{kind}-{name}") for kind, found in table.items() for name in found
    ]


@pytest.mark.parametrize("name", [f"complete-{name}" for name in COMPLETE])
def test_complete_reply_is_fetched(finished: Finished, name: str) -> None:
    """The object has exactly its own bytes."""
    assert name not in finished.failures
    assert (finished.dest / name).read_bytes() == body_of(name)


@pytest.mark.parametrize("name", [f"empty-{name}" for name in EMPTY])
def test_empty_reply_is_stored_as_empty_file(finished: Finished, name: str) -> None:
    """A 204 has no body, whatever the server sends."""
    assert name not in finished.failures
    assert (finished.dest / name).read_bytes() == b""


@pytest.mark.parametrize(("kind", "name"), named(REFUSED_AT_ONCE))
def test_bad_reply_fails_without_retry(finished: Finished, kind: str, name: str) -> None:
    """Only one attempt counts.

    Replies that are uncertain when their connection breaks are requested again without counting.
    """
    failure = finished.failures[name]

    assert (failure.outcome, failure.kind) == ("absent" if kind == "absent" else "failed", kind)
    assert failure.attempts == 1
    # A neighbour's bad reply breaks the connection, and its held replies are requested again.
    assert finished.server.count(f"/get/{name}") <= REQUESTS_MAX
    assert not (finished.dest / name).exists()


@pytest.mark.parametrize(("kind", "name"), named(TRIED_AGAIN))
def test_broken_reply_is_retried(finished: Finished, kind: str, name: str) -> None:
    """The target fails after its attempts. One extra request is free if a reused connection gave no answer at all."""
    failure = finished.failures[name]

    assert (failure.outcome, failure.kind, failure.attempts) == ("failed", kind, ATTEMPTS)
    assert ATTEMPTS <= finished.server.count(f"/get/{name}") <= 2 * ATTEMPTS
    assert not (finished.dest / name).exists()


def test_targets_around_bad_replies_are_fetched(finished: Finished) -> None:
    """Each target has its own bytes, and the ledger balances."""
    report = finished.report
    good = [f"{name}~{number}" for name in scripted() for number in (1, 2, 3)]

    assert {name: (finished.dest / name).read_bytes() for name in good} == {name: body_of(name) for name in good}
    assert report.fetched == len(good) + len(COMPLETE) + len(EMPTY)
    assert report.failed + report.absent == len(finished.failures)
    assert report.listed == report.fetched + report.absent + report.failed
    assert report.balanced
    assert report.finished


# --- transient failures ------------------------------------------------------------------------------------------

HEALED: dict[str, Behaviour] = {
    "500": reply(b"oops", status="500 Oops"),
    "408": reply(b"", "Connection: close", status="408 Request Timeout"),
    "425": reply(b"early", status="425 Too Early"),
    "429": reply(b"", "Retry-After: 0", status="429 Too Many Requests"),
    "503": reply(b"", "Retry-After: 0", status="503 Busy"),
    "closed": then_close(b""),
    "reset": then_reset(b""),
    "head-cut": then_close(b"HTTP/1.1 2"),
    "body-cut": then_close(reply(b"bod", length=400)),
    "body-reset": then_reset(reply(b"bod", length=400)),
    "chunks-cut": then_close(chunks(b"4\r\nbod")),
    "stalled": then_stall(b""),
}


def test_target_is_fetched_after_transient_failure(raw: Raw, canary: Canary) -> None:
    """The file has no bytes of the first attempt."""
    server = raw(mirror(HEALED, {name: in_turn(first, reply(body_of(name))) for name, first in HEALED.items()}))

    report = fetchmill.get(server.url, canary.dest, head_timeout=0.5)

    assert (report.fetched, report.failed) == (len(HEALED), 0)
    assert {name: (canary.dest / name).read_bytes() for name in HEALED} == {name: body_of(name) for name in HEALED}
    assert all(2 <= server.count(f"/get/{name}") <= 3 for name in HEALED)


def test_server_error_is_tried_five_times(raw: Raw, canary: Canary) -> None:
    """The failure has the last status and the number of attempts."""
    names = ["bad", *(f"good-{number}" for number in range(20))]
    server = raw(mirror(names, {"bad": reply(b"oops", status="500 Oops")}))

    report = fetchmill.get(server.url, canary.dest)

    [failure] = fetchmill.failures(canary.dest)
    assert (failure.name, failure.kind, failure.status, failure.attempts) == ("bad", "server-error", 500, 5)
    assert server.count("/get/bad") == 5
    assert (report.fetched, report.failures) == (20, {"server-error": 1})


def test_reply_cut_at_any_offset_is_refetched(raw: Raw, canary: Canary) -> None:
    """The connection is closed or reset at the offset, and the next attempt fetches the complete object."""
    whole = len(reply(body_of("close-000"))), len(chunked_reply(body_of("chunk-000")))
    cuts: dict[str, Behaviour] = {}
    for offset in range(whole[0]):
        for kind, cut in (("close", then_close), ("reset", then_reset)):
            name = f"{kind}-{offset:03}"
            text = reply(body_of(name))
            cuts[name] = in_turn(cut(text[:offset]), text)
    for offset in range(whole[1]):
        name = f"chunk-{offset:03}"
        text = chunked_reply(body_of(name))
        cuts[name] = in_turn(then_close(text[:offset]), text)
    names = [f"{name}{after}" for name in cuts for after in ("", "~1", "~2")]
    server = raw(mirror(names, cuts))

    report = fetchmill.get(server.url, canary.dest, limit=16)

    assert (report.fetched, report.failed) == (len(names), 0)
    assert {name: (canary.dest / name).read_bytes() for name in names} == {name: body_of(name) for name in names}


def test_reply_split_at_any_offset_is_read(raw: Raw, canary: Canary) -> None:
    """The reply is the same wherever TCP splits it."""
    pieces: dict[str, Behaviour] = {}

    def send_in_two(text: bytes, offset: int) -> Behaviour:
        return lambda exchange: exchange.send(text[:offset], text[offset:], pause=0.003)

    for kind, make in (("plain", reply), ("chunk", chunked_reply)):
        for offset in range(1, len(make(body_of(f"{kind}-000")))):
            name = f"{kind}-{offset:03}"
            pieces[name] = send_in_two(make(body_of(name)), offset)
    server = raw(mirror(pieces, pieces))

    report = fetchmill.get(server.url, canary.dest, limit=4)

    assert (report.fetched, report.attempts) == (len(pieces), len(pieces))
    assert {name: (canary.dest / name).read_bytes() for name in pieces} == {name: body_of(name) for name in pieces}


# --- Retry-After -------------------------------------------------------------------------------------------------


def at(offset: float) -> str:
    """Returns an HTTP date that is the given number of seconds from now."""
    return formatdate(time.time() + offset, usegmt=True)


# Fields of a 503, and the minimum and maximum delay of the next request in seconds. Without a usable time, the delay is
# a random part of 2 s, which may be 0.
PATIENCE: dict[str, tuple[Callable[[], list[str]], float, float]] = {
    "seconds": (lambda: ["Retry-After: 2"], 2.0, 4.0),
    "date": (lambda: [f"Date: {at(0)}", f"Retry-After: {at(2)}"], 2.0, 4.0),
    "date-of-a-wrong-clock": (lambda: [f"Date: {at(-7200)}", f"Retry-After: {at(-7198)}"], 2.0, 4.0),
    "date-in-the-past": (lambda: [f"Date: {at(0)}", f"Retry-After: {at(-1000)}"], 0.0, 3.0),
    "date-without-date": (lambda: [f"Retry-After: {at(3)}"], 1.9, 5.0),
    "zero": (lambda: ["Retry-After: 0"], 0.0, 3.0),
    "missing": (list, 0.0, 3.0),
    "empty": (lambda: ["Retry-After:"], 0.0, 3.0),
    "text": (lambda: ["Retry-After: soon"], 0.0, 3.0),
    "negative": (lambda: ["Retry-After: -1000"], 0.0, 3.0),
    "fraction": (lambda: ["Retry-After: 1.5"], 2.0, 4.0),
    "list": (lambda: ["Retry-After: 1000, 2000"], 0.0, 3.0),
    "half-a-date": (lambda: ["Retry-After: Fri, 31 Dec"], 0.0, 3.0),
    "no-date": (lambda: ["Retry-After: Fri, 99 Dec 2099 99:99:99 GMT"], 0.0, 3.0),
}


@pytest.mark.timing
def test_retry_after_is_respected(raw: Raw, canary: Canary) -> None:
    """`Retry-After` may be seconds, or a date on the server's own clock; anything else is ignored."""
    asked: dict[str, list[float]] = {name: [] for name in PATIENCE}

    def busy_once(name: str) -> Behaviour:
        def behave(exchange: Exchange) -> bytes:
            asked[name].append(time.monotonic())
            if exchange.number == 1:
                return reply(b"", *PATIENCE[name][0](), status="503 Busy")
            return reply(body_of(name))

        return behave

    server = raw(mirror(PATIENCE, {name: busy_once(name) for name in PATIENCE}))

    report = fetchmill.get(server.url, canary.dest)

    assert (report.fetched, report.failed) == (len(PATIENCE), 0)
    waited = {name: second - first for name, (first, second) in asked.items()}
    assert {
        name: round(waited[name], 2) for name, (_, low, high) in PATIENCE.items() if not low <= waited[name] <= high
    } == {}


def test_huge_retry_after_does_not_block_stop(start: Run, raw: Raw, canary: Canary) -> None:
    """The target waits in the journal, for at most 5 minutes, and the job stops quickly."""
    server = raw(mirror(["a", "b"], {"b": reply(b"", f"Retry-After: {HUGE}", status="503 Busy")}))
    process = start("get", server.url, canary.dest, "--commit-window", "50ms")
    while not (canary.dest / "a").exists() or not server.count("/get/b"):
        assert process.poll() is None
        time.sleep(0.01)

    process.terminate()
    _, err = process.communicate(timeout=120)

    status = fetchmill.status(canary.dest)
    assert process.returncode == 143, err
    assert (status.fetched, status.failed, status.pending, status.balanced) == (1, 0, 1, True)


# --- connections -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 8])
@pytest.mark.parametrize("end", ["close", "reset"])
def test_connection_closed_before_reply_costs_no_attempt(raw: Raw, canary: Canary, end: str, limit: int) -> None:
    """A server may close a kept-alive connection while a request is on its way."""
    names = [f"n{number:03}" for number in range(100)]

    def second_of_each_connection(name: str) -> Behaviour:
        def behave(exchange: Exchange) -> bytes | None:
            if exchange.turn == 1:
                return reply(body_of(name))
            (exchange.close if end == "close" else exchange.reset)()
            return None

        return behave

    server = raw(mirror(names, {name: second_of_each_connection(name) for name in names}))

    report = fetchmill.get(server.url, canary.dest, attempts=1, limit=limit)

    assert (report.fetched, report.failed) == (100, 0)
    assert all(server.count(f"/get/{name}") <= 2 for name in names)
    assert {name: (canary.dest / name).read_bytes() for name in names} == {name: body_of(name) for name in names}


@pytest.mark.parametrize(
    "make",
    [
        lambda body: then_close(reply(body, "Connection: close")),
        lambda body: then_close(reply(body, version="HTTP/1.0")),
        lambda body: then_close(reply(body)),
        lambda body: then_reset(reply(body)),
    ],
    ids=["told", "http-1.0", "not-told", "reset"],
)
def test_server_closing_after_each_reply_causes_no_failures(
    raw: Raw, canary: Canary, make: Callable[[bytes], Behaviour]
) -> None:
    """Each object has its own connection, and all are fetched."""
    names = [f"n{number:03}" for number in range(100)]
    server = raw(mirror(names, {name: make(body_of(name)) for name in names}))

    report = fetchmill.get(server.url, canary.dest, attempts=1, limit=4)

    assert (report.fetched, report.failed) == (100, 0)
    assert len(server.asked()) <= 200
    assert {name: (canary.dest / name).read_bytes() for name in names} == {name: body_of(name) for name in names}


def test_allow_eof_bodies_accepts_bodies_without_length(raw: Raw, canary: Canary) -> None:
    """With --allow-eof-bodies, the end of the connection is the end of the body; a truncated body is still detected."""
    names = ["plain", "http-1.0", "empty", "cut"]
    behaviours: dict[str, Behaviour] = {
        "plain": then_close(bare_reply() + b"plain"),
        "http-1.0": then_close(bare_reply(version="HTTP/1.0") + b"http-1.0"),
        "empty": then_close(bare_reply("Connection: close")),
        "cut": then_close(reply(b"c", length=3)),
    }

    report = fetchmill.get(raw(mirror(names, behaviours)).url, canary.dest, allow_eof_bodies=True, attempts=1)

    assert (report.fetched, report.failures) == (3, {"truncated": 1})
    found = {name: (canary.dest / name).read_bytes() for name in names[:3]}
    assert found == {"plain": b"plain", "http-1.0": b"http-1.0", "empty": b""}


def test_job_ends_when_outage_uses_up_attempts(raw: Raw, canary: Canary) -> None:
    """With one attempt per target, every target fails while the origin is down, and nothing waits forever."""
    names = [f"n{number:02}" for number in range(40)]
    server = raw(mirror(names, dict.fromkeys(names, then_close(b""))))

    report = fetchmill.get(server.url, canary.dest, attempts=1, limit=64, threads=2)

    assert (report.failed, report.failures) == (40, {"reset": 40})
    assert report.finished


# --- unsolicited bytes -------------------------------------------------------------------------------------------


def paced(names: list[str], scripted: dict[str, Behaviour], count: int, pause: float) -> dict[str, Behaviour]:
    """Returns routes of a server with small pages and pauses between them, so that connections are idle."""
    routes = mirror(names, scripted)
    starts = range(0, len(names), count)

    def page_at(start: int) -> Behaviour:
        def behave(exchange: Exchange) -> bytes:
            exchange.client_speaks(pause)
            return page(names[start : start + count], str(start + count) if start + count < len(names) else None)

        return behave

    return routes | {f"/list?next-marker={start}" if start else "/list": page_at(start) for start in starts}


def assert_own_bytes(dest: Path, names: list[str]) -> None:
    """Checks that each file has its own bytes."""
    wrong = {name: found for name in names if (found := (dest / name).read_bytes()) != body_of(name)}
    assert wrong == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [1, 8])
@pytest.mark.parametrize("every", [1, 3])
def test_second_reply_in_same_segment_is_dropped(raw: Raw, canary: Canary, every: int, limit: int) -> None:
    """The second reply is dropped, and its connection is not used again."""
    # After the first unsolicited response, fetchmill listens for 50 ms after each reply.
    names = [f"n{number:04}" for number in range(1000 if every == 1 else 40 * limit)]
    second = {
        name: reply(body_of(name)) + reply(body_of(names[number - 1]))
        for number, name in enumerate(names)
        if number % every == 0
    }

    report = fetchmill.get(raw(mirror(names, second)).url, canary.dest, limit=limit)

    assert (report.fetched, report.failed) == (len(names), 0)
    assert_own_bytes(canary.dest, names)


@pytest.mark.parametrize("limit", [1, 8])
def test_second_reply_on_idle_connection_is_dropped(raw: Raw, canary: Canary, limit: int) -> None:
    """The second reply is up to 50 ms late, and the connection is idle meanwhile."""
    names = [f"n{number:03}" for number in range(252)]
    delays = [0.005, 0.0, 0.002, 0.01, 0.02, 0.03, 0.05]
    sent: list[str] = []

    def with_a_second(number: int) -> Behaviour:
        def behave(exchange: Exchange) -> None:
            # The object is the last one of its page, so the next request comes only with the next page.
            is_last = number % 3 == 2
            exchange.send(reply(body_of(names[number])))
            if is_last and not exchange.client_speaks(delays[number // 3 % len(delays)]):
                sent.append(names[number])
                exchange.send(reply(body_of(names[number - 1])))

        return behave

    behaviours = {name: with_a_second(number) for number, name in enumerate(names)}
    server = raw(paced(names, behaviours, 3, 0.03))

    report = fetchmill.get(server.url, canary.dest, limit=limit, threads=1)

    assert (report.fetched, report.failed) == (252, 0)
    assert len(sent) >= 10
    assert_own_bytes(canary.dest, names)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [1, 8])
@pytest.mark.parametrize("delay", [None, 0.001, 0.01], ids=["at-once", "1ms", "10ms"])
def test_second_reply_on_busy_connection_is_detected(raw: Raw, canary: Canary, delay: float | None, limit: int) -> None:
    """After a first unsolicited response, one in its own segment is detected even on a busy connection."""
    names = [f"n{number:03}" for number in range(200)]

    def with_a_second(number: int) -> Behaviour:
        def behave(exchange: Exchange) -> None:
            own, other = reply(body_of(names[number])), reply(body_of(names[number - 1]))
            if number < 10:
                exchange.send(own + other if number == 0 else own)
            elif delay is None:
                exchange.send(own, other)
            else:
                exchange.send(own)
                if not exchange.client_speaks(delay):
                    exchange.send(other)

        return behave

    behaviours = {name: with_a_second(number) for number, name in enumerate(names)}
    server = raw(paced(names, behaviours, 10, 0.1) | {"/list?next-marker=10": page(names[10:])})

    report = fetchmill.get(server.url, canary.dest, limit=limit)

    assert (report.fetched, report.failed) == (200, 0)
    assert_own_bytes(canary.dest, names)


@pytest.mark.parametrize("limit", [1, 8])
@pytest.mark.parametrize("pause", [0.0, 0.002, 0.02])
def test_extra_bytes_after_body_cause_no_failures(raw: Raw, canary: Canary, pause: float, limit: int) -> None:
    """The bytes exceed the declared length, arrive late, and are not taken for the next reply."""
    names = [f"n{number:03}" for number in range(150)]

    def longer(name: str) -> Behaviour:
        return lambda exchange: exchange.send(reply(body_of(name)), b" and some more", pause=pause)

    server = raw(mirror(names, {name: longer(name) for name in names[::3]}))

    report = fetchmill.get(server.url, canary.dest, limit=limit, attempts=1)

    assert (report.fetched, report.failures) == (150, {})
    assert_own_bytes(canary.dest, names)
