"""The transports of the Python engines: one suite for both, against correct and faulty servers."""

import asyncio
import contextlib
import gc
import pickle
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import urllib3
import uvloop

import fetchmill._native
from certificates import Certificates
from concurrency import wait_for
from fetchmill.engines.answers import Answer, FailureAnswer, ReplyAnswer
from fetchmill.engines.body_memory import BODIES_BYTES_MAX, BodyMemory
from fetchmill.engines.http import address_policy, libraries
from fetchmill.engines.http.aiohttp_attempt import AsyncAttempt
from fetchmill.engines.http.aiohttp_transport import AiohttpTransport
from fetchmill.engines.http.requests_transport import RequestsTransport
from fetchmill.engines.transports import TransportOptions
from fetchmill.errors import InternalError, UsageError
from fetchmill.testing import Fault, Server, synthetic_body
from forward_proxy import ForwardProxy, read_head
from nginx import Nginx, Site
from raw_server import (
    Behaviour,
    Exchange,
    RawServer,
    bare_reply,
    chunked_reply,
    in_turn,
    reply,
    then_close,
    then_flood,
    then_reset,
    then_stall,
)

FIELDS = (("User-Agent", "fetchmill/test"), ("Accept-Encoding", "identity"))
CHUNKED = bare_reply("Transfer-Encoding: chunked")
MAX_SIZE = 100_000
# Far longer than any deadline of these tests.
PATIENCE = 30.0


@dataclass(frozen=True)
class Asked:
    """A target."""

    url: str
    fields: tuple[tuple[str, str], ...] = FIELDS
    sequence: int = 7
    name: str = "name"
    attempt: int = 1

    def headers(self) -> list[tuple[str, str]]:
        """Returns the fields of its request."""
        return list(self.fields)


Ask = Callable[..., Answer]
Open = Callable[..., Ask]


@pytest.fixture(params=["requests", "aiohttp", "aiohttp-uvloop", "untested requests", "untested aiohttp"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Starts transports with `TransportOptions`. The returned function makes one attempt at a URL.

    With an untested library version, transports use only its public API and keep no connection.
    """
    with contextlib.ExitStack() as stack:
        kind: str = request.param
        if kind.startswith("untested"):
            monkeypatch.setattr(aiohttp, "__version__", "99.0")
            monkeypatch.setattr(urllib3, "__version__", "99.0")

        def start(**options: Any) -> Ask:  # noqa: ANN401 - as the options are
            chosen = TransportOptions(**{"max_size": MAX_SIZE, **options})
            if kind.endswith("requests"):
                return _blocking(chosen, stack)
            return _awaiting(chosen, stack, uvloop.new_event_loop if kind == "aiohttp-uvloop" else None)

        yield start


@pytest.fixture
def keeps(request: pytest.FixtureRequest) -> bool:
    """Returns whether the transport that `opened` starts keeps connections."""
    kind: str = request.node.callspec.params["opened"]
    return not kind.startswith("untested")


def _blocking(options: TransportOptions, stack: contextlib.ExitStack) -> Ask:
    transport = RequestsTransport(options)
    state = transport.start()
    stack.callback(transport.done, state)
    return lambda url, *fields: _certain(transport, Asked(url, fields or FIELDS), state)


def _certain(transport: RequestsTransport, target: Asked, state: Any) -> Answer:  # noqa: ANN401 - the transport's own
    """Returns the answer to the only target, once it is certain."""
    (answer,) = transport.fetch(target, state) or transport.rest(state, is_idle=True)
    return answer


def _awaiting(
    options: TransportOptions, stack: contextlib.ExitStack, loop: Callable[[], asyncio.AbstractEventLoop] | None
) -> Ask:
    transport = AiohttpTransport(options)
    runner = stack.enter_context(asyncio.Runner(loop_factory=loop))
    given = Given(options.connections)
    state = runner.run(transport.start(given))
    stack.callback(lambda: runner.run(transport.done(state)))
    return lambda url, *fields: runner.run(_awaited(transport, Asked(url, fields or FIELDS), state, given))


class Given:
    """Receiver of the answers that a transport has held."""

    def __init__(self, limit: int = 1) -> None:
        self.limit = limit
        self.held = 0
        self.answers: list[Answer] = []
        self.body_memory = BodyMemory()
        self.again: list[Any] = []
        self.is_empty = asyncio.Event()
        self.is_empty.set()

    def hold(self, answer: Answer) -> None:
        """Records that an answer is held."""
        del answer
        self._count(1)

    def give(self, answers: list[Answer]) -> None:
        """Receives answers that have become certain."""
        self.answers += answers
        self._count(-len(answers))

    def ask_again(self, targets: list[Any], held_bytes: int) -> None:
        """Receives targets whose answers can never become certain."""
        del held_bytes
        self.again += targets
        self._count(-len(targets))

    def _count(self, more: int) -> None:
        self.held += more
        (self.is_empty.clear if self.held else self.is_empty.set)()


async def _awaited(transport: AiohttpTransport, target: Asked, state: Any, given: Given) -> Answer:  # noqa: ANN401 - the transport's own
    """Returns the answer to the only target, once it is certain."""
    answer = await transport.fetch(target, state)
    while answer is None:
        await asyncio.sleep(0.001)
        if given.again:
            answer = await transport.fetch(given.again.pop(), state)
        elif given.answers:
            answer = given.answers.pop()
    # The loop itself closes abandoned connections when it continues.
    await asyncio.sleep(0.001)
    return answer


def kind_of(answer: Answer) -> str:
    """Returns the kind of a failure."""
    assert isinstance(answer, FailureAnswer), answer
    assert answer.sequence == Asked.sequence
    return answer.kind


def body_of(answer: Answer) -> bytes:
    """Returns the body of a reply."""
    assert isinstance(answer, ReplyAnswer), answer
    assert answer.sequence == Asked.sequence
    return answer.body


@dataclass(frozen=True)
class Listener:
    """A server that gives every client the same answer and records the requests."""

    url: str
    heads: list[bytes]


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Starts such a server."""
    heads: list[bytes] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    heads.append(read_head(connection)[0])
                    connection.sendall(reply(b"x", "Connection: close"))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Listener(f"http://127.0.0.1:{server.getsockname()[1]}", heads)
        server.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE)


# Requests


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a/%2E%2E/b",
        "/a/../b/./c",
        "/%2e%2e//x//",
        "//other.test/y",
        "/a+b?x=%20&y=+&z",
        "/%zz%C3%a4",
        "/x?",
        "/?q",
        "/a?b?c=http://d.test/../e",
        "/!$&'()*,;=:@~[]{}|^`\"<>\\",
    ],
)
def test_url_is_requested_verbatim(
    opened: Open, raw: Callable[..., RawServer], target: str, request: pytest.FixtureRequest
) -> None:
    """No byte is quoted, folded or left out. A URL that aiohttp's public API cannot express is refused."""
    server = raw({target: reply(b"as it stands")})

    answer = opened()(server.url + target)

    if target == "/x?" and request.node.callspec.params["opened"] == "untested aiohttp":
        assert kind_of(answer) == "url"
        assert server.requests == []
    else:
        assert body_of(answer) == b"as it stands"
        assert server.requests == [target]


