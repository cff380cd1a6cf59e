"""JSON pages of any API as a source: pagination methods, where objects may be, and hostile pages."""

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from check_results import read_rows
from engines import PATIENCE, engine_options
from fetchmill import ListingError, SecurityError, UsageError
from raw_server import Behaviour, Exchange, RawServer, reply
from stored import everything, find_wrong, read_objects, shards

Run = Callable[..., Any]
Raw = Callable[..., RawServer]

ITEMS = ("--listing", "json", "--items-field", "data.photos", "--url-field", "urls.full")
MARKER = (*ITEMS, "--next-page", "marker", "--next-field", "next", "--marker-param", "after")
BY_PAGE = (*ITEMS, "--next-page", "page")
KEY = "key-of-the-api"
# The arrays are nested.
DEEP = b"[" * 100_000 + b"]" * 100_000
WAYS = ("marker", "url", "link", "page", "offset")
OBJECTS = {f"/img/{number}": b"object %d" % number for number in range(7)}


def photos(*urls: object, links: tuple[str, ...] = (), **fields: object) -> bytes:
    """Returns a page that lists these URLs."""
    items = [{"id": number, "urls": {"full": url, "thumb": [None]}} for number, url in enumerate(urls)]
    body = {"more": {"x": []}, "data": {"photos": items}, **fields}
    return reply(json.dumps(body).encode(), "Content-Type: application/json", *links)


def objects(routes: dict[str, bytes]) -> dict[str, Behaviour]:
    """Returns the routes of these objects."""
    return {path: reply(body) for path, body in routes.items()}


def listing(way: str) -> dict[str, Behaviour]:
    """Returns routes: seven objects on pages of three with this pagination method. The query of the source is kept."""
    paths = list(OBJECTS)
    parts = [paths[:3], paths[3:6], paths[6:]]
    first, second, third = "/v1/photos?per=3", "/v1/photos?per=3&{}=2nd", "/v1/photos?per=3&{}=3rd"
    if way == "marker":
        return {
            target.format("after"): photos(*part, next=lead)
            for target, part, lead in zip((first, second, third), parts, ("2nd", "3rd", None), strict=True)
        }
    if way == "url":
        return {
            first: photos(*parts[0], next="?p=2"),
            "/v1/photos?p=2": photos(*parts[1], next="/v1/last"),
            "/v1/last": photos(*parts[2]),
        }
    if way == "link":
        links = ('Link: </v1/photos?p=2>; rel="next", </v1/last>; rel="last"', "Link: </v1/last>; rel=next")
        return {
            first: photos(*parts[0], links=(links[0],)),
            "/v1/photos?p=2": photos(*parts[1], links=("Link: </x>; rel=prev", links[1])),
            "/v1/last": photos(*parts[2], links=("Link: </v1/photos?p=1>; rel=first",)),
        }
    numbers = ("2", "3", "4") if way == "page" else ("3", "6", "7")
    targets = [first, *(f"{first}&{way}={number}" for number in numbers)]
    return {target: photos(*part) for target, part in zip(targets, [*parts, []], strict=True)}


def way_options(way: str) -> tuple[str, ...]:
    """Returns the options for finding the next page."""
    own = {"marker": ("--next-field", "next", "--marker-param", "after"), "url": ("--next-field", "next")}
    return (*ITEMS, "--next-page", way, *own.get(way, ()))


def named(url: str, paths: dict[str, bytes], format: str) -> dict[str, bytes]:
    """Maps objects to their stored names: their URLs, for files without the scheme."""
    before = url.removeprefix("http://") if format == "files" else url
    return {before + path: body for path, body in paths.items()}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("engine", "format"), [("native", "jsonl"), ("native", "files"), ("asyncio", "jsonl")])
@pytest.mark.parametrize("way", WAYS)
def test_every_pagination_method_reaches_all_pages(
    run: Run, raw: Raw, dest: Path, way: str, format: str, engine: str
) -> None:
    """Each page is requested once, and each object is stored once under its own URL."""
    server = raw({**listing(way), **objects(OBJECTS)})
    command = ("get", f"{server.url}/v1/photos?per=3", dest, *way_options(way), "--format", format)

    ended = run(*command, *engine_options(engine))
    again = run(*command, *engine_options(engine))

    assert ended.code == 0, ended.err
    assert "7 listed = 7 fetched + 0 absent + 0 failed + 0 skipped\n" in ended.err
    assert find_wrong(dest, format, named(server.url, OBJECTS, format)) == []
    assert server.asked("/v1/") == list(listing(way))
    assert (again.code, "already complete" in again.err) == (0, True)


