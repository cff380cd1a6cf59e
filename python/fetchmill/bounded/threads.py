"""Bounded concurrency in threads: `each` and `map` for plain functions, over input of any length.

    with bounded.threads.map(fetch, urls(), limit=50, on_start=Session, on_done=Session.close) as bodies:
        for body in bodies: ...

Threads start when an item waits and none is free. With `on_start` (which often takes long), as many start at once as
are ready, and one more; none starts that would be ready too late to help.

The input is read by the thread that asks for results, when it asks: a generator is run by the thread that uses it.
Reading begins at the call where all inputs are collections, as of `Executor.map`; otherwise at the first result.

How it ends:

- The input ends: results of all items, then every `on_done` has run and every thread has ended.
- The input raises: results of all that was read before, then its exception.
- The function raises: its exception, in its place among the results, and no other item begins; with
  `on_error="return"` a `Failed` in the result's place, and all goes on. What is no `Exception` is always raised.
- `on_start` raises: its exception. `on_done` raises: its exception behind the last result, an `ExceptionGroup` of
  several; after giving up, `threading.excepthook` has it.
- `timeout`, KeyboardInterrupt: raised at once; no other item begins.
- The results are let go of (`break`): no other item begins. If no result was ever asked for, what was read is done.

A call that runs cannot be stopped: it comes to its end, then `on_done` runs and the thread ends. `close()`, leaving
a `with`, and `each` wait for that; interrupting them a second time stops the waiting. The interpreter's end waits, too.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, Unpack, overload

from fetchmill.bounded.calls import ResultBuffer
from fetchmill.bounded.failures import Failed, OnError, Tally, check_on_error, count
from fetchmill.bounded.rate_limit import make_rate_limiter
from fetchmill.bounded.results import Results
from fetchmill.bounded.retries import RetryOptions, RetryPolicy
from fetchmill.bounded.scaling import Scaler
from fetchmill.bounded.worker_pool import WorkerPool

__all__ = ["Results", "each", "map"]

R = TypeVar("R")


def each(
    function: Callable[..., object],
    items: Iterable[Any],
    *,
    limit: int,
    on_start: Callable[[], Any] | None = None,
    on_done: Callable[[Any], object] | None = None,
    on_error: OnError = "raise",
    rate: float | None = None,
    **retries: Unpack[RetryOptions],
) -> Tally:
    """Calls `function(item)` for every item, in at most `limit` threads, and waits for all; results are dropped.

    >>> each(print, ["one"], limit=4)
    one
    Tally(done=1, failed=0, failures=())

    Args:
        function: Called with an item, and with what `on_start` gave, if there is one.
        items: Any iterable, also one without end; read on when there is a place.
        limit: How many items are worked on at most.
        on_start: Called once by each thread, before its first item.
        on_done: Called once by each thread, after its last item, with what `on_start` gave (None without one).
        on_error: "raise" ends it with the first exception of the function; "return" counts failures.
        rate: Items a second that begin, evenly; None for as fast as it goes.
        retries: `attempts`, how often an item is tried (1); `retry_on`, the errors after which it is tried again
            (`Exception`, or a tuple of classes); `retry_wait`, seconds before the second attempt (0.5), which double
            each time, to 30 at most, and are shortened by up to a half at random. A worker waits with its item.

    Returns:
        How many were done and how many failed, with the first hundred failures.

    Raises:
        ValueError: `limit`, `rate` or `on_error` makes no sense.
        Exception: What the function, the input, `on_start` or `on_done` raised.
    """
    options: dict[str, Any] = {"on_start": on_start, "on_done": on_done, "on_error": on_error, "rate": rate}
    with map(function, items, limit=limit, **options, **retries) as results:
        return count(results)


@overload
def map(
    function: Callable[..., R],
    *iterables: Iterable[Any],
    limit: int,
    ordered: bool = ...,
    on_start: Callable[[], Any] | None = ...,
    on_done: Callable[[Any], object] | None = ...,
    on_error: Literal["raise"] = ...,
    rate: float | None = ...,
    timeout: float | None = ...,
    chunksize: int = ...,
    **retries: Unpack[RetryOptions],
) -> Results[R]: ...
@overload
def map(
    function: Callable[..., R],
    *iterables: Iterable[Any],
    limit: int,
    ordered: bool = ...,
    on_start: Callable[[], Any] | None = ...,
    on_done: Callable[[Any], object] | None = ...,
    on_error: OnError,
    rate: float | None = ...,
    timeout: float | None = ...,
    chunksize: int = ...,
    **retries: Unpack[RetryOptions],
) -> Results[R | Failed]: ...
def map(  # noqa: PLR0913 - Executor.map's and each's together
    function: Callable[..., Any],
    *iterables: Iterable[Any],
    limit: int,
    ordered: bool = False,
    on_start: Callable[[], Any] | None = None,
    on_done: Callable[[Any], object] | None = None,
    on_error: OnError = "raise",
    rate: float | None = None,
    timeout: float | None = None,
    chunksize: int = 1,
    **retries: Unpack[RetryOptions],
) -> Results[Any]:
    """Gives `function(item)` for every item, as they come; at most `limit` threads.

    >>> list(map(pow, [2, 3], [5, 2], limit=2, ordered=True))
    [32, 9]

    At most `2 * limit` items are read and not yet handed over, so that any iterable will do, also one without end.

    Args:
        function: Called with an item (with one of each iterable), and with what `on_start` gave, if there is one.
        iterables: The input; it ends with the shortest.
        limit: How many items are worked on at most.
        ordered: Gives results in the order of the input, as `Executor.map` does: one slow item holds up the rest.
        on_start: Called once by each thread, before its first item.
        on_done: Called once by each thread, after its last item, with what `on_start` gave (None without one).
        on_error: "raise" raises the function's exception; "return" gives a `Failed` in the result's place.
        rate: Items a second that begin, evenly; None for as fast as it goes.
        timeout: Seconds from this call on, after which waiting for a result raises TimeoutError.
        chunksize: Means nothing for threads; as in `Executor.map`.
        retries: `attempts`, how often an item is tried (1); `retry_on`, the errors after which it is tried again
            (`Exception`, or a tuple of classes); `retry_wait`, seconds before the second attempt (0.5), which double
            each time, to 30 at most, and are shortened by up to a half at random. A worker waits with its item.

    Raises:
        ValueError: `limit`, `rate`, `chunksize` or `on_error` makes no sense.
    """
    check_on_error(on_error)
    if chunksize < 1:
        raise ValueError(f"chunksize is {chunksize!r}: give 1 or more")
    if "item_timeout" in retries:
        raise TypeError("nothing ends a call in a thread, so item_timeout is for coroutines and processes")
    retrying = RetryPolicy(**retries).of_function(function)
    scaler = Scaler(limit, is_slow=on_start is not None, is_paced=rate is not None)
    pool = WorkerPool(
        zip(*iterables, strict=False),
        lambda: _ThreadWorker(retrying, on_start, on_done),
        scaler,
        ResultBuffer(ordered=ordered),
        on_error=on_error,
        rate_limiter=make_rate_limiter(rate),
        timeout=timeout,
    )
    return Results(pool, on_error, iterables)


class _ThreadWorker:
    """A worker that calls the function itself."""

    def __init__(
        self,
        function: Callable[..., Any],
        on_start: Callable[[], Any] | None,
        on_done: Callable[[Any], object] | None,
    ) -> None:
        self._function = function
        self._on_start = on_start
        self._on_done = on_done
        self._started: tuple[Any, ...] = ()

    def start(self) -> None:
        if self._on_start is not None:
            self._started = (self._on_start(),)

    def call(self, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - whatever the function gives
        return self._function(*arguments, *self._started)

    def end(self) -> None:
        if self._on_done is not None:
            self._on_done(*self._started or (None,))

    def give_up(self) -> None:
        """Nothing ends a call in a thread."""
