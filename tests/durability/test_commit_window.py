"""A `kill -9` loses the last commit window in every format; and a destination is moved while its job runs."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended, format_options
from fetchmill.testing import Fault, Server
from foreign import SUFFIXES, find_shards
from independent import find_problems, has_journal, read_ledger, synthetic

Serve = Callable[..., Server]
Start = Callable[..., subprocess.Popen[str]]
Run = Callable[..., Ended]

# A request in flight takes 100 ms per object: 640 objects per second.
PLACES = 64
DELAY = (0.1, 0.101)
# One second's window, the objects in flight, and the same again for a slow machine.
FETCHED_AGAIN_MAX = 1500


def wait_for(process: subprocess.Popen[str], is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Waits for a condition; the job must keep running meanwhile."""
    until = time.monotonic() + seconds
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def kill(process: subprocess.Popen[str]) -> None:
    """Sends SIGKILL."""
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_kill_loses_at_most_last_commit_window(start: Start, run: Run, server: Serve, dest: Path, format: str) -> None:
    """Older data in an open shard is not lost, even in Parquet, whose files have no valid prefix."""
    count = 4000
    source = server(synthetic=count, delay=DELAY)
    command = ("get", source.url, dest, "--concurrency", PLACES, "--format", format)
    process = start(*command)

    wait_for(process, lambda: has_journal(dest) and read_ledger(dest).settled > 0)
    first = source.stats()["get"]
    wait_for(process, lambda: source.stats()["get"] > 2500)
    kill(process)
    settled = read_ledger(dest).settled
    served = source.stats()["get"]
    assert find_shards(dest, format) == [], "no shard is sealed yet"
    assert fetchmill.verify(dest).ok
    assert list(fetchmill.open(dest)) == [], "readers see sealed shards"
    run(*command)

    assert first < FETCHED_AGAIN_MAX, f"{first} requests before status said anything"
    assert served - settled < FETCHED_AGAIN_MAX, f"{served} served, {settled} settled"
    assert source.stats()["get"] - count < FETCHED_AGAIN_MAX
    assert find_problems(dest, synthetic(count), format) == []
    assert fetchmill.verify(dest).ok


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", SUFFIXES)
def test_open_shard_of_killed_run_is_sealed_intact(
    start: Start, run: Run, server: Serve, dest: Path, format: str
) -> None:
    """After each kill, the shard is sealed at the end of its last window.

    Each object is in one shard, and readers find it.
    """
    count = 3000
    # The job takes seven seconds, so that progress can be checked in time even on a busy machine.
    source = server(synthetic=count, delay=(0.0, 0.15))
    command = ("get", source.url, dest, "--concurrency", 32, "--commit-window", "50ms", "--format", format)
    settled = 0
    for _ in range(3):
        process = start(*command)
        wait_for(process, lambda more=settled + 100: has_journal(dest) and read_ledger(dest).settled > more)  # type: ignore[misc]
        kill(process)
        settled = read_ledger(dest).settled
    run(*command)

    assert len(find_shards(dest, format)) >= 3
    assert find_problems(dest, synthetic(count), format) == []
    assert fetchmill.verify(dest).ok


@pytest.mark.thorough
def test_window_ends_after_shard_is_sealed_within_block(start: Start, server: Serve, dest: Path) -> None:
    """All objects but the last one arrive immediately and are committed while the last one hangs.

    Replies on the hung connection wait until the request is abandoned after about 45 seconds, because it might answer
    an earlier one.
    """
    count = 3000
    last = f"file-{count - 1:012}*"
    source = server(synthetic=count, faults=[Fault("stall", match=last, seconds=600)])
    process = start("get", source.url, dest, "--format", "tar", "--shard-size", "64KiB", "--concurrency", "8")

    wait_for(process, lambda: source.stats()["get"] >= count)
    wait_for(process, lambda: fetchmill.status(dest).fetched == count - 1, seconds=150)
    kill(process)
    assert read_ledger(dest).settled == count - 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "parquet", "tar", "null"])
def test_moved_destination_stops_job_and_resumes_there(
    start: Start, run: Run, server: Serve, tmp_path: Path, format: str
) -> None:
    """The exit code is 7, nothing is stored under the old name, and the job can be completed in the moved folder."""
    count = 2000
    dest, moved = tmp_path / "out", tmp_path / "moved"
    source = server(synthetic=count, delay=(0.0, 0.05))
    command = ("--concurrency", 16, "--commit-window", "100ms", *format_options(format))
    process = start("get", source.url, dest, *command)
    wait_for(process, lambda: has_journal(dest) and read_ledger(dest).settled > 100)

    dest.rename(moved)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 7, err
    assert "was moved or replaced while the job was running" in err
    assert [path for path in dest.rglob("*") if path.is_file()] == []
    assert 0 < read_ledger(moved).settled < count
    run("get", source.url, moved, *command)
    assert find_problems(moved, synthetic(count), format) == []
    assert format == "null" or fetchmill.verify(moved).ok
