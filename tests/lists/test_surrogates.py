"""An unpaired surrogate, which Python's json writes as an escape, affects only the name that has it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from raw_server import RawServer

pytestmark = pytest.mark.entry_point

Run = Callable[..., Any]
Raw = Callable[..., RawServer]

BAD = "b\udcff.txt"


def reply(body: str | bytes) -> bytes:
    """Returns a 200 reply."""
    data = body if isinstance(body, bytes) else body.encode()
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


@pytest.mark.parametrize("format", ["files", "parquet", "null"])
@pytest.mark.parametrize("listing", ["api", "autoindex"])
def test_listed_name_with_surrogate_fails_alone(run: Run, raw: Raw, dest: Path, listing: str, format: str) -> None:
    """A name with a surrogate is not requested, because the API cannot express it. Its neighbours are fetched."""
    names = ["a.txt", BAD, "c.txt"]
    if listing == "api":
        routes = {"/list": reply(json.dumps({"FileNames": names})), "/get/a.txt": reply("a"), "/get/c.txt": reply("c")}
    else:
        entries = [{"name": name, "type": "file", "mtime": "", "size": 1} for name in names]
        routes = {"/": reply(json.dumps(entries)), "/a.txt": reply("a"), "/c.txt": reply("c")}
    server = raw(routes)

    ended = run("get", server.url, dest, "--listing", listing, "--format", format)

    assert ended.code == 3, ended.err
    if listing == "autoindex":
        # Names of folders are bytes, so such a name may exist.
        assert "3 listed = 2 fetched + 1 absent + 0 failed" in ended.err
        return
    assert "3 listed = 2 fetched + 0 absent + 1 failed" in ended.err
    assert [(each.kind, each.attempts) for each in fetchmill.failures(dest)] == [("name", 0)]
    assert sum("txt" in target for target in server.requests) == 2


def test_list_line_with_surrogate_fails_alone(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """A surrogate in the URL or in a kept column fails the line; unused columns do not matter."""
    server = raw({"/a": reply("a"), "/d": reply("d")})
    rows = [
        {"url": f"{server.url}/a", "note": "fine", "other": "\ud800"},
        {"url": f"{server.url}/\ud800", "note": "fine"},
        {"url": f"{server.url}/c", "note": "\ud800"},
        {"url": f"{server.url}/d", "note": "fine"},
    ]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    ended = run("get", "list.jsonl", dest, "--allow-private", "--format", "jsonl", "--keep-columns", "note")

    assert ended.code == 3, ended.err
    assert "4 listed = 2 fetched + 0 absent + 2 failed" in ended.err
    found = sorted((each.name, each.kind, "UTF-8" in each.detail) for each in fetchmill.failures(dest))
    assert found == [("line 2", "url", True), ("line 3", "url", True)]
