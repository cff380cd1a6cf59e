"""Two runs on a file system that grants every lock: one of them stops, and each object is stored once."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import COMMAND, Ended, format_options
from fetchmill.testing import Server
from independent import find_problems, synthetic
from synced import ChangingTree, bodies

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Lying = Callable[..., "subprocess.Popen[str]"]

STORAGE, BUSY = 7, 9
COUNT = 400


@pytest.fixture
def lying(environment: dict[str, str], tmp_path: Path) -> Lying:
    """Starts the real command on a file system that grants every lock."""
    strace = shutil.which("strace")
    assert strace, "strace is missing: make servers"
    grant = [strace, "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", "trace=flock", "-e", "inject=flock:retval=0"]

    def start(*arguments: object) -> "subprocess.Popen[str]":
        command = [*grant, *COMMAND, *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe, env=environment, cwd=tmp_path)

    return start


def await_file(pattern: str, folder: Path, process: "subprocess.Popen[str]") -> None:
    """Waits until a file exists, and slightly longer."""
    deadline = time.monotonic() + 60
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, pattern
        time.sleep(0.01)
    time.sleep(0.3)


def move_away(dest: Path) -> None:
    """Changes the mark in the lock file, as if the process that holds the job were on another machine."""
    locks = [path for path in (dest / ".fetchmill").rglob("lock") if path.stat().st_size]
    assert locks
    for lock in locks:
        _, _, rest = lock.read_text().partition(" ")
        lock.write_text(f"another-boot {rest}")


def endings(*processes: "subprocess.Popen[str]") -> list[tuple[int, str]]:
    """Returns the exit codes and messages."""
    said = [process.communicate(timeout=100)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def test_second_run_stops_when_first_process_is_alive(run: Run, lying: Lying, server: Serve, dest: Path) -> None:
    """The mark in the lock file names a living process."""
    source = server(synthetic=COUNT, page_size=50, delay=(0.05, 0.1))
    command = ("get", source.url, dest, "--concurrency", "16", "--commit-window", "50ms", "--quiet")
    first = lying(*command)
    await_file(".fetchmill/manifests/*", dest, first)

    (first_code, _), (second_code, said) = endings(first, lying(*command))

    assert (first_code, second_code) == (0, BUSY), said
    assert "although its file system granted the lock" in said
    assert run("verify", dest).code == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "tar", "parquet", "jsonl"])
def test_run_stops_when_other_run_takes_its_job(run: Run, lying: Lying, server: Serve, dest: Path, format: str) -> None:
    """The second run cannot tell whether a process on another machine is alive, so it takes over the job."""
    source = server(synthetic=COUNT, page_size=50, delay=(0.05, 0.1))
    command = (
        "get",
        source.url,
        dest,
        "--concurrency",
        "16",
        "--commit-window",
        "50ms",
        *format_options(format),
        "--quiet",
    )
    first = lying(*command)
    await_file(".fetchmill/manifests/*" if format == "files" else ".fetchmill/open/*", dest, first)
    move_away(dest)

    (first_code, said), (second_code, also_said) = endings(first, lying(*command))

    assert first_code == BUSY, said
    assert "another run has taken over this job" in said
    # Until the first run notices that it has lost the job, both may stage the same file. The second run may therefore
    # fail as well.
    assert second_code in {0, STORAGE}, also_said
    assert run(*command).code == 0
    assert run("verify", dest).code == 0
    problems = find_problems(dest, synthetic(COUNT), format)
    assert [problem for problem in problems if "job.sqlite-" not in problem] == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "jsonl"])
def test_sync_stops_when_other_run_takes_destination(
    run: Run, lying: Lying, server: Serve, tmp_path: Path, dest: Path, format: str
) -> None:
    """The sync stops before it changes anything else."""
    tree = ChangingTree(tmp_path / "content", 200, seed=1)
    source = server(tmp_path / "content", delay=(0.05, 0.1))
    command = ("sync", source.url, dest, "--format", format, "--concurrency", "8", "--quiet")
    first = lying(*command)
    await_file(".fetchmill/sync/fetched/.fetchmill/job.sqlite", dest, first)
    move_away(dest)

    (first_code, said), (second_code, also_said) = endings(first, lying(*command))

    assert first_code == BUSY, said
    # Until the first run notices that it has lost the job, both may stage the same file. The second run may therefore
    # fail as well.
    assert second_code in {0, STORAGE}, also_said
    assert "another run has taken over this job" in said
    assert run(*command).code == 0
    if format == "files":
        assert bodies(dest) == bodies(tree.folder)
    else:
        assert len(run("ls", dest).out.splitlines()) == len(tree.names())
