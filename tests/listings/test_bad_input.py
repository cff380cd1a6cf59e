"""Sources that cannot be listed, endless listings, and invalid arguments.

Each error is one line: what failed, where, and what to do. It has its own exit code, and nothing outside DEST changes.
"""

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from canary import Canary
from fetchmill._native import Job
from fetchmill._options.get import GetOptions
from fetchmill.testing import Fault, Server
from ports import closed_port
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
Serve = Callable[..., Server]

PAGE_BYTES_MAX = 16 << 20


def error_of(ended: Any) -> str:  # noqa: ANN401
    """Returns the one-line error of a command without its prefix, and checks that it has no control characters.

    A hint may follow the error.
    """
    *_, last = (line for line in ended.err.splitlines() if not line.startswith("hint: "))
    assert last.startswith("fetchmill: error: ")
    assert ended.err.count("fetchmill: error: ") == 1
    assert ended.err.endswith("\n")
    assert ended.err.replace("\n", "").isprintable()
    assert "Traceback" not in ended.err
    return str(last.removeprefix("fetchmill: error: "))


def tree_names(dest: Path) -> list[str]:
    """Returns the objects in a destination."""
    paths = (path.relative_to(dest) for path in dest.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in paths if path.parts[0] != ".fetchmill")


# --- the source cannot be reached --------------------------------------------------------------------------------


def test_unreachable_host_is_reported(run: Run, canary: Canary) -> None:
    """If the connection is refused, the job ends with exit code 4 after a few attempts.

    The error has the address and a hint.
    """
    with closed_port() as port:
        ended = run("get", f"http://127.0.0.1:{port}", canary.dest)

    assert ended.code == 4
    assert error_of(ended) == (
        f"the listing http://127.0.0.1:{port}/list failed (refused): the connection was refused, attempts: 5; "
        "check that the server is running and the port is right"
    )


def test_unresolved_host_is_reported(run: Run, canary: Canary) -> None:
    """If the name cannot be resolved, the error has the name."""
    ended = run("get", "http://no-such-host.invalid", canary.dest)

    assert ended.code == 4
    message = error_of(ended)
    assert message.startswith("cannot look up the host no-such-host.invalid (dns-not-found); ")
    assert message.endswith("; check the name")


# --- the reply is not a listing ----------------------------------------------------------------------------------

