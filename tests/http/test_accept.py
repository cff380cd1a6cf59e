"""`--accept`: a body fails (`unexpected-type`) if its first bytes show another type."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from broken_bodies import MIB, BrokenObject
from check_results import read_rows
from conftest import Ended
from raw_server import Behaviour, RawServer, mirror, reply
from stored import read_objects

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]

IMAGE = "Content-Type: image/jpeg"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
PAGE = b"<!DOCTYPE html><title>Log in</title>"
LARGE_PNG = PNG + bytes(2 * MIB)
LARGE_PAGE = PAGE + b" " * (2 * MIB)
GOOD = ["large.png", "named.txt", "resumed.png", "small.png"]
# Each reply claims to be an image.
WRONG = {
    "page.png": "an HTML page (text/html), but --accept allows image/*",
    "large-page.png": "an HTML page (text/html), but --accept allows image/*",
    "json.png": "JSON (application/json), but --accept allows image/*",
    "text.png": "plain text (text/plain), but --accept allows image/*",
    "empty.png": "an empty body, but --accept allows image/*",
    "unknown.png": "bytes of an unknown type, but --accept allows image/*",
}


def site() -> dict[str, Behaviour]:
    """Serves images, and pages with names of images."""
    return mirror(
        [*GOOD, *WRONG, "gone.png"],
        {
            "small.png": reply(PNG, "Content-Type: text/html"),
            "named.txt": reply(PNG),
            "large.png": reply(LARGE_PNG, IMAGE),
            "resumed.png": BrokenObject(LARGE_PNG, [MIB + 5]),
            "page.png": reply(PAGE, IMAGE),
            "large-page.png": reply(LARGE_PAGE, IMAGE),
            "json.png": reply(b'{"error": "denied"}', IMAGE),
            "text.png": reply(b"denied", IMAGE),
            "empty.png": reply(b"", IMAGE),
            "unknown.png": reply(b"\1\2\3", IMAGE),
            "gone.png": reply(PAGE, status="404 Not Found"),
        },
    )


def details(dest: Path) -> dict[str, str | None]:
    """Returns the detail of each failure of the kind."""
    found = [each for each in fetchmill.failures(dest) if each.kind == "unexpected-type"]
    assert {each.status for each in found} <= {200}
    return {each.name: each.detail for each in found}


@pytest.mark.parametrize(
    ("format", "engine"),
    [(format, "native") for format in ("files", "tar", "parquet", "warc", "jsonl", "null")]
    + [("files", "threads"), ("parquet", "processes")],
)
def test_unaccepted_types_fail_once_and_are_not_stored(
    run: Run, raw: Raw, dest: Path, format: str, engine: str
) -> None:
    """The bytes decide, not the header or the name. This includes large and resumed bodies."""
    server = raw(site())
    ended = run("get", server.url, dest, "--accept", "image/*", "--format", format, "--engine", engine)

    assert ended.code == 3, ended.err
    assert "unexpected-type" in ended.err
    assert details(dest) == WRONG
    assert [server.count(f"/get/{name}") for name in WRONG] == [1] * len(WRONG)
    report = fetchmill.status(dest)
    assert (report.fetched, report.absent, report.failed) == (len(GOOD), 1, len(WRONG))
    if format not in ("null", "files"):
        assert sorted(name for name, _ in read_objects(dest, format)) == GOOD
    elif format == "files":
        assert all((dest / name).read_bytes().startswith(PNG) for name in GOOD)
        assert not any((dest / name).exists() for name in WRONG)


def test_later_run_may_accept_more_types(run: Run, raw: Raw, dest: Path) -> None:
    """The types apply to one run: a later run with a wider option fetches the failed targets."""
    server = raw(site())
    run("get", server.url, dest, "--accept", "image/*")
    words = ("--accept", "image/*", "--accept", "text/html", "--retry-failed=unexpected-type")
    ended = run("get", server.url, dest, *words)

    assert ended.code == 3, ended.err
    assert (dest / "page.png").read_bytes() == PAGE
    assert details(dest)["json.png"] == "JSON (application/json), but --accept allows image/*, text/html"
    assert len(details(dest)) == len(WRONG) - 2


def test_accept_checks_encoded_bodies_after_decoding(run: Run, raw: Raw, dest: Path) -> None:
    """Encoded bodies are checked after decoding, or as received without `--compressed`."""
    encoded = "Content-Encoding: gzip"
    routes = mirror(
        ["good", "bad", "plain"],
        {
            "good": reply(gzip.compress(PNG), encoded),
            "bad": reply(gzip.compress(PAGE), encoded),
            "plain": reply(PNG),
        },
    )
    ended = run("get", raw(routes).url, dest, "--compressed", "--accept", "image/png")

    assert ended.code == 3, ended.err
    assert details(dest) == {"bad": "an HTML page (text/html), but --accept allows image/png"}
    assert (dest / "good").read_bytes() == PNG


def test_accept_applies_to_pipelined_and_synced_objects(run: Run, raw: Raw, tmp_path: Path) -> None:
    """`get --pipeline` and `sync` store only objects of the accepted type."""
    server = raw(site())
    for command, words in (("get", ["--pipeline", "4"]), ("sync", [])):
        dest = tmp_path / command
        ended = run(command, server.url, dest, "--accept", "image/*", *words)
        assert ended.code == 3, ended.err
        assert sorted(path.name for path in dest.iterdir() if path.name in (*GOOD, *WRONG)) == GOOD
    assert details(tmp_path / "get") == WRONG


def test_check_rows_report_unexpected_type(run: Run, raw: Raw, tmp_path: Path) -> None:
    """A row has the failure even if the body is read only in part. `--fail-on` accepts the kind."""
    server = raw({f"/{name}": reply for name, reply in (("page", reply(LARGE_PAGE)), ("image", reply(PNG)))})
    (tmp_path / "urls.txt").write_text(f"{server.url}/page\n{server.url}/image\n")
    words = ("--allow-private", "--accept", "image/*", "--fail-on", "unexpected-type")
    ended = run("check", "urls.txt", "rows.jsonl", *words)

    assert ended.code == 3, ended.err
    rows = {row["url"].rsplit("/", 1)[1]: row for row in read_rows(tmp_path / "rows.jsonl")}
    assert (rows["image"]["kind"], rows["image"]["status"]) == (None, 200)
    assert (rows["page"]["kind"], rows["page"]["status"]) == ("unexpected-type", 200)
    assert rows["page"]["detail"] == WRONG["page.png"]


def test_streams_return_error_for_unexpected_type(raw: Raw) -> None:
    """Only successful replies become errors."""
    server = raw({"/page": reply(PAGE), "/image": reply(PNG), "/gone": reply(PAGE, status="404 Not Found")})
    urls = [f"{server.url}/{name}" for name in ("page", "image", "gone")]
    replies = {each.url.rsplit("/", 1)[1]: each for each in fetchmill.stream(urls, accept=["image/*"])}

    assert {name: each.status for name, each in replies.items()} == {"page": None, "image": 200, "gone": 404}
    error: Any = replies["page"].error
    assert (error.kind, WRONG["page.png"] in str(error)) == ("unexpected-type", True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--accept", "text/csv"), "text/html"),
        (("--accept", "image/png", "--accept", "*/*"), "image/*"),
        (("--accept", "image/png", "--offset-column", "at", "--length-column", "at"), "--offset-column"),
    ],
)
def test_accept_refuses_undetectable_types(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    """The error comes before any request and lists the known types."""
    server = raw({"/a": reply(PNG)})
    (tmp_path / "urls.jsonl").write_text(json.dumps({"url": f"{server.url}/a", "at": 1}))
    ended = run("get", "urls.jsonl", dest, "--allow-private", *words)
    assert ended.code == 2
    assert "--accept" in ended.err
    assert problem in ended.err
    assert not server.requests
    listed = run("list", server.url, "rows.jsonl", "--accept", "image/*")
    assert (listed.code, "--accept" in listed.err) == (2, True)


def test_guide_and_error_list_every_accept_type(dest: Path) -> None:
    """The error for an unknown type lists the types of its kind, and the guide lists all types."""
    guide = (Path(__file__).parents[2] / "docs/guide/accept.md").read_text()
    rows = [line for line in guide.splitlines() if line.startswith("| ") and "`" in line]
    listed = re.findall(r"`([a-z]+/[^`*]+)`", "".join(rows))
    known: list[str] = []
    for main in ("image", "audio", "video", "font", "application", "text"):
        with pytest.raises(fetchmill.UsageError, match="--accept") as refused:
            fetchmill.get("http://127.0.0.1:9", dest, accept=[f"{main}/unheard-of"])
        known += re.findall(rf"{main}/[a-z0-9.+-]+", str(refused.value).split("choose from")[1])
    assert sorted(listed) == sorted(known)
