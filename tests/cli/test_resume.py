"""`fetchmill resume` and `retry`: a job continues with the options of its journal, which has no secrets."""

import json
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill._native import job_command
from fetchmill.testing import Fault, Server

pytestmark = pytest.mark.entry_point

Run = Callable[..., Any]
Serve = Callable[..., Server]
Start = Callable[..., "subprocess.Popen[str]"]


def url_list(path: Path, source: Server, count: int) -> Path:
    """Writes a list of URLs of synthetic objects."""
    path.write_text("".join(f"{source.url}/get/file-{number:012}\n" for number in range(count)))
    return path


def change_command(dest: Path, **changes: object) -> None:
    """Changes the stored command in the journal."""
    journal = dest / ".fetchmill/job.sqlite"
    with sqlite3.connect(journal) as db:
        (text,) = db.execute("SELECT value FROM job WHERE key = 'command'").fetchone()
        db.execute("UPDATE job SET value = ? WHERE key = 'command'", [json.dumps(json.loads(text) | changes)])


def test_killed_job_resumes_with_its_options(run: Run, start: Start, server: Serve, tmp_path: Path, dest: Path) -> None:
    """The job resumes from another working folder, with its source, format and rate.

    At most one window is fetched twice.
    """
    source = server(synthetic=20_000)
    url_list(tmp_path / "urls.txt", source, 20_000)
    options = ("--format", "jsonl", "--allow-private", "--commit-window", "50ms", "--rate", "4000", "--attempts", "2")
    process = start("get", "urls.txt", dest, *options)
    deadline = time.monotonic() + 30
    while source.stats()["get"] < 3000 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    ended = run("resume", dest, cwd=elsewhere)

    assert ended.code == 0, ended.err
    assert len(fetchmill.open(dest)) == 20_000
    assert source.stats()["get"] < 20_000 + 4000
    assert json.loads(job_command(str(dest), None) or "")["options"] == {
        "allow_private": True,
        "attempts": 2,
        "commit_window": 0.05,
        "format": "jsonl",
        "rate": 4000.0,
    }


def test_resume_asks_for_secrets_that_are_not_stored(run: Run, server: Serve, dest: Path) -> None:
    """The command runs once all secrets are given again."""
    source = server(synthetic=50)
    given = ("--bearer", "t0ken-value", "--header", "X-Api-Key: k3y-value", "--header", "Accept: text/plain")
    assert run("get", source.url, dest, *given).code == 0

    refused = run("resume", dest)
    half = run("resume", dest, "--bearer", "t0ken-value")
    whole = run("resume", dest, "--bearer", "t0ken-value", "--header", "X-Api-Key: k3y-value")

    assert refused.code == 2
    assert "was started with header X-Api-Key, bearer" in refused.err
    assert "hint: add --header 'X-Api-Key: ...', --bearer" in refused.err
    assert half.code == 2
    assert "header X-Api-Key, but" in half.err
    assert whole.code == 0, whole.err
    stored = b"".join(path.read_bytes() for path in (dest / ".fetchmill").rglob("*") if path.is_file())
    assert b"t0ken-value" not in stored
    assert b"k3y-value" not in stored


def test_retry_requests_failed_targets_again(run: Run, server: Serve, dest: Path) -> None:
    """Either all failed targets are requested again, or those with the given answers."""
    source = server(synthetic=300, faults=[Fault("status", status=410, match="file-00000000001*", times=1)])
    first = run("get", source.url, dest, "--attempts", "1")
    others = run("retry", dest, "5xx")
    again = run("retry", dest, "410")
    by_call = fetchmill.resume(dest, retry_failed=True)

    assert [ended.code for ended in (first, others, again)] == [3, 3, 0], (first.err, others.err, again.err)
    assert (by_call.fetched, by_call.failed, by_call.absent) == (300, 0, 0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"options": {"transform": "os:system"}}, "transform"),
        ({"options": {"bearer_command": "touch x"}}, "bearer_command"),
        ({"options": {"state": "/srv/elsewhere"}}, "state"),
        ({"options": {"client_key": "/srv/key"}}, "client_key"),
        ({"options": {"endpoint_url": "http://127.0.0.1:9"}}, "endpoint_url"),
        ({"options": {"insecure_host": ["*"]}}, "insecure_host"),
        ({"command": "check"}, "another command"),
        ({"options": {"headers": {"Authorization": "Basic eA=="}}}, "Authorization"),
        ({"options": {"no_such_option": 1}}, "no_such_option"),
        ({"source": 5}, "an invalid source"),
        ({"options": 5}, "damaged"),
    ],
)
def test_resume_refuses_code_and_credentials_in_journal(
    run: Run, server: Serve, dest: Path, changes: dict[str, Any], named: str
) -> None:
    """The error names the option, and no request is sent."""
    source = server(synthetic=10)
    assert run("get", source.url, dest).code == 0
    change_command(dest, **changes)
    before = source.stats()

    ended = run("resume", dest)

    assert ended.code == 6
    assert named in ended.err
    assert source.stats() == before


@pytest.mark.parametrize(("old", "format"), [("all_rows", "parquet"), ("warc_all", "warc")])
def test_resume_keeps_value_of_renamed_option(run: Run, server: Serve, dest: Path, old: str, format: str) -> None:
    """The job's identity stays the same."""
    assert run("get", server(synthetic=10).url, dest, "--format", format, "--keep-failed").code == 0
    change_command(dest, options={"format": format, old: True})

    assert run("resume", dest).code == 0


def test_resume_refuses_targets_of_program_or_stdin(run: Run, server: Serve, tmp_path: Path) -> None:
    """The error says to run the same program again."""
    source = server(synthetic=10)
    fetchmill.get([f"{source.url}/get/file-000000000000"], tmp_path / "program", allow_private=True)
    with url_list(tmp_path / "urls.txt", source, 10).open() as lines:
        assert run("get", "-", tmp_path / "input", "--allow-private", stdin=lines).code == 0

    for place in ("program", "input"):
        ended = run("resume", tmp_path / place)
        assert ended.code == 2
        assert "hint: run the same command or program again" in ended.err


def test_resume_reports_folder_without_job(run: Run, tmp_path: Path) -> None:
    """The exit code is 2, and the error says what is missing."""
    (tmp_path / "empty").mkdir()

    ended = run("resume", tmp_path / "empty")

    assert ended.code == 2
    assert "holds no fetchmill job" in ended.err
