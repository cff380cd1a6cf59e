"""An interrupted large object is resumed, or requested as a whole, and its bytes are never wrong.

A seed determines the random values and is printed if a case fails; FETCHMILL_SEED reproduces them.
"""

import gzip
import hashlib
import http.server
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fetchmill
from broken_bodies import MIB, RESUMED_BYTES_MIN, BrokenObject, CuttingRelay, asked_from, bytes_of, head_of
from certificates import Certificates
from lists import write_list
from nginx import Nginx, Site
from raw_server import Behaviour, Exchange, RawServer, bare_reply, in_turn, mirror, reply, then_close
from s3_stores import Versitygw
from stored import find_wrong, read_objects

Run = Callable[..., Any]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

FINISHED_WITH_FAILURES = 3
# limits/replies.rs: consecutive attempts that may bring less, and one more.
IN_VAIN = 3
BODY = bytes_of(1, 3 * MIB)
OTHER = bytes_of(2, 3 * MIB)
BROKEN_AT = 2 * MIB


def only(dest: Path, format: str = "files") -> bytes:
    """Returns the only stored object."""
    [(_, body)] = read_objects(dest, format)
    return body


def get(run: Run, server: RawServer, dest: Path, *options: object) -> Any:  # noqa: ANN401 - as `run`
    """Runs a job over a server's listing."""
    return run("get", server.url, dest, *options)


def reset(exchange: Exchange) -> None:
    """Resets the connection after the sent data has arrived, because a reset drops data in transit."""
    time.sleep(0.2)
    exchange.reset()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["files", "parquet", "tar", "jsonl"])
@pytest.mark.parametrize("end", [Exchange.close, reset], ids=["close", "reset"])
def test_repeatedly_interrupted_object_is_stored_whole(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, format: str, end: Callable[[Exchange], None]
) -> None:
    """The object breaks off at random offsets, more often than there are attempts. Its listed hash is correct."""
    seed = int(os.environ.get("FETCHMILL_SEED") or random.randrange(1 << 32))
    draw = random.Random(seed)
    body = bytes_of(seed, 16 * MIB + draw.randrange(1000))
    large = BrokenObject(body, [RESUMED_BYTES_MIN + draw.randrange(MIB) for _ in range(9)], end=end)
    url = f"{raw({'/large': large}).url}/large"
    listed = write_list(tmp_path, [{"url": url, "sha256": hashlib.sha256(body).hexdigest()}], "csv")
    done = run("get", listed, dest, "--format", format, "--hash-column", "sha256", "--allow-private")

    assert done.code == 0, (seed, done.err)
    assert only(dest, format) == body, seed
    assert len(large.firsts) > 5, seed
    assert large.firsts[0] == 0
    assert all(first >= RESUMED_BYTES_MIN for first in large.firsts[1:]), seed
    if end is Exchange.close:
        # All sent bytes had arrived, so nothing was sent twice.
        assert large.sent == len(body), seed
    assert fetchmill.status(dest).fetched == 1


def test_sync_resumes_interrupted_object(run: Run, raw: Raw, dest: Path) -> None:
    """A sync pass resumes an interrupted object, too."""
    large = BrokenObject(BODY, [BROKEN_AT])
    done = run("sync", raw(mirror(["large"], {"large": large})).url, dest)

    assert done.code == 0, done.err
    assert ((dest / "large").read_bytes(), large.firsts) == (BODY, [0, BROKEN_AT])


def test_stalled_body_is_resumed(run: Run, raw: Raw, dest: Path) -> None:
    """The attempt ends at a deadline, and the next one requests the rest."""
    large = BrokenObject(BODY, [BROKEN_AT], end=Exchange.stall)
    done = get(run, raw(mirror(["large"], {"large": large})), dest, "--idle-timeout", 1)

    assert done.code == 0, done.err
    assert (only(dest), large.firsts) == (BODY, [0, BROKEN_AT])


