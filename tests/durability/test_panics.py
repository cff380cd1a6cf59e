"""A panic in any thread or task ends the process with one line and exit code 1, and the same command resumes.

There is no switch for a panic. Instead, the tests make the event queues of the threads fail, to which their library
reacts with a panic. `strace` counts per thread, so every thread that waits for events fails at its N-th wait.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from conftest import COMMAND, Ended
from fetchmill.testing import Server
from independent import read_ledger

pytestmark = pytest.mark.entry_point

Serve = Callable[..., Server]
Run = Callable[..., Ended]

COUNT = 2_000
# The job is slow enough that each of its threads waits for events many times.
SLOW = {"synthetic": COUNT, "size": 100, "delay": (0.001, 0.005), "page_size": 200}
# strace is slow, and a thread that waits for a dead one is abandoned after some seconds.
SECONDS_MAX = 60


def fail_waiting(arguments: Sequence[object], environment: Mapping[str, str], at: int) -> Ended:
    """Runs a command whose threads fail at their N-th wait for events (`at`)."""
    trace = [
        "strace",
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=epoll_wait",
        "-e",
        f"inject=epoll_wait:error=EIO:when={at}",
    ]
    ended = subprocess.run(
        [*trace, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def must_be_one_line(ended: Ended) -> None:
    """Checks the exit code and the message that a user sees."""
    assert ended.code == 1, ended
    assert ended.err.count("\n") == 1, ended.err
    assert "has panicked at" in ended.err
    assert "the job can be resumed" in ended.err


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at", [1, 7, 40])
@pytest.mark.parametrize("format", ["null", "parquet"])
def test_job_ends_and_resumes_after_thread_panic(
    server: Serve, run: Run, environment: dict[str, str], dest: Path, format: str, at: int
) -> None:
    """The threads of the journal, the listing and the workers fail at different moments."""
    url = server(**SLOW).url
    command = ("get", url, dest, "--format", format, "--concurrency", "8", "--quiet")
    must_be_one_line(fail_waiting([*COMMAND, *command], environment, at))
    ended = run(*command)
    assert ended.code == 0, ended.err
    assert read_ledger(dest).fetched == COUNT


@pytest.mark.thorough
def test_python_engine_job_ends_after_thread_panic(
    server: Serve, run: Run, environment: dict[str, str], dest: Path
) -> None:
    """The panic is in a thread that is not one of Python's."""
    command = (
        "get",
        server(**SLOW).url,
        dest,
        "--format",
        "null",
        "--engine",
        "threads",
        "--concurrency",
        "8",
        "--quiet",
    )
    must_be_one_line(fail_waiting([*COMMAND, *command], environment, 2))
    assert run(*command).code == 0


def test_list_ends_after_thread_panic(server: Serve, run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    """The panic comes while the list writes a manifest."""
    command = ("list", server(**SLOW).url, tmp_path / "manifest.csv", "--quiet")
    must_be_one_line(fail_waiting([*COMMAND, *command], environment, 2))
    assert run(*command).code == 0


def test_stream_raises_after_thread_panic(server: Serve, environment: dict[str, str]) -> None:
    """A stream must not wait for replies that never come."""
    program = f"""
import fetchmill
urls = (f"{server(**SLOW).url}/get/file-{{number:012}}" for number in range({COUNT}))
try:
    for reply in fetchmill.stream(urls, limit=8):
        pass
except fetchmill.errors.InternalError as error:
    print("raised")
"""
    started = time.monotonic()
    ended = fail_waiting([sys.executable, "-c", program], environment | {"PYTHONPATH": os.pathsep.join(sys.path)}, 20)
    assert (ended.code, ended.out) == (0, "raised\n"), ended
    assert time.monotonic() - started < SECONDS_MAX / 2
