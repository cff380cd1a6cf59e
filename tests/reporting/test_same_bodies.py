"""A job warns if most of its objects are identical, because they are probably login or error pages."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from raw_server import Behaviour, RawServer, in_turn, mirror, reply

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]

PAGE = b"<!DOCTYPE html>" + b"x" * 5105
NOTICE = "120 of 140 objects fetched in this run are the same 5,120 bytes; "


def site(same: int, other: int, page: bytes = PAGE) -> dict[str, Behaviour]:
    """Returns a site on which the given number of objects are the same page."""
    names = [f"{number:04}" for number in range(same + other)]
    bodies = {name: reply(page if index < same else name.encode()) for index, name in enumerate(names)}
    return mirror(names, bodies)


@pytest.mark.parametrize(
    ("format", "engine"), [("files", "native"), ("parquet", "native"), ("jsonl", "threads"), ("tar", "processes")]
)
def test_identical_bodies_of_most_objects_are_reported(
    run: Run, raw: Raw, dest: Path, format: str, engine: str
) -> None:
    """The summary has the numbers and suggests what to do."""
    server = raw(site(120, 20))
    ended = run("get", server.url, dest, "--format", format, "--engine", engine)

    assert ended.code == 0, ended.err
    assert NOTICE in ended.err
    assert "--accept" in ended.err


def test_few_identical_bodies_are_not_reported(raw: Raw, tmp_path: Path) -> None:
    """There is no warning if half of the objects are identical, or if the job has only a few objects."""
    for number, (same, other) in enumerate([(99, 0), (70, 70), (0, 140)]):
        server = raw(site(same, other))
        report = fetchmill.get(server.url, tmp_path / str(number))
        assert [line for line in report.notices if "the same" in line] == []


def test_identical_bodies_are_counted_per_run(raw: Raw, dest: Path) -> None:
    """A later run of the same job counts only the objects that it fetched."""
    names = [f"{number:04}" for number in range(240)]
    late = {name: in_turn(reply(status="400 x"), reply(name.encode())) for name in names[120:]}
    server = raw(mirror(names, {name: reply(PAGE) for name in names[:120]} | late))

    first = fetchmill.get(server.url, dest, attempts=1)
    assert [line.split(";")[0] for line in first.notices if "the same" in line] == [
        "120 of 120 objects fetched in this run are the same 5,120 bytes"
    ]
    second = fetchmill.get(server.url, dest, retry_failed=True)
    assert (second.fetched, [line for line in second.notices if "the same" in line]) == (240, [])


def test_sync_reports_identical_empty_bodies(run: Run, raw: Raw, dest: Path) -> None:
    """A sync pass warns like any other job."""
    ended = run("sync", raw(site(120, 20, b"")).url, dest)
    assert ended.code == 0, ended.err
    assert re.search(r"120 of 140 objects fetched in this run are empty; ", ended.err)
