"""Replies that violate RFC 9112: which ones fetchmill accepts, compared with other clients.

`--update-help` updates the table in the documentation.
"""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
import requests

import fetchmill
from raw_server import Behaviour, Exchange, RawServer, bare_reply, mirror, page, reply, then_close

PAGE = Path("docs/reference/http-support.md")
START, END = "<!-- odd replies -->\n", "<!-- end of odd replies -->\n"
PATIENCE = 10
BODY = b"ok"
CHUNKED = "Transfer-Encoding: chunked"


def as_chunks(body: bytes, padding: bytes = b"") -> bytes:
    """Returns the body in one chunk, whose size may be padded."""
    return b"%x%s\r\n%s\r\n0\r\n\r\n" % (len(body), padding, body)


# The oddity, whether fetchmill accepts it, and a function that sends a body in this way.
ODD: dict[str, tuple[bool, Callable[[bytes], bytes]]] = {
    "a folded value": (True, lambda body: reply(body, "X-Policy: a;\r\n   b")),
    "a line that is not a field": (True, lambda body: reply(body, "not a field")),
    "a control byte in a value": (True, lambda body: reply(body, "Set-Cookie: a=b\x01c")),
    "Latin-1 in a value": (True, lambda body: reply(body, "X-Name: caf\xe9")),
    "a blank before the colon": (True, lambda body: reply(body, "Set-Cookie : a=b")),
    "a control byte in the reason": (True, lambda body: reply(body, status="200 O\x01K")),
    "status 999": (True, lambda body: reply(body, status="999 Request denied")),
    "`Location` in Latin-1": (True, lambda _: reply(b"", "Location: /caf\xe9", status="302 Found")),
    "206 with the whole object": (
        True,
        lambda body: reply(body, f"Content-Range: bytes 0-{len(body) - 1}/{len(body)}", status="206 Partial Content"),
    ),
    "blanks after a chunk's size": (True, lambda body: bare_reply(CHUNKED) + as_chunks(body, b"  ")),
    "`Content-Length` with chunks": (True, lambda body: bare_reply(CHUNKED, "Content-Length: 9") + as_chunks(body)),
    "206 with a part of it": (
        False,
        lambda body: reply(body, f"Content-Range: bytes 0-{len(body) - 1}/999", status="206 Partial Content"),
    ),
    "`chunked` given twice": (False, lambda body: bare_reply(CHUNKED, CHUNKED) + as_chunks(body)),
    "a blank before the colon of `Content-Length`": (
        False,
        lambda body: bare_reply(f"Content-Length : {len(body)}") + body,
    ),
    "a folded `Connection`": (False, lambda body: reply(body, "Connection: keep-alive,\r\n close")),
    "a status line among the fields": (False, lambda body: reply(body, "HTTP/1.1 200 OK")),
    "NUL in the reason": (False, lambda body: reply(body, status="200 O\0K")),
    "NUL in a value": (False, lambda body: reply(body, "X-Name: a\0b")),
}

SUSPECT = ("blanks after a chunk's size", "`Content-Length` with chunks")


def by_get(url: str, folder: Path) -> bytes | None:
    """Uses `fetchmill get` with a list."""
    (folder / "urls.txt").write_text(f"{url}\n")
    dest = folder / "out"
    report = fetchmill.get(folder / "urls.txt", dest, format="jsonl", attempts=1, allow_private=True)
    if [(each.kind, each.status) for each in fetchmill.failures(dest)] == [("status", 999)]:
        return BODY
    return fetchmill.open(dest)[url] if report.fetched else None


def by_stream(url: str, _: Path) -> bytes | None:
    """Uses `fetchmill.stream`."""
    (answer,) = fetchmill.stream([url], attempts=1)
    return bytes(answer.body) if answer.status else None


def by_command(command: str) -> Callable[[str, Path], bytes | None]:
    """Uses a program that writes the body to standard output."""

    def fetch(url: str, folder: Path) -> bytes | None:
        ended = subprocess.run(
            [*command.split(), url], cwd=folder, capture_output=True, check=False, timeout=2 * PATIENCE
        )
        return ended.stdout

    return fetch


def by_requests(url: str, _: Path) -> bytes | None:
    """Uses requests."""
    try:
        return requests.get(url, timeout=PATIENCE).content
    except (requests.RequestException, UnicodeError):
        return None


def by_aiohttp(url: str, _: Path) -> bytes | None:
    """Uses aiohttp."""

    async def fetch() -> bytes | None:
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return await answer.read()

    try:
        return asyncio.run(fetch())
    except (aiohttp.ClientError, UnicodeError, ValueError):
        return None


CLIENTS: dict[str, Callable[[str, Path], bytes | None]] = {
    "fetchmill": by_get,
    "curl": by_command("curl --silent --location --http1.1"),
    "wget": by_command("wget --quiet --tries 1 --content-on-error --output-document -"),
    "requests": by_requests,
    "aiohttp": by_aiohttp,
}


@pytest.fixture
def odd() -> Iterator[RawServer]:
    """Serves each odd reply once per connection, and the destination of a redirect."""
    routes: dict[str, Behaviour] = {f"/{at}": then_close(make(BODY)) for at, (_, make) in enumerate(ODD.values())}
    with RawServer({**routes, "/caf%E9": reply(BODY), "/caf%e9": reply(BODY)}) as server:
        yield server


