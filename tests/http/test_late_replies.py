"""A reply that nobody asked for, later than any rule can notice in time: what it puts in doubt is named."""

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

# How fast an origin is must be known: of one that is not, replies rest one by one if any takes 50 ms on a busy machine.
QUICK = [f"quick-{number:02}" for number in range(70)]
NAMES = ["slow", *QUICK, "first", "second"]


def scripted_server(raw: Raw) -> RawServer:
    """`first` and `second` come on one connection of their own; a stray reply follows while `slow` is awaited."""

    def slow(exchange: Exchange) -> None:
        # Never silent for long: a request that is would be made again.
        whole = reply(b"slow" * 5)
        exchange.send(whole[:-20], *(whole[at : at + 1] for at in range(-20, -1)), whole[-1:], pause=0.1)

    def with_late_reply(exchange: Exchange) -> None:
        exchange.send(reply(b"second"))
        time.sleep(0.8)
        exchange.send(reply(b"stray"))

    last = then_close(reply(QUICK[-1].encode(), "Connection: close"))
    return raw(mirror(NAMES, {"slow": slow, QUICK[-1]: last, "second": with_late_reply}))


def test_what_a_late_reply_puts_in_doubt_is_named(raw: Raw, run: Run, tmp_path: Path) -> None:
    """Exit code 3, the name in the summary, in `status` and in Python; the first reply of a connection is certain."""
    server = scripted_server(raw)

    done = run("get", server.url, "out", "--concurrency", "2", "--threads", "1", cwd=tmp_path)

    assert done.code == 3, done.err
    assert f"{len(NAMES)} listed = {len(NAMES)} fetched" in done.err
    assert "doubtful: 1 object " in done.err
    assert ": second" in done.err
    told = json.loads(run("status", "out", "--json", cwd=tmp_path).out)
    assert told["doubtful"] == ["second"]
    assert fetchmill.status(tmp_path / "out").doubtful == ("second",)


def test_rows_of_a_check_are_named_too(raw: Raw, run: Run, tmp_path: Path) -> None:
    """Exit code 3, and the name in the summary: the row may tell another target's answer."""
    server = scripted_server(raw)
    (tmp_path / "urls.txt").write_text("".join(f"{server.url}/get/{name}\n" for name in NAMES))

    hosts = ("--allow-private", "--limit-per-host", "0", "--rate-per-host", "0")
    done = run("check", "urls.txt", "rows.csv", "--concurrency", "2", "--threads", "1", *hosts, cwd=tmp_path)

    assert done.code == 3, done.err
    assert "doubtful: 1 row may contain another target's answer" in done.out
    assert "/get/second" in done.out


def test_the_same_command_later_still_says_so(raw: Raw, tmp_path: Path) -> None:
    """What is in doubt stands in the journal, not in the memory of one run."""
    server = scripted_server(raw)
    first = fetchmill.get(server.url, tmp_path / "out", limit=2, threads=1)

    again = fetchmill.get(server.url, tmp_path / "out", limit=2, threads=1)

    assert again.already_finished
    assert first.doubtful == again.doubtful == ("second",)


def test_an_export_tells_what_is_in_doubt_too(raw: Raw, run: Run, tmp_path: Path) -> None:
    """Its bytes are those of the destination that it was made from."""
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


def test_of_many_in_doubt_the_number_is_told_and_the_first_names(raw: Raw, run: Run, tmp_path: Path) -> None:
    """The names that a report has are bounded, the number of objects is not."""
    server = raw(mirror(NAMES))
    fetchmill.get(server.url, tmp_path / "out")
    with contextlib.closing(sqlite3.connect(tmp_path / "out" / ".fetchmill" / "job.sqlite")) as journal, journal:
        rows = ((sequence, b"name-%05d" % sequence) for sequence in range(10_001))
        journal.executemany("INSERT INTO doubtful VALUES (?, ?)", rows)

    found = fetchmill.status(tmp_path / "out")
    shown = run("status", "out", cwd=tmp_path)

    assert (found.doubtful_count, len(found.doubtful), found.doubtful[0]) == (10_001, 10_000, "name-00000")
    assert "doubtful: 10,001 objects may hold" in shown.out
    assert "list them: fetchmill status out --json" in shown.out


def test_nothing_is_in_doubt_when_nothing_came(raw: Raw, tmp_path: Path) -> None:
    """The usual case."""
    server = raw(mirror(NAMES))

    report = fetchmill.get(server.url, tmp_path / "out")

    assert (report.fetched, report.doubtful, report.notices) == (len(NAMES), (), ())