SSH_BANNER = b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"
NO_LISTINGS: dict[str, tuple[Behaviour, str]] = {
    "not-http": (
        then_close(SSH_BANNER),
        r"failed \(not-http\): the reply is not HTTP/1.x, .*check that this is an http server",
    ),
    "html-without-a-head": (then_close(b"<html><body>hi</body></html>"), r"failed \(not-http\)"),
    "tls": (then_close(b"\x15\x03\x01\x00\x02\x02\x28"), r"failed \(not-http\)"),
    "404": (
        reply(status="404 Not Found"),
        r"failed \(status\): status 404, .*check SOURCE, or set --list-path",
    ),
    "403": (reply(status="403 Forbidden"), r"failed \(status\): status 403"),
    "301": (
        reply(b"", "Location: /list", status="301 Moved Permanently"),
        r"failed \(redirect-loop\): redirect to /list",
    ),
    "206": (reply(b"{}", status="206 Partial Content"), r"failed \(framing\)"),
    "500": (reply(status="500 Internal Server Error"), r"failed \(server-error\): status 500, attempts: 5"),
    "closed": (then_close(b""), r"failed \(reset\): .*, attempts: 5"),
    "reset": (then_reset(b""), r"failed \(reset\): .*, attempts: 5"),
    "truncated": (then_close(reply(b'{"FileNames"', length=100)), r"failed \(truncated\): .*, attempts: 5"),
    "no-json": (reply(b"<html>"), r"cannot be read: the page is not valid JSON of the expected form: expected value"),
    "no-object": (reply(b'["a", "b"]'), r"cannot be read: .*expected an object"),
    "nothing": (reply(b""), r"cannot be read: .*EOF"),
    "half-json": (reply(b'{"FileNames": ["a"'), r"cannot be read: .*EOF"),
    "two-values": (reply(b'{"FileNames": []} {}'), r"cannot be read: .*trailing"),
    "no-names": (reply(b'{"Files": ["a"]}'), r"cannot be read: the page has no field FileNames"),
    "names-are-null": (reply(b'{"FileNames": null}'), r"cannot be read: .*expected an array of names"),
    "names-are-numbers": (reply(b'{"FileNames": [1]}'), r"cannot be read: .*expected a name"),
    "names-are-nested": (reply(b'{"FileNames": ' + b"[" * 10000 + b"]" * 10000 + b"}"), r"cannot be read: "),
    "names-come-twice": (reply(b'{"FileNames": ["a"], "FileNames": ["b"]}'), r"cannot be read: .*twice"),
    "marker-comes-twice": (
        reply(b'{"FileNames": ["a"], "NextMarker": "b", "NextMarker": "c"}'),
        r"cannot be read: .*the field NextMarker appears twice",
    ),
    "marker-is-an-object": (reply(b'{"FileNames": [], "NextMarker": {}}'), r"cannot be read: .*expected a marker"),
    "control-characters": (reply(b'{"FileNames": "\\u001b]0;owned\\u0007\\r\\nfoo"}'), r"cannot be read: "),
    "chunked-twice": (bare_reply(*["Transfer-Encoding: chunked"] * 2), r"failed \(framing\)"),
    "endless-head": (then_flood(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), r"failed \(head-too-large\)"),
    "endless-interim": (then_flood(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), r"failed \(head-too-large\)"),
}


@pytest.mark.parametrize(("behaviour", "message"), NO_LISTINGS.values(), ids=NO_LISTINGS)
def test_unlistable_source_is_reported_with_its_url(
    run: Run, raw: Raw, canary: Canary, behaviour: Behaviour, message: str
) -> None:
    """If SOURCE returns no listing, the exit code is 4.

    The error has the page's URL and the reason; no object is requested.
    """
    server = raw({"/list": behaviour})

    ended = run("get", server.url, canary.dest, "--head-timeout", "5s")

    assert ended.code == 4
    told = error_of(ended)
    assert told.startswith(f"the listing {server.url}/list ")
    assert re.search(message, told), told
    assert server.asked() == []
    assert tree_names(canary.dest) == []


SLOW_LISTINGS: dict[str, tuple[Behaviour, str]] = {
    "no-answer": (then_stall(b""), "head-timeout"),
    "head-stalls": (then_stall(b"HTTP/1.1 200 OK\r\nContent-"), "head-timeout"),
    "head-trickles": (lambda exchange: exchange.trickle(page(["a"]), 0.05), "head-timeout"),
    "body-stalls": (then_stall(page(["a"])[:-3]), "idle-timeout"),
}


@pytest.mark.parametrize(("behaviour", "kind"), SLOW_LISTINGS.values(), ids=SLOW_LISTINGS)
def test_slow_listing_ends_by_timeout(run: Run, raw: Raw, canary: Canary, behaviour: Behaviour, kind: str) -> None:
    """A server that stalls or trickles bytes delays a job only until the timeouts expire."""
    server = raw({"/list": behaviour})

    ended = run("get", server.url, canary.dest, "--head-timeout", "150ms", "--idle-timeout", "150ms", timeout=20)

    assert ended.code == 4
    assert f"failed ({kind})" in error_of(ended)
    assert "attempts: 5" in error_of(ended)


