"""Replies for an event loop. The core's thread wakes the loop once per batch, through a file descriptor."""

import asyncio
from collections.abc import AsyncIterable
from types import TracebackType
from typing import Any, Self

from fetchmill._native import Reply, Request, Stream


class AsyncStream:
    """An async iterator over replies, and a context manager that closes it.

    A reply that is ready is returned without suspending. If the caller leaves the loop early (through `break`, an
    exception or cancellation), requests in flight are abandoned once nothing refers to the iterator. `aclose` abandons
    them immediately.
    """

    def __init__(self, stream: Stream, items: AsyncIterable[str | Request] | None) -> None:
        self._stream = stream
        self._reader = _LoopReader(stream, items)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Reply:
        reader = self._reader
        if reader.failed is not None or reader.is_feeding:
            return await reader.next_of_fed()
        try:
            reply = self._stream.ready()
        except BaseException:
            reader.close()
            raise
        return await reader.next() if reply is None else reply

    async def aclose(self) -> None:
        """Abandon requests in flight, and wait for the task that reads the input."""
        await self._reader.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._reader.close()


class _LoopReader:
    """The part of a stream to which the event loop refers.

    It must not refer to the iterator, because the iterator could then never be freed.
    """

    def __init__(self, stream: Stream, items: AsyncIterable[str | Request] | None) -> None:
        self.failed: BaseException | None = None
        self.is_feeding = items is not None
        self._stream = stream
        self._items = items
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor = -1
        self._waiter: asyncio.Future[None] | None = None
        self._feeder: asyncio.Task[None] | None = None
        self._fed: list[str | Request] = []
        self._room: asyncio.Future[None] | None = None

    async def next(self) -> Reply:
        """Wait for a reply."""
        self._attach()
        while True:
            reply = self._ready()
            if reply is not None:
                return reply
            if self._stream.arm():
                await self._wait()

    async def next_of_fed(self) -> Reply:
        """Wait for a reply while a task in this loop feeds items."""
        self._attach()
        while True:
            if self.failed is not None:
                failed, self.failed = self.failed, None
                self.close()
                raise failed
            reply = self._ready()
            if self._room is not None and not self._room.done():
                self._room.set_result(None)
            if reply is not None:
                return reply
            if self._stream.arm():
                await self._wait()

    def _ready(self) -> Reply | None:
        """Return a reply if one is ready. After an error or the last reply, stop watching the descriptor."""
        try:
            return self._stream.ready()
        except BaseException:
            self.close()
            raise

    async def aclose(self) -> None:
        """Close the stream and wait for the task that reads the input."""
        feeder = self._feeder
        self.close()
        if feeder is not None and feeder is not asyncio.current_task():
            await asyncio.wait((feeder,))

    def close(self) -> None:
        """Abandon requests in flight and cancel the feeder, which ends the next time the loop runs it."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
            if self._feeder is not None:
                self._feeder.cancel()
        self._loop = None
        self._stream.close()
        self._wake()

    def _attach(self) -> None:
        """Start watching the descriptor, on the first wait."""
        if self._loop is None and self._stream.is_open():
            self._loop = asyncio.get_running_loop()
            self._descriptor = self._stream.fileno()
            self._loop.add_reader(self._descriptor, self._wake)
            if self._items is not None:
                self._feeder = self._loop.create_task(self._feed(self._items))
                self._items = None

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("another task is already waiting for a reply from this stream")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        self._stream.clear()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _feed(self, items: AsyncIterable[Any]) -> None:
        """Read items while the stream has room for them."""
        try:
            async for item in items:
                self._fed.append(item)
                if len(self._fed) == 1:
                    # Items that arrive without suspending are added as one batch.
                    asyncio.get_running_loop().call_soon(self._add)
                if len(self._fed) >= self._stream.room():
                    self._add()
                    await self._wait_for_room()
            self._add()
            self._stream.end()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - re-raised where the replies are taken
            self.failed = error
        finally:
            self.is_feeding = self.failed is not None
            self._wake()

    def _add(self) -> None:
        fed, self._fed = self._fed, []
        if fed and self._stream.is_open():
            try:
                self._stream.add(fed)
            except Exception as error:  # noqa: BLE001 - re-raised where the replies are taken
                self.failed = error
                self._wake()

    async def _wait_for_room(self) -> None:
        while not self._stream.room():
            self._room = asyncio.get_running_loop().create_future()
            await self._room
