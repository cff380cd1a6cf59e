"""Unsolicited responses that come too late to be detected in time: the doubtful objects are named."""

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import fetchmill
from conftest import Ended
from raw_server import Exchange, RawServer, mirror, reply, then_close

Raw = Callable[..., RawServer]
Run = Callable[..., Ended]

# The speed of an origin must be known: otherwise, replies rest one by one if any takes 50 ms on a busy machine.
QUICK = [f"quick-{number:02}" for number in range(70)]
NAMES = ["slow", *QUICK, "first", "second"]


def scripted_server(raw: Raw, slow_bytes: int = 80_000) -> RawServer:
    """`first` and `second` share a connection; an unsolicited response follows during the wait for `slow`."""

    def slow(exchange: Exchange) -> None:
        # A silent request would be repeated, unless its body is large. This one is never silent for long.
        whole = reply(b"s" * slow_bytes)
        exchange.send(whole[:-100], *(whole[at : at + 1] for at in range(-100, -1)), whole[-1:], pause=0.02)

    def with_late_reply(exchange: Exchange) -> None:
        exchange.send(reply(b"second"))
        time.sleep(0.8)
        exchange.send(reply(b"stray"))

    last = then_close(reply(QUICK[-1].encode(), "Connection: close"))
    return raw(mirror(NAMES, {"slow": slow, QUICK[-1]: last, "second": with_late_reply}))


def test_objects_doubtful_after_late_reply_are_named(raw: Raw, run: Run, tmp_path: Path) -> None:
    """The exit code is 3, and the summary, `status` and Python have the name. A connection's first reply is certain."""
    server = scripted_server(raw)

    done = run("get", server.url, "out", "--concurrency", "2", "--threads", "1", cwd=tmp_path)

    assert done.code == 3, done.err
    assert f"{len(NAMES)} listed = {len(NAMES)} fetched" in done.err
    assert "doubtful: 1 object " in done.err
    assert ": second" in done.err
    told = json.loads(run("status", "out", "--json", cwd=tmp_path).out)
    assert told["doubtful"] == ["second"]
    assert fetchmill.status(tmp_path / "out").doubtful == ("second",)


def test_check_rows_doubtful_after_late_reply_are_named(raw: Raw, run: Run, tmp_path: Path) -> None:
    """The exit code is 3, and the summary has the name: the row may have another target's answer."""
    # A check does not read large bodies to their end.
    server = scripted_server(raw, slow_bytes=100)
    (tmp_path / "urls.txt").write_text("".join(f"{server.url}/get/{name}\n" for name in NAMES))

    hosts = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0")
    done = run("check", "urls.txt", "rows.csv", "--concurrency", "2", "--threads", "1", *hosts, cwd=tmp_path)

    assert done.code == 3, done.err
    assert "doubtful: 1 row may contain another target's answer" in done.out
    assert "/get/second" in done.out


def test_doubtful_objects_are_reported_by_later_runs(raw: Raw, tmp_path: Path) -> None:
    """The doubtful objects are in the journal, not only in the memory of one run."""
    server = scripted_server(raw)
    first = fetchmill.get(server.url, tmp_path / "out", limit=2, threads=1)

    again = fetchmill.get(server.url, tmp_path / "out", limit=2, threads=1)

    assert again.already_finished
    assert first.doubtful == again.doubtful == ("second",)


def test_export_reports_doubtful_objects_of_source(raw: Raw, run: Run, tmp_path: Path) -> None:
    """An export is as doubtful as its source, whose bytes it has."""
    server = scripted_server(raw)
    fetchmill.get(server.url, tmp_path / "out", limit=2, threads=1)

    done = run("export", "out", "other", "--format", "jsonl", cwd=tmp_path)
    again = run("export", "other", "files", "--format", "files", cwd=tmp_path)

    assert (done.code, again.code) == (3, 3), done.err
    assert f"{len(NAMES)} listed = {len(NAMES)} fetched" in done.err
    assert "doubtful: 1 object " in done.err
    assert "fetchmill status other --json" in done.err
    assert fetchmill.status(tmp_path / "other").doubtful == ("second",)
    assert fetchmill.status(tmp_path / "files").doubtful == ("second",)
    assert fetchmill.export(tmp_path / "out", tmp_path / "other", format="jsonl").doubtful == ("second",)


def test_many_doubtful_objects_are_counted_and_partly_named(raw: Raw, run: Run, tmp_path: Path) -> None:
    """The number of names in a report is limited, but the count is not."""
    server = raw(mirror(NAMES))
    fetchmill.get(server.url, tmp_path / "out")
    with contextlib.closing(sqlite3.connect(tmp_path / "out" / ".fetchmill" / "job.sqlite")) as journal, journal:
        rows = ((sequence, b"name-%05d" % sequence) for sequence in range(10_001))
        journal.executemany("INSERT INTO doubtful VALUES (?, ?)", rows)

    found = fetchmill.status(tmp_path / "out")
    shown = run("status", "out", cwd=tmp_path)

    assert (found.doubtful_count, len(found.doubtful), found.doubtful[0]) == (10_001, 10_000, "name-00000")
    assert "doubtful: 10,001 objects may contain" in shown.out
    assert "list them: fetchmill status out --json" in shown.out


def test_no_object_is_doubtful_without_unsolicited_response(raw: Raw, tmp_path: Path) -> None:
    """A normal job has no doubtful objects."""
    server = raw(mirror(NAMES))

    report = fetchmill.get(server.url, tmp_path / "out")

    assert (report.fetched, report.doubtful, report.notices) == (len(NAMES), (), ())
