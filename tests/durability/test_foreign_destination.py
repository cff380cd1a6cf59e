"""A destination that another user created cannot lead a command outside it."""

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
from raw_server import RawServer, reply, then_stall

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Raw = Callable[..., RawServer]
Start = Callable[..., "subprocess.Popen[str]"]

# Shards are small and windows short: a stopped run leaves an open shard and sealed ones.
SMALL = ("--shard-size", "8KiB", "--seal-after", "1h", "--commit-window", "20ms")
# Places of file names, by format.
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
    """Serves 300 objects of 200 bytes and refuses some; with four requests at a time, a job takes two seconds."""
    return server(synthetic=300, size=200, delay=(0.02, 0.03), faults=[Fault("status", status=404, rate=0.1)])


def _stop_half_way(run: Run, url: str, dest: Path, format: str) -> None:
    ended = run("get", url, dest, "--format", format, *SMALL, "-j", "4", "--max-bytes", "20000", "--quiet")
    assert ended.code == 8, ended.err


def _kill_when_noted(start: Start, url: str, dest: Path, format: str, table: str) -> None:
    """Kills the job once the journal contains the name of such a file."""
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
def test_path_in_foreign_journal_changes_no_outside_file(
    run: Run,
    start: Start,
    server_of_many: Server,
    canary: Canary,
    format: str,
    table: str,
    column: str,
    is_absolute: bool,
) -> None:
    """Each command refuses the journal or ignores the path; no file outside is truncated, moved or removed."""
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
        assert ended.code != 6 or "points outside the job" in ended.err, ended.err
        canary.assert_untouched()
    assert run(*_commands(server_of_many.url, dest, format)[0]).code == 6


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("format", ["files", "parquet"])
def test_link_in_job_folder_is_refused(
    run: Run, server_of_many: Server, canary: Canary, name: str, format: str
) -> None:
    """Each command names the link, with exit code 6, and its destination stays unchanged."""
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
        assert "is a link" in ended.err


def test_pipe_in_job_folder_is_refused(run: Run, server_of_many: Server, canary: Canary) -> None:
    """Opening a pipe would never return."""
    _stop_half_way(run, server_of_many.url, canary.dest, "jsonl")
    os.mkfifo(canary.dest / ".fetchmill/open/pipe")

    for command in _commands(server_of_many.url, canary.dest, "jsonl"):
        assert run(*command, timeout=20).code == 6


def test_state_folder_with_other_token_is_refused(
    run: Run, server_of_many: Server, canary: Canary, tmp_path: Path
) -> None:
    """A state folder without the same token may belong to another job of the user."""
    own, stranger = tmp_path / "own", canary.dest
    assert run("get", server_of_many.url, own, "--quiet").code == 3
    (stranger / ".fetchmill").mkdir()
    for folder in (canary.folder, own / ".fetchmill"):
        (stranger / ".fetchmill/state").write_bytes(os.fsencode(folder))
        (stranger / ".fetchmill/state-token").write_text("")
        canary.look_again()
        before = run("status", own, "--json").out

        for command in _commands(server_of_many.url, stranger, "files"):
            ended = run(*command)
            assert (ended.code, ended.err.count("\n")) == (6, 1), (command, ended)
            assert f"add --state {folder}" in ended.err

        canary.assert_untouched()
        assert run("status", own, "--json").out == before


def test_state_folder_with_other_files_is_refused(run: Run, server_of_many: Server, dest: Path, tmp_path: Path) -> None:
    """A job removes unknown files in its folders, so these files would be lost."""
    project = tmp_path / "project"
    (project / "manifests").mkdir(parents=True)
    (project / "manifests/deploy.yaml").write_text("kept")
    (project / "notes").write_text("kept")

    ended = run("get", server_of_many.url, dest, "--state", project)

    assert (ended.code, ended.err.count("\n")) == (2, 1), ended
    assert "is not empty and does not hold the state of a job" in ended.err
    assert (project / "manifests/deploy.yaml").read_text() == "kept"


def test_state_folder_is_found_without_option(run: Run, server_of_many: Server, dest: Path, tmp_path: Path) -> None:
    """Both folders have the same token, even after the destination was moved."""
    assert run("get", server_of_many.url, dest, "--state", tmp_path / "state", "--quiet").code == 3
    dest.rename(tmp_path / "moved")

    ended = run("get", server_of_many.url, tmp_path / "moved")

    assert (ended.code, "already complete" in ended.err) == (3, True), ended.err


def test_foreign_check_journal_removes_no_outside_file(run: Run, start: Start, raw: Raw, tmp_path: Path) -> None:
    """A file that a journal names is removed only in the folder of the results."""
    planted = tmp_path / "planted"
    planted.write_text("kept")
    server = raw({f"/{number}": reply(b"x") for number in range(20)} | {"/stalled": then_stall(b"")})
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{server.url}/{target}\n" for target in [*range(20), "stalled"]))
    command = ("check", urls, tmp_path / "results.csv", "--allow-private", "--quiet")
    process = start(*command, "--commit-window", "20ms")
    while server.count("/stalled") == 0:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(0.3)
    process.kill()
    process.communicate()
    server.routes["/stalled"] = reply(b"x")
    with closing(sqlite3.connect(tmp_path / "results.csv.fetchmill/job.sqlite")) as journal, journal:
        journal.execute("REPLACE INTO job VALUES ('results_unfinished', ?)", (str(planted),))

    ended = run(*command)

    assert ended.code == 6, ended
    assert planted.read_text() == "kept"
