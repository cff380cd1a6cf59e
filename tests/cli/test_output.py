"""Standard output that cannot be written: a full disk is an error, a closed pipe is not."""

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import COMMAND
from fetchmill.testing import Server

pytestmark = pytest.mark.entry_point

COUNT = 3000
# More than any buffer, and less than the output.
ROOM = 64 << 10
FULL = "fetchmill: error: standard output: cut short (No space left on device); free disk space or write elsewhere"


@pytest.fixture
def stored(tmp_path: Path, server: Callable[..., Server]) -> Path:
    """Creates a folder with a job, `out`, and the results of two checks, one of them of another server."""
    served = server(synthetic=COUNT, size=100)
    fetchmill.get(served.url, tmp_path / "out", format="jsonl")
    for name, status in (("old", "200"), ("new", "404")):
        path = "get/file-000000000000" if status == "200" else "nothing"
        (tmp_path / f"{name}.txt").write_text(f"{served.url}/{path}\n")
        fetchmill.check(tmp_path / f"{name}.txt", tmp_path / f"{name}.csv", allow_private=True)
    return tmp_path


# Commands that write to standard output, and their arguments.
WRITING = (
    ("cat", "out", "file-000000000000"),
    ("ls", "out"),
    ("ls", "out", "--json"),
    ("ls", "out", "-0"),
    ("status", "out"),
    ("status", "out", "--json"),
    ("verify", "out", "--json"),
    ("diff", "old.csv", "new.csv"),
    ("diff", "old.csv", "new.csv", "--json"),
    ("--version",),
    ("--help",),
    ("ls", "--help"),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_full_disk_at_stdout_exits_with_code_7(stored: Path, arguments: tuple[str, ...]) -> None:
    """`command > file` must not look successful if the file is truncated."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*COMMAND, *arguments], cwd=stored, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert ended.returncode == 7
    assert ended.stderr.splitlines()[-1].startswith(FULL)
    assert "Traceback" not in ended.stderr


@pytest.mark.thorough
def test_job_finishes_when_events_cannot_be_written(stored: Path, server: Callable[..., Server]) -> None:
    """The exit code says that the events were not written."""
    source = server(synthetic=COUNT).url
    for arguments in (
        ("get", source, "other", "--json"),
        ("check", "old.txt", "again.csv", "--json", "--allow-private"),
        ("list", source, "--quiet"),
    ):
        with open("/dev/full", "wb") as full:
            command = [*COMMAND, *arguments]
            ended = subprocess.run(
                command, cwd=stored, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
            )
        assert ended.returncode == 7, (arguments, ended.stderr)
        assert ended.stderr.splitlines()[-1].startswith(FULL)
    assert fetchmill.status(stored / "other").finished
    assert (stored / "again.csv").exists()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_truncated_by_full_disk_is_reported(stored: Path, unbuffered: str) -> None:
    """A limit on the file's size simulates a disk that fills up while it is written."""
    limit = (ROOM, ROOM)
    with open(stored / "names", "wb") as names:
        ended = subprocess.run(
            [*COMMAND, "ls", "out", "--long"],
            cwd=stored,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=names,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        )
    assert ended.returncode == 7
    assert "standard output: cut short (File too large)" in ended.stderr
    assert (stored / "names").stat().st_size <= ROOM


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arguments", WRITING[:9], ids=" ".join)
def test_closed_output_pipe_does_not_change_exit_code(stored: Path, arguments: tuple[str, ...]) -> None:
    """With `fetchmill ls out | head -0`, nothing is reported."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [*COMMAND, *arguments],
            cwd=stored,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writer)
    assert ended.returncode == (3 if arguments[0] == "diff" else 0)
    assert "error" not in ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nonblocking_pipe_gets_complete_output(stored: Path, unbuffered: str) -> None:
    """Some programs leave their end of the pipe non-blocking. The command waits while the pipe is full."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = subprocess.Popen(
        [*COMMAND, "ls", "out", "--json"], cwd=stored, env=environment, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    with open(reader, "rb") as pipe:
        lines = pipe.read().splitlines()
    _, said = command.communicate(timeout=120)
    assert (command.returncode, said) == (0, b"")
    assert len(lines) == COUNT
