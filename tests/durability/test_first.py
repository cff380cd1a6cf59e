"""`--first N`: a run fetches the first N targets and ends; the next run continues the same job."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill._options.table import EngineName
from fetchmill.testing import Fault, Server
from stored import read_objects

Serve = Callable[..., Server]
Run = Callable[..., Any]

COUNT = 3000


def names(count: int) -> list[str]:
    """Returns the names of the first synthetic objects."""
    return [f"file-{number:012}" for number in range(count)]


def test_a_run_fetches_the_first_targets_and_the_next_run_goes_on(run: Run, server: Serve, dest: Path) -> None:
    """The exit code is 0, and no other object is requested; a larger N, or none, continues the same job."""
    source = server(synthetic=COUNT, page_size=100)

    for first, done in (("10", 10), ("10", 10), ("250", 250)):
        ended = run("get", source.url, dest, "--first", first, "--json")
        report = json.loads(ended.out.splitlines()[-1])
        assert (ended.code, report["fetched"], report["stopped_by"]) == (0, done, "first"), ended.err
        assert [name for name, _ in sorted(read_objects(dest, "files"))] == names(done)
        assert source.stats()["get"] == done
    ended = run("resume", dest)

    assert ended.code == 0, ended.err
    assert fetchmill.status(dest).fetched == source.stats()["get"] == COUNT


def test_a_person_reads_how_to_go_on(run: Run, server: Serve, dest: Path) -> None:
    """The last line says so, and nothing mentions a stop."""
    ended = run("get", server(synthetic=COUNT).url, dest, "--first", "10")

    last = ended.err.splitlines()[-1]
    assert last == "the first targets are done; run the same command with a larger --first, or without it, to continue"
    assert "stopping" not in ended.err


def test_failures_among_them_have_their_exit_code(run: Run, server: Serve, dest: Path) -> None:
    """Failures count as outcomes: no other target is fetched in their place."""
    source = server(synthetic=COUNT, faults=[Fault("status", rate=0.3, status=404)])

    ended = run("get", source.url, dest, "--first", "50", "--json")

    report = json.loads(ended.out.splitlines()[-1])
    assert ended.code == 3
    assert report["absent"] > 0
    assert report["fetched"] + report["absent"] == source.stats()["get"] == 50


@pytest.mark.parametrize("count", [5, 10])
def test_a_source_without_more_is_finished(server: Serve, dest: Path, count: int) -> None:
    """A source with fewer targets is finished, not stopped by a rule."""
    report = fetchmill.get(server(synthetic=count).url, dest, first=10)

    assert (report.fetched, report.stopped_by, report.finished) == (count, None, True)


@pytest.mark.parametrize("engine", ["threads", "asyncio", "processes"])
def test_engines_in_python_do_the_same(server: Serve, dest: Path, engine: EngineName) -> None:
    """Python engines also stop after the first N targets."""
    source = server(synthetic=COUNT)

    report = fetchmill.get(source.url, dest, first=10, engine=engine)

    assert (report.fetched, report.stopped_by, source.stats()["get"]) == (10, "first", 10)


def test_an_iterable_without_end_ends(server: Serve, dest: Path) -> None:
    """The job takes only a few more items from the program than it fetches."""
    url = server(synthetic=COUNT).url

    def urls() -> Any:  # noqa: ANN401
        while True:
            yield from (f"{url}/get/{name}" for name in names(COUNT))

    report = fetchmill.get(urls(), dest, first=10, allow_private=True, format="null")

    assert (report.fetched, report.stopped_by) == (10, "first")


def test_it_is_refused_where_it_means_nothing(run: Run, dest: Path, tmp_path: Path) -> None:
    """`--first` is refused for items of pages and for workers of a shared job."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/a\n")
    items = run(
        "get", "http://127.0.0.1:9", dest, "--listing", "json", "--store", "items", "--format", "jsonl", "--first", "1"
    )
    shared = run("get", "urls.txt", dest, "--shared", "--format", "tar", "--first", "1")

    assert (items.code, shared.code) == (2, 2)
    assert "--first applies to objects" in items.err
    assert "first" in shared.err
    assert "it counts only one process" in shared.err
