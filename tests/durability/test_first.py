"""`--first N`: a run fetches the first N targets and ends; the next run continues the same job. So does a check."""

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


def test_first_fetches_n_targets_and_next_run_continues(run: Run, server: Serve, dest: Path) -> None:
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


def test_first_summary_says_how_to_continue(run: Run, server: Serve, dest: Path) -> None:
    """The last line has the hint, and nothing mentions a stop."""
    ended = run("get", server(synthetic=COUNT).url, dest, "--first", "10")

    last = ended.err.splitlines()[-1]
    assert last == "the first targets are done; run the same command with a larger --first, or without it, to continue"
    assert "stopping" not in ended.err


def test_failures_among_first_targets_set_exit_code(run: Run, server: Serve, dest: Path) -> None:
    """Failures count as outcomes: no other targets are fetched instead."""
    source = server(synthetic=COUNT, faults=[Fault("status", rate=0.3, status=404)])

    ended = run("get", source.url, dest, "--first", "50", "--json")

    report = json.loads(ended.out.splitlines()[-1])
    assert ended.code == 3
    assert report["absent"] > 0
    assert report["fetched"] + report["absent"] == source.stats()["get"] == 50


@pytest.mark.parametrize("count", [5, 10])
def test_first_finishes_source_with_fewer_targets(server: Serve, dest: Path, count: int) -> None:
    """The report names no stop rule."""
    report = fetchmill.get(server(synthetic=count).url, dest, first=10)

    assert (report.fetched, report.stopped_by, report.finished) == (count, None, True)


@pytest.mark.parametrize("engine", ["threads", "asyncio", "processes"])
def test_python_engines_stop_after_first_targets(server: Serve, dest: Path, engine: EngineName) -> None:
    """No other object is requested."""
    source = server(synthetic=COUNT)

    report = fetchmill.get(source.url, dest, first=10, engine=engine)

    assert (report.fetched, report.stopped_by, source.stats()["get"]) == (10, "first", 10)


def test_first_ends_job_with_endless_iterable(server: Serve, dest: Path) -> None:
    """The job reads only a few more items than it fetches."""
    url = server(synthetic=COUNT).url

    def urls() -> Any:  # noqa: ANN401
        while True:
            yield from (f"{url}/get/{name}" for name in names(COUNT))

    report = fetchmill.get(urls(), dest, first=10, allow_private=True, format="null")

    assert (report.fetched, report.stopped_by) == (10, "first")


def test_first_is_refused_for_page_items_and_shared_workers(run: Run, dest: Path, tmp_path: Path) -> None:
    """The error names the option."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/a\n")
    items = run(
        "get", "http://127.0.0.1:9", dest, "--listing", "json", "--store", "items", "--format", "jsonl", "--first", "1"
    )
    shared = run("get", "urls.txt", dest, "--shared", "--format", "tar", "--first", "1")

    assert (items.code, shared.code) == (2, 2)
    assert "--first applies to objects" in items.err
    assert "first" in shared.err
    assert "it applies to only one process" in shared.err


def write_urls(folder: Path, source: Server) -> None:
    """Writes the list `urls.txt` of all objects."""
    (folder / "urls.txt").write_text("".join(f"{source.url}/get/{name}\n" for name in names(COUNT)))


def test_check_summary_covers_first_targets(run: Run, server: Serve, tmp_path: Path) -> None:
    """Without RESULTS, a trial only prints a summary. `--fail-on` applies to the same targets."""
    source = server(synthetic=COUNT, faults=[Fault("status", match="file-000000000007", status=404)])
    write_urls(tmp_path, source)
    command = ("check", "urls.txt", "--allow-private", "--first", "10")

    ended, shown = run(*command, "--json"), run(*command, "--fail-on", "404")

    report = json.loads(ended.out.splitlines()[-1])
    assert (ended.code, report["stopped_by"], report["rows"]) == (0, "first", 10), ended.err
    assert report["counts"] == {"200": 9, "404": 1}
    assert shown.code == 3, shown.err
    assert shown.out.splitlines()[-1] == "the first targets are done; no progress was saved"
    assert source.stats()["get"] == 20


@pytest.mark.timing  # a slow reply would be requested twice
def test_check_continues_after_first_targets(run: Run, server: Serve, tmp_path: Path) -> None:
    """RESULTS appears when all targets are done, and no target is requested twice."""
    source = server(synthetic=COUNT)
    write_urls(tmp_path, source)
    command = ("check", "urls.txt", "r.csv", "--allow-private")

    first = run(*command, "--first", "10")
    assert (first.code, (tmp_path / "r.csv").exists()) == (0, False), first.err
    ended = run(*command)

    assert "r.csv appears when all targets are done" in first.out
    assert "stopping" not in first.err
    assert ended.code == 0, ended.err
    assert (tmp_path / "r.csv").read_text().count("/get/") >= COUNT
    assert source.stats()["get"] == COUNT


def test_commands_needing_whole_source_refuse_first(run: Run, dest: Path) -> None:
    """The error has the reason."""
    reasons = {"sync": "would treat the remaining objects as deleted", "plan": "a plan always covers the whole job"}
    for command, reason in reasons.items():
        ended = run(command, "http://127.0.0.1:9", dest, "--first", "1")
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert ended.err.startswith(f"fetchmill: error: --first: not an option of {command}: get and check have it; ")
        assert reason in ended.err
    with pytest.raises(fetchmill.UsageError, match="to end the listing early, raise an exception in `each`"):
        fetchmill.list("http://127.0.0.1:9", first=1)  # type: ignore[call-arg]
