"""A task group that limits the number of running tasks."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from fetchmill.bounded.failures import check_count


class TaskPool:
    """An `asyncio.TaskGroup` limited to `limit` tasks: `put` waits for a free slot before it creates a task.

    >>> async def main() -> None:
    ...     async with TaskPool(2) as pool:
    ...         for number in range(3):
    ...             await pool.put(asyncio.sleep(0.001 * number))
    >>> asyncio.run(main())

    Leaving the block waits for the remaining tasks. If a task fails or the block raises, the pool cancels the other
    tasks and waits for them. Like a task group, it then raises an `ExceptionGroup` of all errors: up to `limit` errors
    from tasks, and the block's own error. A cancelled task does not count as an error.

    Raises:
        ValueError: `limit` is less than 1.
    """

    def __init__(self, limit: int) -> None:
        check_count("limit", limit)
        self._slots = asyncio.Semaphore(limit)
        self._group = asyncio.TaskGroup()

    async def put(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Wait until fewer than `limit` tasks are running, then start the coroutine.

        To get results, use `as_completed` or `map`.

        If the wait is cancelled or the pool ends, the coroutine is closed and never runs. A task of the pool still
        counts while it waits in `put`, so if `limit` tasks do so at the same time, they wait forever.

        Raises:
            RuntimeError: The block has not been entered, or has been left.
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