def test_failed_page_is_requested_again(run: Run, raw: Raw, canary: Canary) -> None:
    """A truncated, reset, closed or 500 page is requested again, and no target is lost."""
    first, second = page(["a", "b"], "m"), page(["c"])
    server = raw(
        mirror(["a", "b", "c"])
        | {
            "/list": in_turn(then_close(first[:-5]), then_reset(first[:30]), first),
            "/list?next-marker=m": in_turn(reply(status="500 Oops"), then_close(b""), then_close(second[:-1]), second),
        }
    )

    ended = run("get", server.url, canary.dest)

    assert ended.code == 0, ended.err
    assert tree_names(canary.dest) == ["a", "b", "c"]
    assert "3 listed = 3 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    # fetchmill checks whether the server is down after failures of a page: for the second page, after all but the
    # first; for this page, after all until an object has been fetched.
    assert server.count("/list") in {3, 4, 5}
    assert server.count("/list?next-marker=m") == 4


def test_page_is_retried_after_retry_after(run: Run, raw: Raw, canary: Canary) -> None:
    """A page that got a Retry-After is requested again after that delay."""
    asked: list[float] = []

    def busy_once(exchange: Exchange) -> bytes:
        asked.append(time.monotonic())
        return page(["a"]) if exchange.number > 1 else reply(b"", "Retry-After: 2", status="503 Busy")

    ended = run("get", raw(mirror(["a"]) | {"/list": busy_once}).url, canary.dest)

    assert ended.code == 0, ended.err
    assert asked[1] - asked[0] >= 2


