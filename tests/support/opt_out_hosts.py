"""Two hundred hosts with all forms of robots.txt and of opt-out, and handwritten verdicts for each object.

Each host is an address of the loopback network, on one port. The server shares no code with the project.
"""

import asyncio
import contextlib
import gzip
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

COUNT = 200
HTML = "Content-Type: text/html; charset=utf-8"
FREE = None
ENDS = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
# A reply that never comes, and one that breaks off.
HANGS, BREAKS = b"<hangs>", b"<breaks>"


def reply(body: bytes = b"", *fields: str, status: str = "200 OK") -> bytes:
    """Returns an HTTP/1.1 reply."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields])
    return f"{head}\r\n\r\n".encode() + body


NOT_FOUND = reply(status="404 Not Found")


@dataclass(frozen=True)
class Host:
    """The replies of a host, and the expected verdicts.

    Args:
        robots: the reply to its robots.txt.
        expected: the evidence or the failure kind for each object's path; FREE means that it is fetched.
        replies: replies of other paths; an object without one is plain.
        requests: number of requests for its robots.txt.
    """

    robots: bytes
    expected: Mapping[str, str | None]
    replies: Mapping[str, bytes] = field(default_factory=dict)
    requests: int = 1


def rule(text: str) -> str:
    """Returns the evidence of a rule."""
    return f"robots.txt: Disallow: {text}"


# Plain robots.txt files, and the verdicts.
RULES: list[tuple[str, dict[str, str | None]]] = [
    ("", {"/a": FREE}),
    ("User-agent: *\nDisallow:\n", {"/a": FREE}),
    ("User-agent: *\nDisallow: /\n", {"/a": rule("/"), "/": rule("/")}),
    ("User-agent: *\nDisallow: /a\n", {"/a": rule("/a"), "/ab": rule("/a"), "/b": FREE, "/A": FREE}),
    ("User-agent: *\nDisallow: /a/\nAllow: /a/b\n", {"/a/x": rule("/a/"), "/a/b": FREE, "/a": FREE}),
    ("User-agent: *\nAllow: /p\nDisallow: /\n", {"/page": FREE, "/x": rule("/")}),
    ("User-agent: *\nDisallow: /x\nAllow: /x\n", {"/x": FREE}),
    ("User-agent: *\nDisallow: /*.gif$\n", {"/a.gif": rule("/*.gif$"), "/a.gifs": FREE, "/a.gif?x": FREE}),
    ("User-agent: *\nDisallow: /*?s=\n", {"/a?s=1": rule("/*?s="), "/a?t=1": FREE}),
    ("User-agent: *\nDisallow: /p*q*r\n", {"/p-q-r": rule("/p*q*r"), "/prq": FREE}),
    ("User-agent: *\nDisallow: /caf%C3%A9\n", {"/caf%c3%a9": rule("/caf\u00e9"), "/cafe": FREE}),
    ("User-agent: fetchmill\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n", {"/a": rule("/a"), "/b": FREE}),
    ("User-agent: *\nDisallow: /\n\nUser-agent: FetchMill/2.0\nDisallow: /a\n", {"/a": rule("/a"), "/b": FREE}),
    ("User-agent: fetchmillion\nDisallow: /\n", {"/a": FREE}),
    ("User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /\n", {"/a": FREE}),
    ("User-agent: GPTBot\nUser-agent: *\nDisallow: /a\n", {"/a": rule("/a"), "/b": FREE}),
    (
        "User-agent: fetchmill\nDisallow: /a\n\nUser-agent: fetchmill\nDisallow: /b\n",
        {"/a": rule("/a"), "/b": rule("/b")},
    ),
    ("User-agent: fetchmill\nDisallow:\n\nUser-agent: *\nDisallow: /\n", {"/a": FREE}),
    ("USER-AGENT : *\nDISALLOW : /a\n", {"/a": rule("/a"), "/b": FREE}),
    ("User-agent: *\nCrawl-delay: 9\nDisallow: /a\nSitemap: /s.xml\n", {"/a": rule("/a"), "/b": FREE}),
    ("User-agent: *\nSitemap: /s.xml\nunknown\nDisallow: /a\n", {"/a": rule("/a"), "/b": FREE}),
    ("Disallow: /\n", {"/a": FREE}),
]
# Wrappings of a robots.txt that do not change its meaning.
DRESSINGS: list[Callable[[str], bytes]] = [
    lambda text: reply(text.encode()),
    lambda text: reply(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), "Content-Type: text/plain"),
    lambda text: reply(text.replace("\n", "\r").encode()),
    lambda text: reply(f"# first\n{text.replace(chr(10), '  # why' + chr(10))}\n# last".encode()),
    lambda text: reply(gzip.compress(text.encode() or b"\n"), "Content-Encoding: gzip"),
    lambda text: reply(text.encode().replace(b"\n", b"\n\x00\xff\n"), "Content-Type: text/html"),
]
FORBIDS = b"User-agent: *\nDisallow: /a\n"
FORBIDDEN: dict[str, str | None] = {"/a": rule("/a"), "/b": FREE}
ALL_FREE: dict[str, str | None] = {"/a": FREE, "/b": FREE}


def moved(path: str, status: str = "301 Moved Permanently") -> bytes:
    """Returns a redirect."""
    return reply(b"", f"Location: {path}", status=status)


def chain(length: int) -> dict[str, bytes]:
    """Returns redirects that follow each other; the last path has rules."""
    steps = {f"/r{step}": moved(f"/r{step + 1}", "302 Found") for step in range(1, length)}
    return steps | {f"/r{length}": reply(FORBIDS)}


# Replies in place of a robots.txt.
ANSWERS: list[Host] = [
    *[Host(reply(FORBIDS, status=f"{status} X"), ALL_FREE) for status in (400, 401, 403, 404, 410, 418, 429, 451)],
    Host(reply(FORBIDS, status="500 X"), dict.fromkeys(ALL_FREE, "robots.txt: 500 Internal Server Error")),
    Host(reply(FORBIDS, status="502 X"), dict.fromkeys(ALL_FREE, "robots.txt: 502 Bad Gateway")),
    Host(reply(FORBIDS, status="504 X"), dict.fromkeys(ALL_FREE, "robots.txt: 504 Gateway Timeout")),
    Host(HANGS, dict.fromkeys(ALL_FREE, "head-timeout")),
    Host(BREAKS, dict.fromkeys(ALL_FREE, "reset")),
    Host(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + FORBIDS, dict.fromkeys(ALL_FREE, "truncated")),
    Host(reply(b"<!doctype html><title>Disallow: /</title><p>User-agent: *", HTML), ALL_FREE),
    Host(reply(b"", status="204 No Content"), ALL_FREE),
    Host(moved("/rules"), FORBIDDEN, {"/rules": reply(FORBIDS)}),
    Host(moved("/rules", "307 X"), ALL_FREE, {"/rules": NOT_FOUND}),
    Host(
        moved("/rules", "308 X"),
        dict.fromkeys(ALL_FREE, "robots.txt: 500 Internal Server Error"),
        {
            "/rules": reply(status="500 X"),
        },
    ),
    Host(moved("/r1"), FORBIDDEN, chain(5)),
    Host(moved("/r1"), ALL_FREE, chain(6)),
    Host(moved("/robots.txt"), ALL_FREE),
    Host(moved("ftp://a.test/"), ALL_FREE),
    Host(reply(status="302 Found"), ALL_FREE),
    # Lines after the first 500 KiB do not count, and neither does a truncated line.
    Host(reply(FORBIDS + b"#" * (500 * 1024) + b"\nDisallow: /b\n"), FORBIDDEN),
    Host(reply(FORBIDS + b"#" * (500 * 1024 - len(FORBIDS) - 10) + b"\nDisallow: /b\n"), FORBIDDEN),
]
# Fields and meta elements of replies, and their evidence with --opt-out.
FIELDS: list[tuple[str, str | None]] = [
    *[(f"X-Robots-Tag: {text}", f"X-Robots-Tag: {text}") for text in ("noai", "noimageai", "noindex", "none", "NoAI")],
    *[
        (f"X-Robots-Tag: {text}", FREE)
        for text in ("all", "nofollow", "noarchive, nosnippet", "noaim", "max-snippet: 0")
    ],
    ("X-Robots-Tag: nofollow, noai", "X-Robots-Tag: nofollow, noai"),
    ("X-Robots-Tag: fetchmill: noai", "X-Robots-Tag: fetchmill: noai"),
    ("X-Robots-Tag: googlebot: noindex", FREE),
    ("X-Robots-Tag: googlebot: nofollow, noai", FREE),
    ("TDM-Reservation: 1", "TDM-Reservation: 1"),
    ("TDM-Reservation: 0", FREE),
]
META: list[tuple[str, str | None]] = [
    ("<meta name=robots content=noai>", '<meta name="robots" content="noai">'),
    ("<meta name=robots content='index, noimageai'>", '<meta name="robots" content="index, noimageai">'),
    ("<meta name=fetchmill content=noindex>", '<meta name="fetchmill" content="noindex">'),
    ("<meta name=tdm-reservation content=1>", '<meta name="tdm-reservation" content="1">'),
    ("<meta name=tdm-reservation content=0>", FREE),
    ("<meta name=googlebot content=noindex>", FREE),
    ("<!-- <meta name=robots content=noai> -->", FREE),
    ("<script>'<meta name=robots content=noai>'</script>", FREE),
]


def hosts() -> list[Host]:
    """Returns all hosts."""
    made = [Host(dress(text), verdicts) for dress in DRESSINGS for text, verdicts in RULES]
    made += ANSWERS
    made += [Host(NOT_FOUND, {"/a": why}, {"/a": reply(b"x", line)}) for line, why in FIELDS]
    made += [Host(NOT_FOUND, {"/a": why}, {"/a": reply(f"<head>{meta}</head>".encode(), HTML)}) for meta, why in META]
    # An object that redirects to a forbidden one; and rules together with a field, where the rules come first.
    onward = {"/go": moved("/a", "302 Found"), "/a": reply(b"a")}
    made += [Host(reply(FORBIDS), {"/go": rule("/a"), "/b": FREE}, onward)]
    made += [Host(reply(FORBIDS), {"/a": rule("/a")}, {"/a": reply(b"a", "TDM-Reservation: 1")})]
    while len(made) < COUNT:
        made.append(Host(reply(FORBIDS), {**FORBIDDEN, f"/free-{len(made)}": FREE}))
    assert len(made) == COUNT
    return made


class OptOutHosts:
    """Serves the hosts from its creation until the end of a `with` block, and counts requests."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self._hosts: dict[str, Host] = {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    @property
    def expected(self) -> dict[str, str | None]:
        """Returns the verdict of each URL."""
        return {
            f"http://{name}{path}": why for name, host in self._hosts.items() for path, why in host.expected.items()
        }

    @property
    def asked(self) -> dict[str, int]:
        """Returns the requests for robots.txt by host."""
        return {name: self.requests[name, "/robots.txt"] for name in self._hosts}

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with contextlib.AsyncExitStack() as servers:
            port = 0
            for number, host in enumerate(hosts()):
                address = f"127.0.{1 + number // 100}.{1 + number % 100}"
                server = await asyncio.start_server(self._serve, address, port)
                await servers.enter_async_context(server)
                port = server.sockets[0].getsockname()[1]
                self._hosts[f"{address}:{port}"] = host
            self._ready.set()
            await self._ended.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(*ENDS):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ", 2)[1]
                name = next(line[6:] for line in head.split("\r\n") if line.lower().startswith("host: "))
                self.requests[name, path] += 1
                host = self._hosts[name]
                sent = host.robots if path == "/robots.txt" else host.replies.get(path, reply(path.encode()))
                if sent == HANGS:
                    await asyncio.sleep(60)
                if sent in (HANGS, BREAKS):
                    return
                writer.write(sent)
                await writer.drain()
                if b"Content-Length: 99\r\n" in sent:
                    return
