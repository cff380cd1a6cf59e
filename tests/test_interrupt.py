"""SIGINT and SIGTERM at seeded moments: a checkpoint, an exit code, and a job that resumes."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Server, synthetic_body

Run = Callable[..., Any]
Serve = Callable[..., Server]

COUNT = 3000
WINDOW = 0.05
SEEDS = range(10)
# A job of two seconds, so that every moment is in the middle of it.
SLOW: dict[str, Any] = {"synthetic": COUNT, "page_size": 100, "delay": (0.0, 0.08), "list_delay": (0.0, 0.03)}
IN_PYTHON = """
import sys, fetchmill
try:
    fetchmill.get(sys.argv[1], sys.argv[2], commit_window=0.05)
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


def wait_for_the_first_page(source: Server, process: subprocess.Popen[str]) -> None:
    """Until the job fetches."""
    while not source.stats()["get"]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def assert_checkpointed(dest: Path, tree: Callable[..., Any]) -> None:
    """Whole objects only, none staged, each counted."""
    status = fetchmill.status(dest)
    stored = tree(dest)
    staged = [name for name in tree(dest, with_state=True) if "/stage/" in name and tree(dest, with_state=True)[name]]

    assert status.balanced
    assert not status.running
    assert staged == []
    assert status.fetched == len(stored)
    assert all(body == synthetic_body(name, 100) for name, body in stored.items())


def assert_resumes(run: Run, source: Server, dest: Path, tree: Callable[..., Any]) -> None:
    """The same command finishes the job."""
    ended = run("get", source.url, dest, "--commit-window", "50ms")

    assert ended.code == 0, ended.err
    assert len(tree(dest)) == COUNT
    assert f"{COUNT:,} listed = {COUNT:,} fetched + 0 absent" in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_signal_ends_the_command_after_a_checkpoint(
    run: Run, start: Run, server: Serve, dest: Path, tree: Callable[..., Any], number: signal.Signals, seed: int
) -> None:
    """Exit code 130 or 143 within five seconds, and it says how to go on."""
    source = server(**SLOW, seed=seed)
    process = start("get", source.url, dest, "--commit-window", "50ms")
    wait_for_the_first_page(source, process)
    time.sleep(random.Random(seed).uniform(0.1, 20) * WINDOW)

    process.send_signal(number)
    sent = time.monotonic()
    _, err = process.communicate(timeout=10)

    assert process.returncode == 128 + number
    assert time.monotonic() - sent < 5
    assert "run the same command again to resume" in err
    assert_checkpointed(dest, tree)
    if seed < 2:
        assert_resumes(run, source, dest, tree)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_signal_ends_fetchmill_get_after_a_checkpoint(
    run: Run, server: Serve, dest: Path, tree: Callable[..., Any], seed: int
) -> None:
    """KeyboardInterrupt goes on to the caller."""
    source = server(**SLOW, seed=seed)
    process = subprocess.Popen(
        [sys.executable, "-c", IN_PYTHON, source.url, str(dest)], stderr=subprocess.PIPE, text=True
    )
    wait_for_the_first_page(source, process)
    time.sleep(random.Random(seed).uniform(0.1, 20) * WINDOW)

    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, err = process.communicate(timeout=10)

    assert (process.returncode, err) == (1, "interrupted\n")
    assert time.monotonic() - sent < 5
    assert_checkpointed(dest, tree)
    if seed < 2:
        assert_resumes(run, source, dest, tree)


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_ends_the_command_at_once(
    run: Run, start: Run, server: Serve, dest: Path, tree: Callable[..., Any], numbers: tuple[signal.Signals, ...]
) -> None:
    """Replies that take long are not waited for; the job resumes all the same."""
    source = server(synthetic=COUNT, page_size=100, delay=(0.0, 0.1))
    process = start("get", source.url, dest, "--commit-window", "50ms")
    wait_for_the_first_page(source, process)
    slow = server(synthetic=10, delay=(30, 30))
    stuck = start("get", slow.url, dest.with_name("stuck"))
    wait_for_the_first_page(slow, stuck)

    for running in (process, stuck):
        running.send_signal(numbers[0])
        time.sleep(0.3)
        running.send_signal(numbers[1])
        sent = time.monotonic()
        running.communicate(timeout=10)
        assert time.monotonic() - sent < 1
    assert stuck.returncode == 128 + numbers[1]
    assert process.returncode in {128 + numbers[0], 128 + numbers[1]}
    assert_resumes(run, source, dest, tree)


def test_a_drain_has_an_end(start: Run, server: Serve, dest: Path) -> None:
    """Replies that never come do not hold up the end for more than five seconds."""
    source = server(synthetic=10, delay=(60, 60))
    process = start("get", source.url, dest)
    wait_for_the_first_page(source, process)

    process.send_signal(signal.SIGTERM)
    sent = time.monotonic()
    process.communicate(timeout=10)

    assert process.returncode == 143
    assert time.monotonic() - sent < 5


def test_a_signal_ends_a_job_that_only_lists(start: Run, server: Serve, dest: Path) -> None:
    """Even before the first page."""
    source = server(synthetic=10, list_delay=(60, 60))
    process = start("get", source.url, dest)
    while not source.stats()["connections"]:
        time.sleep(0.005)

    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    process.communicate(timeout=10)

    assert process.returncode == 130
    assert time.monotonic() - sent < 5
