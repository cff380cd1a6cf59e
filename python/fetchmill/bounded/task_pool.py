"""A group of tasks with a number of places."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from fetchmill.bounded.failures import check_count


class TaskPool:
    """`asyncio.TaskGroup` with at most `limit` tasks: `put` waits for a place before it makes a task.

    >>> async def main() -> None:
    ...     async with TaskPool(2) as pool:
    ...         for number in range(3):
    ...             await pool.put(asyncio.sleep(0.001 * number))
    >>> asyncio.run(main())

    Leaving the block waits for the rest. When a task fails, or the block raises, the others are cancelled and waited
    for, and the block ends with an `ExceptionGroup` of every error, as a task group does; those are at most `limit`
    and the block's own. A task that is cancelled is no error.

    Raises:
        ValueError: `limit` is below 1.
    """

    def __init__(self, limit: int) -> None:
        check_count("limit", limit)
        self._slots = asyncio.Semaphore(limit)
        self._group = asyncio.TaskGroup()

    async def put(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Waits for a place and starts the coroutine in it. For results there are `as_completed` and `map`.

        A coroutine that gets no place, because the wait is cancelled or the pool ends, is closed and never runs.
        A task of the pool that puts others keeps its own place while it waits: enough of those wait for one another
        forever.

        Raises:
            RuntimeError: The block was not entered, or has been left.
        """
        try:
            await self._slots.acquire()
        except BaseException:
            coroutine.close()
            raise
        try:
            task = self._group.create_task(coroutine)
        except BaseException:
            self._slots.release()
            coroutine.close()
            raise
        task.add_done_callback(self._release_slot)

    def _release_slot(self, _task: asyncio.Task[Any]) -> None:
        self._slots.release()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._group.__aexit__(kind, error, traceback)
