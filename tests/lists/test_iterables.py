"""`fetchmill.get` with iterables: endless and async generators, and the rules for resuming."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Server, synthetic_body
from stored import find_wrong

Serve = Callable[..., Server]
COUNT = 3000


def url_of(source: Server, index: int) -> str:
    """Returns the URL of a synthetic object."""
    return f"{source.url}/get/file-{index:012}"


def body_of(index: int) -> bytes:
    """Returns the body of a synthetic object."""
    return synthetic_body(f"file-{index:012}", 100)


def test_generator_is_accepted_as_source(server: Serve, dest: Path) -> None:
    """Each item is fetched once, under its URL or its own name."""
    source = server(synthetic=COUNT)

    def targets() -> Iterator[str | tuple[str, str]]:
        for index in range(COUNT):
            yield url_of(source, index) if index % 2 else (url_of(source, index), f"name {index}")

    report = fetchmill.get(targets(), dest, format="jsonl")

    assert (report.listed, report.fetched) == (COUNT, COUNT)
    names = [url_of(source, index) if index % 2 else f"name {index}" for index in range(COUNT)]
    assert find_wrong(dest, "jsonl", {name: body_of(index) for index, name in enumerate(names)}) == []


def test_async_generator_is_accepted_as_source(server: Serve, dest: Path) -> None:
    """An async generator runs in its own event loop."""
    source = server(synthetic=COUNT)

    async def targets() -> AsyncIterator[str]:
        for index in range(COUNT):
            yield url_of(source, index)

    report = fetchmill.get(targets(), dest, format="null")

    assert report.fetched == COUNT


def test_generator_exception_is_raised_after_checkpoint(server: Serve, dest: Path) -> None:
    """Earlier items are stored, and the job continues once the generator is fixed."""
    source = server(synthetic=COUNT)

    def targets(last: int) -> Iterator[str]:
        for index in range(last):
            yield url_of(source, index)
        if last < COUNT:
            raise LookupError("no more of them")

    with pytest.raises(LookupError, match="no more of them"):
        fetchmill.get(targets(1000), dest, format="parquet")
    report = fetchmill.get(targets(COUNT), dest, format="parquet")

    assert (report.fetched, report.resumed) == (COUNT, True)
    assert find_wrong(dest, "parquet", {url_of(source, index): body_of(index) for index in range(COUNT)}) == []
    assert source.stats()["get"] == COUNT


def test_item_without_url_fails(server: Serve, dest: Path) -> None:
    """An item that is not a URL fails, and is named by its position."""
    report = fetchmill.get([url_of(server(synthetic=1), 0), "no url"], dest, format="null")

    assert (report.fetched, report.failed) == (1, 1)
    assert [(failure.name, failure.kind) for failure in fetchmill.failures(dest)] == [("item 2", "url")]


def test_item_of_another_type_stops_job(server: Serve, dest: Path) -> None:
    """An item that is neither text, pair nor request is a bug in the program and stops the job."""
    with pytest.raises(TypeError, match=r"item 2 .* int"):
        fetchmill.get([url_of(server(synthetic=1), 0), 5], dest)  # type: ignore[list-item]


def test_endless_generator_is_read_on_demand(server: Serve, dest: Path) -> None:
    """An endless generator is not read far ahead, and Ctrl-C ends the job with a checkpoint."""
    source = server(synthetic=1_000_000, delay=(0.001, 0.001))
    script = textwrap.dedent(
        """
        import itertools, sys, fetchmill
        base, dest = sys.argv[1:]
        last = 0
        def targets():
            global last
            for last in itertools.count():
                yield f"{base}/get/file-{last % 1_000_000:012}"
        try:
            fetchmill.get(targets(), dest, format="null", limit=16)
        except KeyboardInterrupt:
            print(last)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script, source.url, str(dest)], stdout=subprocess.PIPE, text=True)
    while source.stats()["get"] < 5000:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)

    asked = source.stats()["get"]
    assert asked <= int(out) + 1 <= asked + 300_000
    assert fetchmill.status(dest).fetched > 0


def _run_until_killed(source: Server, dest: Path, at: int) -> None:
    script = textwrap.dedent(
        """
        import sys, fetchmill
        base, dest = sys.argv[1:]
        fetchmill.get((f"{base}/get/file-{i:012}" for i in range(400_000)), dest, format="null", commit_window=0.1)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script, source.url, str(dest)])
    while source.stats()["get"] < at:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.thorough
def test_killed_job_skips_finished_items(server: Serve, dest: Path) -> None:
    """A killed job reads its items again and skips finished ones."""
    source = server(synthetic=400_000)
    _run_until_killed(source, dest, 50_000)

    report = fetchmill.get((url_of(source, index) for index in range(400_000)), dest, format="null")

    assert (report.fetched, report.resumed) == (400_000, True)
    assert source.stats()["get"] < 500_000


@pytest.mark.thorough
def test_changed_item_order_is_refused(server: Serve, dest: Path) -> None:
    """Items in another order are refused, because they could count as done without having been fetched."""
    source = server(synthetic=400_000)
    _run_until_killed(source, dest, 50_000)
    order: Any = itertools.chain((1, 0), range(2, 400_000))

    with pytest.raises(fetchmill.UsageError, match="items differ"):
        fetchmill.get((url_of(source, index) for index in order), dest, format="null")


@pytest.mark.thorough
def test_too_few_items_are_refused(server: Serve, dest: Path) -> None:
    """An iterable that ends before its finished items is refused."""
    source = server(synthetic=400_000)
    _run_until_killed(source, dest, 50_000)

    with pytest.raises(fetchmill.UsageError, match="items differ"):
        fetchmill.get([url_of(source, 0)], dest, format="null")
