"""The programs that `own_bench.memory_lists` measures, each in its own process.

Usage: python -m own_bench.memory_programs PROGRAM URL FOLDER COUNT SECONDS

Each program reports that it is running, and prints its results at the end as a line of JSON.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator

import fetchmill

# Number of items just before a kill, including a job's last page. They may be yielded again, so they are not measured.
UNSAVED = 10_000
# Number of leading items that are parsed again to find repeats: LIST_REMEMBERED_LINES (limits/lists.rs) plus one page.
PARSED = 270_000
# After a pause of this many seconds, a stream's earlier work is durable.
SAVED_SECONDS = 2
Found = dict[str, float]


def urls(base: str, objects: int, count: int | None = None) -> Iterator[str]:
    """Yields the URLs of synthetic objects repeatedly, or endlessly if no count is given."""
    numbers = itertools.count() if count is None else range(count)
    return (f"{base}/get/file-{number % objects:012d}" for number in numbers)


def get(base: str, folder: str, count: int, _seconds: float) -> Found:
    """Runs a job with targets from a generator."""
    report = fetchmill.get(urls(base, count, count), folder, format="null")
    return {"fetched": report.fetched}


def stream(base: str, _folder: str, count: int, seconds: float) -> Found:
    """Runs a loop over an endless generator."""
    end = time.monotonic() + seconds
    good = 0
    for reply in fetchmill.stream(urls(base, count)):
        good += reply.ok
        if time.monotonic() >= end:
            break
    return {"fetched": good}


def astream(base: str, _folder: str, count: int, seconds: float) -> Found:
    """Runs an event loop over an endless async generator."""

    async def endless() -> AsyncIterator[str]:
        for url in urls(base, count):
            yield url

    async def run() -> Found:
        end = time.monotonic() + seconds
        good = 0
        async with fetchmill.astream(endless()) as replies:
            async for reply in replies:
                good += reply.ok
                if time.monotonic() >= end:
                    break
        return {"fetched": good}

    return asyncio.run(run())


def pause(base: str, _folder: str, count: int, seconds: float) -> Found:
    """Runs a loop that pauses for a few seconds in the middle."""
    taken = 0

    def counted() -> Iterator[str]:
        nonlocal taken
        for url in urls(base, count, count):
            taken += 1
            yield url

    given = bytearray(count)
    found: Found = {}
    for number, reply in enumerate(fetchmill.stream(counted()), 1):
        given[reply.index] += reply.ok
        if number == count // 2:
            before = taken
            time.sleep(seconds)
            found = {"ahead": taken - number, "moved": taken - before}
    return {**found, "missing": given.count(0), "doubled": count - given.count(0) - given.count(1)}


def get_killed(base: str, folder: str, count: int, _seconds: float) -> Found:
    """Runs a job that dies when its generator is about to yield the last item."""

    def deadly() -> Iterator[str]:
        yield from urls(base, count, count - 1)
        while fetchmill.status(folder).fetched < count - UNSAVED:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)

    fetchmill.get(deadly(), folder, format="null")
    return {}


def get_resumed(base: str, folder: str, count: int, _seconds: float) -> Found:
    """Runs the same job with the whole input. Measures the cost of skipping items on the thread that reads them."""
    watch = _Watch()
    before = fetchmill.status(folder).fetched
    report = fetchmill.get(watch.over(urls(base, count, count), count), folder, format="null")
    return {"again": report.fetched - before, **watch.found(base, count)}


def stream_killed(base: str, folder: str, count: int, _seconds: float) -> Found:
    """Runs a loop that dies at its last reply."""
    for given, _reply in enumerate(fetchmill.stream(urls(base, count, count), state=folder), 1):
        if given == count - UNSAVED // 2:
            time.sleep(SAVED_SECONDS)
        if given == count:
            os.kill(os.getpid(), signal.SIGKILL)
    return {}


def stream_resumed(base: str, folder: str, count: int, _seconds: float) -> Found:
    """Runs the same loop again. Measures the cost of skipping items on the loop's thread."""
    watch = _Watch()
    again = sum(1 for _reply in fetchmill.stream(watch.over(urls(base, count, count), count), state=folder))
    return {"again": again, **watch.found(base, count)}


class _Watch:
    """Measures the CPU time of the thread that takes the items, up to the last item that was certainly finished."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def over(self, items: Iterator[str], count: int) -> Iterator[str]:
        """Yields the items. The first and the last ones are not measured."""
        yield from itertools.islice(items, PARSED)
        started = time.thread_time()
        yield from itertools.islice(items, count - UNSAVED - PARSED)
        self._seconds = time.thread_time() - started
        yield from items

    def found(self, base: str, count: int) -> Found:
        """Returns the microseconds per item, and the microseconds that the generator alone takes."""
        alone = _Watch()
        for _url in alone.over(urls(base, count, count), count):
            pass
        each = 1e6 / (count - UNSAVED - PARSED)
        return {"skip_us": self._seconds * each, "generator_us": alone._seconds * each}


PROGRAMS: tuple[Callable[[str, str, int, float], Found], ...] = (
    *(get, stream, astream, pause),
    *(get_killed, get_resumed, stream_killed, stream_resumed),
)

if __name__ == "__main__":
    _program, _url, _folder, _count, _seconds = sys.argv[1:]
    _chosen = next(program for program in PROGRAMS if program.__name__ == _program)
    print("runs", flush=True)
    print(json.dumps(_chosen(_url, _folder, int(_count), float(_seconds))))
