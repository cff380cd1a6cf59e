"""The preflight: a job whose files do not fit stops with the numbers before the file system is full."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import take_tree
from fetchmill.testing import Server
from independent import find_problems, read_ledger, synthetic
from small_disk import run_on_disk, small_disk

Run = Callable[..., Any]
Serve = Callable[..., Server]

KIB, MIB = 1 << 10, 1 << 20
STORAGE = 7
WINDOW = ("--commit-window", "50ms")
PARQUET = r"--format parquet \(few large files, about 130 bytes per 100-byte object\)"


@pytest.fixture
def disk() -> Iterator[Callable[[int, int], Path]]:
    """Creates a file system with this number of bytes and inodes, or slightly more."""
    with ExitStack() as stack:
        yield lambda size, inodes: stack.enter_context(small_disk(size, inodes))


@pytest.fixture
def run(run: Run, environment: dict[str, str]) -> Run:
    """Runs a command, and shows a path into a small disk."""
    return run_on_disk(run, environment)


def refusal(ended: Any) -> str:  # noqa: ANN401
    """Returns the message of a job that the preflight stopped: one line."""
    assert ended.code == STORAGE, ended.err
    assert ended.err.count("error: ") == 1
    assert "No space left" not in ended.err
    last: str = ended.err.splitlines()[-1]
    assert last.startswith("fetchmill: error: ")
    return last.removeprefix("fetchmill: error: ")


def numbers(text: str, pattern: str) -> tuple[int, ...]:
    """Returns the numbers in a text, in the places of a pattern."""
    match = re.search(pattern, text)
    assert match is not None, text
    return tuple(int(number.replace(",", "")) for number in match.groups())


def test_job_stops_at_start_when_total_does_not_fit(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """The job stops at the first page: no object is requested, and only the job's own folder is written."""
    dest = disk(64 * MIB, 2000) / "out"
    source = server(synthetic=1_000_000_000)
    free = os.statvfs(dest.parent).f_favail

    told = refusal(run("get", source.url, dest))

    needed, told_free = numbers(told, r": ([\d,]+) inodes needed, ([\d,]+) free; ")
    assert re.match(r"1,000,000,000 files \(the listing's Total\) do not fit into \S+/disk/out: ", told)
    assert needed >= 1_000_000_000
    assert free - 10 < told_free <= free
    assert re.search(f"; use {PARQUET}, another file system, or --no-preflight$", told)
    assert take_tree(dest) == {}
    assert read_ledger(dest).listed == 0
    assert source.stats()["get"] == 0


