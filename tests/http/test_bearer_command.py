"""`--bearer-command`: a command prints the token, and runs again when the server refuses it."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from stored import everything, find_wrong
from token_server import SECRET, TokenServer

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]

OBJECTS = {f"object-{number:03}": b"%d" % number for number in range(150)}
# With few requests in flight, few are refused with each token.
FEW = ("--concurrency", 4)


@pytest.mark.parametrize("more", [(), ("--pipeline", 8)], ids=["alone", "pipelined"])
def test_rejected_token_is_renewed_by_one_command_run(
    run: Run, dest: Path, tmp_path: Path, more: tuple[object, ...]
) -> None:
    """All waiting requests share the new token, and every object is stored once."""
    with TokenServer(OBJECTS, tmp_path, lasts=60) as server:
        ended = run("get", server.url, dest, "--bearer-command", server.command, *FEW, *more)

        assert ended.code == 0, ended.err
        assert find_wrong(dest, "files", OBJECTS) == []
        assert server.count_runs() in range(3, 6)
        assert server.answered == dict.fromkeys(OBJECTS, 1)


def test_page_token_is_renewed_and_never_stored(run: Run, dest: Path, tmp_path: Path) -> None:
    """The first page is refused, too. Neither the journal nor shards, messages or the job's log contain a token."""
    with TokenServer(OBJECTS, tmp_path, lasts=60, locked=frozenset({"object-007"})) as server:
        server.runs.write_text("x\n")
        command = f"{server.command}; echo second-line"
        options = ("--format", "warc", "--bearer-command", command, *FEW, "--log-file", "log", "--log-format", "json")
        ended = run("get", server.url, dest, *options)
        listed = run("list", server.url, "names.csv", "--bearer-command", command)

        assert (ended.code, listed.code) == (3, 0), ended.err + listed.err
        (failed,) = fetchmill.failures(dest)
        assert (failed.name, failed.status) == ("object-007", 401)
        written = [*everything(dest), (tmp_path / "log").read_bytes(), (tmp_path / "names.csv").read_bytes()]
        assert not [text for text in written if SECRET.encode() in text]
        assert SECRET not in ended.out + ended.err + listed.out + listed.err


def test_token_is_sent_only_to_named_origin(run: Run, dest: Path, tmp_path: Path) -> None:
    """With a list, no origin gets the token unless one is named."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with TokenServer(OBJECTS, tmp_path) as own, TokenServer(OBJECTS, elsewhere) as other:
        (tmp_path / "list.txt").write_text(f"{own.url}/get/object-000\n{other.url}/get/object-001\n")
        command = ("get", "list.txt", dest, "--allow-private", "--bearer-command", own.command)
        refused = run(*command)
        ended = run(*command, "--credentials-for", own.url)

        assert refused.code == 2
        assert "--bearer-command prints a secret" in refused.err
        assert "--credentials-for" in refused.err
        assert ended.code == 3, ended.err
        assert own.answered == {"object-000": 1}
        assert (other.refused, other.answered) == (1, {})


def test_job_stops_when_every_token_is_rejected_and_can_resume(run: Run, dest: Path, tmp_path: Path) -> None:
    """The job stops after three tokens, and no target has failed by then."""
    with TokenServer(OBJECTS, tmp_path, lasts=101) as server:
        command = ("get", server.url, dest, *FEW, "--commit-window", "50ms", "--bearer-command")
        # A wrong token follows the first one.
        once = f"{server.command.replace(SECRET, f'$(test -s {server.runs}.2 && echo wrong || echo {SECRET})')}"
        stopped = run(*command, f"{once}; echo x > {server.runs}.2")

        assert stopped.code == 5, stopped.err
        assert "the server refused the tokens of --bearer-command 3 times in a row (status 401)" in stopped.err
        assert fetchmill.status(dest).failed == 0
        ended = run(*command, server.command)

        assert ended.code == 0, ended.err
        assert find_wrong(dest, "files", OBJECTS) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no-key >&2; exit 3", "the --bearer-command failed (exit status: 3): no-key; run the command by hand"),
        ("true", "--bearer-command printed no token"),
        (rf"printf '{SECRET}\033[1m'", "--bearer-command printed a token with a space, a control character"),
        (f"printf '{SECRET}\\tx'", "--bearer-command printed a token with a space, a control character"),
        ("no-such-command-anywhere", "not found"),
    ],
)
def test_job_ends_before_requests_when_command_gives_no_token(
    run: Run, dest: Path, tmp_path: Path, command: str, said: str
) -> None:
    """The error has the reason, but not the command's output."""
    with TokenServer(OBJECTS, tmp_path) as server:
        ended = run("get", server.url, dest, "--bearer-command", command)

        assert ended.code == 5, ended.err
        assert said in ended.err, ended.err
        assert SECRET not in ended.err.replace(command, "")
        assert not server.answered


