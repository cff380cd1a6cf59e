"""`--opt-out`: objects whose reply reserves them are skipped, with the evidence."""

import asyncio
import gzip
import json
import pickle
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fetchmill
from conftest import Ended
from raw_server import RawServer, reply

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]

HTML = "Content-Type: text/html; charset=utf-8"
# Replies, and their evidence.
RESERVED = {
    "/field": (reply(b"x", "X-Robots-Tag: noai, noimageai"), "X-Robots-Tag: noai, noimageai"),
    "/ours": (reply(b"x", "X-Robots-Tag: fetchmill: noindex"), "X-Robots-Tag: fetchmill: noindex"),
    "/tdm": (reply(b"x", "TDM-Reservation: 1"), "TDM-Reservation: 1"),
    "/meta": (
        reply(b"<html><head><meta content='NOINDEX' name=Robots></head>text", HTML),
        '<meta name="Robots" content="NOINDEX">',
    ),
    "/meta-tdm": (reply(b"<meta name=tdm-reservation content=1>", HTML), '<meta name="tdm-reservation" content="1">'),
    "/leads": (reply(b"", "Location: /field", status="302 Found"), "X-Robots-Tag: noai, noimageai"),
}
# The most frequent first, as in the summary.
RULES = {
    "X-Robots-Tag noai": 2,
    "TDM-Reservation": 1,
    "X-Robots-Tag noindex": 1,
    "meta noindex": 1,
    "meta tdm-reservation": 1,
}
FREE = {
    "/plain": reply(b"plain"),
    "/other": reply(b"other", "X-Robots-Tag: googlebot: noindex", "TDM-Reservation: 0"),
    "/text": reply(b"<meta name=robots content=noai>", "Content-Type: text/plain"),
    "/gone": reply(b"", "X-Robots-Tag: noai", status="404 Not Found"),
}


def address_of(row: dict[str, str]) -> str:
    """Returns the URL of a row, which is the name if the row has no URL."""
    return row.get("url") or row["name"]


@pytest.fixture
def urls(raw: Raw, tmp_path: Path) -> Path:
    """Writes a list of all URLs."""
    server = raw({**{path: head for path, (head, _) in RESERVED.items()}, **FREE})
    made = tmp_path / "urls.txt"
    made.write_text("".join(f"{server.url}{path}\n" for path in (*RESERVED, *FREE)))
    return made


@pytest.mark.parametrize("command", ["get", "check"])
def test_reserved_objects_are_skipped_with_evidence(run: Run, urls: Path, dest: Path, command: str) -> None:
    """The job reports their number, and rows have the reasons. No part of a reserved body is stored."""
    result = dest if command == "get" else dest.with_suffix(".jsonl")
    words = ("--format", "jsonl", "--keep-failed") if command == "get" else ()
    ended = run(command, urls, result, "--allow-private", "--opt-out", *words)
    assert ended.code in (0, 3), ended.err
    said = ended.out + ended.err
    assert f"opted out: 6: {', '.join(f'{rule} {count}' for rule, count in RULES.items())}\n" in said
    assert "robots.txt" not in said
    files = result.glob("*.jsonl") if command == "get" else [result]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    details = {f"/{address_of(row).rsplit('/', 1)[-1]}": row.get("detail") for row in rows}
    assert {path: details[path] for path in RESERVED} == {path: why for path, (_, why) in RESERVED.items()}
    assert [row for row in rows if address_of(row).endswith(tuple(RESERVED)) and row.get("body")] == []
    assert set(details) == {*RESERVED, *FREE}