def test_other_format_is_accepted_after_preflight_stop(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """The destination stays the same, because nothing was listed for the refused job."""
    dest = disk(64 * MIB, 1000) / "out"
    expected = synthetic(3000)
    source = server(synthetic=3000)
    refusal(run("get", source.url, dest, *WINDOW))

    ended = run("get", source.url, dest, *WINDOW, "--format", "null")

    assert ended.code == 0, ended.err
    assert find_problems(dest, expected, "null") == []


def test_same_command_completes_job_once_space_is_free(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """After a stop at the start, this works without `--no-preflight`."""
    where = disk(64 * MIB, 3000)
    expected = synthetic(1500)
    source = server(synthetic=1500, page_size=200)
    ballast = where / "ballast"
    ballast.mkdir()
    for index in range(1800):
        (ballast / str(index)).touch()
    refusal(run("get", source.url, where / "out", *WINDOW))
    for path in ballast.iterdir():
        path.unlink()

    ended = run("get", source.url, where / "out", *WINDOW)

    assert ended.code == 0, ended.err
    assert "fit" not in ended.err
    assert find_problems(where / "out", expected) == []


def test_preflight_counts_listing_when_total_is_missing(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """The listing is ahead of the fetching, so the job stops before the disk is full, and keeps its objects."""
    dest = disk(64 * MIB, 2000) / "out"
    source = server(synthetic=5000, page_size=500, list_delay=(0.2, 0.2))
    options = (*WINDOW, "--total-field", "nothere")

    told = refusal(run("get", source.url, dest, *options))

    counted, needed, free = numbers(
        told, r"^([\d,]+) files \(listed so far\) do not fit .*: ([\d,]+) inodes needed, ([\d,]+) free; make "
    )
    assert needed > free
    assert counted <= free + 500
    assert re.search(
        rf"or use {PARQUET} with a DEST other than \S+/disk/out, or skip this check with --no-preflight$", told
    )
    assert 0 < read_ledger(dest).listed <= free
    assert os.statvfs(dest).f_favail > 0
    again = refusal(run("get", source.url, dest, *options))
    assert "more files" in again
    other = run("get", source.url, dest, *options, "--format", "null")
    assert other.code == 2
    assert "belongs to another job: its format is files, not null" in other.err


def test_needed_bytes_are_estimated_after_1000_objects(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """The estimate is the mean size of fetched objects in blocks. Before, a file counts as one block, which fits."""
    dest = disk(128 * MIB, 20_000) / "out"
    source = server(synthetic=10_000, size=20_000, delay=(0.0, 0.01))

    told = refusal(run("get", source.url, dest, *WINDOW))

    assert told.startswith("10,000 files do not fit into ")
    match = re.search(r"about ([\d.]+) MiB needed, ([\d.]+) MiB free; make room and run", told)
    assert match is not None, told
    # 20,000 bytes are five blocks; the stage and the journal need some as well.
    assert 196 <= float(match[1]) <= 205
    assert float(match[2]) < 128
    assert "parquet" not in told
    stored = len(take_tree(dest))
    assert 1000 <= stored < 9000
    assert os.statvfs(dest).f_bavail > 0


def test_job_stops_when_file_blocks_do_not_fit(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """Each small file takes a block, but an object in a pack does not."""
    dest = disk(64 * MIB, 60_000) / "out"
    source = server(synthetic=50_000)

    told = refusal(run("get", source.url, dest, *WINDOW))

    assert re.search(rf"about [\d.]+ MiB needed, [\d.]+ MiB free; use {PARQUET}", told)
    assert source.stats()["get"] == 0


def test_no_preflight_continues_until_disk_is_full(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """The option is not part of the job's identity: the refused command continues with it."""
    dest = disk(64 * MIB, 1000) / "out"
    source = server(synthetic=3000, delay=(0.0, 0.05))
    refusal(run("get", source.url, dest, *WINDOW))

    ended = run("get", source.url, dest, *WINDOW, "--no-preflight")

    assert ended.code == STORAGE
    assert "No space left" in ended.err
    assert "do not fit" not in ended.err
    assert len(take_tree(dest)) > 0


def test_null_format_skips_preflight(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """The format `null` stores nothing."""
    dest = disk(64 * MIB, 400) / "out"
    expected = synthetic(20_000)
    source = server(synthetic=20_000)

    ended = run("get", source.url, dest, *WINDOW, "--format", "null")

    assert ended.code == 0, ended.err
    assert find_problems(dest, expected, "null") == []


def test_job_that_barely_fits_is_accepted(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """The files take nine tenths of the inodes and bytes. The stage takes some more."""
    dest = disk(64 * MIB, 8000) / "out"
    expected = synthetic(7000, size=4096)
    source = server(synthetic=7000, size=4096)

    ended = run("get", source.url, dest, *WINDOW)

    assert ended.code == 0, ended.err
    assert "fit" not in ended.err
    assert find_problems(dest, expected) == []


def test_preflight_uses_total_of_flat_folder(run: Run, server: Serve, disk: Callable[..., Path]) -> None:
    """If a folder has no subfolders, fetchmill's own server knows the total."""
    where = disk(64 * MIB, 500)
    content = where.parent / "content"
    content.mkdir()
    for index in range(700):
        (content / f"{index}.txt").write_text("x")
    source = server(content, page_size=100)

    told = refusal(run("get", source.url, where / "out"))

    assert told.startswith("700 files (the listing's Total) do not fit into ")
    assert source.stats()["get"] == 0