def test_python_has_same_json_listing_options(raw: Raw, dest: Path, tmp_path: Path) -> None:
    """`get` and `list` in Python take names and sizes from fields, and an object of another size fails."""
    items = [{"key": f"n{n}", "size": len(body), "href": path} for n, (path, body) in enumerate(OBJECTS.items())]
    items.append({"key": "longer", "size": 99, "href": "/img/0"})
    server = raw({"/list": reply(json.dumps({"results": items, "next": None}).encode()), **objects(OBJECTS)})
    keywords: dict[str, Any] = {
        "listing": "json",
        "items_field": "results",
        "url_field": "href",
        "name_field": "key",
        "size_field": "size",
        "next_page": "url",
        "next_field": "next",
    }

    report = fetchmill.get(f"{server.url}/list", dest, format="jsonl", **keywords)
    rows: list[fetchmill.ListedTarget] = []
    fetchmill.list(f"{server.url}/list", each=rows.extend, **keywords)

    assert (report.fetched, report.failed) == (7, 1)
    assert [failure.kind for failure in fetchmill.failures(dest)] == ["changed"]
    assert dict(read_objects(dest, "jsonl")) == {f"n{n}": body for n, body in enumerate(OBJECTS.values())}
    stored = [json.loads(line) for shard in shards(dest, "jsonl") for line in shard.read_text().splitlines()]
    assert {row["name"]: row["url"] for row in stored} == {f"n{n}": f"{server.url}/img/{n}" for n in range(7)}
    assert fetchmill.verify(dest, sample=7).compared == 7
    assert [(row.name, row.url, row.size) for row in rows][1:3] == [
        (f"n{n}", f"{server.url}/img/{n}", 8) for n in (1, 2)
    ]
    for wrong in ({"next_page": None}, {"next_field": None}, {"items_field": "."}, {"url_field": "a..b"}):
        with pytest.raises(UsageError):
            fetchmill.get(f"{server.url}/list", tmp_path / "wrong", **(keywords | wrong))


def test_array_of_strings_is_read_as_page(run: Run, raw: Raw, dest: Path) -> None:
    """An array of strings needs no field options; filters match its URLs."""
    body = json.dumps([*OBJECTS, "/img/5?x"]).encode()
    server = raw({"/all": reply(body), **objects(OBJECTS)})
    options = ("--listing", "json", "--next-page", "none", "--exclude", "*/3")

    ended = run("get", f"{server.url}/all", dest, *options, "--format", "jsonl")

    assert ended.code == 0, ended.err
    assert "8 listed = 7 fetched + 0 absent + 0 failed + 1 skipped\n" in ended.err


def asked_with(into: list[bytes], body: bytes) -> Behaviour:
    """Records the heads of requests."""

    def behave(exchange: Exchange) -> bytes:
        into.append(exchange.head)
        return reply(body)

    return behave


@pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])
def test_other_origin_gets_no_credential_and_must_be_public(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """Only the source's own origin may have a private address, and only it gets the user's headers."""
    there: list[bytes] = []
    here: list[bytes] = []
    other = raw({"/far": asked_with(there, b"far")})
    source = raw({"/near": asked_with(here, b"near")})
    source.routes["/v1"] = photos("/near", f"{other.url}/far")
    one_page = (*ITEMS, "--next-page", "none", "--format", "jsonl", *engine_options(engine))
    command = ("get", f"{source.url}/v1", "--header", f"X-Key: {KEY}", *one_page)

    refused = run(*command, dest)
    allowed = run(*command, dest.with_name("allowed"), "--allow-private")

    assert refused.code == 3, refused.err
    assert "2 listed = 1 fetched + 0 absent + 1 failed + 0 skipped\n" in refused.err
    assert [failure.kind for failure in fetchmill.failures(dest)] == ["private-address"]
    assert allowed.code == 0, allowed.err
    assert len(there) == 1
    assert not any(KEY.encode() in head for head in there)
    assert len(here) == 2
    assert all(KEY.encode() in head for head in here)
    assert not any(KEY.encode() in stored for stored in everything(dest))


def marker_of(dest: Path) -> str | None:
    """Returns the position of the listing in the journal."""
    path = dest / ".fetchmill/job.sqlite"
    if not path.exists():
        return None
    with contextlib.closing(sqlite3.connect(path)) as journal, contextlib.suppress(sqlite3.OperationalError):
        row = journal.execute("SELECT value FROM job WHERE key = 'marker'").fetchone()
        return None if row is None else str(row[0])
    return None


def stall_once(answer: bytes) -> Behaviour:
    """Stalls the first client until it disconnects."""

    def behave(exchange: Exchange) -> bytes | None:
        if exchange.number > 1:
            return answer
        exchange.stall()
        return None

    return behave


@pytest.mark.parametrize("way", WAYS)
def test_killed_listing_resumes_at_its_last_page(run: Run, start: Run, raw: Raw, dest: Path, way: str) -> None:
    """Pages in the journal are not requested again, and each object is stored once."""
    pages = listing(way)
    first, second, third = list(pages)[:3]
    held = pages[third]
    assert isinstance(held, bytes)
    server = raw({**pages, third: stall_once(held), **objects(OBJECTS)})
    command = ("get", f"{server.url}/v1/photos?per=3", dest, *way_options(way), "--format", "jsonl")
    # At this rate, objects are still missing when the job is killed.
    process = start(*command, "--rate", "2")
    deadline = time.monotonic() + PATIENCE
    last = f"{server.url}/v1/last"
    lead = {"marker": "3rd", "url": last, "link": last, "page": "3", "offset": "6"}[way]
    while marker_of(dest) != lead or server.count(third) == 0:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    other = run(*command, "--items-field", "photos")
    ended = run(*command)

    assert (other.code, "its listing is" in other.err) == (2, True), other.err
    assert ended.code == 0, ended.err
    assert "7 listed = 7 fetched" in ended.err
    assert (server.count(first), server.count(second), server.count(third)) == (1, 1, 2)
    assert find_wrong(dest, "jsonl", named(server.url, OBJECTS, "jsonl")) == []


@pytest.mark.parametrize(
    ("routes", "options", "code", "message"),
    [
        ({"/v1": photos("/a", next="m")}, MARKER, 4, "the listing never ends"),
        (
            {"/v1": photos("/a", next="m"), "/v1?after=m": photos("/b", next="m")},
            MARKER,
            4,
            "never ends: the page http://127.0.0.1:",
        ),
        (
            {"/v1": photos(next="a"), "/v1?after=a": photos("/a", next="b"), "/v1?after=b": photos("/b", next="a")},
            MARKER,
            4,
            "/v1?after=a, which was already listed",
        ),
        (
            {"/v1": photos("/a", next="/v2"), "/v2": photos("/b", next="/v1")},
            way_options("url"),
            4,
            "/v1, which was already listed",
        ),
        (
            {"/v1": photos(links=("Link: </v2>; rel=next",)), "/v2": photos(links=("Link: </v1>; rel=next",))},
            way_options("link"),
            4,
            "/v1, which was already listed",
        ),
        ({"/v1": photos("/a", next="/v1")}, way_options("url"), 4, "was already listed"),
        ({"/v1": photos("/a", links=("Link: </v1>; rel=next",))}, way_options("link"), 4, "was already listed"),
        ({"/v1": photos("/a", "/b")}, BY_PAGE, 4, "repeats the items of an earlier page"),
        ({"/v1": photos("/a", "/b")}, (*ITEMS, "--next-page", "offset"), 4, "repeats the items of an earlier page"),
        ({"/v1": photos("/a", next="http://127.0.0.1:9/")}, way_options("url"), 6, "another origin"),
        ({"/v1": photos("/a", links=("Link: <//b.test/>; rel=next",))}, way_options("link"), 6, "another origin"),
        ({"/v1": photos("/a", links=("Link: /b; rel=next",))}, way_options("link"), 4, "the Link header field cannot"),
        ({"/v1": photos("/a", next={"x": 1})}, MARKER, 4, "does not contain a marker"),
        ({"/v1": reply(b'{"data": {"photos": %s}}' % DEEP)}, BY_PAGE, 4, "no item has the field"),
        ({"/v1": reply(b'{"data": ' * 100_000 + b"1" + b"}" * 100_000)}, BY_PAGE, 4, "/v1"),
        ({"/v1": reply(b'{"data": {"photos": {"a": 1}}}')}, BY_PAGE, 4, "an array of items"),
        ({"/v1": reply(b'{"data": []}')}, BY_PAGE, 4, "an object with the field"),
        ({"/v1": reply(b'{"photos": []}')}, BY_PAGE, 4, "no field data.photos"),
        ({"/v1": reply(b'{"data": {"photos": [{"url": "/a"}]}}')}, BY_PAGE, 4, "--url-field"),
        ({"/v1": reply(b"<html>")}, BY_PAGE, 4, "not valid JSON of the expected form"),
        ({"/v1": reply(b"\xff")}, BY_PAGE, 4, "not UTF-8"),
        ({"/v1": reply(b" " * (17 << 20))}, BY_PAGE, 4, "larger than 16 MiB"),
        ({"/v1": reply(b'{"data": {"photos": [')}, BY_PAGE, 4, "EOF"),
    ],
)
def test_hostile_pages_end_listing(
    run: Run, raw: Raw, dest: Path, routes: dict[str, Behaviour], options: tuple[str, ...], code: int, message: str
) -> None:
    """A one-line error has the page and the reason. Targets listed before it are fetched."""
    server = raw({**routes, "/a": reply(b"a"), "/b": reply(b"b")})

    ended = run("get", f"{server.url}/v1", dest, *options, "--format", "jsonl")

    assert (ended.code, message in ended.err) == (code, True), ended.err
    assert len([line for line in ended.err.splitlines() if message in line]) == 1
    bodies = [body for _, body in read_objects(dest, "jsonl")] if dest.exists() else []
    assert sorted(bodies) == sorted(set(bodies))


def test_endless_pages_without_items_end_listing(run: Run, raw: Raw, dest: Path) -> None:
    """Pages without items end the listing, even if each leads to a new page."""

    def page(exchange: Exchange) -> bytes:
        number = int(exchange.target.rpartition("=")[2]) if "=" in exchange.target else 0
        return photos(next=number + 1)

    server = raw({"/v1": page})

    ended = run("get", f"{server.url}/v1", dest, *MARKER, "--format", "null")

    assert (ended.code, "1000 pages in a row had no names" in ended.err) == (4, True), ended.err
    # A slow page on a busy machine may be requested again.
    assert len(set(server.requests)) == 1001


def test_items_without_url_fail(run: Run, raw: Raw, dest: Path) -> None:
    """Items without a URL count as failed, so that no listed item is lost silently."""
    items = [{"urls": {"full": "/a"}}, {"urls": {}}, 5, {"urls": {"full": "s3://bucket/key"}}, {"urls": {"full": None}}]
    server = raw({"/v1": reply(json.dumps({"data": {"photos": items}}).encode()), "/a": reply(b"a")})

    ended = run("get", f"{server.url}/v1", dest, *ITEMS, "--next-page", "none")

    assert ended.code == 3, ended.err
    assert "5 listed = 1 fetched + 0 absent + 4 failed + 0 skipped\n" in ended.err
    failures = list(fetchmill.failures(dest))
    assert {failure.kind for failure in failures} == {"url"}
    assert {failure.name for failure in failures} == {f"item {n} of {server.url}/v1" for n in (2, 3, 4, 5)}


def test_questionable_json_options_are_reported(run: Run, raw: Raw, dest: Path) -> None:
    """Missing fields for the next page, options of another listing type, and a query without this type are reported."""
    server = raw({"/v1": photos("/a"), "/a": reply(b"a")})
    url = f"{server.url}/v1"

    one_page = run("get", url, dest, *MARKER)
    for wrong, message in [
        ((url, *ITEMS), "--next-page"),
        ((url, "--url-field", "x"), "--url-field requires --listing json"),
        ((url, *MARKER, "--names-field", "x"), "--names-field requires --listing api"),
        ((f"{url}?x=1",), "--listing json accepts a query"),
        ((f"{url}?page=x", *BY_PAGE), "parameter page of SOURCE must be a whole number, not x"),
        (("list.txt", *ITEMS), "is for servers that list their objects"),
    ]:
        ended = run("get", wrong[0], dest.with_name("wrong"), *wrong[1:])
        assert (ended.code, message in ended.err) == (2, True), ended.err

    assert one_page.code == 0
    assert "the listing has only one page" in one_page.err


def test_sync_compares_names_and_sizes_of_pages(run: Run, raw: Raw, dest: Path) -> None:
    """A sync compares names and sizes with the stored ones. With other fields, the source is a different one."""
    fields = ("--listing", "json", "--items-field", "data", "--url-field", "href", "--name-field", "id")
    words = (*fields, "--size-field", "size", "--next-page", "none", "--delete", "--max-delete", "1", "--json")

    def page(*numbers: int) -> bytes:
        items = [{"id": f"n{n}", "href": f"/img/{n}", "size": len(OBJECTS[f"/img/{n}"])} for n in numbers]
        return reply(json.dumps({"data": items}).encode())

    pages = iter([page(0, 1, 2, 3), page(1, 2, 3, 4), page(1)])
    server = raw({"/v1": lambda _: next(pages), **objects(OBJECTS)})
    url = f"{server.url}/v1"

    first = json.loads(run("sync", url, dest, *words).out.splitlines()[-1])
    second = json.loads(run("sync", url, dest, *words).out.splitlines()[-1])
    refused = run("sync", url, dest, *fields, "--next-page", "none")

    assert (first["listed"], first["fetched"]) == (4, 4)
    assert (second["listed"], second["removed"], second["failed"]) == (4, 1, 0)
    found = {path.name: path.read_bytes() for path in dest.iterdir() if path.is_file()}
    assert found == {f"n{n}": OBJECTS[f"/img/{n}"] for n in (1, 2, 3, 4)}
    assert (refused.code, "with the options" in refused.err) == (2, True)


def test_times_of_pages_show_changes(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """In every format, times and sizes of pages show which objects changed. A manifest has the times."""
    fields = ("--listing", "json", "--items-field", "data", "--url-field", "href", "--name-field", "id")
    words = (*fields, "--size-field", "size", "--modified-field", "meta.at", "--next-page", "none", "--json")
    times: list[str | int | None] = ["2026-01-01T10:00:00Z", "Thu, 01 Jan 2026 10:00:00 GMT", 1_767_261_600, None]

    def page() -> bytes:
        items = [
            {"id": f"n{n}", "href": f"/img/{n}", "size": len(OBJECTS[f"/img/{n}"]), "meta": {"at": at}}
            for n, at in enumerate(times)
        ]
        return reply(json.dumps({"data": items}).encode())

    server = raw({"/v1": lambda _: page(), **objects(OBJECTS)})
    url = f"{server.url}/v1"
    assert run("list", url, tmp_path / "listed.jsonl", *words[:-1]).code == 0
    rows = [json.loads(line) for line in (tmp_path / "listed.jsonl").read_text().splitlines()]
    assert run("sync", url, dest, *words).code == 0
    before = len(server.asked("/img/"))
    times[1] = "Thu, 01 Jan 2026 10:00:01 GMT"

    second = json.loads(run("sync", url, dest, *words).out.splitlines()[-1])

    # The last object has no time, so it is requested.
    assert sorted(server.asked("/img/")[before:]) == ["/img/1", "/img/3"]
    assert (second["listed"], second["unchanged"]) == (4, 2)
    assert [row["last_modified"] for row in rows] == ["2026-01-01T10:00:00.000000Z"] * 3 + [None]


def test_failed_json_page_is_requested_again(run: Run, raw: Raw, dest: Path) -> None:
    """A failed JSON page is requested again after Retry-After. Redirects of objects are followed as for lists."""
    tries: list[float] = []

    def second(_exchange: Exchange) -> bytes:
        tries.append(time.monotonic())
        return photos("/c") if len(tries) > 1 else reply(b"", "Retry-After: 1", status="429 Slow down")

    server = raw({"/v1": photos("/a", next="m"), "/v1?after=m": second, "/c": reply(b"c")})
    server.routes["/a"] = reply(b"", "Location: /b", status="302 Found")
    server.routes["/b"] = reply(b"b")

    ended = run("get", f"{server.url}/v1", dest, *MARKER, "--format", "jsonl", "--allow-private")

    assert ended.code == 0, ended.err
    assert len(tries) == 2
    assert dict(read_objects(dest, "jsonl")) == {f"{server.url}/a": b"b", f"{server.url}/c": b"c"}


def test_plan_and_list_read_json_pages(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """`plan` and `list` read JSON pages, and `check` reads the manifest."""
    server = raw({**listing("offset"), **objects(OBJECTS)})
    source, options = f"{server.url}/v1/photos?per=3", way_options("offset")

    planned = run("plan", source, *options, "--probe-seconds", "0.5")
    listed = run("list", source, tmp_path / "all.jsonl", *options)
    checked = run("check", "all.jsonl", "rows.jsonl", "--allow-private")

    assert planned.code == 0, planned.err
    assert listed.code == 0, listed.err
    assert sorted(row["url"] for row in read_rows(tmp_path / "all.jsonl")) == [server.url + path for path in OBJECTS]
    assert checked.code == 0, checked.err
    assert not dest.exists()


def test_json_listing_errors_have_documented_classes(raw: Raw, dest: Path) -> None:
    """Errors of JSON listings are SecurityError and ListingError in Python."""
    server = raw({"/away": photos("/a", next="//b.test/"), "/none": reply(b"[]"), "/a": reply(b"a")})
    keywords: dict[str, Any] = {"listing": "json", "items_field": "data.photos", "url_field": "urls.full"}
    keywords |= {"next_page": "url", "next_field": "next", "format": "null"}

    with pytest.raises(SecurityError):
        fetchmill.get(f"{server.url}/away", dest, **keywords)
    with pytest.raises(ListingError):
        fetchmill.get(f"{server.url}/none", dest.with_name("none"), **keywords)
