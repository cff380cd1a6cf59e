"""`as_completed` with a limit: yields results of awaitables as they complete, for input of any length."""

import asyncio
import inspect
import math
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from fetchmill.bounded.calls import AHEAD
from fetchmill.bounded.failures import check_count

T = TypeVar("T")


def as_completed(
    aws: Iterable[Awaitable[T]] | AsyncIterable[Awaitable[T]],
    limit: int | None = None,
    *,
    timeout: float | None = None,
) -> "AsCompleted[T]":
    """Yield the results of awaitables as they complete, running at most `limit` of them at a time.

    A plain `for` loop yields awaitables, each of which returns the next result or raises the next error:

    >>> async def main() -> None:
    ...     for awaitable in as_completed((asyncio.sleep(0.001, word) for word in ("a", "b")), limit=1):
    ...         print(await awaitable)
    >>> asyncio.run(main())
    a
    b

    An `async for` loop yields the finished tasks, or the futures that were passed in. Its input can also be an async
    iterable:

    >>> async def main() -> None:
    ...     async for task in as_completed((asyncio.sleep(0.001, word) for word in ("a", "b")), limit=1):
    ...         print(task.result())
    >>> asyncio.run(main())
    a
    b

    With `limit=None`, the function behaves like `asyncio.as_completed` in Python 3.13: the first step reads and starts
    everything, a duplicate awaitable counts once, and awaitables that have started keep running after the loop exits.

    With a limit, the input is read when a result arrives or is taken. At most `limit` awaitables run at a time, and at
    most `2 * limit` have been started but not yet taken. If the input raises an error, the loop first yields the
    results of everything read before, then raises the error. If the caller requests an awaitable before awaiting the
    previous one, another awaitable is read from the input. It starts once fewer than `limit` are running. No result is
    lost if an awaitable is cancelled while it waits.

    Reading stops when `aclose()` is called, or when nothing refers to the iterator or its awaitables any more (after
    `break`, an error or cancellation). With a limit, the tasks started by the iterator are cancelled at that point.
    Futures passed in `aws` are never cancelled.

    Args:
        aws: Coroutines, futures or other awaitables.
        limit: Maximum number of awaitables running at the same time; None for no limit.
        timeout: Seconds from the first step until the awaitables (or the `async for` loop) raise TimeoutError.

    Raises:
        ValueError: `limit` is less than 1.
        TypeError: `aws` is not an iterable of awaitables, or a plain `for` loop got an async iterable. Raised at the
            first step.
        TimeoutError: Not all awaitables finished within `timeout` seconds.
    """
    if limit is not None:
        check_count("limit", limit, ", or None for no limit")
    return AsCompleted(_Completion(aws, limit, timeout))


class AsCompleted(Generic[T]):
    """The return value of `as_completed`: an iterator, an async iterator, and an async context manager."""

    def __init__(self, completion: "_Completion[T]") -> None:
        self._completion = completion

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Coroutine[Any, Any, T]:
        self._completion.start(is_async=False)
        if not self._completion.ask():
            self._completion.raise_failure()
            raise StopIteration
        return self._result()

    async def _result(self) -> T:
        # The awaitable refers to the iterator, so the tasks stay alive while either of the two exists.
        try:
            return (await self._completion.take()).result()
        finally:
            # An error's traceback keeps this frame alive, and the frame must not keep the iterator alive.
            del self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "asyncio.Future[T]":
        completion = self._completion
        completion.start(is_async=True)
        try:
            return await completion.next()
        finally:
            # An error's traceback keeps this frame alive, and the frame must not keep the iterator alive.
            del self

    async def aclose(self) -> None:
        """Stop reading. With a limit, also cancel the tasks started by the iterator, and wait for them."""
        await self._completion.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._completion.close_soon()


