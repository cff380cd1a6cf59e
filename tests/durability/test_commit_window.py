"""What `kill -9` costs, whatever the format: the last commit window; and a destination that moves while a job runs."""

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

# A place takes 100 ms for an object: 640 objects a second.
PLACES = 64
DELAY = (0.1, 0.101)
# Of a window of a second, what is in flight, and as much again for a machine that is slow.
FETCHED_AGAIN_MAX = 1500


def wait_for(process: subprocess.Popen[str], is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Until something is so; the job must go on meanwhile."""
    until = time.monotonic() + seconds
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def kill(process: subprocess.Popen[str]) -> None:
    """As `kill -9` does."""
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["tar", "parquet"])
def test_a_kill_costs_the_last_commit_window(start: Start, run: Run, server: Serve, dest: Path, format: str) -> None:
    """A shard is open for long, and what is in it counts: not even a Parquet file, which has no valid prefix, waits."""
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
def test_a_shard_that_a_killed_run_left_open_is_whole(
    start: Start, run: Run, server: Serve, dest: Path, format: str
) -> None:
    """It is sealed where its last window ended, again and again: each object is in one shard, and readers find it."""
    count = 3000
    # Seven seconds, so that whoever looks how far it is comes in time on a busy machine, too.
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
def test_a_window_ends_after_a_shard_was_sealed_in_the_middle_of_a_block(
    start: Start, server: Serve, dest: Path
) -> None:
    """All objects but the last are there at once, and it hangs: they are committed all the same.

    But those that its connection holds wait until it is given up, some 45 seconds: it might answer an earlier one.
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
def test_a_destination_that_is_moved_stops_the_job_and_is_resumed_where_it_is(
    start: Start, run: Run, server: Serve, tmp_path: Path, format: str
) -> None:
    """Exit 7 says so, nothing is stored in a new folder of the old name, and the moved one becomes whole."""
    count = 2000
    dest, moved = tmp_path / "out", tmp_path / "moved"
    source = server(synthetic=count, delay=(0.0, 0.05))
    command = ("--concurrency", 16, "--commit-window", "100ms", *format_options(format))
    process = start("get", source.url, dest, *command)
    wait_for(process, lambda: has_journal(dest) and read_ledger(dest).settled > 100)

    dest.rename(moved)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 7, err
    assert "was moved or replaced while the job ran" in err
    assert [path for path in dest.rglob("*") if path.is_file()] == []
    assert 0 < read_ledger(moved).settled < count
    run("get", source.url, moved, *command)
    assert find_problems(moved, synthetic(count), format) == []
    assert format == "null" or fetchmill.verify(moved).ok
