"""Shared code for tests of bounded concurrency: counted work, loops that note their end, and leftovers."""

import asyncio
import threading
import time
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# Time limit in seconds for events that come immediately on a quiet machine.
PATIENCE = 60


class Gauge:
    """Counts current and maximum concurrent work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = 0
        self.most = 0
        self.begun = 0
        self.cancelled = 0

    async def work(self, number: int, seconds: float = 0.001) -> int:
        """Does one item's work in a task."""
        self._begin()
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        return number

    def call(self, number: int) -> int:
        """Does the same in a thread."""
        self._begin()
        time.sleep(0.001)
        with self._lock:
            self.now -= 1
        return number

    def _begin(self) -> None:
        with self._lock:
            self.begun += 1
            self.now += 1
            self.most = max(self.most, self.now)

    def works(self, numbers: Iterable[int], seconds: float = 0.001) -> Iterator[Coroutine[Any, Any, int]]:
        """Yields the work of many items."""
        return (self.work(number, seconds) for number in numbers)


def taken(results: Iterable[T]) -> tuple[list[T], Exception | None]:
    """Returns all results, and the exception in place of the end."""
    found: list[T] = []
    try:
        found.extend(results)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return found, error
    return found, None


async def taken_async(results: AsyncIterable[T]) -> tuple[list[T], Exception | None]:
    """Returns the same for an async loop."""
    found: list[T] = []
    try:
        async for result in results:
            found.append(result)  # noqa: PERF401 - it raises in between
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return found, error
    return found, None


def others() -> int:
    """Returns the tasks except this one."""
    return len(asyncio.all_tasks()) - 1


async def settle() -> None:
    """Lets cancelled tasks end."""
    for _ in range(5):
        await asyncio.sleep(0)


def workers() -> int:
    """Returns the package's living threads."""
    return sum(thread.name == "fetchmill-bounded" for thread in threading.enumerate())


def wait_for(is_so: Callable[[], bool]) -> bool:
    """Returns whether a condition becomes true in time."""
    deadline = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.001)
    return is_so()