class _Completion(Generic[T]):
    """The state shared with the tasks' callbacks.

    It must not refer to the iterator, because the tasks would then keep the iterator alive.
    """

    def __init__(
        self,
        aws: Iterable[Awaitable[T]] | AsyncIterable[Awaitable[T]],
        limit: int | None,
        timeout: float | None,
    ) -> None:
        self._aws: Iterable[Awaitable[T]] | AsyncIterable[Awaitable[T]] | None = aws
        self._is_bounded = limit is not None
        self._limit = math.inf if limit is None else limit
        self._timeout = timeout
        self._iterator: Iterator[Awaitable[T]] | None = None
        self._done: asyncio.Queue[asyncio.Future[T] | None] = asyncio.Queue()
        # Awaitables that were read when the caller requested another result, but not started because of the limits.
        self._held: deque[Awaitable[T]] = deque()
        self._own: set[asyncio.Future[T]] = set()
        self._running = 0
        self._read = 0
        self._claimed = 0
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._feeder: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._is_timed_out = False
        self._is_ended = False

    def start(self, *, is_async: bool) -> None:
        """Start reading the input, at the first step."""
        if self._aws is None:
            return
        aws = self._aws
        if inspect.isawaitable(aws):
            raise TypeError(f"expected an iterable of awaitables, not {type(aws).__name__}")
        if isinstance(aws, Iterable):
            self._aws = None
            self._iterator = iter(aws) if self._is_bounded else iter(set(aws))
            self._fill()
        elif not is_async:
            raise TypeError(f"an async iterable needs `async for`: {type(aws).__name__}")
        else:
            self._aws = None
            self._loop = asyncio.get_running_loop()
            self._feeder = self._loop.create_task(self._feed(aws))
        if self._timeout is not None and self._loop is not None:
            self._timer = self._loop.call_later(self._timeout, self._time_out)

    def ask(self) -> bool:
        """Reserve a result for the caller. Return False if no results are left."""
        self._fill()
        if self._claimed == self._read:
            self._hold_one()
        if self._claimed == self._read:
            return False
        self._claimed += 1
        return True

    async def next(self) -> "asyncio.Future[T]":
        """Wait for the next result."""
        while not self.ask():
            if self._is_ended:
                self.raise_failure()
                raise StopAsyncIteration
            await self._change()
        return await self.take()

    async def take(self) -> "asyncio.Future[T]":
        """Wait for a result that `ask` reserved."""
        try:
            future = await self._done.get()
        except BaseException:
            if self._is_bounded:
                self._claimed -= 1
            raise
        self._fill()
        self._wake()
        if future is None:
            raise TimeoutError
        return future

    def raise_failure(self) -> None:
        """Raise the input's error exactly once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _fill(self) -> None:
        """Start awaitables while the limits allow it."""
        while self._running < self._limit and self._running + self._done.qsize() < AHEAD * self._limit:
            if not self._held:
                self._hold_one()
            if not self._held:
                break
            self._start_one(self._held.popleft())

    def _hold_one(self) -> None:
        """Read one more awaitable, if any."""
        if self._iterator is None:
            return
        try:
            self._held.append(next(self._iterator))
            self._read += 1
        except StopIteration:
            self._end(None)
        except Exception as error:  # noqa: BLE001 - re-raised where the results are taken
            self._end(error)
        except BaseException:
            self._end(None)
            raise

    def _start_one(self, awaitable: Awaitable[T]) -> None:
        try:
            future: asyncio.Future[T] = asyncio.ensure_future(awaitable)
        except Exception as error:  # noqa: BLE001 - not an awaitable, or no loop; counts as an input error
            self._read -= 1
            self._end(error)
            return
        self._loop = future.get_loop()
        self._running += 1
        if self._is_bounded and future is not awaitable:
            self._own.add(future)
        future.add_done_callback(self._on_done)

    def _on_done(self, future: "asyncio.Future[T]") -> None:
        is_own = future in self._own
        self._own.discard(future)
        if self._is_timed_out:
            return
        self._running -= 1
        self._done.put_nowait(future)
        # Such a task is cancelled only when the event loop ends. From then on, an awaitable starts only if the caller
        # requests another result.
        if not (is_own and _is_cancelling(future)):
            self._fill()
        self._wake()
        if self._timer is not None and self._is_ended and not self._running and not self._held:
            self._timer.cancel()

    def _end(self, failure: BaseException | None) -> None:
        """Stop reading. If the input failed, keep its error so that it can be raised later."""
        self._is_ended = True
        self._iterator = None
        if failure is not None:
            self._failure = failure
        self._wake()

    def _time_out(self) -> None:
        """Make all unfinished awaitables raise TimeoutError. All unread input together counts as one awaitable."""
        if self._iterator is not None:
            self._hold_one()
        missing = self._running + len(self._held)
        if self._feeder is not None and not self._is_ended:
            missing += 1
            self._read += 1
        self._is_timed_out = True
        self.close()
        for _ in range(missing):
            self._done.put_nowait(None)

    def close(self) -> None:
        """Stop reading and cancel the tasks started by the iterator."""
        self._end(None)
        if self._timer is not None:
            self._timer.cancel()
        if self._feeder is not None:
            self._feeder.cancel()
        for task in self._own:
            task.cancel()
        while self._held:
            _close_unused(self._held.popleft())
            if self._loop is not None and not self._is_timed_out:
                dropped: asyncio.Future[T] = self._loop.create_future()
                dropped.cancel()
                self._done.put_nowait(dropped)

    def close_soon(self) -> None:
        """Call `close` in the loop's thread if anything is open. Any thread can call this."""
        has_feeder = self._feeder is not None and not self._feeder.done()
        if not (self._own or self._held or has_feeder):
            return
        if self._loop is None or self._loop.is_closed():
            self.close()
        else:
            self._loop.call_soon_threadsafe(self.close)

    async def aclose(self) -> None:
        """Stop reading, cancel the tasks started by the iterator, and wait for them."""
        waited_for: set[asyncio.Future[Any]] = set(self._own)
        if self._feeder is not None:
            waited_for.add(self._feeder)
        self.close()
        if waited_for:
            await asyncio.wait(waited_for)

    async def _feed(self, aws: AsyncIterable[Awaitable[T]]) -> None:
        """Read an async iterable while the limits allow it."""
        iterator = aiter(aws)
        try:
            async for awaitable in iterator:
                self._read += 1
                self._start_one(awaitable)
                self._wake()
                while self._running >= self._limit or self._running + self._done.qsize() >= AHEAD * self._limit:
                    await self._change()
        except Exception as error:  # noqa: BLE001 - re-raised where the results are taken
            self._failure = error
        finally:
            self._end(None)
            if hasattr(iterator, "aclose"):
                await iterator.aclose()

    async def _change(self) -> None:
        """Wait until an awaitable is read or done, or the input ends."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _is_cancelling(future: "asyncio.Future[Any]") -> bool:
    return isinstance(future, asyncio.Task) and future.cancelling() > 0


def _close_unused(awaitable: Awaitable[Any]) -> None:
    """Close a coroutine that never ran, to prevent Python's "was never awaited" warning."""
    if isinstance(awaitable, Coroutine):
        awaitable.close()