def test_resumed_object_has_metadata_of_first_reply(run: Run, raw: Raw, dest: Path) -> None:
    """The status and the header fields are those of the first reply."""
    large = BrokenObject(BODY, [BROKEN_AT], fields=["Content-Type: a/b", "X-Own: first"])
    done = get(run, raw(mirror(["large"], {"large": large})), dest, "--format", "warc")

    assert done.code == 0, done.err
    assert large.firsts == [0, BROKEN_AT]
    assert only(dest, "warc") == BODY
    [path] = dest.glob("*.warc*")
    packed = path.read_bytes()
    if path.suffix == ".gz":
        packed = gzip.decompress(packed)
    assert b"X-Own: first" in packed
    assert b"206 Partial" not in packed
    assert b"Content-Range" not in packed


def replaced(large: BrokenObject) -> None:
    """Serves another object of the same size instead."""
    large.body, large.etag = OTHER, '"v2"'


def test_object_replaced_meanwhile_is_fetched_from_start(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The reply to the request for the rest has the new object. Its hash starts at its first byte."""

    def end(exchange: Exchange) -> None:
        replaced(large)
        exchange.close()

    large = BrokenObject(BODY, [BROKEN_AT], end=end)
    url = f"{raw({'/large': large}).url}/large"
    listed = write_list(tmp_path, [{"url": url, "sha256": hashlib.sha256(OTHER).hexdigest()}], "csv")
    done = run("get", listed, dest, "--hash-column", "sha256", "--allow-private")

    assert done.code == 0, done.err
    assert (only(dest), large.firsts) == (OTHER, [0, BROKEN_AT])


def test_body_is_fetched_whole_when_server_ignores_ranges(run: Run, raw: Raw, dest: Path) -> None:
    """If the whole body breaks off, too, it counts as an attempt."""
    breaking = then_close(head_of(0, len(BODY), 'ETag: "v1"') + BODY[:BROKEN_AT])
    whole = head_of(0, len(BODY), 'ETag: "v1"') + BODY
    server = raw(mirror(["large"], {"large": in_turn(breaking, breaking, breaking, whole)}))
    done = get(run, server, dest)

    assert done.code == 0, done.err
    assert only(dest) == BODY
    assert server.count("/get/large") == 4
    # The start, and the body that replaced the rest, are one attempt each.
    endless = raw(mirror(["large"], {"large": breaking}))
    failed = get(run, endless, dest.with_name("failed"), "--attempts", 2)
    assert failed.code == FINISHED_WITH_FAILURES, failed.err
    assert [each.kind for each in fetchmill.failures(dest.with_name("failed"))] == ["truncated"]
    assert endless.count("/get/large") == 4


SAME = 'ETag: "v1"'
REST = len(BODY) - BROKEN_AT
LAST = len(BODY) - 1


def partial(content_range: str, *fields: str, length: int = REST) -> bytes:
    """Returns a 206 with wrong bytes."""
    return reply(OTHER[:length], f"Content-Range: {content_range}", *fields, status="206 Partial Content")


@pytest.mark.parametrize(
    "rests",
    [
        pytest.param(partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY)}", 'ETag: "v2"'), id="another-etag"),
        pytest.param(partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY)}", 'ETag: W/"v1"'), id="weak-etag"),
        pytest.param(partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY)}"), id="no-etag"),
        pytest.param(partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY) + 1}", SAME), id="another-length"),
        pytest.param(partial(f"bytes {BROKEN_AT}-{LAST}/*", SAME), id="no-length"),
        pytest.param(partial(f"bytes {BROKEN_AT - 1}-{LAST - 1}/{len(BODY)}", SAME), id="another-range"),
        pytest.param(partial(f"bytes 0-{LAST}/{len(BODY)}", SAME, length=len(BODY)), id="all-as-a-part"),
        pytest.param(partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY)}", SAME, length=REST - 1), id="too-short"),
        pytest.param(
            partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY)}", SAME, "Content-Type: multipart/byteranges; boundary=x"),
            id="multipart",
        ),
        pytest.param(partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY)}", SAME, "Content-Encoding: gzip"), id="encoded"),
        pytest.param(bare_reply(SAME, "Transfer-Encoding: chunked", status="206 P") + b"0\r\n\r\n", id="chunked"),
        pytest.param(reply(b"", f"Content-Range: bytes */{len(BODY)}", status="416 No"), id="416"),
        pytest.param(reply(b"no", status="404 Not Found"), id="404"),
        pytest.param(reply(b"no", status="403 Forbidden"), id="403"),
        pytest.param(reply(b"", status="503 Later"), id="503"),
        pytest.param(bare_reply(status="304 Not Modified"), id="304"),
        pytest.param(reply(b"", "Location: /get/elsewhere", status="302 Found"), id="redirect"),
        pytest.param(reply(OTHER, SAME, status="203 Other"), id="203"),
    ],
)
def test_mismatched_partial_reply_is_not_appended(run: Run, raw: Raw, dest: Path, rests: bytes) -> None:
    """The whole object is requested instead, and that reply counts."""
    large = BrokenObject(BODY, [BROKEN_AT], rests=rests)
    done = get(run, raw(mirror(["large"], {"large": large})), dest)

    assert done.code == 0, done.err
    assert (only(dest), large.firsts) == (BODY, [0, BROKEN_AT, 0])


def test_wrong_bytes_in_partial_reply_are_found_by_hash(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The head of the partial reply is correct, so only the object's hash reveals the error."""
    large = BrokenObject(BODY, [BROKEN_AT], rests=partial(f"bytes {BROKEN_AT}-{LAST}/{len(BODY)}", SAME))
    url = f"{raw({'/large': large}).url}/large"
    listed = write_list(tmp_path, [{"url": url, "sha256": hashlib.sha256(BODY).hexdigest()}], "csv")
    done = run("get", listed, dest, "--hash-column", "sha256", "--allow-private")

    assert done.code == 0, done.err
    assert (only(dest), large.firsts) == (BODY, [0, BROKEN_AT, 0])


@pytest.mark.parametrize(
    ("etag", "fields", "options"),
    [
        ("", [], ()),
        ('W/"v1"', [], ()),
        ("v1", [], ()),
        ('"v1"', ["Accept-Ranges: none"], ()),
        ('"v1"', ["Content-Encoding: br"], ()),
        ('"v1"', [], ("--compressed",)),
        ('"v1"', [], ("--engine", "threads")),
    ],
)
def test_object_is_fetched_whole_when_resume_is_unsafe(
    run: Run, raw: Raw, dest: Path, etag: str, fields: list[str], options: tuple[str, ...]
) -> None:
    """For example, there is no strong ETag, or a Python engine is used."""
    large = BrokenObject(BODY, [BROKEN_AT], etag=etag, fields=fields)
    done = get(run, raw(mirror(["large"], {"large": large})), dest, *options)

    assert done.code == 0, done.err
    assert (only(dest), large.firsts) == (BODY, [0, 0])


def test_small_partial_body_is_not_resumed(run: Run, raw: Raw, dest: Path) -> None:
    """Below 1 MiB, the whole object is requested."""
    large = BrokenObject(BODY, [RESUMED_BYTES_MIN - 1, RESUMED_BYTES_MIN])
    done = get(run, raw(mirror(["large"], {"large": large})), dest)

    assert done.code == 0, done.err
    assert (only(dest), large.firsts) == (BODY, [0, 0, RESUMED_BYTES_MIN])


def test_object_arriving_byte_by_byte_is_abandoned(run: Run, raw: Raw, dest: Path) -> None:
    """Both the number of attempts and the time between them are limited."""
    large = BrokenObject(BODY, [RESUMED_BYTES_MIN, 1, 1, 1, 1] * 2)
    began = time.monotonic()
    done = get(run, raw(mirror(["large"], {"large": large})), dest, "--attempts", 2)

    assert done.code == FINISHED_WITH_FAILURES, done.err
    assert [each.kind for each in fetchmill.failures(dest)] == ["truncated"]
    once = [0, *(RESUMED_BYTES_MIN + number for number in range(IN_VAIN + 1))]
    assert large.firsts == once * 2
    # This is twice 0.5 s, 1 s and 2 s.
    assert 7 <= time.monotonic() - began < 60


def test_attempts_with_progress_do_not_count(run: Run, raw: Raw, dest: Path) -> None:
    """With two attempts, a link that sends single bytes, and sometimes 1 MiB, transfers the whole object."""
    large = BrokenObject(bytes_of(3, 6 * MIB), [MIB, 1, 1, MIB, 1, 1, 1, MIB, 1, MIB])
    done = get(run, raw(mirror(["large"], {"large": large})), dest, "--attempts", 2)

    assert done.code == 0, done.err
    assert (only(dest), large.sent) == (large.body, len(large.body))


def test_single_attempt_makes_single_request(run: Run, raw: Raw, dest: Path) -> None:
    """With one attempt, the rest is not requested."""
    large = BrokenObject(BODY, [BROKEN_AT])
    done = get(run, raw(mirror(["large"], {"large": large})), dest, "--attempts", 1)

    assert (done.code, large.firsts) == (FINISHED_WITH_FAILURES, [0])


def test_partial_body_from_used_connection_is_not_resumed(run: Run, raw: Raw, dest: Path) -> None:
    """The reply may belong to another request: the object is requested on a fresh connection, without counting."""
    large = BrokenObject(BODY, [BROKEN_AT, BROKEN_AT])
    # These objects precede it, so that its first request is not the first on its connection.
    server = raw(mirror(["1", "2", "large"], {"large": large}))
    done = get(run, server, dest, "-j", 1, "--attempts", 2)

    assert done.code == 0, done.err
    assert dict(read_objects(dest, "files"))["large"] == BODY
    assert large.firsts == [0, 0, BROKEN_AT]


def test_interrupted_byte_range_is_requested_again_unchanged(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The same range is requested again, without a condition."""
    asked: list[bytes] = []

    def behave(exchange: Exchange) -> bytes | None:
        asked.append(next(line for line in exchange.head.split(b"\r\n") if line.lower().startswith(b"range:")))
        assert b"if-range" not in exchange.head.lower()
        whole = partial_of_body(5, 2 * MIB)
        if exchange.number > 1:
            return whole
        exchange.send(whole[: MIB + 1000])
        exchange.close()
        return None

    row = {"url": f"{raw({'/large': behave}).url}/large", "offset": "5", "length": str(2 * MIB)}
    columns = ("--offset-column", "offset", "--length-column", "length")
    done = run("get", write_list(tmp_path, [row], "csv"), dest, *columns, "--allow-private", "--format", "jsonl")

    assert done.code == 0, done.err
    assert only(dest, "jsonl") == BODY[5 : 5 + 2 * MIB]
    assert len(asked) == 2
    assert len(set(asked)) == 1


def partial_of_body(first: int, length: int) -> bytes:
    """Returns a part of the object."""
    content_range = f"Content-Range: bytes {first}-{first + length - 1}/{len(BODY)}"
    return reply(BODY[first : first + length], content_range, SAME, status="206 Partial Content")


def test_interrupted_post_is_not_resumed(run: Run, dest: Path, tmp_path: Path) -> None:
    """The rest of a reply to a POST cannot be requested."""
    heads: list[dict[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            heads.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.send_header("ETag", '"v1"')
            self.end_headers()
            self.wfile.write(BODY[:BROKEN_AT] if len(heads) == 1 else BODY)
            self.close_connection = True

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        listed = write_list(tmp_path, [{"url": f"http://127.0.0.1:{server.server_port}/large"}], "csv")
        options = ("--data", "a=b", "--idempotent", "--allow-private", "--format", "jsonl")
        done = run("get", listed, dest, *options)
        server.shutdown()

    assert done.code == 0, done.err
    assert only(dest, "jsonl") == BODY
    assert ["range" in head for head in heads] == [False, False]


def test_rest_is_requested_at_redirect_target(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """If the redirect's destination refuses the request, the whole object is requested at the listed URL."""
    expired = reply(b"expired", status="403 Forbidden")
    # The redirect used the same connection, so the first reply is not certain.
    first = BrokenObject(BODY, [BROKEN_AT, BROKEN_AT], rests=expired)
    second = BrokenObject(BODY)
    hop = in_turn(*(reply(b"", f"Location: /signed/{number}", status="302 Found") for number in (1, 2)))
    server = raw({"/large": hop, "/signed/1": first, "/signed/2": second})
    listed = write_list(tmp_path, [{"url": f"{server.url}/large"}], "csv")
    done = run("get", listed, dest, "--allow-private", "--format", "jsonl")

    assert done.code == 0, done.err
    assert only(dest, "jsonl") == BODY
    assert (first.firsts, second.firsts) == ([0, 0, BROKEN_AT], [0])
    assert server.asked("/large") == ["/large"] * 2


def test_resume_request_keeps_header_fields(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Header fields, which may grant access, and the condition also apply to the request for the rest."""
    heads: list[bytes] = []

    def behave(exchange: Exchange) -> bytes | None:
        heads.append(exchange.head)
        return large(exchange)

    large = BrokenObject(BODY, [BROKEN_AT])
    server = raw({"/large": behave})
    row = {"url": f"{server.url}/large", "known": '"v0"'}
    fields = ("--header", "X-Job: all", "--header", "If-None-Match: {known}", "--credentials-for", server.url)
    listed = write_list(tmp_path, [row], "csv")
    done = run("get", listed, dest, *fields, "--allow-private", "--format", "jsonl")

    assert done.code == 0, done.err
    assert (only(dest, "jsonl"), large.firsts) == (BODY, [0, BROKEN_AT])
    for field in (b"\r\nX-Job: all", b'\r\nIf-None-Match: "v0"'):
        assert [field in head for head in heads] == [True, True]


@pytest.mark.parametrize("over", ["http", "tls", "http2"])
def test_nginx_download_resumes_over_unreliable_link(
    run: Run, nginx: Callable[..., Nginx], certificates: Certificates, served: Path, dest: Path, over: str
) -> None:
    """The link is slow and is reset every 1.5 to 3 MiB. Little more is transferred than the object has."""
    body = bytes_of(4, 8 * MIB)
    (served / "large").write_bytes(body)
    leaf = None if over == "http" else certificates.good
    site = Site(leaf=leaf, http2=over == "http2", directives="limit_rate 16m;")
    server = nginx(site=site)
    port = urlsplit(server.url("site")).port
    assert port
    with CuttingRelay(port, [3 * MIB, 3 * MIB // 2, 3 * MIB // 2]) as relay:
        url = f"{'http' if over == 'http' else 'https'}://localhost:{relay.port}/"
        secured = () if over == "http" else ("--ca-file", certificates.ca_file)
        versions = ("--http2",) if over == "http2" else ("--no-http2",)
        done = run("get", url, dest, "-j", 2, "--attempts", 2, *secured, *versions)
        passed = relay.passed

    assert done.code == 0, done.err
    assert only(dest) == body
    statuses = [seen.status for seen in server.seen("site") if seen.path == "/large"]
    assert "206" in statuses
    # One whole object again, whose connection had brought the listing before.
    assert passed < len(body) + 3 * MIB + MIB


def test_s3_object_is_resumed(
    run: Run, versitygw: Versitygw, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """The request is signed, and the store's checksum covers the whole object."""
    body = bytes_of(5, 8 * MIB)
    versitygw.put("a/large", body)
    port = urlsplit(versitygw.endpoint).port
    assert port
    listed = write_list(tmp_path, [{"url": f"s3://{versitygw.bucket}/a/large"}], "csv")
    with CuttingRelay(port, [10**9, *[2 * MIB] * 3]) as relay:
        options = ("--endpoint-url", f"http://127.0.0.1:{relay.port}", "--format", "jsonl", "--attempts", "2")
        done = run("get", listed, dest, *options, env=environment | versitygw.environment())
        passed = relay.passed

    assert done.code == 0, done.err
    assert only(dest, "jsonl") == body
    assert passed < len(body) + MIB


def test_partial_body_is_discarded_after_kill(run: Run, start: Callable[..., Any], raw: Raw, dest: Path) -> None:
    """The object starts again, and nothing is left in the stage."""

    def end(exchange: Exchange) -> None:
        if len(large.firsts) < 2:
            exchange.close()
        else:
            exchange.stall()

    large = BrokenObject(BODY, [BROKEN_AT, 1], end=end)
    server = raw(mirror(["large"], {"large": large}))
    process = start("get", server.url, dest)
    until = time.monotonic() + 60
    while len(large.firsts) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert large.firsts == [0, BROKEN_AT]
    done = get(run, server, dest)

    assert done.code == 0, done.err
    assert find_wrong(dest, "files", {"large": BODY}) == []
    assert large.firsts == [0, BROKEN_AT, 0]
    assert [path for path in (dest / ".fetchmill").rglob("*") if path.is_file() and path.stat().st_size > MIB] == []


class AnyServer:
    """A server with random behaviour: it breaks off, replaces its object, ignores ranges, and sends wrong heads."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.versions = [draw.randbytes(5 * MIB // 2)]
        self.rests = 0

    def __call__(self, exchange: Exchange) -> None:
        """Answers a request."""
        draw = self._draw
        first, _ = asked_from(exchange)
        self.rests += first > 0
        if draw.random() < 0.2:
            self.versions.append(draw.randbytes(len(self.versions[-1])))
        body, etag = self.versions[-1], f'ETag: "{len(self.versions)}"'
        if first and draw.random() < 0.3:
            exchange.send(self.lie(first, body, etag))
            return
        if draw.random() < 0.2:
            first = 0
        exchange.send(head_of(first, len(body), etag))
        # Interruptions end at some point.
        breaks = draw.randrange(MIB, len(body)) if exchange.number < 5 else len(body)
        exchange.send(body[first : first + breaks])
        if first + breaks < len(body):
            exchange.close()

    def lie(self, first: int, body: bytes, etag: str) -> bytes:
        """Returns a reply with wrong bytes and a head that shows it."""
        wrong, length = bytes(len(body) - first), len(body)
        right = f"bytes {first}-{length - 1}/{length}"
        return self._draw.choice(
            [
                reply(wrong, f"Content-Range: {right}", 'ETag: "0"', status="206 P"),
                reply(wrong, f"Content-Range: {right}0", etag, status="206 P"),
                reply(wrong, f"Content-Range: {right}", f"Content-Range: {right}", etag, status="206 P"),
                reply(wrong[1:], f"Content-Range: {right}", etag, status="206 P"),
                reply(wrong, f"Content-Range: bytes 0-{len(wrong) - 1}/{length}", etag, status="206 P"),
                reply(b"", f"Content-Range: bytes */{length}", status="416 No"),
                reply(b"wrong", status="404 Not Found"),
                reply(wrong, etag, status="203 Other"),
            ]
        )


def test_stored_object_is_always_one_version_of_server_object(run: Run, raw: Raw, dest: Path) -> None:
    """Forty objects of servers with random behaviour are compared byte by byte."""
    seed = int(os.environ.get("FETCHMILL_SEED") or random.randrange(1 << 32))
    servers = {f"{number:02}": AnyServer(random.Random(seed + number)) for number in range(40)}
    done = get(run, raw(mirror(servers, servers)), dest, "-j", 8, "--attempts", 9)

    assert done.code == 0, (seed, done.err)
    stored = dict(read_objects(dest, "files"))
    assert stored.keys() == servers.keys(), seed
    wrong = [name for name, body in stored.items() if body not in servers[name].versions]
    assert wrong == [], seed
    assert sum(server.rests for server in servers.values()) > 10, seed