def test_documented_client_table_matches_measurement(
    odd: RawServer, root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The committed table equals a new measurement."""
    lines = [f"| odd | {' | '.join(CLIENTS)} |", f"|---|{'---|' * len(CLIENTS)}"]
    for at, name in enumerate(ODD):
        cells = []
        for client, fetch in CLIENTS.items():
            folder = tmp_path / f"{client}-{at}"
            folder.mkdir()
            cells.append("yes" if fetch(f"{odd.url}/{at}", folder) == BODY else "no")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    table = "\n".join(lines) + "\n"

    before, _, rest = (root / PAGE).read_text().partition(START)
    committed, _, after = rest.partition(END)
    if request.config.getoption("--update-help"):
        (root / PAGE).write_text(before + START + table + END + after)
        committed = table
    assert committed == table


@pytest.mark.parametrize("name", ODD)
def test_get_and_stream_accept_same_odd_replies(odd: RawServer, tmp_path: Path, name: str) -> None:
    """`get` and streams accept the same replies and refuse the others."""
    is_taken, _ = ODD[name]
    url = f"{odd.url}/{list(ODD).index(name)}"

    assert (by_get(url, tmp_path) == BODY, by_stream(url, tmp_path) == BODY) == (is_taken, is_taken)


@pytest.mark.parametrize("name", [name for name in ODD if name != "status 999"])
def test_listing_accepts_same_odd_replies(tmp_path: Path, name: str) -> None:
    """A listing accepts the same pages. A page that is refused ends the listing."""
    is_taken, make = ODD[name]
    text = page(["a"]).partition(b"\r\n\r\n")[2]
    routes = mirror(["a"]) | {"/list": then_close(make(text)), "/caf%E9": page(["a"])}

    with RawServer(routes) as server:
        if is_taken:
            assert fetchmill.get(server.url, tmp_path / "out").fetched == 1
        else:
            with pytest.raises(fetchmill.FetchmillError):
                fetchmill.get(server.url, tmp_path / "out", give_up_after=1)


@pytest.mark.parametrize("name", SUSPECT)
def test_suspect_reply_is_refetched_on_used_connection(tmp_path: Path, name: str) -> None:
    """The request is repeated immediately without counting as an attempt. Each object has its own bytes."""
    _, make = ODD[name]
    names = [f"n{number}" for number in range(20)]
    turns: dict[str, list[int]] = {}

    def suspect(exchange: Exchange) -> bytes:
        turns.setdefault(exchange.target, []).append(exchange.turn)
        return make(exchange.target.removeprefix("/get/").encode())

    with RawServer(mirror(names, dict.fromkeys(names[::2], suspect))) as server:
        report = fetchmill.get(server.url, tmp_path / "out", limit=1, attempts=1)

    assert (report.fetched, report.failed) == (20, 0)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in names} == {name: name.encode() for name in names}
    assert all(each[-1] == 1 and len(each) <= 2 for each in turns.values()), turns
    assert any(len(each) == 2 for each in turns.values()), turns


@pytest.mark.parametrize("name", SUSPECT)
def test_suspect_reply_fails_post_on_used_connection(tmp_path: Path, name: str) -> None:
    """The POST is not repeated, because the server may have acted on it."""
    routes: dict[str, Behaviour] = {"/plain": reply(BODY), "/suspect": ODD[name][1](BODY)}
    with RawServer(routes) as server:
        urls = [f"{server.url}/{path}" for path in ("plain", "suspect")]
        requests = (fetchmill.Request(url, "POST") for url in urls)
        first, second = fetchmill.stream(requests, limit=1, ordered=True)
        (tmp_path / "urls.txt").write_text("\n".join(urls))
        fetchmill.get(
            tmp_path / "urls.txt", tmp_path / "out", format="jsonl", method="POST", limit=1, allow_private=True
        )
        asked = server.count("/suspect")

    (failed,) = fetchmill.failures(tmp_path / "out")
    assert (first.body, asked) == (BODY, 2)
    assert second.error is not None
    assert (second.error.kind, failed.kind) == ("framing", "framing")
    assert "suspect" in str(second.error)
    assert "suspect" in str(failed.detail)


def test_header_fields_of_odd_head_are_read(tmp_path: Path) -> None:
    """Folds are read as spaces, and lines that are not fields are dropped. A WARC record has the head as sent."""
    head = bare_reply("Content-Length: 2", "X-A: b;\r\n\tc: d", "not a field", 'ETag : "e"', "X-E: f\x01")
    with RawServer({"/a": head + BODY}) as server:
        (answer,) = fetchmill.stream([f"{server.url}/a"])
        (tmp_path / "urls.txt").write_text(f"{server.url}/a\n")
        fetchmill.get(tmp_path / "urls.txt", tmp_path / "out", format="warc", allow_private=True)

    assert dict(answer.headers.items()) == {"Content-Length": "2", "X-A": "b; c: d", "ETag": '"e"', "X-E": "f\x01"}
    with fetchmill.open(tmp_path / "out") as stored:
        (found,) = stored.records()
    assert (found.body, found.etag) == (BODY, '"e"')
    assert not fetchmill.verify(tmp_path / "out").findings
