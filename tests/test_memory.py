"""Memory stays below 256 MiB whatever the number and size of the objects, up to the bounds of limits.rs.

`make memory` and `make memory-lists` do the same with one and ten million objects.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import COMMAND
from fetchmill.testing import Fault, Server
from independent import find_problems, find_unbalanced, find_unfinished, read_ledger, synthetic

Serve = Callable[..., Server]
Peak = Callable[..., float]

MIB = 1 << 20
BUDGET = 256
# A small parent: a child's peak starts at its parent's.
SPAWN = """
import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture
def peak(environment: dict[str, str]) -> Peak:
    """Runs the real command to its end and gives the most memory that it had at any time, in MiB."""

    def measure(*arguments: object) -> float:
        ended = subprocess.run(
            [sys.executable, "-c", SPAWN, *COMMAND, *map(str, arguments), "--quiet"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert ended.returncode in {0, 3}, ended.stderr
        return int(ended.stdout.splitlines()[-1]) / 1024

    return measure


def test_memory_does_not_grow_with_the_number(peak: Peak, server: Serve, tmp_path: Path) -> None:
    """300,000 objects take hardly more than 30,000: what is added is the window of targets not yet fetched."""
    peaks = {}
    for count in (30_000, 300_000):
        dest = tmp_path / f"out{count}"
        peaks[count] = peak("get", server(synthetic=count).url, dest, "--format", "null")
        assert read_ledger(dest).fetched == count

    assert peaks[300_000] < BUDGET, peaks
    assert peaks[300_000] - peaks[30_000] < 24, peaks


@pytest.mark.slow
def test_lists_generators_and_streams_take_no_more(root: Path) -> None:
    """`make memory-lists`, with fewer targets and for a moment: no input is read on in a pause, nothing comes twice."""
    sizes = ("--count", "20000", "--seconds", "3", "--settle", "0.5", "--growth", "24")

    ended = subprocess.run(
        [sys.executable, "-m", "benches.memory_lists", *sizes],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("memory passed\n")


def test_files_take_no_more(peak: Peak, server: Serve, memory_path: Path) -> None:
    """60,000 files, with a window of two seconds so that many are staged at a time."""
    dest = memory_path / "out"
    used = peak("get", server(synthetic=60_000).url, dest, "--commit-window", "2s")

    assert used < BUDGET
    assert find_problems(dest, synthetic(60_000)) == []


@pytest.mark.parametrize(
    ("count", "size"), [(100, 2 * MIB), (200, 900 << 10), (200, MIB)], ids=["2MiB", "900KiB", "1MiB"]
)
def test_large_bodies_are_staged_or_wait_for_no_memory(
    peak: Peak, server: Serve, memory_path: Path, count: int, size: int
) -> None:
    """Sixty-four at a time, which together are larger than the budget for replies or just below."""
    dest = memory_path / "out"
    source = server(synthetic=count, size=size, delay=(0.0, 0.1))

    used = peak("get", source.url, dest, "--limit", 64)

    assert used < BUDGET
    assert find_problems(dest, synthetic(count, size)) == []


def test_targets_that_wait_or_fail_take_no_more(peak: Peak, server: Serve, dest: Path) -> None:
    """They are rows of the journal and of a shard: some 30,000 wait for seconds, and 10,000 are absent."""
    later = Fault("status", status=503, retry_after=(1, 2), times=1, rate=0.3)
    gone = Fault("status", status=404, match="file-00000001*")

    used = peak("get", server(synthetic=100_000, faults=[gone, later]).url, dest, "--format", "null")

    assert used < BUDGET
    assert find_unfinished(dest) + find_unbalanced(dest) == []
    assert (read_ledger(dest).fetched, read_ledger(dest).absent) == (90_000, 10_000)


@pytest.mark.parametrize("manifest", ["m.parquet", "m.jsonl.gz", None])
def test_a_list_that_is_written_out_takes_no_more(
    peak: Peak, server: Serve, tmp_path: Path, manifest: str | None
) -> None:
    """100,000 names, into a file and to standard output: far below what their rows would take together."""
    source = server(synthetic=100_000)

    used = peak("list", source.url, *([tmp_path / manifest] if manifest else []))

    assert used < BUDGET


def test_thousands_in_flight_take_no_more(peak: Peak, server: Serve, dest: Path) -> None:
    """A slow server, and 4,000 requests at a time."""
    source = server(synthetic=10_000, delay=(0.5, 1.5))

    used = peak("get", source.url, dest, "--format", "null", "--limit", 4000)

    assert used < BUDGET
    assert read_ledger(dest).fetched == 10_000
    assert source.stats()["connections"] > 3500