def test_url_without_path_requests_root(opened: Open, raw: Callable[..., RawServer]) -> None:
    """A URL without a path requests the root, because the request line must have a path."""
    server = raw({"/": reply(), "/?q": reply()})
    ask = opened()

    assert body_of(ask(server.url)) == body_of(ask(f"{server.url}?q")) == b""
    assert server.requests == ["/", "/?q"]


@pytest.mark.parametrize(
    "url", ["ftp://a.test/", "http://", "http://u:p@a.test/", "http://a.test/ä", "http://a.test:99999/"]
)
def test_invalid_url_is_not_requested(opened: Open, url: str) -> None:
    """URLs with a user and a password are refused, too: a list could send them to any host."""
    assert kind_of(opened()(url)) == "url"


@pytest.mark.parametrize(
    "host",
    ["[:::]", "[1.2.3.4]", "a..test", ".test", "-", "%41", "a_b.test", "~", "x" * 300, "999.999.999.999", "xn--a"],
)
def test_odd_host_gets_failure_not_exception(opened: Open, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for an unusual host returns an answer and never raises an exception."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "as told")

    ask = opened()
    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert kind_of(ask(f"http://{host}/")) in {"url", "dns-not-found"}
    assert kind_of(ask(f"https://{host}:81/?q")) in {"url", "dns-not-found"}


def test_request_has_only_its_targets_header_fields(opened: Open, listener: Listener) -> None:
    """The only other fields are `Host`, and `Connection` if the library sends it."""
    fields = (*FIELDS, ("X-Token", "one"), ("X-Token", "two"))

    body_of(opened()(f"{listener.url}/a", *fields))
    first, *lines = listener.heads[0].decode().split("\r\n")
    sent = [tuple(line.split(": ", 1)) for line in lines]

    assert first == "GET /a HTTP/1.1"
    assert ("Host", listener.url.removeprefix("http://")) in sent
    assert sorted(pair for pair in sent if pair[0] not in ("Host", "Connection")) == sorted(fields)


def test_request_has_no_header_fields_by_default(opened: Open, listener: Listener) -> None:
    """If a target has no header fields, its request has none, not even `User-Agent`."""
    body_of(opened()(f"{listener.url}/a", ("X-Only", "this")))
    names = [line.partition(b":")[0] for line in listener.heads[0].split(b"\r\n")[1:]]

    assert sorted(set(names) - {b"Connection"}) == [b"Host", b"X-Only"]


def test_environment_proxies_and_netrc_are_ignored(
    opened: Open,
    raw: Callable[..., RawServer],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Proxies from the environment and `~/.netrc` are ignored."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server = raw({"/a": reply(b"a")})

    assert body_of(opened()(f"{server.url}/a")) == b"a"


def test_kept_connection_is_reused(opened: Open, server: Callable[..., Server], keeps: bool) -> None:
    """A connection is reused while the server keeps it open. With an untested library, each request has its own."""
    running = server(synthetic=10)
    ask = opened()

    bodies = [body_of(ask(f"{running.url}/get/file-{number:012}")) for number in range(10)]

    assert bodies == [synthetic_body(f"file-{number:012}", 100) for number in range(10)]
    assert running.stats()["connections"] == (1 if keeps else 10)


def test_request_is_repeated_when_reused_connection_was_closed(
    opened: Open, raw: Callable[..., RawServer], keeps: bool
) -> None:
    """The request is repeated immediately on a fresh connection."""
    closing = in_turn(then_close(reply(b"first")), reply(b"second"))
    server = raw({"/a": closing, "/b": in_turn(then_reset(b""), reply(b"b")), "/c": reply(b"c")})
    ask = opened()

    assert body_of(ask(f"{server.url}/a")) == b"first"
    assert body_of(ask(f"{server.url}/a")) == b"second"
    # The connection is open when the request is sent, and is then reset without an answer.
    if not keeps:
        assert kind_of(ask(f"{server.url}/b")) == "reset"
    assert body_of(ask(f"{server.url}/b")) == b"b"
    assert server.asked("/b") == ["/b", "/b"]


def test_closed_connection_is_replaced_only_once_per_target(
    opened: Open, raw: Callable[..., RawServer], keeps: bool
) -> None:
    """If a server closes every connection, a target is requested only twice."""
    server = raw({"/a": reply(b"a"), "/b": then_close(b"")})
    ask = opened()

    body_of(ask(f"{server.url}/a"))

    assert kind_of(ask(f"{server.url}/b")) == "reset"
    assert server.count("/b") == (2 if keeps else 1)


@pytest.mark.parametrize("behaviour", [then_close(b""), then_reset(b"")], ids=["closed", "reset"])
def test_broken_fresh_connection_is_not_retried(
    opened: Open, raw: Callable[..., RawServer], behaviour: Behaviour
) -> None:
    """The request is made once: the transport does not decide about retries."""
    server = raw({"/a": behaviour})

    assert kind_of(opened()(f"{server.url}/a")) == "reset"
    assert server.count("/a") == 1


# Replies


def test_body_is_returned_undecoded(opened: Open, raw: Callable[..., RawServer]) -> None:
    """Nothing is decoded, whatever the header fields say. They are returned with the body."""
    fields = (
        "Content-Encoding: gzip",
        "Content-Type: text/plain",
        'ETag: "e"',
        "Last-Modified: then",
        "Retry-After: 3",
    )
    server = raw({"/a": reply(b"no gzip", *fields), "/b": reply(b"\0\xff" * 20_000)})
    ask = opened()

    assert ask(f"{server.url}/a") == ReplyAnswer(
        7, 200, b"no gzip", True, "text/plain", '"e"', "then", "3", content_encoding="gzip"
    )
    assert ask(f"{server.url}/b") == ReplyAnswer(7, 200, b"\0\xff" * 20_000)


@pytest.mark.parametrize("kind", ["message/rfc822", "multipart/mixed", "multipart/mixed; boundary=x"])
def test_response_head_is_not_parsed_as_mail(opened: Open, raw: Callable[..., RawServer], kind: str) -> None:
    """Header fields are not parsed as mail, although `http.client` does so."""
    server = raw({"/a": reply(b"a", f"Content-Type: {kind}")})

    assert opened()(f"{server.url}/a") == ReplyAnswer(7, 200, b"a", content_type=kind)


def test_redirect_is_returned_and_not_followed(opened: Open, raw: Callable[..., RawServer], keeps: bool) -> None:
    """A redirect is returned and not followed."""
    server = raw({"/a": reply(b"moved", "Location: http://[", status="302 Found"), "/b": reply(b"b")})
    ask = opened()

    assert ask(f"{server.url}/a") == ReplyAnswer(7, 302, b"moved", location="http://[")
    assert body_of(ask(f"{server.url}/b")) == b"b"
    assert server.connections == (1 if keeps else 2)


@pytest.mark.parametrize("status", ["404 Not Found", "503 Busy", "599 Odd"])
def test_error_status_is_returned_as_reply(opened: Open, raw: Callable[..., RawServer], status: str) -> None:
    """The transport returns error statuses; their meaning, and Retry-After, are handled elsewhere."""
    server = raw({"/a": reply(b"why", "Retry-After: 60", status=status)})

    answer = opened()(f"{server.url}/a")

    assert isinstance(answer, ReplyAnswer)
    assert (answer.status, answer.body, answer.retry_after) == (int(status[:3]), b"why", "60")
    assert server.count("/a") == 1


def test_transport_keeps_no_cookies(opened: Open, listener: Listener, raw: Callable[..., RawServer]) -> None:
    """A second request has the same header fields as the first."""
    server = raw({"/a": reply(b"", "Set-Cookie: a=b; Domain=127.0.0.1; Path=/")})
    ask = opened()

    body_of(ask(f"{server.url}/a"))
    body_of(ask(f"{listener.url}/a"))

    assert b"cookie" not in listener.heads[0].lower()


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_bodiless_status_needs_no_content_length(
    opened: Open, raw: Callable[..., RawServer], status: str, keeps: bool
) -> None:
    """A status without a body needs no length, and its connection stays usable."""
    server = raw({"/a": bare_reply(status=status), "/b": reply(b"b")})
    ask = opened()

    assert ask(f"{server.url}/a") == ReplyAnswer(7, int(status[:3]), b"")
    assert body_of(ask(f"{server.url}/b")) == b"b"
    assert server.connections == (1 if keeps else 2)


def test_chunked_body_is_reassembled(opened: Open, raw: Callable[..., RawServer]) -> None:
    """Chunks may arrive in any pieces."""
    text = chunked_reply(b"a", b"bc" * 1000, b"d")
    server = raw({"/a": text, "/b": lambda exchange: exchange.trickle(text[:60], 0.002) or exchange.send(text[60:])})
    ask = opened()

    assert ask(f"{server.url}/a") == ask(f"{server.url}/b") == ReplyAnswer(7, 200, b"a" + b"bc" * 1000 + b"d")


def test_interim_responses_are_skipped(opened: Open, raw: Callable[..., RawServer]) -> None:
    """Interim responses are not taken for final ones. Otherwise, the next target would get this target's reply."""
    interim = bare_reply(status="100 Continue") + bare_reply("Link: <a>", status="103 Early Hints")
    server = raw({"/a": lambda exchange: exchange.send(interim + reply(b"a")), "/b": reply(b"b")})
    ask = opened()

    assert [body_of(ask(f"{server.url}/{name}")) for name in "ab"] == [b"a", b"b"]


def test_eof_delimited_body_is_unverified(opened: Open, raw: Callable[..., RawServer]) -> None:
    """A body that ends with its connection may be incomplete, so it is not verified."""
    server = raw({"/a": then_close(bare_reply() + b"whole?")})

    assert opened()(f"{server.url}/a") == ReplyAnswer(7, 200, b"whole?", is_verified=False)


@pytest.mark.parametrize("end", [then_close, then_reset])
@pytest.mark.parametrize("text", [reply(b"abc", length=9), CHUNKED + b"9\r\nabc", CHUNKED + b"3\r\nabc\r\n0\r\n"])
def test_short_body_is_reported_as_truncated(
    opened: Open, raw: Callable[..., RawServer], end: Callable[[bytes], Behaviour], text: bytes
) -> None:
    """A short body is truncated, however its length is declared and its connection ends."""
    server = raw({"/a": end(text)})

    assert kind_of(opened()(f"{server.url}/a")) == "truncated"
    assert server.count("/a") == 1


@pytest.mark.parametrize("head", [reply(length=1 << 30), CHUNKED, bare_reply()])
def test_oversized_body_is_not_read_to_its_end(opened: Open, raw: Callable[..., RawServer], head: bytes) -> None:
    """A server that sends an endless body does not keep the transport busy."""
    gone = threading.Event()

    def behave(exchange: Exchange) -> None:
        try:
            then_flood(head, b"1000\r\n" + b"x" * 0x1000 + b"\r\n")(exchange)  # type: ignore[operator]
        finally:
            gone.set()

    server = raw({"/a": behave})

    assert kind_of(opened()(f"{server.url}/a")) == "body-too-large"
    assert gone.wait(PATIENCE)


def test_body_of_maximum_size_is_accepted(opened: Open, raw: Callable[..., RawServer]) -> None:
    """A body of exactly the maximum size is accepted."""
    server = raw({"/a": reply(b"x" * MAX_SIZE), "/b": chunked_reply(b"x" * MAX_SIZE)})
    ask = opened()

    assert len(body_of(ask(f"{server.url}/a"))) == len(body_of(ask(f"{server.url}/b"))) == MAX_SIZE


@pytest.mark.parametrize(
    "text", [b"SSH-2.0-OpenSSH\r\n", b"HTTQ/1.1 200 OK\r\n\r\n", b"HTTP/3.7 200 OK\r\n\r\n", b"\0" * 99 + b"\r\n"]
)
def test_non_http_reply_is_reported_as_malformed(
    opened: Open, raw: Callable[..., RawServer], text: bytes, request: pytest.FixtureRequest
) -> None:
    """A reply that is not HTTP is not retried like a broken connection.

    Only aiohttp's private API shows what is wrong.
    """
    server = raw({"/a": then_close(text)})
    is_told = request.node.callspec.params["opened"] != "untested aiohttp"

    assert kind_of(opened()(f"{server.url}/a")) == ("not-http" if is_told else "framing")


@pytest.mark.parametrize(
    "text",
    [
        reply(b"abc", "Content-Length: 4"),
        bare_reply("Content-Length: 3,3") + b"abc",
        bare_reply("Content-Length: +3") + b"abc",
        bare_reply("Content-Length: -3") + b"abc",
        reply(b"abc", "Transfer-Encoding: chunked"),
        bare_reply("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
        bare_reply("Transfer-Encoding: gzip") + b"abc",
        bare_reply("Transfer-Encoding: chunked", version="HTTP/1.0") + b"0\r\n\r\n",
        reply(b"abc", "no field"),
        b"HTTP/1.1 200 OK\r\n: value\r\nContent-Length: 3\r\n\r\nabc",
        reply(b"abc", "Name : value"),
        reply(b"abc", status="206 Partial Content"),
        bare_reply("Upgrade: x", "Connection: upgrade", status="101 Switching Protocols"),
        CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_ambiguous_framing_is_refused(opened: Open, raw: Callable[..., RawServer], text: bytes) -> None:
    """Ambiguous framing is refused, because the end of a body must be certain."""
    server = raw({"/a": then_close(text)})

    assert kind_of(opened()(f"{server.url}/a")) == "framing"


def test_endless_head_line_is_reported_as_head_too_large(
    opened: Open, raw: Callable[..., RawServer], request: pytest.FixtureRequest
) -> None:
    """The kind is `head-too-large`, and the rest of the line is not read."""
    server = raw({"/a": then_flood(b"HTTP/1.1 200 OK\r\nName: ", b"x")})
    is_told = request.node.callspec.params["opened"] != "untested aiohttp"

    assert kind_of(opened()(f"{server.url}/a")) == ("head-too-large" if is_told else "framing")


@pytest.mark.parametrize("flood", [b"name: value\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_endless_head_is_refused(opened: Open, raw: Callable[..., RawServer], flood: bytes) -> None:
    """The failure kind depends on the library."""
    server = raw({"/a": then_flood(b"HTTP/1.1 103 Early Hints\r\n", flood)})

    assert kind_of(opened(head_timeout=2.0)(f"{server.url}/a")) in {
        "head-too-large",
        "framing",
        "not-http",
        "head-timeout",
    }


@pytest.mark.sampled(2)
def test_faulty_server_gets_correct_answer_for_each_attempt(opened: Open, server: Callable[..., Server]) -> None:
    """Each attempt reports its own failure, and no attempt gets the body of another."""
    faults = [Fault("truncate", rate=0.2), Fault("reset", rate=0.2), Fault("status", status=503, rate=0.2)]
    running = server(synthetic=200, faults=faults)
    ask = opened()

    answers = {name: ask(f"{running.url}/get/{name}") for name in (f"file-{number:012}" for number in range(200))}

    assert {answer.kind for answer in answers.values() if isinstance(answer, FailureAnswer)} == {"truncated", "reset"}
    assert {answer.status for answer in answers.values() if isinstance(answer, ReplyAnswer)} == {200, 503}
    for name, answer in answers.items():
        if isinstance(answer, ReplyAnswer) and answer.status == 200:
            assert answer.body == synthetic_body(name, 100)


# Time


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (then_stall(b""), "head-timeout"),
        (then_stall(b"HTTP/1.1 200 OK\r\n"), "head-timeout"),
        (lambda exchange: exchange.trickle(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100, 0.1), "head-timeout"),
        (then_stall(reply(b"abc", length=9)), "idle-timeout"),
        (then_stall(CHUNKED + b"3\r\nab"), "idle-timeout"),
        (lambda exchange: exchange.send(reply(length=999)) or exchange.trickle(b"x" * 999, 0.1), "total-timeout"),
        (lambda exchange: exchange.send(CHUNKED) or exchange.trickle(b"1\r\nx\r\n" * 99, 0.1), "total-timeout"),
    ],
    ids=["silent", "half a head", "slow head", "half a body", "half a chunk", "slow body", "slow chunks"],
)
def test_each_request_phase_has_its_deadline(
    opened: Open, raw: Callable[..., RawServer], behaviour: Behaviour, kind: str
) -> None:
    """A server that sends single bytes cannot extend a deadline."""
    server = raw({"/a": behaviour})
    # The deadline under test is short, and the others are so long that they cannot come first.
    ask = opened(**{kind.replace("-", "_"): 0.5})
    began = time.monotonic()

    assert kind_of(ask(f"{server.url}/a")) == kind
    assert time.monotonic() - began < PATIENCE


def test_large_body_extends_total_timeout(opened: Open, raw: Callable[..., RawServer]) -> None:
    """Each 64 KiB adds one second. The body here takes longer than the timeout alone would allow."""
    piece = b"x" * (1 << 20)
    server = raw({"/a": lambda exchange: exchange.send(reply(length=3 * len(piece)), *[piece] * 3, pause=0.6)})

    assert body_of(opened(total_timeout=1.5, max_size=1 << 22)(f"{server.url}/a")) == piece * 3


def test_unanswered_connect_is_reported_as_connect_timeout(opened: Open) -> None:
    """The listener's backlog is full, so the operating system does not answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/"

        assert kind_of(opened(connect_timeout=0.8)(url)) == "connect-timeout"


def test_unanswered_handshake_is_reported_as_tls_timeout(opened: Open) -> None:
    """The listener accepts the connection but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"

        assert kind_of(opened(connect_timeout=0.8)(url)) == "tls-timeout"


def test_closed_port_is_reported_as_refused(opened: Open) -> None:
    """The connection is refused, both by address and by name."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ask = opened()

    assert kind_of(ask(f"http://127.0.0.1:{port}/")) == kind_of(ask(f"http://localhost:{port}/")) == "refused"


@pytest.mark.parametrize(
    ("number", "kind"),
    [(socket.EAI_NONAME, "dns-not-found"), (socket.EAI_NODATA, "dns-empty"), (socket.EAI_AGAIN, "dns")],
)
def test_dns_failure_reports_system_reason(
    opened: Open, monkeypatch: pytest.MonkeyPatch, number: int, kind: str
) -> None:
    """The failure has the operating system's reason."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(number, "as told")

    ask = opened()
    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert ask("http://name.test/") == FailureAnswer(7, kind, "as told")


# TLS


@pytest.mark.parametrize(
    ("leaf", "kind"),
    [
        ("good", None),
        ("expired", "tls-expired"),
        ("too_early", "tls-expired"),
        ("wrong_name", "tls-wrong-name"),
        ("self_signed", "tls-self-signed"),
        ("unknown_ca", "tls-unknown-ca"),
        ("wrong_purpose", "tls-certificate"),
    ],
)
def test_transport_reports_invalid_certificates_by_kind(
    opened: Open,
    certificates: Certificates,
    nginx: Callable[..., Nginx],
    served: Path,
    leaf: str,
    kind: str | None,
) -> None:
    """Certificates are checked only against the CA file. An insecure host may present any certificate."""
    (served / "a").write_bytes(b"a")
    site = nginx(site=Site(leaf=getattr(certificates, leaf)))
    trusting = opened(ca_file=str(certificates.ca_file))
    careless = opened(ca_file=str(certificates.ca_file), insecure_hosts=("localhost",))

    answer = trusting(f"{site.url('site')}/a")

    assert kind == (kind_of(answer) if isinstance(answer, FailureAnswer) else None)
    assert body_of(careless(f"{site.url('site')}/a")) == b"a"
    if kind is not None and leaf != "wrong_name":
        assert kind_of(careless(f"{site.url('site', '127.0.0.1')}/a")) == kind


def test_system_authorities_are_trusted_without_ca_file(
    opened: Open, certificates: Certificates, nginx: Callable[..., Nginx]
) -> None:
    """The system's authorities are trusted, and that of the tests is not."""
    site = nginx(site=Site(leaf=certificates.good))

    assert kind_of(opened()(f"{site.url('site')}/a")) == "tls-unknown-ca"


def test_tls_connections_are_reused(
    opened: Open,
    certificates: Certificates,
    nginx: Callable[..., Nginx],
    served: Path,
    keeps: bool,
) -> None:
    """One TLS handshake serves all requests."""
    (served / "a").write_bytes(b"a")
    site = nginx(site=Site(leaf=certificates.good))
    ask = opened(ca_file=str(certificates.ca_file))

    assert [body_of(ask(f"{site.url('site')}/a")) for _ in range(5)] == [b"a"] * 5
    assert len({seen.connection for seen in site.seen("site")}) == (1 if keeps else 5)


def test_server_without_tls_is_reported_as_such(opened: Open, nginx: Callable[..., Nginx]) -> None:
    """A server without TLS is distinguished from one that breaks off the handshake."""
    site = nginx(site=Site())
    with socket.create_server(("127.0.0.1", 0)) as closing:
        thread = threading.Thread(target=accept_and_close, args=(closing,))
        thread.start()
        ask = opened()

        assert kind_of(ask(f"https://localhost:{site.ports['site']}/")) == "tls"
        assert kind_of(ask(f"https://127.0.0.1:{closing.getsockname()[1]}/")) == "reset"
        thread.join(PATIENCE)


def accept_and_close(listening: socket.socket) -> None:
    """Accepts and closes one connection."""
    with listening.accept()[0]:
        pass


@pytest.mark.parametrize("text", [reply(b"abc", length=9), bare_reply() + b"abc"], ids=["told", "untold"])
def test_tls_end_without_close_notify_is_not_trusted(
    opened: Open, certificates: Certificates, text: bytes, request: pytest.FixtureRequest
) -> None:
    """An attacker could have cut the body. If aiohttp does not notice this, the body is at least not verified."""
    is_noticed = b"Length" in text or request.node.callspec.params["opened"].endswith("requests")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.good.chain, certificates.good.key)

    def serve() -> None:
        with context.wrap_socket(listening.accept()[0], server_side=True) as connection:
            connection.recv(1 << 16)
            connection.sendall(text)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        ask = opened(ca_file=str(certificates.ca_file))
        answer = ask(f"https://localhost:{listening.getsockname()[1]}/")
        thread.join(PATIENCE)

    expected = FailureAnswer(7, "truncated") if is_noticed else ReplyAnswer(7, 200, b"abc", is_verified=False)
    assert answer._replace(detail=None) == expected if isinstance(answer, FailureAnswer) else answer == expected


def test_ca_file_without_certificates_stops_job(opened: Open, tmp_path: Path) -> None:
    """The error does not count as a failure of a target."""
    (tmp_path / "empty.pem").write_text("")

    with pytest.raises(UsageError, match=r"empty\.pem"):
        opened(ca_file=str(tmp_path / "empty.pem"))("https://127.0.0.1:9/")


# Proxies


def test_proxy_gets_absolute_form_request(
    opened: Open, raw: Callable[..., RawServer], proxy: Callable[..., ForwardProxy]
) -> None:
    """The proxy gets its password, and the target's request is unchanged."""
    server = raw({"/a//%2e": then_close(reply(b"a"))})
    between = proxy("us er:pässword")
    ask = opened(proxy=between.url("us%20er:p%C3%A4ssword"))

    for _ in range(2):
        assert body_of(ask(f"{server.url}/a//%2e?x=%20")) == b"a"
    assert [(asked.method, asked.target) for asked in between.asked] == [("GET", f"{server.url}/a//%2e?x=%20")] * 2
    assert server.requests == ["/a//%2e?x=%20"] * 2


def test_https_origin_is_reached_through_proxy_tunnel(
    opened: Open,
    certificates: Certificates,
    nginx: Callable[..., Nginx],
    proxy: Callable[..., ForwardProxy],
    served: Path,
) -> None:
    """The origin's certificate is checked, and the proxy's password does not go through the tunnel."""
    (served / "a").write_bytes(b"a")
    site = nginx(good=Site(leaf=certificates.good), bad=Site(leaf=certificates.expired))
    between = proxy("user:secret")
    ask = opened(proxy=between.url(), ca_file=str(certificates.ca_file))

    assert [body_of(ask(f"{site.url('good')}/a")) for _ in range(2)] == [b"a", b"a"]
    assert kind_of(ask(f"{site.url('bad')}/a")) == "tls-expired"
    # On a busy machine, a reply may be so slow that its connection rests. The next request then gets its own tunnel.
    assert {asked.method for asked in between.asked} == {"CONNECT"}
    assert 2 <= len(between.asked) <= 3
    assert {seen.proxy_authorization for seen in site.seen("good")} == {""}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "proxy"),
        (b"HTTP/1.1 429 Slow Down\r\nContent-Length: 0\r\n\r\n", "proxy"),
        (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "proxy-refused"),
        (b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n", "proxy-refused"),
        (b"SSH-2.0-OpenSSH\r\n", "proxy-refused"),
        (b"", "reset"),
    ],
)
def test_failed_proxy_tunnel_is_reported_by_kind(opened: Open, answer: bytes, kind: str) -> None:
    """The proxy either cannot or will not open the tunnel."""

    def serve() -> None:
        with closing.accept()[0] as connection:
            read_head(connection)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as closing:
        thread = threading.Thread(target=serve)
        thread.start()

        assert kind_of(opened(proxy=f"http://127.0.0.1:{closing.getsockname()[1]}")("https://a.test/")) == kind
        thread.join(PATIENCE)


def test_silent_proxy_is_reported_as_connect_timeout(opened: Open) -> None:
    """Opening the tunnel is part of connecting."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ask = opened(proxy=f"http://127.0.0.1:{silent.getsockname()[1]}", connect_timeout=0.8, head_timeout=0.8)

        assert kind_of(ask("https://a.test/")) == "connect-timeout"
        assert kind_of(ask("http://a.test/")) == "head-timeout"


@pytest.mark.parametrize("without", ["*", "127.0.0.1", "127.0.0.0/8", "0.1", "localhost"])
def test_no_proxy_hosts_bypass_proxy(
    opened: Open, raw: Callable[..., RawServer], proxy: Callable[..., ForwardProxy], without: str
) -> None:
    """The rules are those of the native engine: the end of an IP address does not match like a domain."""
    server = raw({"/a": reply(b"a")})
    between = proxy()
    proxies = {"http": between.url(), "https": "http://127.0.0.1:9", "without": [without]}

    assert body_of(opened(proxy=proxies)(f"{server.url}/a")) == b"a"
    assert len(between.asked) == (without in ("localhost", "0.1"))


# Allowed addresses


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the checked addresses. Only 127.0.0.2 counts as public."""
    seen: list[str] = []

    def is_public(address: str) -> bool:
        seen.append(address)
        return address == "127.0.0.2"

    monkeypatch.setattr(fetchmill._native, "is_public", is_public, raising=False)
    return seen


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "2130706433", "0x7f.1", "127.1", "localhost", "[::ffff:127.0.0.1]"]
)
def test_private_address_gets_no_connection_with_public_only(opened: Open, judged: list[str], host: str) -> None:
    """This holds for every notation of the address, and its listener sees no connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        answer = opened(public_only=True)(f"http://{host}:{listening.getsockname()[1]}/")

        assert kind_of(answer) == "private-address"
        with pytest.raises(TimeoutError):
            listening.accept()
    assert judged


def test_name_with_public_and_private_address_is_refused(
    opened: Open, judged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a name could be public when it is checked and private when it is used."""
    _look_up_as(monkeypatch, "127.0.0.2", "127.0.0.3")

    assert kind_of(opened(public_only=True)("http://name.test/")) == "private-address"
    assert judged == ["127.0.0.2", "127.0.0.3"]


