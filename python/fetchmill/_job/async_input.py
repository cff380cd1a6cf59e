"""Reads a program's async iterable for a synchronous caller, in an event loop on a separate thread."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterable, Iterator
from typing import Any

# A URL, or a URL with the name of its object (`get`) or the key of its row (`check`).
InputItem = str | tuple[str, str]

# Maximum number of items read ahead. Reading ahead saves thread switches, which usually take longer than reading an
# item.
AHEAD_MAX = 64


def from_async(items: AsyncIterable[Any]) -> Iterator[Any]:
    """Yield the items in order. Raise the iterable's errors. If the caller stops early, cancel the iterable."""
    reader = _AsyncReader(items)
    try:
        while reader.wait():
            yield reader.take()
    finally:
        reader.close()


def close_iterator(iterator: Iterator[Any]) -> None:
    """Close a generator. If it is still computing its next item, it cannot be closed and keeps running."""
    close = getattr(iterator, "close", None)
    if close is not None:
        with contextlib.suppress(ValueError):
            close()


class _AsyncReader:
    """Passes items from the event loop's thread to the caller's thread."""

    def __init__(self, items: AsyncIterable[Any]) -> None:
        self._ready: deque[Any] = deque()
        self._changed = threading.Condition()
        self._is_ended = False
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_room: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, args=(items,), name="fetchmill-input", daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """Wait for an item. Return False when there are no more items."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._is_ended)
            if self._ready:
                return True
            if self._error is not None:
                raise self._error
            return False

    def take(self) -> Any:  # noqa: ANN401 - any item
        """Return the next item."""
        with self._changed:
            item = self._ready.popleft()
            has_room = len(self._ready) == AHEAD_MAX // 2
        if has_room and self._loop and self._has_room and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._has_room.set)
        return item

    def close(self) -> None:
        """Cancel the iterable if it is still running, and wait for the thread."""
        with self._changed:
            if self._loop and self._task and not self._is_ended:
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self, items: AsyncIterable[Any]) -> None:
        try:
            asyncio.run(self._feed(items))
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - re-raised in the caller's thread
            self._error = error
        with self._changed:
            self._is_ended = True
            self._changed.notify()

    async def _feed(self, items: AsyncIterable[Any]) -> None:
        room = asyncio.Event()
        with self._changed:
            self._loop, self._task, self._has_room = asyncio.get_running_loop(), asyncio.current_task(), room
        async for item in items:
            room.clear()
            with self._changed:
                self._ready.append(item)
                is_full = len(self._ready) >= AHEAD_MAX
                self._changed.notify()
            if is_full:
                await room.wait()
