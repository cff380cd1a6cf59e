"""A destination that somebody else has made: nothing in it leads a command out of it."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from canary import Canary
from conftest import Ended
from fetchmill.testing import Fault, Server

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]

# Small shards, and windows that end at once: a run that is stopped leaves an open shard and sealed ones.
SMALL = ("--shard-size", "8KiB", "--seal-after", "1h", "--commit-window", "20ms")
# Where the names of files are, of each format.
TABLES = (
    ("jsonl", "open_shards", "path"),
    ("jsonl", "open_shards", "manifest"),
    ("jsonl", "shards", "path"),
    ("tar", "open_shards", "path"),
    ("warc", "shards", "manifest"),
    ("parquet", "shards", "path"),
    ("files", "manifests", "path"),
    ("files", "failures", "path"),
)
FOLDERS = ("open", "index", "manifests", "failures", "job.sqlite", "lock", ".")


@pytest.fixture
def server_of_many(server: Serve) -> Server:
    """300 objects of 200 bytes, of which some are refused; a job of four requests at a time takes two seconds."""
    return server(synthetic=300, size=200, delay=(0.02, 0.03), faults=[Fault("status", status=404, rate=0.1)])


def _stop_half_way(run: Run, url: str, dest: Path, format: str) -> None:
    ended = run("get", url, dest, "--format", format, *SMALL, "-j", "4", "--max-bytes", "20000", "--quiet")
    assert ended.code == 8, ended.err


def _kill_when_noted(start: Start, url: str, dest: Path, format: str, table: str) -> None:
    """When the journal has the name of a file there."""
    process = start("get", url, dest, "--format", format, *SMALL, "-j", "4", "--quiet")
    deadline = time.monotonic() + 60
    while not _has_rows(dest / ".fetchmill/job.sqlite", table):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate()


def _has_rows(journal: Path, table: str) -> bool:
    with (
        contextlib.suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db,
    ):
        return bool(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - names of this file
    return False


def _commands(url: str, dest: Path, format: str) -> list[tuple[object, ...]]:
    return [
        ("get", url, dest, "--format", format, *SMALL, "-j", "4", "--quiet"),
        ("verify", dest, "--repair"),
        ("verify", dest),
        ("ls", dest),
        ("status", dest, "--failures"),
        ("export", dest, dest.parent / "exported", "--format", "jsonl"),
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("format", "table", "column"), TABLES)
@pytest.mark.parametrize("is_absolute", [False, True], ids=["relative", "absolute"])
def test_path_in_a_journal_leads_nowhere(
    run: Run,
    start: Start,
    server_of_many: Server,
    canary: Canary,
    format: str,
    table: str,
    column: str,
    is_absolute: bool,
) -> None:
    """Each command refuses the journal or does without the path; no file outside is cut, moved or removed."""
    dest = canary.dest
    _kill_when_noted(start, server_of_many.url, dest, format, table)
    outside = canary.folder / "passwd"
    planted = outside if is_absolute else os.path.relpath(outside, dest / ".fetchmill/open")
    with sqlite3.connect(dest / ".fetchmill/job.sqlite") as journal:
        name = f"SELECT min({column}) FROM {table}"  # noqa: S608 - names of this file
        change = f"UPDATE {table} SET {column} = ? WHERE {column} = ({name})"  # noqa: S608 - the same
        changed = journal.execute(change, (str(planted),))
        assert changed.rowcount == 1
    journal.close()
    canary.look_again()

    for command in _commands(server_of_many.url, dest, format):
        ended = run(*command)

        assert ended.code in {0, 3, 6}, (command, ended)
        assert ended.code != 6 or "leads out of the folder" in ended.err, ended.err
        canary.assert_untouched()
    assert run(*_commands(server_of_many.url, dest, format)[0]).code == 6


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("format", ["files", "parquet"])
def test_link_in_a_job_is_refused(run: Run, server_of_many: Server, canary: Canary, name: str, format: str) -> None:
    """Each command says which it is, with exit code 6, and what it leads to stays as it is."""
    dest = canary.dest
    _stop_half_way(run, server_of_many.url, dest, format)
    hidden = dest / ".fetchmill"
    if name == ".":
        elsewhere = canary.folder / "elsewhere"
        hidden.rename(elsewhere)
        hidden.symlink_to(elsewhere)
    else:
        path = hidden / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(canary.folder / ("passwd" if "." in name or name == "lock" else "etc"))
    canary.look_again()

    for command in _commands(server_of_many.url, dest, format):
        ended = run(*command)

        assert (ended.code, ended.err.count("\n")) == (6, 1), (command, ended)
        assert "is a link or a special file" in ended.err


def test_pipe_in_a_job_is_refused(run: Run, server_of_many: Server, canary: Canary) -> None:
    """It would never open."""
    _stop_half_way(run, server_of_many.url, canary.dest, "jsonl")
    os.mkfifo(canary.dest / ".fetchmill/open/pipe")

    for command in _commands(server_of_many.url, canary.dest, "jsonl"):
        assert run(*command, timeout=20).code == 6
