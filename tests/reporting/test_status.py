"""`fetchmill status`: the ledger and the failures of a destination."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Fault, Server

Run = Callable[..., Any]
Serve = Callable[..., Server]

FAULTS = [
    Fault("status", status=404, match="file-000000000003"),
    Fault("status", status=403, match="file-000000000005"),
    Fault("status", status=500, match="file-000000000007"),
]


@pytest.fixture
def finished(run: Run, server: Serve, dest: Path) -> Path:
    """Returns the destination of a job of ten targets, of which one is absent and two have failed."""
    ended = run("get", server(synthetic=10, faults=FAULTS).url, dest, "--attempts", "2")
    assert ended.code == 3, ended.err
    return dest


def test_status_prints_ledger(run: Run, finished: Path) -> None:
    """The ledger goes to standard output."""
    shown = run("status", finished)

    lines = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert (shown.code, shown.err) == (0, "")
    assert lines["job"] == "finished"
    assert [lines[name] for name in ("listed", "fetched", "absent", "skipped", "pending")] == ["10", "7", "1", "0", "0"]
    assert lines["failed"] == "2 (403 Forbidden 1, 500 Internal Server Error 1)"
    assert lines["listing"].endswith(" UTC")


def test_status_prints_ledger_as_json(run: Run, finished: Path) -> None:
    """The JSON object equals the ledger in Python."""
    shown = json.loads(run("status", finished, "--json").out)

    assert shown == fetchmill.status(finished).to_dict()
    assert (shown["listed"], shown["failed"], shown["running"]) == (10, 2, False)


def test_status_lists_failures_with_tabs(run: Run, finished: Path) -> None:
    """The columns are name, outcome, kind, status, attempts and detail."""
    shown = run("status", finished, "--failures")

    rows = {line.split("\t")[0]: line.split("\t")[1:5] for line in shown.out.splitlines()}
    assert shown.code == 0
    assert rows == {
        "file-000000000003": ["absent", "absent", "404", "1"],
        "file-000000000005": ["failed", "status", "403", "1"],
        "file-000000000007": ["failed", "server-error", "500", "2"],
    }


def test_status_prints_failures_as_json(run: Run, finished: Path) -> None:
    """Each line is a JSON object that equals the failure in Python."""
    shown = [json.loads(line) for line in run("status", finished, "--failures", "--json").out.splitlines()]

    assert shown == [vars(failure) for failure in fetchmill.failures(finished)]
    assert {row["name"] for row in shown} == {"file-000000000003", "file-000000000005", "file-000000000007"}


def test_status_shows_running_job_as_running(run: Run, start: Run, server: Serve, dest: Path) -> None:
    """`status` can read the journal while the job runs."""
    source = server(synthetic=200)
    # The job is slow enough to be still running when `status` reads its journal, even after a start of seconds.
    process = start("get", source.url, dest, "--commit-window", "50ms", "--rate", 2)
    while not source.stats()["get"]:
        assert process.poll() is None

    shown = run("status", dest)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)

    # The line also has the job's age once the rate is known.
    assert "job          running" in shown.out
    assert process.returncode == 130
    assert run("get", source.url, dest).code == 0
    assert "job          finished\n" in run("status", dest).out


def test_journal_without_tables_is_read_as_new_job(run: Run, server: Serve, dest: Path) -> None:
    """The journal file exists a moment before its tables, and a kill may leave it in that state."""
    (dest / ".fetchmill").mkdir(parents=True)
    (dest / ".fetchmill/job.sqlite").touch()

    for arguments in ([], ["--failures"]):
        shown = run("status", dest, *arguments)
        assert (shown.code, shown.out) == (2, "")
        assert "the journal is still empty (its job has just started" in shown.err

    assert run("get", server(synthetic=3).url, dest).code == 0
    assert run("status", dest).code == 0


def test_folder_without_job_is_refused(run: Run, tmp_path: Path) -> None:
    """The error is one line, and nothing is created in the folder."""
    folder = tmp_path / "other"
    folder.mkdir()

    for where in (folder, tmp_path / "missing"):
        for arguments in ([], ["--failures"]):
            refused = run("status", where, *arguments)
            assert (refused.code, refused.out) == (2, "")
            assert refused.err.startswith("fetchmill: error: ")
            assert refused.err.count("\n") == 1
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "missing").exists()


def test_state_folder_works_with_every_command(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Every command that takes DEST accepts a state folder elsewhere."""
    state = tmp_path / "state"
    ended = run("get", server(synthetic=10, faults=FAULTS[:1]).url, dest, "--state", state)

    assert f"list them: fetchmill status {dest} --state {state} --failures\n" in ended.err
    assert not (dest / ".fetchmill" / "journal").exists()
    assert fetchmill.status(dest, state=state).absent == 1
    assert [failure.status for failure in fetchmill.failures(dest, state=state)] == [404]
    assert run("status", dest, "--state", state).code == 0