def test_all_http_date_formats_are_parsed(run: Run, raw: Raw, tmp_path: Path) -> None:
    """All three date formats of RFC 9110, 5.6.7, are parsed. A sync uses each of them in a conditional request."""
    forms = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    forms += ["Sun, 6 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 +0000", "Thu, 31 Feb 2027 08:49:37 GMT"]

    def answer(form: str) -> Callable[[Exchange], bytes]:
        def to(exchange: Exchange) -> bytes:
            if b"if-modified-since: sun, 06 nov 1994 08:49:37 gmt" in exchange.head.lower():
                return bare_reply(status="304 Not Modified")
            return reply(b"x", f"Last-Modified: {form}")

        return to

    server = raw({f"/{number}": answer(form) for number, form in enumerate(forms)})
    (tmp_path / "urls.txt").write_text("".join(f"{server.url}/{number}\n" for number in range(len(forms))))
    assert run("get", tmp_path / "urls.txt", tmp_path / "out", "--format", "jsonl", "--allow-private").code == 0
    rows = [json.loads(line) for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    found = {row["name"].rsplit("/", 1)[1]: row.get("last_modified") for row in rows}
    assert found == {str(number): "1994-11-06T08:49:37Z" for number in range(5)} | {"5": None}
    for _ in range(2):
        ended = run("sync", tmp_path / "urls.txt", tmp_path / "mirror", "--allow-private", "--json")
        assert ended.code == 0, ended.err
    report = json.loads(ended.out.splitlines()[-1])
    assert (report["unchanged"], report["fetched"]) == (5, 1)


@pytest.mark.parametrize(
    "behaviour",
    [
        chunked_reply(b'{"FileNames": ["a"', b', "b"], "Next', b'Marker": null, "more": [{"FileNames": 1}]}'),
        then_close(bare_reply() + b'{"FileNames": ["a", "b"]}'),
        bare_reply("Content-Length: 25", version="HTTP/1.0") + b'{"FileNames": ["a", "b"]}',
        reply(b'{"NextFile": "", "FileNames": ["a", "b"]}'),
        lambda exchange: exchange.trickle(page(["a", "b"]), 0.002),
    ],
    ids=["chunks", "to-the-end", "http-1.0", "last-field", "trickle"],
)
def test_page_is_read_with_any_framing(raw: Raw, canary: Canary, behaviour: Behaviour) -> None:
    """A page may be chunked, end with the connection (JSON shows its own end), or arrive byte by byte."""
    report = fetchmill.get(raw(mirror(["a", "b"]) | {"/list": behaviour}).url, canary.dest)

    assert (report.listed, report.fetched) == (2, 2)
    assert tree_names(canary.dest) == ["a", "b"]


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
def test_page_above_16_mib_is_refused(run: Run, raw: Raw, canary: Canary, framing: str) -> None:
    """A page above 16 MiB is refused with any framing, which bounds memory."""
    body = json.dumps({"FileNames": ["a"], "more": "x" * PAGE_BYTES_MAX}).encode()
    behaviours: dict[str, Behaviour] = {
        "length": reply(body),
        "chunks": chunked_reply(body),
        "end": then_close(bare_reply() + body),
    }
    server = raw({"/list": behaviours[framing]})

    ended = run("get", server.url, canary.dest)

    assert ended.code == 4
    told = error_of(ended)
    assert told.startswith(f"the listing {server.url}/list failed (body-too-large): ")
    assert "larger than 16 MiB; make the server send smaller pages" in told
    assert server.asked() == []


# --- listings that never end, or lead to another origin ----------------------------------------------------------


@pytest.mark.parametrize("circle", [["A"], ["A", "B"], ["A", "B", "C", "D", "E"]], ids="".join)
def test_repeated_marker_ends_listing(run: Run, raw: Raw, canary: Canary, circle: list[str]) -> None:
    """Markers that repeat (A,A or A,B,A,B) end the listing with exit code 4. Listed targets are fetched once."""
    routes: dict[str, Behaviour] = {"/list": page(["first"], circle[0])}
    for index, marker in enumerate(circle):
        names = [f"{marker}-{number}" for number in range(3)]
        routes[f"/list?next-marker={marker}"] = page(names, circle[(index + 1) % len(circle)])
        routes |= {target: behaviour for target, behaviour in mirror(names).items() if target != "/list"}
    server = raw(routes | {"/get/first": reply(b"first")})

    ended = run("get", server.url, canary.dest)
    again = run("get", server.url, canary.dest)

    for each in (ended, again):
        assert each.code == 4
        assert error_of(each).startswith("the listing never ends: the marker A was repeated; ")
    assert "first" in tree_names(canary.dest)
    assert len(server.asked()) == len(set(server.asked())) == len(tree_names(canary.dest))
    status = fetchmill.status(canary.dest)
    assert status.balanced
    assert status.listed == status.fetched
    assert not status.finished


def test_endless_empty_pages_end_listing(run: Run, raw: Raw, canary: Canary) -> None:
    """After 1,000 empty pages with new markers, the exit code is 4. Targets listed before them are fetched."""

    def next_page(exchange: Exchange) -> bytes:
        if exchange.target == "/list":
            return page(["a"], "0")
        return page([], str(int(exchange.target.partition("=")[2]) + 1))

    server = raw(mirror(["a"]) | {"/list": next_page})

    ended = run("get", server.url, canary.dest)

    assert ended.code == 4
    assert "the listing never ends: 1000 pages in a row had no names" in error_of(ended)
    # A slow page may be requested again.
    assert len(set(server.asked("/list"))) == 1002
    assert tree_names(canary.dest) == ["a"]


AWAY = {
    "other-port": "http://127.0.0.1:1/list?next-marker=x",
    "other-host": "http://192.0.2.1/list",
    "other-scheme": "https://{authority}/list?next-marker=x",
    "name-for-an-address": "http://localhost:{port}/list?next-marker=x",
    "user": "http://user@{authority}/list?next-marker=x",
    "user-that-looks-like-the-host": "http://{authority}@192.0.2.1/list",
    "upper-case": "HTTP://192.0.2.1/list",
    "control-characters": "http://{authority}/list\x1b]0;owned\x07\r\nX: y",
}


@pytest.mark.parametrize("marker", AWAY.values(), ids=AWAY)
def test_marker_to_another_origin_is_security_error(run: Run, raw: Raw, canary: Canary, marker: str) -> None:
    """A marker that leads to another origin is not followed, and the exit code is 6. Earlier targets are fetched."""
    server = raw(mirror(["a"]))
    authority = server.url.removeprefix("http://")
    marker = marker.format(authority=authority, port=authority.partition(":")[2])
    server.routes["/list"] = page(["a"], marker)

    ended = run("get", server.url, canary.dest)

    assert ended.code == 6
    assert error_of(ended).startswith(f"the listing's marker is not a URL at {server.url}: ")
    assert error_of(ended).endswith("; it was not followed")
    assert server.asked("/list") == ["/list"]
    assert tree_names(canary.dest) == ["a"]


def test_marker_may_be_url_of_same_origin(run: Run, raw: Raw, canary: Canary) -> None:
    """A marker may be the full URL of the next page, with any path of the same origin."""
    server = raw(mirror(["a", "b", "c"]) | {"/elsewhere/page?n=2&x=%2F": page(["c"])})
    server.routes["/list"] = page(["a", "b"], f"{server.url}/elsewhere/page?n=2&x=%2F#fragment")

    ended = run("get", server.url, canary.dest)

    assert ended.code == 0, ended.err
    assert tree_names(canary.dest) == ["a", "b", "c"]


ODD_MARKERS = ["a b&c=d", "\x1b[2J", "../..", "x\r\nHost: y", "größe", "//192.0.2.1/list", "%2e", "0" * 8000]


def test_marker_is_sent_verbatim(run: Run, raw: Raw, canary: Canary) -> None:
    """A marker is sent as a query parameter without interpretation, and is used nowhere else."""
    seen: list[str] = []

    def next_page(exchange: Exchange) -> bytes:
        seen.append(exchange.target)
        assert exchange.number == 1
        return page(["a"] if len(seen) == 1 else [], dict(enumerate(ODD_MARKERS, 1)).get(len(seen)))

    ended = run("get", raw(mirror(["a"]) | {"/list": next_page}).url, canary.dest)

    assert ended.code == 0, ended.err
    assert len(seen) == len(ODD_MARKERS) + 1
    assert all(re.fullmatch(r"/list(\?next-marker=[\w.%+*-]+)?", target, re.ASCII) for target in seen)


def test_marker_above_64_kib_is_refused(run: Run, raw: Raw, canary: Canary) -> None:
    """A marker above 64 KiB ends the listing with exit code 4."""
    ended = run("get", raw({"/list": page(["a"], "m" * 70_000)}).url, canary.dest)

    assert ended.code == 4
    assert "the page's marker is longer than 65536 bytes" in error_of(ended)
    assert len(error_of(ended)) < 400


# --- the server goes away during the job -------------------------------------------------------------------------


def test_job_ends_after_give_up_after_when_server_is_gone(run: Run, raw: Raw, canary: Canary) -> None:
    """If the server stays away for --give-up-after, the exit code is 5.

    No target fails, and the same command finishes once the server is back.
    """
    names = [f"n{number:03}" for number in range(100)]
    server = raw(mirror(names))
    routes = dict(server.routes)
    server.routes |= dict.fromkeys((target for target in routes if target != "/list"), then_reset(b""))

    ended = run("get", server.url, canary.dest, "--give-up-after", "1s", "--attempts", "9", timeout=40)
    between = fetchmill.status(canary.dest)
    server.routes |= routes
    again = run("get", server.url, canary.dest)

    assert ended.code == 5
    assert error_of(ended).endswith("within the --give-up-after time; run the same command again to resume")
    assert (between.listed, between.failed, between.pending) == (100, 0, 100)
    # If every attempt had been made, there would be 900. Only 370 to 430 are made, because all fail immediately and one
    # is made per second.
    assert len(server.asked()) < 600
    assert again.code == 0, again.err
    assert tree_names(canary.dest) == names


# --- retry runs --------------------------------------------------------------------------------------------------


def test_rerun_fetches_only_failed_targets(run: Run, raw: Raw, canary: Canary) -> None:
    """Each run with --retry-failed requests only targets that failed, until none is left."""
    names = [f"n{number:02}" for number in range(40)]
    broken: dict[str, Behaviour] = {
        "n03": reply(status="403 Forbidden"),
        "n07": then_close(reply(b"n07", length=9)),
        "n11": reply(b"", "Location: /x", status="302 Found"),
        "n13": reply(status="410 Gone"),
        "n17": bare_reply("Content-Length: 3", "Content-Length: 4") + b"abc",
    }
    server = raw(mirror(names, broken))

    def get(*more: str) -> tuple[int, list[str], Any]:
        before = len(server.asked())
        ended = run("get", server.url, canary.dest, "--attempts", "1", *more)
        assert server.asked("/list") == ["/list"]
        return ended.code, sorted(server.asked()[before:]), fetchmill.status(canary.dest)

    code, _, status = get()
    assert (code, status.fetched, status.absent, status.failed, status.balanced) == (3, 35, 1, 4, True)
    still = [f"/get/{name}" for name in broken]

    code, asked, status = get("--retry-failed")
    assert (code, status.fetched, status.absent, status.failed, status.balanced) == (3, 35, 1, 4, True)
    assert asked == still

    server.routes |= {f"/get/{name}": reply(name.encode()) for name in ("n03", "n13", "n17")}
    code, asked, status = get("--retry-failed")
    assert (code, status.fetched, status.absent, status.failed, status.balanced) == (3, 38, 0, 2, True)
    assert asked == still
    assert {failure.name: failure.kind for failure in fetchmill.failures(canary.dest)} == {
        "n07": "truncated",
        "n11": "redirect",
    }

    server.routes |= {f"/get/{name}": reply(name.encode()) for name in ("n07", "n11")}
    code, asked, status = get("--retry-failed")
    assert (code, status.fetched, status.absent, status.failed, status.balanced) == (0, 40, 0, 0, True)
    assert asked == ["/get/n07", "/get/n11"]
    assert list(fetchmill.failures(canary.dest)) == []
    assert status.finished

    code, asked, _ = get("--retry-failed")
    assert (code, asked) == (0, [])
    assert {name: (canary.dest / name).read_text() for name in names} == {name: name for name in names}


# --- invalid arguments -------------------------------------------------------------------------------------------

SOURCE = "http://127.0.0.1:1"
UNUSABLE: dict[str, tuple[list[str], str]] = {
    "ftp": (["ftp://127.0.0.1/"], "use http://"),
    "file": (["file:///etc/passwd"], "use http://"),
    "no-scheme": (["127.0.0.1:8080"], "http://"),
    "host-alone": (["localhost"], "to list a server, give http://HOST:PORT"),
    "no-host": (["http://"], "write SOURCE as http://HOST:PORT/PATH"),
    "port": (["http://127.0.0.1:99999"], "write SOURCE as http://HOST:PORT/PATH"),
    "empty": ([""], "source must be a non-empty string"),
    "query": ([SOURCE + "/?a=b"], "SOURCE must not have a query"),
    "fragment": ([SOURCE + "/#a"], "SOURCE must not have a query or a fragment"),
    "user": (["http://user:secret@127.0.0.1:1"], "SOURCE must not contain a user name or password"),
    "space": ([SOURCE + "/a b"], "percent-encode it"),
    "newline": ([SOURCE + "/a\nb"], "control characters"),
    "escape": ([SOURCE + "/\x1b]0;owned\x07"], "control characters"),
    "get-path-without-name": ([SOURCE, "--get-path", "/get/"], "{name}"),
    "get-path-with-two-names": ([SOURCE, "--get-path", "/{name}/{name}"], "{name}"),
    "get-path-without-slash": ([SOURCE, "--get-path", "get/{name}"], "starts with /"),
    "list-path": ([SOURCE, "--list-path", "list"], "starts with /"),
    "list-path-for-autoindex": ([SOURCE, "--listing", "autoindex", "--list-path", "/x"], "requires --listing api"),
    "limit": ([SOURCE, "--concurrency", "0"], "concurrency must be a whole number of at least 1, or auto, not 0"),
    "limit-below": ([SOURCE, "--concurrency", "-1"], "--concurrency"),
    "limit-text": ([SOURCE, "--concurrency", "many"], "'many' is not understood"),
    "threads": ([SOURCE, "--threads", "0"], "threads must be a whole number of at least 1"),
    "attempts": ([SOURCE, "--attempts", "0"], "attempts must be a whole number of at least 1"),
    "window": ([SOURCE, "--commit-window", "0"], "--commit-window must be a number of seconds above 0"),
    "window-unit": ([SOURCE, "--commit-window", "1 fortnight"], "write, for example, "),
    "format": ([SOURCE, "--format", "zip"], "'zip' is not one of 'files', 'tar'"),
    "option": ([SOURCE, "--speed", "9"], "No such option"),
}


@pytest.mark.parametrize(("arguments", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_invalid_arguments_get_one_line_error(run: Run, canary: Canary, arguments: list[str], message: str) -> None:
    """Invalid arguments get exit code 2 and a one-line error, before anything is changed."""
    ended = run("get", arguments[0], canary.dest, *arguments[1:])

    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert message in error_of(ended)
    assert "secret" not in ended.err
    assert list(canary.dest.iterdir()) == []


def test_file_as_destination_is_refused(run: Run, canary: Canary) -> None:
    """A file as DEST, or a DEST below a file, gets exit code 2. Nothing is replaced."""
    taken = canary.dest.parent / "taken"
    taken.write_text("mine")
    canary.look_again()

    for dest in (taken, taken / "below", taken / "far" / "below"):
        ended = run("get", SOURCE, dest)
        assert ended.code == 2
        assert error_of(ended) == f"{dest} is not a folder; choose a new or empty folder as destination"
    assert taken.read_text() == "mine"


@pytest.mark.parametrize("name", ["file", ".hidden", "folder/", ".git/"])
def test_non_empty_destination_is_refused(run: Run, canary: Canary, name: str) -> None:
    """A destination with other files gets exit code 2, and none of their bytes change."""
    found = canary.dest / name
    if name.endswith("/"):
        found.mkdir()
    else:
        found.write_text("mine")
    before = found.stat()

    ended = run("get", SOURCE, canary.dest)

    assert ended.code == 2
    told = error_of(ended)
    assert told.startswith(f"{canary.dest} is not empty and holds no fetchmill job (it contains {name.rstrip('/')}); ")
    assert told.endswith("choose a new or empty destination")
    assert (found.stat(), [path.name for path in canary.dest.iterdir()]) == (before, [found.name])


def test_state_folder_below_file_is_refused(run: Run, canary: Canary) -> None:
    """A state folder below a file is refused, and the error has its path."""
    taken = canary.dest.parent / "taken"
    taken.write_text("mine")
    canary.look_again()

    ended = run("get", SOURCE, canary.dest, "--state", taken / "state")

    assert ended.code in (2, 7)
    assert str(taken / "state") in error_of(ended)
    assert taken.read_text() == "mine"


OTHER_JOBS: dict[str, tuple[list[str], str]] = {
    "format": (["--format", "null"], "format"),
    "listing": (["--listing", "autoindex"], "listing"),
    "list-path": (["--list-path", "/all"], "listing"),
    "get-path": (["--get-path", "/raw/{name}"], "listing"),
    "marker": (["--marker-param", "marker"], "listing"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "differs"), OTHER_JOBS.values(), ids=OTHER_JOBS)
def test_destination_of_another_job_is_refused(
    run: Run, raw: Raw, canary: Canary, arguments: list[str], differs: str
) -> None:
    """The exit code is 2, and the error shows the difference. The existing job is unchanged and can continue."""
    server = raw(mirror(["a"]))
    assert run("get", server.url, canary.dest).code == 0

    other = run("get", server.url, canary.dest, *arguments)

    assert other.code == 2
    assert differs in error_of(other)
    assert str(canary.dest) in error_of(other)
    assert tree_names(canary.dest) == ["a"]
    assert run("get", server.url, canary.dest).code == 0
    assert len(server.requests) == 2


def test_destination_of_another_source_is_refused(run: Run, raw: Raw, canary: Canary) -> None:
    """The error for a destination of another source has both sources."""
    mine, other = raw(mirror(["a"])), raw(mirror(["a"]))
    assert run("get", mine.url, canary.dest).code == 0

    ended = run("get", other.url, canary.dest)

    assert ended.code == 2
    assert all(part in error_of(ended) for part in ("source", mine.url, other.url, str(canary.dest)))
    assert other.requests == []


def test_concurrent_run_is_refused(run: Run, start: Run, raw: Raw, canary: Canary) -> None:
    """A second run gets exit code 9 while the first is active; the first continues."""
    names = [f"n{number}" for number in range(10)]
    server = raw(mirror(names, {"n5": in_turn(then_stall(b""), reply(b"n5"))}))
    first = start("get", server.url, canary.dest, "--head-timeout", "1500ms")
    while not server.asked():
        assert first.poll() is None
        time.sleep(0.01)

    second = run("get", server.url, canary.dest)
    first.communicate(timeout=120)

    assert second.code == 9
    assert error_of(second) == (
        f"another fetchmill process is working on {canary.dest}; wait for it or stop it, then run this command again"
    )
    assert first.returncode == 0
    assert tree_names(canary.dest) == names


def test_sigint_stops_run_quickly_when_listing_stalls(start: Run, raw: Raw, canary: Canary) -> None:
    """SIGINT ends a job quickly even if its listing never arrives."""
    server = raw({"/list": then_stall(b"")})
    process = start("get", server.url, canary.dest)
    while not server.requests:
        assert process.poll() is None
        time.sleep(0.01)

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)

    assert process.returncode == 130
    assert "error" not in err


# --- a throttled target does not slow others ---------------------------------------------------------------------

TARGETS = 10_000
SLOW = 10
RETRY_AFTER = 2


def seconds_until_fetched(url: str, dest: Path, count: int) -> tuple[float, float]:
    """Runs a job. Returns the seconds until the given number of targets were fetched, and until it ended."""
    job = Job(GetOptions(source=url, dest=dest, format="null", durability="process").to_json())
    started = time.monotonic()
    reached = None
    while not job.wait(0.002):
        if reached is None and job.snapshot()["fetched"] >= count:
            reached = time.monotonic() - started
    ended = time.monotonic() - started
    report = job.report()
    assert (report["fetched"], report["failed"]) == (TARGETS, 0)
    return reached or ended, ended


@pytest.mark.timing
def test_throttled_target_does_not_slow_others(server: Serve, tmp_path: Path) -> None:
    """If 1 of 1,000 targets answers with Retry-After, the others keep at least 90 % of their rate."""
    slow_names = [
        Fault("status", status=503, retry_after=RETRY_AFTER, times=1, match=f"file-{index:012}")
        for index in range(7, TARGETS, TARGETS // SLOW)
    ]
    ratios = []
    # Another process may slow down one of these attempts; a job that waits for such a target is slower in each.
    for attempt in range(3):
        # With a delay, the rate depends on the number of requests in flight.
        plain = server(synthetic=TARGETS, delay=(0.002, 0.004))
        undisturbed, _ = seconds_until_fetched(plain.url, tmp_path / f"plain-{attempt}", TARGETS - SLOW)
        faulty = server(synthetic=TARGETS, delay=(0.002, 0.004), faults=slow_names)
        others, ended = seconds_until_fetched(faulty.url, tmp_path / f"slow-{attempt}", TARGETS - SLOW)
        assert faulty.stats()["get"] == TARGETS + SLOW
        assert RETRY_AFTER <= ended < others + 2 * RETRY_AFTER
        ratios.append(undisturbed / others)
        if ratios[-1] >= 0.9:
            return
    pytest.fail(f"of their rate the others kept {ratios}")
