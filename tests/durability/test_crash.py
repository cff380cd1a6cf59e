"""SIGKILL at random moments: the destination equals an undisturbed one, and the ledger has each object once.

`FETCHMILL_SEED` repeats the moments of a failed run. `FETCHMILL_KILLS` is the number of kills for `files` and `null`
together (`make crash-matrix`: 500). Each pack format gets a tenth of it, but at least ten.
"""

import itertools
import math
import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from crashes import LIMIT, WINDOW, Case, crash, kill, wait_until
from fetchmill.testing import Fault, Server, serve, synthetic_body
from foreign import SUFFIXES, find_shards, shard_number, stored_files
from independent import (
    Expected,
    has_journal,
    read_ledger,
    synthetic,
    synthetic_name,
)

Serve = Callable[..., Server]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
KILLS = int(os.environ.get("FETCHMILL_KILLS") or 60)
PACK_KILLS = max(10, KILLS // 10)
JOBS_AT_ONCE = 3
COUNT = 900
# A job of about a second: this many in flight, each taking 35 ms on average.
PACE: dict[str, Any] = {"page_size": 60, "delay": (0.0, 0.07), "list_delay": (0.0, 0.03)}
# Some targets are always refused, and others only at first. The latter wait, some of them in the journal's table.
FOR_A_MOMENT = [
    Fault("status", status=500, times=1, rate=0.02),
    Fault("status", status=503, retry_after=1, times=1, rate=0.004),
    Fault("reset", times=1, rate=0.01),
]
# Calls of a job that merges small shards. A shard costs its thread two syncs, two more for each window before its last
# one, two renames and six folder syncs. The first merge therefore comes after 16 times as many calls. Only replaced
# shards are removed. A resumed run starts with the small shards of earlier runs, and merges sooner.
MERGE_OPTIONS = ("--seal-after", "50ms", "--concurrency", "48", "--commit-window", "20ms")
# Such slow replies become certain one by one, not once per second.
MERGE_PACE = PACE | {"delay": (0.16, 0.2)}
MERGE_KILLS = 12
LIST_KILLS = 9
# Names of objects of a list in a format, and lines that are not URLs. A list is read quickly, so a run is killed at its
# calls, or soon after it has opened the journal.
LIST_OPTIONS = {
    "files": ("--column", "url"),
    "parquet": ("--column", "url", "--key-column", "key", "--keep-columns", "rank"),
    "warc": ("--column", "url"),
    "null": ("--column", "url"),
}
LIST_BAD_LINES = ("no url", "ftp://host/x")


def make_folder(folder: Path) -> Expected:
    """Creates nested folders of files, with names in several scripts; 0.1 % of the files are large."""
    rng = random.Random(1)
    bodies = {}
    for index in range(COUNT):
        parts = [rng.choice(("a", "b c", "ü", "文件", "d.e")) for _ in range(index % 4)]
        name = "/".join([*parts, f"{index}-{rng.choice(('x', 'ß', '&=#?', '.txt'))}"])
        size = 1_200_000 if index % 1000 == 500 else rng.randint(0, 3000)
        bodies[name] = f"{name}\n".encode() + rng.randbytes(size)
    for name, body in bodies.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    refused = frozenset(sorted(name for name in bodies if name.startswith("a/a/")))
    return Expected({name: body for name, body in bodies.items() if name not in refused}, refused)


@pytest.fixture(params=["synthetic", "folder"])
def make_case(
    request: pytest.FixtureRequest,
    memory_path: Path,
    tmp_path: Path,
    server: Serve,
    environment: dict[str, str],
    format: str,
) -> Callable[[], Case]:
    """Creates a job with its own server: synthetic objects on disk, or those of a folder in memory."""
    numbers = itertools.count()
    content: dict[str, Any]
    if request.param == "folder":
        where, content = memory_path, {"folder": memory_path / "content"}
        expected = make_folder(memory_path / "content")
        faults = [Fault("status", status=404, match="a/a/*")]
    else:
        where, content = tmp_path, {"synthetic": COUNT}
        expected = synthetic(COUNT, failures=[*range(120, 130), *range(340, 350)])
        faults = [
            Fault("status", status=404, match="file-00000000012*"),
            Fault("status", status=403, match="file-00000000034*"),
        ]
    if format != "null":
        faults += FOR_A_MOMENT
    return lambda: Case(
        server(**content, **PACE, faults=faults), where / f"out{next(numbers)}", expected, environment, format
    )


@pytest.mark.sampled(1)
@pytest.mark.timeout(300 + 2 * KILLS)
@pytest.mark.parametrize("format", ["files", "null", *SUFFIXES])
def test_repeatedly_killed_job_ends_like_undisturbed_job(make_case: Callable[[], Case], format: str) -> None:
    """Nothing is lost, doubled or left over. Failures are listed once, and finished targets are not requested again."""
    # There are two kinds of contents, and two formats that are not packs.
    kills = PACK_KILLS / 2 if format in SUFFIXES else KILLS / 4
    of_each = math.ceil(kills / JOBS_AT_ONCE)
    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        made = pool.map(lambda index: crash(make_case, f"{SEED}-{index}", of_each), range(JOBS_AT_ONCE))
        ended = [case for cases in made for case in cases]

    problems = [f"{case.dest.name}: {problem}" for case in ended for problem in case.problems]
    assert not problems, f"FETCHMILL_SEED={SEED}: {problems[:20]}"
    assert sum(case.killed for case in ended) >= kills


def make_list_case(source: Server, dest: Path, environment: dict[str, str], format: str) -> Case:
    """Creates a job from a list of a server's objects and invalid lines; with `null`, requests are counted."""
    bad = () if format == "null" else LIST_BAD_LINES
    urls = [f"{source.url}/get/{synthetic_name(index)}" for index in range(COUNT)]
    lines = ["url,key,rank", *(f"{url},k{index},{index}" for index, url in enumerate([*urls, *bad]))]
    listed = dest.with_suffix(".csv")
    listed.write_text("\n".join(lines))
    options = LIST_OPTIONS[format]

    def name_of(index: int) -> str:
        if "--key-column" in options:
            return f"k{index}"
        return urls[index].removeprefix("http://") if format == "files" else urls[index]

    refused = range(120, 130)
    bodies = {
        name_of(index): synthetic_body(synthetic_name(index), 100) for index in range(COUNT) if index not in refused
    }
    failures = {name_of(index) for index in refused} | {f"line {2 + COUNT + index}" for index in range(len(bad))}
    expected = Expected(bodies, frozenset(failures))
    return Case(source, dest, expected, environment, format, options, listed=listed)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", LIST_OPTIONS)
def test_repeatedly_killed_list_ends_like_undisturbed_list(
    environment: dict[str, str], memory_path: Path, server: Serve, format: str
) -> None:
    """Names are URLs, keys or paths."""
    numbers = itertools.count()
    faults = [Fault("status", status=404, match="file-00000000012*")]
    faults += [] if format == "null" else FOR_A_MOMENT

    def make_case() -> Case:
        source = server(synthetic=COUNT, delay=PACE["delay"], faults=faults)
        return make_list_case(source, memory_path / f"out{next(numbers)}", environment, format)

    of_each = LIST_KILLS // JOBS_AT_ONCE
    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        made = pool.map(lambda index: crash(make_case, f"{SEED}-list-{index}", of_each), range(JOBS_AT_ONCE))
        ended = [case for cases in made for case in cases]

    problems = [f"{case.dest.name}: {problem}" for case in ended for problem in case.problems]
    assert not problems, f"FETCHMILL_SEED={SEED}: {problems[:20]}"
    assert all(fetchmill.verify(case.dest).ok for case in ended)


@pytest.mark.thorough
def test_killed_shard_merge_keeps_each_object_once(
    environment: dict[str, str], memory_path: Path, server: Serve
) -> None:
    """The kill hits each call of a merge, up to the last removal; no object is ever in no shard or in two."""
    numbers = itertools.count()

    def make_case() -> Case:
        source = server(synthetic=COUNT, **MERGE_PACE)
        dest = memory_path / f"out{next(numbers)}"
        return Case(source, dest, synthetic(COUNT), environment, "parquet", MERGE_OPTIONS, merges=True)

    of_each = MERGE_KILLS // JOBS_AT_ONCE
    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        made = pool.map(lambda index: crash(make_case, f"{SEED}-merging-{index}", of_each), range(JOBS_AT_ONCE))
        ended = [case for cases in made for case in cases]

    problems = [f"{case.dest.name}: {problem}" for case in ended for problem in case.problems]
    assert not problems, f"FETCHMILL_SEED={SEED}: {problems[:20]}"
    assert all(has_merged(case.dest) for case in ended)


def has_merged(dest: Path) -> bool:
    """Returns whether more shards were sealed than exist."""
    shards = find_shards(dest, "parquet")
    return shard_number(shards[-1]) >= len(shards)


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "null", *SUFFIXES])
def test_killed_retry_run_loses_no_failure(environment: dict[str, str], memory_path: Path, format: str) -> None:
    """If `--retry-failed` is killed at any moment, each failed target is either still failed or fetched."""
    expected = synthetic(COUNT)
    later = Fault("status", status=404, times=1, rate=0.6)

    def one(index: int) -> list[str]:
        rng = random.Random(f"{SEED}-pass-{index}")
        with serve(synthetic=COUNT, **PACE, faults=[later]) as source:
            case = Case(source, memory_path / f"out{index}", expected, environment, format)
            case.start().communicate(timeout=120)
            absent = read_ledger(case.dest).absent
            case.more = ("--retry-failed",)
            for _ in range(4):
                kill(case, rng)
            case.finish()
            return case.problems + ([] if absent > COUNT / 2 else [f"only {absent} were absent"])

    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        problems = [problem for found in pool.map(one, range(3)) for problem in found]

    assert not problems, f"FETCHMILL_SEED={SEED}: {problems[:20]}"


