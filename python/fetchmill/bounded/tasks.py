"""Bounded concurrency for coroutine functions: `each` and `map`, whose workers can each keep a resource open.

    async for body in bounded.map(fetch, urls(), limit=1000, on_start=aiohttp.ClientSession, on_done=close):
        ...

A worker is a task that takes one item after another. It is started when an item is waiting and no worker is free. A
separate task reads the input, an iterable or async iterable. Reading begins when the first result is requested.

A run can end in these ways:

- If the input ends, the results of all items are yielded. By then, every `on_done` has run.
- If the input raises, the results of all items read before are yielded, and then the exception is raised.
- If the function raises, the exception is raised in place of the result, and everything else is cancelled. With
  `on_error="return"`, a `Failed` is yielded instead and the run continues.
- If `on_start` raises, the exception is raised, and everything else is cancelled.
- If `on_done` raises, the exception is raised after all results.
- After `timeout` seconds, TimeoutError is raised, and everything is cancelled.
- If the task that requests results is cancelled, no result is lost, and another task can continue to request results.
- If the results are discarded (`break`, an exception, KeyboardInterrupt) or closed, everything is cancelled.

`on_done` also runs for cancelled workers. `aclose()`, leaving an `async with`, and `each` wait for it to finish.
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
    """Await `function(item)` for every item, up to `limit` at a time. Wait for all calls and discard the results.

    >>> async def show(word: str) -> None:
    ...     print(word)
    >>> asyncio.run(each(show, ["one"], limit=4))
    one
    Tally(done=1, failed=0, failures=())

    Args:
        function: Called with an item, followed by the value that `on_start` returned, if `on_start` is given.
        items: Any iterable or async iterable, even an endless one. The next item is read when a worker has room for it.
        limit: Maximum number of items processed at the same time.
        on_start: Called once by each worker before its first item; the result is awaited if it is awaitable.
        on_done: Called once by each worker after its last item, with the value that `on_start` returned (None if it
            is not given); the result is awaited if it is awaitable.
        on_error: "raise" stops at the function's first exception and raises it; "return" counts failures.
        rate: Maximum number of items started per second, evenly spaced; None for no limit.
        retries: The keywords of the retry policy:

            - `attempts`: maximum number of attempts per item (default: 1).
            - `retry_on`: errors after which an item is tried again: `Exception` (the default) or a tuple of classes.
            - `retry_wait`: seconds before the second attempt (default: 0.5). The wait doubles each time, up to 30 s,
              and is then shortened by a random amount of up to half. The worker takes no other item while it waits.
            - `item_timeout`: seconds for each attempt, after which it is cancelled and fails with TimeoutError.

    Returns:
        The numbers of items done and failed, and the first 100 failures.

    Raises:
        ValueError: `limit`, `rate` or `on_error` is invalid.
        Exception: The exception raised by the function, the input, `on_start` or `on_done`.
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
    """Yield the result of `function(item)` for every item as results arrive, processing up to `limit` items at a time.

    >>> async def double(number: int) -> int:
    ...     return 2 * number
    >>> async def main() -> list[int]:
    ...     return [number async for number in map(double, range(3), limit=2, ordered=True)]
    >>> asyncio.run(main())
    [0, 2, 4]

    The input is read at most `2 * limit` items ahead of the yielded results, so it can be endless.

    Args:
        function: Called with one item from each iterable, followed by the value that `on_start` returned, if given.
        iterables: The input, which ends when the shortest iterable ends. An async iterable must be the only one.
        limit: Maximum number of items processed at the same time.
        ordered: Yield results in input order; one slow item delays all later results.
        on_start: Called once by each worker before its first item; the result is awaited if it is awaitable.
        on_done: Called once by each worker after its last item, with the value that `on_start` returned (None if it
            is not given); the result is awaited if it is awaitable.
        on_error: "raise" raises the function's exception; "return" yields a `Failed` in place of the result.
        rate: Maximum number of items started per second, evenly spaced; None for no limit.
        timeout: Seconds from requesting the first result, after which waiting for a result raises TimeoutError.
        retries: The keywords of the retry policy:

            - `attempts`: maximum number of attempts per item (default: 1).
            - `retry_on`: errors after which an item is tried again: `Exception` (the default) or a tuple of classes.
            - `retry_wait`: seconds before the second attempt (default: 0.5). The wait doubles each time, up to 30 s,
              and is then shortened by a random amount of up to half. The worker takes no other item while it waits.
            - `item_timeout`: seconds for each attempt, after which it is cancelled and fails with TimeoutError.

    Raises:
        ValueError: `limit`, `rate` or `on_error` is invalid.
        TypeError: An async iterable is combined with another iterable.
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
    """An async iterator over results, and an async context manager that cancels remaining work and waits for it."""

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
            # The error's traceback keeps this frame alive, and the frame must not keep the iterator alive.
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
            # The error's traceback refers to this frame. Without `del`, the two would form a reference cycle.
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
        """Cancel the remaining work and wait until every `on_done` has run."""
        await self._pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._pool.close_soon()
