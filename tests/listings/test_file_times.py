"""Files get the modification time of the server, unless `--no-server-times` is given."""

import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from raw_server import RawServer

Run = Callable[..., Any]
Raw = Callable[..., RawServer]

LAST_YEAR = 1_763_000_000
LARGE = 3 << 20


def dated(body: bytes, modified: str | None) -> bytes:
    """Returns a reply with this body and modification time."""
    field = "" if modified is None else f"Last-Modified: {modified}\r\n"
    return f"HTTP/1.1 200 OK\r\n{field}Content-Length: {len(body)}\r\n\r\n".encode() + body


ROUTES = {
    "/list": dated(b'{"FileNames": ["dated", "large", "none", "future", "wrong"], "NextMarker": null}', None),
    "/get/dated": dated(b"x", formatdate(LAST_YEAR, usegmt=True)),
    "/get/large": dated(b"x" * LARGE, formatdate(LAST_YEAR, usegmt=True)),
    "/get/none": dated(b"x", None),
    "/get/future": dated(b"x", formatdate(4_000_000_000, usegmt=True)),
    "/get/wrong": dated(b"x", "yesterday"),
}


@pytest.mark.parametrize("engine", ["native", "sync"])
def test_files_have_server_times(run: Run, raw: Raw, dest: Path, engine: str) -> None:
    """If Last-Modified is missing, invalid or in the future, the file keeps its time of fetching.

    Fractions of a second are invalid.
    """
    began = time.time()

    ended = run("get", raw(ROUTES).url, dest, "--engine", engine)

    assert ended.code == 0, ended.err
    times = {path.name: path.stat().st_mtime for path in dest.iterdir() if path.is_file()}
    assert times.pop("dated") == times.pop("large") == LAST_YEAR
    assert len(times) == 3
    assert all(began - 5 < modified < time.time() + 5 for modified in times.values())


def test_files_keep_fetch_times_with_no_server_times(run: Run, raw: Raw, dest: Path) -> None:
    """With `--no-server-times`, files keep the time of fetching.

    An export of a pack into files still uses the server's times.
    """
    server = raw(ROUTES)

    ended = run("get", server.url, dest, "--no-server-times")
    assert ended.code == 0, ended.err
    assert (dest / "dated").stat().st_mtime > LAST_YEAR + 1_000_000

    assert run("get", server.url, "pack", "--format", "parquet").code == 0
    exported = run("export", "pack", "copy", "--format", "files")
    assert exported.code == 0, exported.err
    copy = dest.parent / "copy"
    assert (copy / "dated").stat().st_mtime == (copy / "large").stat().st_mtime == LAST_YEAR