@pytest.mark.thorough
def test_journal_lags_at_most_one_window_when_killed(environment: dict[str, str], tmp_path: Path) -> None:
    """The journal has everything older than the holding time, a commit window and a commit together."""
    # A reply is held for a second, and until its connection has stayed silent.
    slack = 0.4 + 1.2
    expected = synthetic(30_000)

    def lose(index: int) -> tuple[int, list[str]]:
        with serve(synthetic=expected.listed, page_size=500, delay=(0.0, 0.03)) as source:
            case = Case(source, tmp_path / f"out{index}", expected, environment, "null")
            process = case.start()
            wait_until(lambda: source.stats()["get"] > 0, process)
            served = []
            end = time.monotonic() + random.Random(f"{SEED}-{index}").uniform(2.4, 3.2)
            while time.monotonic() < end:
                served.append((time.monotonic(), source.stats()["get"]))
                time.sleep(0.002)
            process.kill()
            killed = time.monotonic()
            process.communicate(timeout=120)
            assert process.returncode == -signal.SIGKILL
            settled = read_ledger(case.dest).settled
            case.finish()
            # The job's threads were delayed as much as this process.
            late = max(after[0] - before[0] for before, after in itertools.pairwise(served))
            since = killed - WINDOW - slack - 2 * late
            return max((count for at, count in served if at < since), default=0) - LIMIT - settled, case.problems

    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        lost = list(pool.map(lose, range(3)))

    assert all(count <= 0 and not problems for count, problems in lost), f"FETCHMILL_SEED={SEED}: {lost}"


def test_crash_check_detects_lost_objects(environment: dict[str, str], memory_path: Path) -> None:
    """The check fails if objects that the journal calls finished are missing, as after a late rename."""
    with serve(synthetic=COUNT, **PACE) as source:
        case = Case(source, memory_path / "out", synthetic(COUNT), environment)
        process = case.start()
        wait_until(lambda: has_journal(case.dest) and read_ledger(case.dest).settled > COUNT // 2, process)
        process.kill()
        process.communicate(timeout=120)
        # These targets are from the first windows, so they were finished long ago.
        first = sorted(path for _, path in stored_files(case.dest))[:3]
        for path in first:
            path.unlink()
        case.finish()

    assert case.problems == [f"{path.name} is lost" for path in first]