def test_connection_goes_to_checked_address(opened: Open, judged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked up only once."""
    looked_up = _look_up_as(monkeypatch, "127.0.0.2")
    with socket.create_server(("127.0.0.2", 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as connection:
                read_head(connection)
                connection.sendall(reply(b"public", "Connection: close"))

        thread = threading.Thread(target=serve)
        thread.start()
        answer = opened(public_only=True)(f"http://name.test:{listening.getsockname()[1]}/")
        thread.join(PATIENCE)

    assert body_of(answer) == b"public"
    assert set(judged) == {"127.0.0.2"}
    assert looked_up == ["name.test"]


def test_untested_aiohttp_cannot_bypass_address_check(monkeypatch: pytest.MonkeyPatch, judged: list[str]) -> None:
    """A string that aiohttp treats as an address never reaches the resolver, so each socket is checked, too."""
    monkeypatch.setattr(aiohttp, "__version__", "99.0")
    monkeypatch.setattr(address_policy, "check_host", lambda _host: None)
    with contextlib.ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        ask = _awaiting(TransportOptions(public_only=True), stack, None)

        assert kind_of(ask(f"http://127.0.0.1:{listening.getsockname()[1]}/")) == "private-address"
        with pytest.raises(TimeoutError):
            listening.accept()
    assert judged == ["127.0.0.1"]


def test_job_ends_when_untested_aiohttp_keeps_connection(
    monkeypatch: pytest.MonkeyPatch, raw: Callable[..., RawServer]
) -> None:
    """The next reply on a kept connection could belong to another request."""

    class Connector(aiohttp.TCPConnector):
        def __init__(self, *, force_close: bool, **options: Any) -> None:  # noqa: ANN401
            """Accepts the argument and ignores it."""
            assert force_close
            super().__init__(**options)

    monkeypatch.setattr(aiohttp, "__version__", "99.0")
    monkeypatch.setattr(aiohttp, "TCPConnector", Connector)
    server = raw({"/a": lambda exchange: exchange.send(reply(b"a"))})
    with contextlib.ExitStack() as stack:
        ask = _awaiting(TransportOptions(), stack, None)

        assert body_of(ask(f"{server.url}/a")) == b"a"
        with pytest.raises(InternalError, match=r"aiohttp 99\.0 kept a connection open"):
            ask(f"{server.url}/a")


def test_aiohttp_without_required_api_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the aiohttp version, the missing part and the remedy."""

    class Connector(aiohttp.TCPConnector):
        def __init__(self, *, limit: int, force_close: bool, resolver: Any, ttl_dns_cache: int) -> None:  # noqa: ANN401
            """Works like versions before 3.12."""

    monkeypatch.setattr(aiohttp, "__version__", "3.11.18")
    monkeypatch.setattr(aiohttp, "TCPConnector", Connector)

    with contextlib.ExitStack() as stack, pytest.raises(UsageError) as told:
        _awaiting(TransportOptions(public_only=True), stack, None)
    assert str(told.value).startswith("aiohttp 3.11.18 cannot be used (")
    assert "socket_factory" in str(told.value)
    assert "pip install 'fetchmill[engines]'" in str(told.value)


def test_proxy_may_have_private_address_with_public_only(
    opened: Open, judged: list[str], proxy: Callable[..., ForwardProxy], raw: Callable[..., RawServer]
) -> None:
    """The proxy resolves names, but hosts that are IP addresses are still checked."""
    server = raw({"/a": reply(b"a")})
    between = proxy()
    ask = opened(proxy=f"http://localhost:{between.port}", public_only=True)

    assert body_of(ask(f"{server.url}/a".replace("127.0.0.1", "localhost"))) == b"a"
    assert judged == []
    assert kind_of(ask(f"{server.url}/a")) == "private-address"
    assert len(between.asked) == 1


def test_addresses_are_not_checked_without_public_only(
    opened: Open, judged: list[str], raw: Callable[..., RawServer]
) -> None:
    """Without `public_only`, loopback is allowed like any other address."""
    server = raw({"/a": reply(b"a")})

    assert body_of(opened()(f"{server.url}/a")) == b"a"
    assert judged == []


def _look_up_as(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Makes `name.test` resolve to these addresses. Returns the names that are looked up from then on."""
    looked_up: list[str] = []
    look_up = socket.getaddrinfo

    def give(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the function's
        if options.get("flags", 0) & socket.AI_NUMERICHOST or host not in ("name.test", b"name.test"):
            return look_up(host, port, *arguments, **options)
        looked_up.append("name.test")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", give)
    return looked_up


# Workers


def test_transport_can_be_pickled() -> None:
    """A transport that is created in the parent can be started in a child process."""
    options = TransportOptions(connections=3, proxy={"http": "http://a:b@127.0.0.1:9", "without": ["x"]})

    for made in (RequestsTransport(options), AiohttpTransport(options)):
        assert type(pickle.loads(pickle.dumps(made))) is type(made)  # noqa: S301 - what was just written


def test_event_loop_has_requests_in_flight_up_to_limit(server: Callable[..., Server]) -> None:
    """The loop has as many requests and connections as its limit, and leaves no thread."""
    running = server(synthetic=100, delay=(0.02, 0.02))
    names = [f"file-{number:012}" for number in range(100)]
    here = running.url.replace("127.0.0.1", "localhost")

    async def fetch_all() -> list[Answer]:
        transport = AiohttpTransport(TransportOptions(connections=10))
        given = Given(10)
        state = await transport.start(given)
        answers = await asyncio.gather(*(transport.fetch(Asked(f"{here}/get/{name}"), state) for name in names))
        await given.is_empty.wait()
        await transport.done(state)
        return [answer for answer in answers if answer is not None] + given.answers

    bodies = [body_of(answer) for answer in asyncio.run(fetch_all())]

    assert sorted(bodies) == sorted(synthetic_body(name, 100) for name in names)
    # On a busy machine, a reply may take 50 ms: its connection then rests or ends, and another one replaces it. A
    # client without a limit would have one for each of the hundred.
    assert 10 <= running.stats()["connections"] < len(names)
    assert wait_for(lambda: not any("lookup" in thread.name for thread in threading.enumerate()))


def test_request_leaves_no_reference_cycle(server: Callable[..., Server]) -> None:
    """Garbage collection of such cycles used to take a tenth of the processor time."""
    running = server(synthetic=100)

    async def fetch_all() -> int:
        transport, given = AiohttpTransport(TransportOptions()), Given()
        state = await transport.start(given)
        for number in range(100):
            await asyncio.create_task(_fetch(transport, f"{running.url}/get/file-{number:012}", state))
        await given.is_empty.wait()
        left = sum(isinstance(each, AsyncAttempt) for each in gc.get_objects())
        await transport.done(state)
        return left

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(fetch_all()) < 10
    finally:
        gc.enable()


async def _fetch(transport: AiohttpTransport, url: str, state: Any) -> None:  # noqa: ANN401 - the transport's own
    await transport.fetch(Asked(url), state)


def test_threads_sharing_transport_have_own_connections(server: Callable[..., Server]) -> None:
    """Each thread has its own connection."""
    running = server(synthetic=100)
    transport = RequestsTransport(TransportOptions())
    names = [f"file-{number:012}" for number in range(100)]
    bodies: dict[str, bytes] = {}

    def work(own: list[str]) -> None:
        state = transport.start()
        for name in own:
            bodies[name] = body_of(_certain(transport, Asked(f"{running.url}/get/{name}"), state))
        transport.done(state)

    threads = [threading.Thread(target=work, args=(names[first::4],)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert bodies == {name: synthetic_body(name, 100) for name in names}
    assert running.stats()["connections"] == 4


@pytest.mark.parametrize("body", [reply(bytes(4 << 20)), chunked_reply(*[bytes(1 << 18)] * 16)])
def test_deadlines_pause_while_body_waits_for_memory(raw: Callable[..., RawServer], body: bytes) -> None:
    """The body may wait longer than any deadline, and is then read on the same connection."""
    server = raw({"/a": body})
    options = TransportOptions(idle_timeout=0.3, total_timeout=0.5, max_size=8 << 20)

    async def fetch() -> Answer:
        transport, given = AiohttpTransport(options), Given()
        state = await transport.start(given)
        given.body_memory.note(ReplyAnswer(0, 200, bytes(BODIES_BYTES_MAX)))
        fetching = asyncio.ensure_future(transport.fetch(Asked(f"{server.url}/a"), state))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(fetching), 1.0)
        assert given.body_memory.used == BODIES_BYTES_MAX, "not a byte more was admitted"
        given.body_memory.release(BODIES_BYTES_MAX)
        answer = await fetching
        await given.is_empty.wait()
        await transport.done(state)
        return answer or given.answers[0]

    assert body_of(asyncio.run(fetch())) == bytes(4 << 20)
    assert (server.connections, server.asked("/a")) == (1, ["/a"])


@pytest.mark.parametrize(("library", "transport"), [("requests", RequestsTransport), ("aiohttp", AiohttpTransport)])
def test_missing_library_is_named_in_error(
    monkeypatch: pytest.MonkeyPatch, library: str, transport: Callable[[TransportOptions], object]
) -> None:
    """The error says in one line what to do, before anything is started."""
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(UsageError) as told:
        transport(TransportOptions())
    assert library in str(told.value)
    assert "pip install 'fetchmill[engines]'" in str(told.value)
    assert "\n" not in str(told.value)


def test_broken_library_is_not_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The missing module is a dependency of the library."""
    (tmp_path / "broken_library.py").write_text("import of_nobody\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="of_nobody"):
        libraries.import_library("broken_library")


@pytest.mark.parametrize("bad", ["http:///no-host", "http://127.0.0.1/\n"])
def test_bad_url_keeps_blocking_connection_usable(raw: Callable[..., RawServer], bad: str) -> None:
    """The next reply is not the first one of its connection, so it is held like the earlier ones."""
    server = raw({f"/{name}": reply(name.encode()) for name in "abc"})
    transport = RequestsTransport(TransportOptions(max_size=MAX_SIZE))
    state = transport.start()

    first = transport.fetch(Asked(f"{server.url}/a"), state)
    held = transport.fetch(Asked(f"{server.url}/b"), state)
    failed = transport.fetch(Asked(bad), state)
    later = transport.fetch(Asked(f"{server.url}/c"), state)
    rested = transport.rest(state, is_idle=True)
    transport.done(state)

    assert [len(answers) for answers in (first, held, failed, later)] == [1, 0, 1, 0]
    assert kind_of(failed[0]) == "url"
    assert [answer.body for answer in rested if isinstance(answer, ReplyAnswer)] == [b"b", b"c"]


def test_connection_is_closed_after_failed_reply(raw: Callable[..., RawServer]) -> None:
    """The next reply is certain only because it is the first one of another connection."""
    large = chunked_reply(b"x" * 600, b"x" * 600)
    server = raw({"/a": reply(b"a"), "/large": large, "/b": reply(b"b")})
    transport = RequestsTransport(TransportOptions(max_size=1000))
    state = transport.start()

    for name in ("a", "large", "b"):
        transport.fetch(Asked(f"{server.url}/{name}"), state)
    transport.rest(state, is_idle=True)
    transport.done(state)

    assert server.connections >= 2