def test_opt_out_is_consistent_in_summary_python_and_next_run(run: Run, urls: Path, dest: Path) -> None:
    """The job keeps the number of opted-out targets and their list."""
    report = fetchmill.get(urls, dest, format="null", allow_private=True, opt_out=True)
    assert dict(report.skipped_by) == {"opted-out": len(RESERVED)}
    assert (report.fetched, report.absent, dict(report.opted_out_by)) == (3, 1, RULES)
    assert (dict(report.forbidding_hosts), report.forbidding_host_count) == ({}, 0)
    (found,) = fetchmill.skipped(dest)
    assert (found.reason, found.count, len(found.names)) == ("opted-out", len(RESERVED), len(RESERVED))
    assert dict(found.rules) == dict(fetchmill.status(dest).opted_out_by) == RULES
    listed = run("status", dest, "--skipped").out
    assert "opted-out by rule\t2\tX-Robots-Tag noai\n" in listed
    with sqlite3.connect(dest / ".fetchmill" / "job.sqlite") as journal:
        # An older release did not count by rule.
        journal.executescript("DROP TABLE opted_out; DROP TABLE opted_out_hosts")
    journal.close()
    assert dict(fetchmill.status(dest).opted_out_by) == {}
    resumed = run("get", urls, dest, "--format", "null", "--allow-private", "--opt-out")
    assert "opted out: 6: without a known rule 6\n" in resumed.out + resumed.err
    again = run("get", urls, dest, "--format", "null", "--allow-private")
    assert again.code == 2
    assert "opt-out" in again.err


@pytest.mark.parametrize(
    "words",
    [("--engine", "threads"), ("--pipeline", "4")],
    ids=["engine", "pipeline"],
)
def test_opt_out_is_refused_by_calls_that_read_no_replies(
    run: Run, urls: Path, dest: Path, words: tuple[str, ...]
) -> None:
    """Calls that do not read replies refuse `opt_out` instead of ignoring it."""
    source = urls if "--engine" in words else urls.read_text().split("/field")[0] + "/"
    ended = run("get", source, dest, "--allow-private", "--opt-out", *words)
    assert ended.code == 2
    assert "--opt-out" in ended.err


@pytest.mark.parametrize("is_async", [False, True], ids=["stream", "astream"])
def test_stream_returns_opt_out_evidence_instead_of_reply(urls: Path, is_async: bool) -> None:
    """The error is `opted-out`, which `on_error="raise"` does not raise; a reply with another status stays a reply."""
    asked = urls.read_text().split()
    options: dict[str, Any] = {"opt_out": True, "on_error": "raise", "ordered": True}

    async def replies_of() -> list[fetchmill.Reply]:
        return [reply async for reply in fetchmill.astream(asked, **options)]

    replies = asyncio.run(replies_of()) if is_async else list(fetchmill.stream(asked, **options))
    found = {f"/{each.url.rsplit('/', 1)[-1]}": each for each in replies}
    for path, (_, evidence) in RESERVED.items():
        error = found[path].error
        assert isinstance(error, fetchmill.ReplyError), path
        assert (error.kind, error.reason, str(error)) == ("opted-out", evidence, f"{error.url} opted out: {evidence}")
        assert (found[path].status, found[path].ok, bytes(found[path].body)) == (None, False, b"")
        copied = pickle.loads(pickle.dumps(found[path])).error  # noqa: S301 - its own
        assert (copied.kind, copied.reason) == (error.kind, error.reason)
    assert {path: found[path].status for path in FREE} == {"/plain": 200, "/other": 200, "/text": 200, "/gone": 404}


def test_batches_and_clients_support_opt_out(urls: Path) -> None:
    """The column `error` has the kind; a compressed page is searched after it is decoded."""
    asked = urls.read_text().split()
    batches = fetchmill.stream_batches(asked, opt_out=True)
    errors = [error for batch in batches for error in pa.record_batch(batch)["error"].to_pylist()]
    assert Counter(errors) == {"opted-out": len(RESERVED), None: len(FREE)}
    page = gzip.compress(b"<meta name=robots content=noai>")
    routes = {"/": reply(page, HTML, "Content-Encoding: gzip")}
    with RawServer(routes) as server, fetchmill.Client(opt_out=True, compressed=True) as client:
        error = client.get(f"{server.url}/").error
    assert error is not None
    assert error.reason == '<meta name="robots" content="noai">'
