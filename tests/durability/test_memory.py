"""Memory stays below 256 MiB for any number and size of objects, up to the bounds in `limits`.

`make memory` and `make memory-lists` do the same with one and ten million objects.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from broken_bodies import BrokenObject, bytes_of
from conftest import COMMAND
from fetchmill.testing import Fault, Server
from independent import find_problems, find_unbalanced, find_unfinished, read_ledger, synthetic
from own_bench.anonymous_peak import anonymous_peak
from process_limits import SPAWN
from raw_server import RawServer, mirror
from stored import find_wrong

pytestmark = pytest.mark.entry_point

Serve = Callable[..., Server]
Peak = Callable[..., float]

MIB = 1 << 20
BUDGET = 256


@pytest.fixture
def peak(environment: dict[str, str]) -> Peak:
    """Runs the real command to its end. Returns its peak memory in MiB."""

    def measure(*arguments: object, before: Sequence[str] = ()) -> float:
        ended = subprocess.run(
            [sys.executable, "-c", SPAWN, *before, *COMMAND, *map(str, arguments), "--quiet"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert ended.returncode in {0, 3}, ended.stderr
        return int(ended.stdout.splitlines()[-1]) / 1024

    return measure


@pytest.mark.thorough
def test_memory_is_independent_of_object_count(peak: Peak, server: Serve, tmp_path: Path) -> None:
    """600,000 objects take hardly more memory than 200,000, which fill the window and the connections."""
    peaks = {}
    for count in (200_000, 600_000):
        dest = tmp_path / f"out{count}"
        # Requests in flight take memory, too, so their number must be the same.
        peaks[count] = peak("get", server(synthetic=count).url, dest, "--format", "null", "-j", 64)
        assert read_ledger(dest).fetched == count

    assert peaks[600_000] < BUDGET, peaks
    assert peaks[600_000] - peaks[200_000] < 24, peaks


def test_partial_large_objects_are_kept_outside_memory(peak: Peak, tmp_path: Path) -> None:
    """Two hundred objects have received 2 MiB each when their connections break, and continue from there."""
    count, length, broken_at = 200, 9 * MIB // 4, 2 * MIB
    body = bytes_of(1, length)
    large = {f"{number:03}": BrokenObject(body, [broken_at, 1]) for number in range(count)}
    dest = tmp_path / "out"
    with RawServer(mirror(large, large)) as server:
        most = peak("get", server.url, dest, "-j", count)

    assert find_wrong(dest, "files", dict.fromkeys(large, body)) == []
    # A slow request on a busy machine is repeated from the start.
    resumed = [each for each in large.values() if each.firsts[:2] == [0, broken_at]]
    assert len(resumed) > 0.9 * count
    assert [each.sent for each in resumed] == [length] * len(resumed)
    assert most < BUDGET, most


@pytest.mark.thorough
@pytest.mark.alone
def test_lists_generators_and_streams_stay_within_memory(root: Path) -> None:
    """During a pause, no input is read. No item comes twice."""
    # A job of 20,000 ends before its connections have held a second's replies with their names. Ten times as many took
    # 35 to 37 MiB more, and 34 MiB more from 100,000 to a million. A stream remembers its replies of the last second:
    # its memory is flat after three or four seconds. `make memory-lists` measures the cost of skipping, with the
    # release package only.
    sizes = ("--count", "20000", "--seconds", "15", "--settle", "4", "--growth", "48", "--skip", "600")

    ended = subprocess.run(
        [sys.executable, "-m", "own_bench.memory_lists", *sizes],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("memory passed\n")


@pytest.mark.thorough
def test_many_staged_files_stay_within_memory(peak: Peak, server: Serve, memory_path: Path) -> None:
    """There are 60,000 files, with a window of two seconds, so that many are staged at a time."""
    dest = memory_path / "out"
    # Requests in flight have their own bound.
    used = peak("get", server(synthetic=60_000).url, dest, "--commit-window", "2s", "-j", 64)

    assert used < BUDGET
    assert find_problems(dest, synthetic(60_000)) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("count", "size"), [(100, 2 * MIB), (200, 900 << 10), (200, MIB)], ids=["2MiB", "900KiB", "1MiB"]
)
def test_concurrent_large_bodies_stay_within_memory(
    peak: Peak, server: Serve, memory_path: Path, count: int, size: int
) -> None:
    """The total of 64 bodies at a time is above the budget for replies, or slightly below it."""
    dest = memory_path / "out"
    source = server(synthetic=count, size=size, delay=(0.0, 0.1))

    used = peak("get", source.url, dest, "--concurrency", 64)

    assert used < BUDGET
    assert find_problems(dest, synthetic(count, size)) == []


MEGABYTE = 1_000_000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "tar", "warc", "jsonl", "parquet"])
def test_largest_bodies_are_streamed_into_each_format(
    peak: Peak, server: Serve, memory_path: Path, format: str
) -> None:
    """Eight threads store a 60 MB body each, which would take at least 480 MB in memory."""
    dest = memory_path / "out"
    source = server(synthetic=8, size=60 * MEGABYTE)

    used = peak(
        "get", source.url, dest, "--threads", 8, "--concurrency", 32, "--format", format, "--total-timeout", "90s"
    )

    assert used < BUDGET
    assert find_problems(dest, synthetic(8, 60 * MEGABYTE), format) == []


@pytest.mark.parametrize(("format", "most"), [("tar", 70), ("warc", BUDGET)], ids=["tar", "warc"])
def test_long_response_heads_stay_within_memory(tmp_path: Path, format: str, most: int) -> None:
    """A thousand requests are in flight with 60 KB heads, which WARC stores and tar does not."""
    count, dest = 8000, tmp_path / "out"
    served = [sys.executable, "-m", "own_bench.long_heads", str(count), "60000"]
    with subprocess.Popen(served, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        command = ["get", url, str(dest), "--concurrency", "1000", "--format", format, "--quiet"]
        ended, used = anonymous_peak([*map(str, COMMAND), *command])
        process.terminate()

    assert (ended, read_ledger(dest).fetched) == (0, count)
    assert used < most


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("format", "count", "size"),
    [("parquet", 500, MEGABYTE), ("warc", 400, MEGABYTE), ("jsonl", 500, MEGABYTE), ("parquet", 2500, 200_000)],
    ids=["parquet-1MB", "warc-1MB", "jsonl-1MB", "parquet-200KB"],
)
def test_unstaged_bodies_stay_within_memory(
    peak: Peak, server: Serve, memory_path: Path, format: str, count: int, size: int
) -> None:
    """The server is faster than the sink, so blocks wait for the sink. The memory for other bodies is bounded."""
    dest = memory_path / "out"
    source = server(synthetic=count, size=size)

    used = peak("get", source.url, dest, "--concurrency", 64, "--format", format)

    assert used < BUDGET
    assert find_problems(dest, synthetic(count, size), format) == []


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "parquet"])
def test_memory_is_bounded_when_disk_stalls(peak: Peak, server: Serve, memory_path: Path, format: str) -> None:
    """Each sync takes two seconds, and a thousand 1 MB bodies are requested at a time."""
    dest = memory_path / "out"
    source = server(synthetic=400, size=MEGABYTE)
    stalls = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,syncfs"]
    stalls += ["-e", "inject=fdatasync,syncfs:delay_enter=2000000:when=1..2"]

    used = peak("get", source.url, dest, "--concurrency", 1000, "--format", format, before=stalls)

    assert used < BUDGET
    assert find_problems(dest, synthetic(400, MEGABYTE), format) == []


@pytest.mark.thorough
def test_waiting_and_absent_targets_stay_within_memory(peak: Peak, server: Serve, dest: Path) -> None:
    """About 30,000 waiting and 10,000 absent targets are kept as rows of the journal and of a shard."""
    later = Fault("status", status=503, retry_after=(1, 2), times=1, rate=0.3)
    gone = Fault("status", status=404, match="file-00000001*")

    used = peak("get", server(synthetic=100_000, faults=[gone, later]).url, dest, "--format", "null")

    assert used < BUDGET
    assert find_unfinished(dest) + find_unbalanced(dest) == []
    assert (read_ledger(dest).fetched, read_ledger(dest).absent) == (90_000, 10_000)


@pytest.mark.thorough
@pytest.mark.parametrize("manifest", ["m.parquet", "m.jsonl.gz", None])
def test_list_output_stays_within_memory(peak: Peak, server: Serve, tmp_path: Path, manifest: str | None) -> None:
    """100,000 names go into a file and to standard output, with far less memory than all rows would take."""
    source = server(synthetic=100_000)

    used = peak("list", source.url, *([tmp_path / manifest] if manifest else []))

    assert used < BUDGET


def test_thousands_of_requests_stay_within_memory(peak: Peak, server: Serve, dest: Path) -> None:
    """The server is slow, and 4,000 requests are in flight."""
    source = server(synthetic=10_000, delay=(0.5, 1.5))

    used = peak("get", source.url, dest, "--format", "null", "--concurrency", 4000)

    assert used < BUDGET
    assert read_ledger(dest).fetched == 10_000
    assert source.stats()["connections"] > 3500


@pytest.mark.thorough
@pytest.mark.parametrize("format", ["parquet", "files"])
def test_engine_process_stays_within_memory(peak: Peak, server: Serve, memory_path: Path, format: str) -> None:
    """With a thousand 1 MB bodies in flight, `combo` would exceed its memory, so it sends fewer requests."""
    dest = memory_path / "out"
    source = server(synthetic=700, size=MEGABYTE)

    used = peak("get", source.url, dest, "--engine", "combo", "--concurrency", 1000, "--format", format)

    assert used < BUDGET
    assert find_problems(dest, synthetic(700, MEGABYTE), format) == []


# Number of objects by size.
GROWING = {100: 2000, 10_000: 2000, 200_000: 400, MEGABYTE: 100, 5 * MEGABYTE: 20}


@pytest.mark.thorough
def test_growing_bodies_stay_within_memory(peak: Peak, server: Serve, memory_path: Path) -> None:
    """A thousand small bodies in flight are followed by large ones, which wait until memory is free."""
    content, dest = memory_path / "content", memory_path / "out"
    content.mkdir()
    for order, (size, count) in enumerate(GROWING.items()):
        first = content / f"{order}-00000"
        first.write_bytes(bytes(size))
        for number in range(1, count):
            (content / f"{order}-{number:05}").hardlink_to(first)

    used = peak(
        "get", server(folder=str(content)).url, dest,
        "--engine", "combo", "--threads", 1, "--concurrency", 1000, "--format", "null",
    )  # fmt: skip

    assert used < BUDGET
    assert read_ledger(dest).fetched == sum(GROWING.values())
