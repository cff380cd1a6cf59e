"""Conditional requests: a 304 means that nothing has changed, and is a failure only if it was not requested."""

import csv
import json
import os
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from nginx import Nginx, Site
from raw_server import Exchange, RawServer, reply

Run = Callable[..., Any]

COLUMNS = ("name", "url", "size", "etag", "last_modified", "if_none_match", "if_modified_since")
HEADERS = ("--header", "If-None-Match: {if_none_match}", "--header", "If-Modified-Since: {if_modified_since}")
WRITTEN = 1_767_225_600
OBJECTS = 300


@pytest.fixture
def url(nginx: Callable[..., Nginx], served: Path) -> str:
    """Serves files that were written long ago; below /always, every reply is a 304."""
    for number in range(OBJECTS):
        path = served / f"f{number:03}"
        path.write_bytes(f"object {number}".encode())
        os.utime(path, (WRITTEN, WRITTEN))
    return nginx(files=Site(directives="location /always { return 304; }")).url("files", "127.0.0.1")


def manifest(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    """Writes a manifest with columns for conditional requests."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    return path


def test_unchanged_objects_are_skipped_even_after_kill(
    run: Run, start: Callable[..., Any], url: str, served: Path, dest: Path, tmp_path: Path
) -> None:
    """Requests use a time, an ETag, or no condition; objects have the names in the manifest."""
    known = formatdate(WRITTEN, usegmt=True)
    rows = [(f"{number}.txt", f"{url}/f{number:03}", "", "", "", "", known) for number in range(OBJECTS)]
    rows[0] = ("0.txt", f"{url}/f000", "", "", "", "", "")  # it is requested as usual
    rows[1] = ("1.txt", f"{url}/f001", "", "", "", '"another"', "")
    changed = range(0, OBJECTS, 3)
    for number in changed:
        (served / f"f{number:03}").write_bytes(b"changed")
    words = ("get", manifest(tmp_path / "list.csv", rows), dest, "--allow-private", *HEADERS, "--json")

    killed = start(*words, "--rate", "150", "--commit-window", "50ms")
    while not list(dest.glob("*.txt")):
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    ended = run(*words)

    report = json.loads(ended.out.splitlines()[-1])
    fetched = {f"{number}.txt" for number in changed} | {"1.txt"}
    assert ended.code == 0, ended.err
    assert (report["fetched"], report["skipped"], report["failed"]) == (len(fetched), OBJECTS - len(fetched), 0)
    assert {path.name for path in dest.iterdir() if path.is_file()} == fetched
    assert (dest / "3.txt").read_bytes() == b"changed"
    assert fetchmill.open(dest).record("1.txt").body == b"object 1"


def test_unrequested_304_fails(run: Run, url: str, dest: Path, tmp_path: Path) -> None:
    """Otherwise, the object would not be stored anywhere."""
    known = formatdate(WRITTEN, usegmt=True)
    rows = [("a", f"{url}/always/a", "", "", "", "", known), ("b", f"{url}/always/b", "", "", "", "", "")]

    ended = run("get", manifest(tmp_path / "list.csv", rows), dest, "--allow-private", *HEADERS)

    assert ended.code == 3
    assert [(failure.name, failure.kind, failure.status) for failure in fetchmill.failures(dest)] == [
        ("b", "redirect", 304)
    ]
    assert fetchmill.status(dest).skipped == 1


def test_304_with_other_etag_is_repeated_unconditionally(run: Run, dest: Path, tmp_path: Path) -> None:
    """A 304 with another ETag names a version that the destination does not have."""

    def changed(exchange: Exchange) -> bytes:
        if b"if-none-match" in exchange.head.lower():
            return reply(b"", 'ETag: "new"', status="304 Not Modified")
        return reply(b"new", 'ETag: "new"')

    with RawServer({"/a": changed, "/b": reply(b"", 'ETag: W/"old"', status="304 Not Modified")}) as server:
        rows = [(name, f"{server.url}/{name}", "", "", "", '"old"', "") for name in "ab"]
        ended = run("get", manifest(tmp_path / "list.csv", rows), dest, "--allow-private", *HEADERS[:2])

    assert (ended.code, server.count("/a"), server.count("/b")) == (0, 2, 1)
    assert [path.name for path in dest.iterdir() if path.is_file()] == ["a"]
    assert (dest / "a").read_bytes() == b"new"
