"""Features of all requests, whether a worker, a stream or a listing makes them.

The same bytes are an object of a list, a reply of a stream, and a JSON page that leads to one object.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fetchmill
from broken_bodies import MIB, BrokenObject
from lists import write_list
from raw_server import Behaviour, Exchange, RawServer, reply, then_close
from stored import read_objects

Run = Callable[..., Any]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

OBJECT = "/object"
PATH = "/asked"


class Came(NamedTuple):
    """The result of a request.

    Args:
        body: its bytes; None if there are none.
        told: the failure, with its kind and its reason.
    """

    body: bytes | None
    told: str


def page(padding: int = 0) -> bytes:
    """Returns the requested bytes."""
    return json.dumps({"items": [{"url": OBJECT}], "more": "x" * padding}).encode()


def by_worker(run: Run, url: str, folder: Path, *options: object) -> Came:
    """Runs a job over a list with this URL."""
    dest = folder / "out"
    ended = run(
        "get",
        write_list(folder, [{"url": url}]),
        dest,
        "--format",
        "jsonl",
        "--attempts",
        2,
        "--allow-private",
        *options,
    )
    if ended.code == 0:
        [(_, body)] = read_objects(dest, "jsonl")
        return Came(body, "")
    [failure] = fetchmill.failures(dest)
    return Came(None, f"{failure.kind}: {failure.detail}")


def by_stream(_run: Run, url: str, _folder: Path, *options: object) -> Came:
    """Runs a stream with this URL; its options are those of the command, as keywords."""
    names = [str(each).removeprefix("--").replace("-", "_") for each in options[::2]]
    keywords: dict[str, Any] = dict(zip(names, options[1::2], strict=False)) if len(options) > 1 else {}
    keywords |= {name: True for name in names if name == "compressed"}
    [got] = fetchmill.stream([url], attempts=2, **keywords)
    return Came(bytes(got.body), "") if got.error is None else Came(None, str(got.error))


def by_listing(run: Run, url: str, folder: Path, *options: object) -> Came:
    """Runs a job whose listing is at this URL. The object that the page leads to shows the result."""
    dest = folder / "out"
    ways = ("--listing", "json", "--items-field", "items", "--url-field", "url", "--next-page", "none")
    ended = run("get", url, dest, "--format", "jsonl", *ways, *options)
    if ended.code == 0:
        [(_, body)] = read_objects(dest, "jsonl")
        return Came(body, "")
    return Came(None, ended.err)


MAKERS: dict[str, Callable[..., Came]] = {"worker": by_worker, "stream": by_stream, "listing": by_listing}
pytestmark = pytest.mark.parametrize("who", MAKERS)


def ask(who: str, run: Run, server: RawServer, folder: Path, *options: object, path: str = PATH) -> Came:
    """Returns the result of a request for the path."""
    return MAKERS[who](run, server.url + path, folder, *options)


def whole(who: str, body: bytes) -> Came:
    """Returns the result of a request for these bytes."""
    return Came(b"found" if who == "listing" else body, "")


def routes(behaviour: Behaviour, **others: Behaviour) -> dict[str, Behaviour]:
    """Returns the routes of a server that also has the object of a page."""
    return {PATH: behaviour, OBJECT: reply(b"found"), **{f"/{name}": each for name, each in others.items()}}


def moved(to: str) -> bytes:
    """Returns a redirect."""
    return reply(b"", f"Location: {to}", status="302 Found")


def test_redirects_are_followed(who: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """Several redirects in a row are followed, too."""
    server = raw(routes(moved("/next"), next=moved("there"), there=reply(page())))

    assert ask(who, run, server, tmp_path) == whole(who, page())
    assert [server.count(path) for path in (PATH, "/next", "/there")] == [1, 1, 1]


def test_cross_origin_redirects_are_followed_only_for_objects(who: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """Pages are not redirected to another origin, which could then decide which objects of this server are fetched."""
    other = raw({"/there": reply(page())})
    server = raw(routes(moved(f"{other.url}/there")))

    came = ask(who, run, server, tmp_path)

    if who == "listing":
        assert f"failed (redirect-refused): redirect to {other.url}/there: it leads to another origin" in came.told
    else:
        assert came == whole(who, page())
    assert other.count("/there") == (0 if who == "listing" else 1)


@pytest.mark.parametrize(
    ("to", "kind", "reason"),
    [
        (PATH, "redirect-loop", "this URL was already requested"),
        ("ftp://127.0.0.1/", "redirect-refused", "it is not an http or https URL"),
        ("http://user:s3cret@127.0.0.1/", "redirect-refused", "it contains a user name or password"),
    ],
    ids=["loop", "scheme", "user"],
)
def test_unfollowed_redirect_reports_reason(
    who: str, run: Run, raw: Raw, tmp_path: Path, to: str, kind: str, reason: str
) -> None:
    """The reason has the destination without its password."""
    came = ask(who, run, raw(routes(moved(to))), tmp_path)

    assert came.body is None
    assert kind in came.told
    assert reason in came.told
    assert "redirect to " in came.told
    assert "s3cret" not in came.told


def test_redirects_option_limits_redirects(who: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """`--redirects` limits the number of redirects."""
    hops = {f"hop{number}": moved(f"/hop{number + 1}") for number in range(5)}
    server = raw(routes(moved("/hop0"), **hops))

    came = ask(who, run, server, tmp_path, "--redirects", 2)

    assert came.body is None
    assert "redirect-limit" in came.told
    assert "redirect to /hop2: too many redirects (2 already followed)" in came.told
    assert server.count("/hop2") == 0


def test_large_body_is_resumed(who: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """Each new attempt requests only the rest."""
    large = BrokenObject(page(5 * MIB), [2 * MIB, MIB + 1], fields=["Content-Type: application/json"])

    assert ask(who, run, raw(routes(large)), tmp_path) == whole(who, large.body)
    assert large.firsts == [0, 2 * MIB, 3 * MIB + 1]


def test_replaced_object_is_fetched_whole_on_resume(who: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """An object that replaces the first one is stored whole. Bytes of the two are never mixed."""
    large, other = BrokenObject(page(3 * MIB), [2 * MIB]), page(2 * MIB)
    large.rests = reply(other, 'ETag: "v2"')

    assert ask(who, run, raw(routes(large)), tmp_path) == whole(who, other)
    assert large.firsts == [0, 2 * MIB]


def encoded(exchange: Exchange) -> bytes:
    """Returns a gzip page, which is refused without `Accept-Encoding`."""
    if b"accept-encoding: gzip" not in exchange.head.lower():
        return reply(status="406 Not Acceptable")
    return reply(gzip.compress(page()), "Content-Encoding: gzip")


def test_encoded_bodies_are_requested_and_decoded(who: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """Encoded bodies are requested only with `--compressed`."""
    assert ask(who, run, raw(routes(encoded)), tmp_path, "--compressed") == whole(who, page())


def test_damaged_encoding_fails(who: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """A body with a damaged encoding fails, and its bytes are never returned."""
    damaged = reply(gzip.compress(page())[:-4], "Content-Encoding: gzip")

    came = ask(who, run, raw(routes(damaged)), tmp_path, "--compressed")

    assert came.body is None
    assert "bad-encoding" in came.told
    assert "gzip: the body ends before its encoding does" in came.told


@pytest.mark.parametrize(
    ("behaviour", "kind", "reason"),
    [
        (then_close(b""), "reset", "the connection broke"),
        (then_close(reply(b"abc", length=10)), "truncated", "the connection was closed before the body was complete"),
        (then_close(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), "framing", "Content-Length"),
        (then_close(b"SSH-2.0-x\r\n"), "not-http", "HTTP/1.x"),
    ],
    ids=["closed", "cut", "length", "not-http"],
)
def test_failure_reports_kind_and_reason(
    who: str, run: Run, raw: Raw, tmp_path: Path, behaviour: Behaviour, kind: str, reason: str
) -> None:
    """The reason is for people, the kind is for programs."""
    came = ask(who, run, raw(routes(behaviour)), tmp_path)

    assert came.body is None
    assert kind in came.told
    assert reason in came.told
