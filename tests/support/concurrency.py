"""What tests of bounded concurrency share: work that is counted, loops that note how they end, what is left behind."""

import asyncio
import threading
import time
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# How long a test waits for what comes at once on a quiet machine, in seconds.
PATIENCE = 60


class Gauge:
    """Counts how many are at work, and how many were at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = 0
        self.most = 0
        self.begun = 0
        self.cancelled = 0

    async def work(self, number: int, seconds: float = 0.001) -> int:
        """One item's work in a task."""
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
        """The same in a thread."""
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
        """The work of many."""
        return (self.work(number, seconds) for number in numbers)


def taken(results: Iterable[T]) -> tuple[list[T], Exception | None]:
    """All results, and what came instead of the end."""
    found: list[T] = []
    try:
        found.extend(results)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return found, error
    return found, None


async def taken_async(results: AsyncIterable[T]) -> tuple[list[T], Exception | None]:
    """The same of an async loop."""
    found: list[T] = []
    try:
        async for result in results:
            found.append(result)  # noqa: PERF401 - it raises in between
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return found, error
    return found, None


def others() -> int:
    """Tasks beside this one."""
    return len(asyncio.all_tasks()) - 1


async def settle() -> None:
    """Lets what was cancelled come to its end."""
    for _ in range(5):
        await asyncio.sleep(0)


def workers() -> int:
    """Threads of the package that are alive."""
    return sum(thread.name == "fetchmill-bounded" for thread in threading.enumerate())


def wait_for(is_so: Callable[[], bool]) -> bool:
    """Whether something becomes so in good time."""
    deadline = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.001)
    return is_so()