@pytest.mark.parametrize("lasts", [0, 30], ids=["first token", "later token"])
def test_stopped_job_ends_hung_bearer_command(start: Start, dest: Path, tmp_path: Path, lasts: int) -> None:
    """The command ends immediately, and missing objects stay pending."""
    with TokenServer(OBJECTS, tmp_path, lasts=lasts) as server:
        pid = tmp_path / "pid"
        hang = f"echo $$ > {pid}; exec sleep 60"
        command = f"if [ {lasts} = 0 ] || [ -s {server.runs} ]; then {hang}; fi; {server.command}"
        job = start("get", server.url, dest, *FEW, "--bearer-command", command)
        while not pid.exists() or not pid.read_text():
            assert job.poll() is None
            time.sleep(0.02)
        job.send_signal(signal.SIGINT)

        assert job.wait(10) == 130
        status = Path(f"/proc/{pid.read_text().strip()}/status")
        assert not status.exists() or "\nState:\tZ" in status.read_text()
        assert fetchmill.status(dest).failed == 0
        assert len(server.answered) == max(lasts - 1, 0)


def test_bearer_command_ends_with_killed_job(start: Start, dest: Path, tmp_path: Path) -> None:
    """The command and its child processes do not outlive the job."""
    with TokenServer(OBJECTS, tmp_path) as server:
        pid = tmp_path / "pid"
        job = start("get", server.url, dest, *FEW, "--bearer-command", f"sleep 60 & echo $! > {pid}; wait")
        while not pid.exists() or not pid.read_text().strip():
            assert job.poll() is None
            time.sleep(0.02)
        job.kill()
        job.wait(10)
        deadline = time.monotonic() + 10
        status = Path(f"/proc/{pid.read_text().strip()}/status")
        while status.exists() and "\nState:\tZ" not in status.read_text():
            assert time.monotonic() < deadline, "it is left behind"
            time.sleep(0.05)


def test_token_is_used_when_child_keeps_command_output_open(run: Run, dest: Path, tmp_path: Path) -> None:
    """The token counts once the command has ended, even if a child keeps the output open."""
    with TokenServer(OBJECTS, tmp_path) as server:
        ended = run("get", server.url, dest, *FEW, "--bearer-command", f"sleep 60 & {server.command}")
        assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--bearer", "x"), "cannot be combined"),
        (("--header", "Authorization: x"), "cannot be combined"),
        (("--engine", "threads"), "--bearer-command needs --engine native"),
    ],
)
def test_bearer_command_is_refused_with_incompatible_options(
    run: Run, dest: Path, more: tuple[str, ...], said: str
) -> None:
    """The error comes before the command is run."""
    ended = run("get", "http://127.0.0.1:1", dest, "--bearer-command", "exit 9", *more)

    assert ended.code == 2, ended.err
    assert said in ended.err


def test_options_file_cannot_set_bearer_command(run: Run, dest: Path, tmp_path: Path) -> None:
    """An options file from a third party must not run anything."""
    (tmp_path / "conf.toml").write_text("[get]\nbearer-command = 'touch run'\n")
    ended = run("get", "http://127.0.0.1:1", dest, "--config", "conf.toml")

    assert ended.code == 2, ended.err
    assert "bearer-command" in ended.err
    assert not (tmp_path / "run").exists()
