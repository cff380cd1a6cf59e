"""Lists that are added to a job whose first list is divided by host."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fetchmill.shared_jobs
from conftest import Ended
from divided_lists import HOSTS, OPTIONS, names
from fetchmill._shared.range_kinds import HostRanges, RowRanges
from fetchmill._shared.ranges import GROUPS, HostPart, ListFile, Range
from observed_host import Observed, serving_hosts

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def hosts() -> Iterator[list[Observed]]:
    """Returns many servers, one per host."""
    with serving_hosts(HOSTS) as hosts:
        yield hosts


def write(path: Path, hosts: list[Observed], count: int, first: int = 0) -> list[str]:
    """Writes a list of `count` URLs for each host, in mixed order."""
    urls = [f"{host.url}/{first + number}" for number in range(count) for host in hosts]
    path.write_text("".join(f"{url}\n" for url in urls))
    return urls


def parts_of(job: Path) -> set[str]:
    """Returns the names of all parts in a job's records."""
    records = [job / "job.json", *(job / "lists").glob("*.json")]
    return {Path(file["path"]).name for path in records for file in json.loads(path.read_text())["files"]}


def test_added_list_keeps_limits_of_its_hosts(hosts: list[Observed], run: Run, start: Start, dest: Path) -> None:
    """Two workers fetch both lists. A host in both lists never has more requests in flight than its limit."""
    urls = write(dest.parent / "urls.txt", hosts, 8)
    urls += write(dest.parent / "more.txt", hosts, 8, 100)
    first = start("get", "urls.txt", dest, *OPTIONS)
    while not (dest / "job.json").exists():
        assert first.poll() is None
        time.sleep(0.02)

    added = run("extend", dest, "more.txt")
    second = start("join", dest, "-j", "4", "--threads", "1")

    assert added.code == 0, added.err
    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert names(dest) == Counter(urls)
    assert max(host.most_in_flight for host in hosts) == 1
    (values,) = (json.loads(path.read_text()) for path in (dest / "lists").iterdir())
    assert [file["part"] for file in values["files"]] == [[number, 4] for number in range(4)]
    assert {path.name for path in (dest / "list").iterdir()} == parts_of(dest)
    assert run("verify", dest).code == 0
    again = run("extend", dest, "more.txt")
    assert (again.code, "already has the list" in again.err) == (2, True), again.err
    assert "already has the list" in run("extend", dest, "urls.txt").err


def test_finished_divided_job_is_extended(hosts: list[Observed], run: Run, dest: Path) -> None:
    """A list with only one host becomes one part. A list that cannot be divided is refused, and leaves no files."""
    for host in hosts:
        host.delay = 0.005
    urls = write(dest.parent / "urls.txt", hosts, 8)
    assert run("get", "urls.txt", dest, *OPTIONS).code == 0
    urls += write(dest.parent / "one.txt", hosts[:1], 3, 100)
    (dest.parent / "bucket.txt").write_text("s3://bucket/key\n")
    before = {path.name for path in (dest / "list").iterdir()}

    refused = run("extend", dest, "bucket.txt")

    assert (refused.code, "cannot be divided, because it contains s3:// URLs" in refused.err) == (2, True), refused.err
    assert {path.name for path in (dest / "list").iterdir()} == before
    fetchmill.shared_jobs.extend(dest, dest.parent / "one.txt")
    assert fetchmill.shared_jobs.join(dest).finished
    assert names(dest) == Counter(urls)


def test_worker_leaves_parts_of_unfinished_extension(hosts: list[Observed], run: Run, dest: Path) -> None:
    """`extend` adds its parts before the record that names them. The job may finish in between."""
    for host in hosts:
        host.delay = 0.005
    write(dest.parent / "urls.txt", hosts, 8)
    assert run("get", "urls.txt", dest, *OPTIONS).code == 0
    part = dest / "list" / f"{'0' * 21}.txt"
    part.write_text(f"{hosts[0].url}/added\n")

    assert run("join", dest).code == 0

    assert part.exists()


def files_of(*parts: tuple[int, int]) -> list[ListFile]:
    """Returns list files with these parts, given as number and count."""
    return [
        ListFile(path="", size=9, modified=0, has_lines=True, part=HostPart(number=number, count=count))
        for number, count in parts
    ]


@pytest.mark.parametrize(
    ("parts", "still_open", "ready"),
    [
        # All parts of the first list are ready, and none of the second.
        ([(0, 2), (1, 2), (0, 2), (1, 2)], [0, 1, 2, 3], [0, 1]),
        ([(0, 2), (1, 2), (0, 2), (1, 2)], [1, 2, 3], [1, 2]),
        # One of two parts shares hosts with two of four parts.
        ([(0, 4), (1, 4), (2, 4), (3, 4), (0, 2), (1, 2)], [2, 4, 5], [2, 5]),
        ([(0, 2), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4)], [1, 2, 3, 4, 5], [1, 2, 4]),
        # A list of one part waits for all earlier parts, and all later parts wait for it.
        ([(0, 4), (3, 4), (0, 1), (1, 4)], [1, 2, 3], [1]),
        ([(0, 4), (3, 4), (0, 1), (1, 4)], [2, 3], [2]),
        # A part also waits for an earlier one that is itself waiting.
        ([(0, 2), (0, 1), (1, 2)], [0, 1, 2], [0]),
    ],
)
def test_part_waits_for_earlier_parts_with_same_hosts(
    parts: list[tuple[int, int]], still_open: list[int], ready: list[int]
) -> None:
    """If two parts may have the same hosts, only the part of the earlier list can be claimed."""
    ranges = [Range(file=number, start=0, end=9) for number in reversed(still_open)]

    found = HostRanges().ready(files_of(*parts), ranges)

    assert [each.file for each in found] == ready
    assert RowRanges().ready(files_of(*parts), ranges) == ranges


def test_parts_share_hosts_if_they_share_host_groups() -> None:
    """Together, the parts of a list have each host group exactly once."""
    for count in (1, 2, 64, GROUPS):
        groups = [group for number in range(count) for group in HostPart(number=number, count=count).groups]
        assert sorted(groups) == list(range(GROUPS))
