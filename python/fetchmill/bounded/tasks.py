"""Bounded concurrency for coroutine functions: `each` and `map`, by workers that may each keep something open.

    async for body in bounded.map(fetch, urls(), limit=1000, on_start=aiohttp.ClientSession, on_done=close):
        ...

A worker is a task that takes one item after the other; one starts when an item waits and none is free. The input, an
iterable or async iterable, is read by a task of its own, from the first result on that is asked for.

How it ends:

- The input ends: results of all items, then every `on_done` has run.
- The input raises: results of all that was read before, then its exception.
- The function raises: its exception, in its place among the results, and everything else is cancelled; with
  `on_error="return"` a `Failed` in the result's place, and all goes on.
- `on_start` raises: its exception, everything else is cancelled. `on_done` raises: its exception, behind all results.
- `timeout`: TimeoutError; everything is cancelled.
- The task that asks for results is cancelled: nothing is lost, another may go on to ask.
- The results are let go of (`break`, an exception, KeyboardInterrupt), or closed: everything is cancelled.

Whatever is cancelled has its `on_done` run. `aclose()`, leaving an `async with`, and `each` wait for that.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload

from fetchmill.bounded.async_worker_pool import AsyncWorkerPool, inputs
from fetchmill.bounded.calls import Call, ResultBuffer, as_raisable, item_of
from fetchmill.bounded.failures import Counter, Failed, OnError, Tally, check_on_error
from fetchmill.bounded.rate_limit import make_rate_limiter
from fetchmill.bounded.retries import CallOptions, RetryPolicy
from fetchmill.bounded.scaling import Scaler

R = TypeVar("R")


async def each(
    function: Callable[..., Awaitable[object]],
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    limit: int,
    on_start: Callable[[], Any] | None = None,
    on_done: Callable[[Any], object] | None = None,
    on_error: OnError = "raise",
    rate: float | None = None,
    **retries: Unpack[CallOptions],
) -> Tally:
    """Awaits `function(item)` for every item, at most `limit` at once, and waits for all; results are dropped.

    >>> async def show(word: str) -> None:
    ...     print(word)
    >>> asyncio.run(each(show, ["one"], limit=4))
    one
    Tally(done=1, failed=0, failures=())

    Args:
        function: Called with an item, and with what `on_start` gave, if there is one.
        items: Any iterable or async iterable, also one without end; read on when there is a place.
        limit: How many items are worked on at most.
        on_start: Called, and awaited if it is to be, once by each worker, before its first item.
        on_done: The same after the last item, with what `on_start` gave (None without one).
        on_error: "raise" ends it with the first exception of the function; "return" counts failures.
        rate: Items a second that begin, evenly; None for as fast as it goes.
        retries: `attempts`, how often an item is tried (1); `retry_on`, the errors after which it is tried again
            (`Exception`, or a tuple of classes); `retry_wait`, seconds before the second attempt (0.5), which double
            each time, to 30 at most, and are shortened by up to a half at random. A worker waits with its item.
            `item_timeout`: seconds of each attempt, after which it is cancelled and has failed with TimeoutError.

    Returns:
        How many were done and how many failed, with the first hundred failures.

    Raises:
        ValueError: `limit`, `rate` or `on_error` makes no sense.
        Exception: What the function, the input, `on_start` or `on_done` raised.
    """
    counter = Counter()
    options: dict[str, Any] = {"on_start": on_start, "on_done": on_done, "on_error": on_error, "rate": rate}
    async with map(function, items, limit=limit, **options, **retries) as results:
        async for result in results:
            counter.add(result)
    return counter.tally()


@overload
def map(
    function: Callable[..., Awaitable[R]],
    *iterables: Iterable[Any] | AsyncIterable[Any],
    limit: int,
    ordered: bool = ...,
    on_start: Callable[[], Any] | None = ...,
    on_done: Callable[[Any], object] | None = ...,
    on_error: Literal["raise"] = ...,
    rate: float | None = ...,
    timeout: float | None = ...,
    **retries: Unpack[CallOptions],
) -> "AsyncResults[R]": ...
@overload
def map(
    function: Callable[..., Awaitable[R]],
    *iterables: Iterable[Any] | AsyncIterable[Any],
    limit: int,
    ordered: bool = ...,
    on_start: Callable[[], Any] | None = ...,
    on_done: Callable[[Any], object] | None = ...,
    on_error: OnError,
    rate: float | None = ...,
    timeout: float | None = ...,
    **retries: Unpack[CallOptions],
) -> "AsyncResults[R | Failed]": ...
def map(
    function: Callable[..., Awaitable[Any]],
    *iterables: Iterable[Any] | AsyncIterable[Any],
    limit: int,
    ordered: bool = False,
    on_start: Callable[[], Any] | None = None,
    on_done: Callable[[Any], object] | None = None,
    on_error: OnError = "raise",
    rate: float | None = None,
    timeout: float | None = None,
    **retries: Unpack[CallOptions],
) -> "AsyncResults[Any]":
    """Gives what `function(item)` gives for every item, as they come; at most `limit` at once.

    >>> async def double(number: int) -> int:
    ...     return 2 * number
    >>> async def main() -> list[int]:
    ...     return [number async for number in map(double, range(3), limit=2, ordered=True)]
    >>> asyncio.run(main())
    [0, 2, 4]

    At most `2 * limit` items are read and not yet handed over, so that any iterable will do, also one without end.

    Args:
        function: Called with an item (with one of each iterable), and with what `on_start` gave, if there is one.
        iterables: The input; it ends with the shortest. An async iterable goes alone.
        limit: How many items are worked on at most.
        ordered: Gives results in the order of the input: one slow item holds up the rest.
        on_start: Called, and awaited if it is to be, once by each worker, before its first item.
        on_done: The same after the last item, with what `on_start` gave (None without one).
        on_error: "raise" raises the function's exception; "return" gives a `Failed` in the result's place.
        rate: Items a second that begin, evenly; None for as fast as it goes.
        timeout: Seconds from the first result on that is asked for; after them waiting raises TimeoutError.
        retries: `attempts`, how often an item is tried (1); `retry_on`, the errors after which it is tried again
            (`Exception`, or a tuple of classes); `retry_wait`, seconds before the second attempt (0.5), which double
            each time, to 30 at most, and are shortened by up to a half at random. A worker waits with its item.
            `item_timeout`: seconds of each attempt, after which it is cancelled and has failed with TimeoutError.

    Raises:
        ValueError: `limit`, `rate` or `on_error` makes no sense.
        TypeError: An async iterable beside another one.
    """
    check_on_error(on_error)
    pool = AsyncWorkerPool(
        RetryPolicy(**retries).of_coroutines(function),
        inputs(iterables),
        on_start,
        on_done,
        Scaler(limit, is_slow=False, is_paced=rate is not None),
        ResultBuffer(ordered=ordered),
        make_rate_limiter(rate),
        on_error,
    )
    return AsyncResults(pool, on_error, timeout)


class AsyncResults(Generic[R]):
    """An async iterator of results, and an async context manager that cancels what is left and waits for it."""

    def __init__(self, pool: AsyncWorkerPool, on_error: OnError, timeout: float | None) -> None:
        self._pool = pool
        self._returns_errors = on_error == "return"
        self._timeout = timeout
        self._deadline: float | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        pool = self._pool
        pool.start()
        try:
            call = await self._next_call()
        except BaseException:
            # It holds this frame by its traceback, maybe for long.
            del self
            raise
        if call is None:
            pool.finish()
            raise StopAsyncIteration
        if call.error is None:
            value: R = call.value
            return value
        if self._returns_errors:
            failed: Any = Failed(item_of(call.arguments), call.error)
            return failed  # type: ignore[no-any-return] # R is wide enough where errors are returned
        await self.aclose()
        try:
            raise as_raisable(call.error)
        finally:
            # An error holds this frame by its traceback.
            del call

    async def _next_call(self) -> Call | None:
        pool, deadline = self._pool, self._deadline_of(asyncio.get_running_loop())
        del self
        if deadline is None:
            return await pool.next_call()
        try:
            async with asyncio.timeout_at(deadline):
                return await pool.next_call()
        except TimeoutError:
            await pool.aclose()
            raise

    def _deadline_of(self, loop: asyncio.AbstractEventLoop) -> float | None:
        if self._timeout is not None and self._deadline is None:
            self._deadline = loop.time() + self._timeout
        return self._deadline

    async def aclose(self) -> None:
        """Cancels what is left, and waits until every `on_done` has run."""
        await self._pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._pool.close_soon()
