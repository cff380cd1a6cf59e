"""A SOURCE may be a single object; listings are still detected."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from raw_server import Behaviour, RawServer, reply
from stored import read_objects

Run = Callable[..., Ended]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

INDEX = (
    b"<html><head><title>Index of /d/</title></head><body><h1>Index of /d/</h1><pre><a href=a>a</a></pre></body></html>"
)
JSON_INDEX = b'[{"name": "a", "type": "file", "mtime": "Wed, 25 Nov 2026 10:00:00 GMT", "size": 1}]'
BODY = bytes(range(256)) * 40


@pytest.mark.parametrize("format", ["files", "parquet", "tar"])
def test_object_is_fetched_by_its_url(run: Run, raw: Raw, dest: Path, format: str) -> None:
    """A single object is requested once to detect its type, and once to be stored.

    The same command then sends no request.
    """
    site = raw({"/d%20e/%C3%BC%20b.bin": reply(BODY)})
    for _ in range(2):
        ended = run("get", f"{site.url}/d%20e/%C3%BC%20b.bin", dest, "--format", format)
        assert ended.code == 0, ended.err
    assert list(read_objects(dest, format)) == [("ü b.bin", BODY)]
    assert site.requests.count("/d%20e/%C3%BC%20b.bin") == 2
    assert run("verify", dest).code == 0


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("page.html", b"<!doctype html><title>Hello</title><a href=a>a</a>"),
        ("data.json", b'[{"id": 1}, {"id": 2}]'),
        ("object.json", b'{"a": 1}'),
        ("empty", b""),
        ("large", BODY * 2000),
        ("text", b" plain"),
    ],
)
def test_reply_without_listing_is_stored_as_object(run: Run, raw: Raw, dest: Path, name: str, body: bytes) -> None:
    """A reply without a listing is stored as an object, whatever it contains."""
    site = raw({f"/d/{name}": reply(body)})
    ended = run("get", f"{site.url}/d/{name}", dest)
    assert ended.code == 0, ended.err
    assert list(read_objects(dest, "files")) == [(name, body)]


@pytest.mark.parametrize("format", ["files", "jsonl", "warc"])
def test_api_page_is_stored_as_object_with_notice(run: Run, raw: Raw, tmp_path: Path, format: str) -> None:
    """A page of an API gets a notice, because the user probably wanted its items. Other JSON objects get none."""
    pages = {"page": b'{"data": [{"id": 1}], "next": "/d/page?p=2"}', "last": b'{"data": [{"id": 1}], "next": null}'}
    site = raw({f"/d/{name}": reply(body) for name, body in pages.items()})

    ended, last = (run("get", f"{site.url}/d/{name}", tmp_path / name, "--format", format) for name in pages)

    assert (ended.code, last.code) == (0, 0), ended.err
    notice = "the object is a JSON page with an array and the field next; to fetch its items, use --listing json"
    assert (notice in ended.err, "JSON page" in last.err) == (True, False)


def test_folders_are_listed_with_or_without_slash(run: Run, raw: Raw, dest: Path) -> None:
    """A folder is listed with or without a trailing slash. A folder with an unknown page is refused with a hint."""
    for body in (INDEX, JSON_INDEX):
        for routes in ({"/d/": reply(body)}, {"/d": reply(body)}, {"/d": moved("/d/"), "/d/": reply(body)}):
            site = raw({**routes, "/d/a": reply(b"a")})
            out = dest / f"{len(body)} {len(routes)} {'/d/' in routes}"
            ended = run("get", f"{site.url}/d", out)
            assert (ended.code, list(read_objects(out, "files"))) == (0, [("a", b"a")]), ended.err
    site = raw({"/d": moved("/d/"), "/d/": reply(b"<title>My files</title><a href=a>a</a>")})
    for source in ("d", "d/"):
        ended = run("get", f"{site.url}/{source}", dest / "other")
        assert (ended.code, "--listing links" in ended.err) == (4, True), ended.err


def moved(target: str) -> bytes:
    """Returns a redirect."""
    return reply(b"", f"Location: {target}", status="301 Moved Permanently")


def test_missing_object_fails_and_leaves_nothing(run: Run, raw: Raw, dest: Path) -> None:
    """A missing object fails like a missing folder, and leaves nothing."""
    site = raw({})
    ended = run("get", f"{site.url}/d/missing.bin", dest)
    assert ended.code == 4, ended.err
    assert site.requests[-2:] == ["/d/missing.bin", "/d/missing.bin/"]


def test_list_and_sync_accept_single_object_and_check_does_not(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """`--listing object` stores any page verbatim. `list` and `sync` accept an object; `check` refuses a URL."""
    site = raw({"/d/": reply(INDEX), "/d/a.bin": reply(BODY, 'ETag: "1"')})
    ended = run("get", f"{site.url}/d/a.bin", dest, "--listing", "object")
    assert (ended.code, list(read_objects(dest, "files")), site.requests) == (0, [("a.bin", BODY)], ["/d/a.bin"])
    ended = run("list", f"{site.url}/d/a.bin", tmp_path / "listed.csv")
    assert ended.code == 0, ended.err
    assert f"a.bin,{site.url}/d/a.bin" in (tmp_path / "listed.csv").read_text()
    for _ in range(2):
        ended = run("sync", f"{site.url}/d/a.bin", tmp_path / "synced")
        assert ended.code == 0, ended.err
        assert list(read_objects(tmp_path / "synced", "files")) == [("a.bin", BODY)]
    ended = run("check", f"{site.url}/d/a.bin", tmp_path / "rows.csv")
    assert ended.code == 2, ended.err
    ended = run("get", f"{site.url}/d/", dest.with_name("page"), "--listing", "object")
    assert (ended.code, "not the URL of an object" in ended.err) == (2, True)
    report = fetchmill.get(f"{site.url}/d/a.bin", tmp_path / "python")
    assert report.fetched == 1
