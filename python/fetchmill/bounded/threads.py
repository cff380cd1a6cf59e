"""Bounded concurrency in threads: `each` and `map` for plain functions, with input of any length.

    with bounded.threads.map(fetch, urls(), limit=50, on_start=Session, on_done=Session.close) as bodies:
        for body in bodies: ...

A thread is started when an item is waiting and no thread is free. Because `on_start` is often slow, using it limits the
number of threads starting at the same time to the number of ready threads plus one. A thread that would be ready too
late to help is not started.

The thread that requests results also reads the input, so a generator runs in the thread that uses its items. If all
inputs are collections, they are read as soon as `map` is called, as with `Executor.map`. Otherwise, reading begins when
the first result is requested.

A run can end in these ways:

- If the input ends, the results of all items are yielded. By then, every `on_done` has run and every thread has ended.
- If the input raises, the results of all items read before are yielded, and then the exception is raised.
- If the function raises, the exception is raised in place of the result, and no further items are started. With
  `on_error="return"`, a `Failed` is yielded instead and the run continues. A `BaseException` that is not an `Exception`
  is always raised.
- If `on_start` raises, the exception is raised.
- If `on_done` raises, the exception is raised after the last result; several exceptions form an `ExceptionGroup`. If
  the run was abandoned, the exception is passed to `threading.excepthook`.
- After `timeout` seconds or on KeyboardInterrupt, the error is raised immediately, and no further items are started.
- If the results are discarded (`break`), no further items are started. If no result was ever requested, items that were
  already read are still processed.

A running call cannot be stopped. It finishes, then `on_done` runs and the thread ends. `close()`, leaving a `with`, and
`each` wait for this; a second interrupt stops the waiting. The interpreter also waits for running calls at exit.
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
    """Call `function(item)` for every item, using up to `limit` threads. Wait for all calls and discard the results.

    >>> each(print, ["one"], limit=4)
    one
    Tally(done=1, failed=0, failures=())

    Args:
        function: Called with an item, followed by the value that `on_start` returned, if `on_start` is given.
        items: Any iterable, even an endless one. The next item is read when a worker has room for it.
        limit: Maximum number of items processed at the same time.
        on_start: Called once by each thread before its first item.
        on_done: Called once by each thread after its last item, with the value that `on_start` returned (None if it is
            not given).
        on_error: "raise" stops at the function's first exception and raises it; "return" counts failures.
        rate: Maximum number of items started per second, evenly spaced; None for no limit.
        retries: The keywords of the retry policy:

            - `attempts`: maximum number of attempts per item (default: 1).
            - `retry_on`: errors after which an item is tried again: `Exception` (the default) or a tuple of classes.
            - `retry_wait`: seconds before the second attempt (default: 0.5). The wait doubles each time, up to 30 s,
              and is then shortened by a random amount of up to half. The worker takes no other item while it waits.

    Returns:
        The numbers of items done and failed, and the first 100 failures.

    Raises:
        ValueError: `limit`, `rate` or `on_error` is invalid.
        Exception: The exception raised by the function, the input, `on_start` or `on_done`.
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
def map(  # noqa: PLR0913 - the parameters of both Executor.map and each
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
    """Yield `function(item)` for every item as results arrive, using up to `limit` threads.

    >>> list(map(pow, [2, 3], [5, 2], limit=2, ordered=True))
    [32, 9]

    The input is read at most `2 * limit` items ahead of the yielded results, so it can be endless.

    Args:
        function: Called with one item from each iterable, followed by the value that `on_start` returned, if given.
        iterables: The input, which ends when the shortest iterable ends.
        limit: Maximum number of items processed at the same time.
        ordered: Yield results in input order, as `Executor.map` does; one slow item delays all later results.
        on_start: Called once by each thread before its first item.
        on_done: Called once by each thread after its last item, with the value that `on_start` returned (None if it is
            not given).
        on_error: "raise" raises the function's exception; "return" yields a `Failed` in place of the result.
        rate: Maximum number of items started per second, evenly spaced; None for no limit.
        timeout: Seconds from this call, after which waiting for a result raises TimeoutError.
        chunksize: Ignored for threads, as in `Executor.map`.
        retries: The keywords of the retry policy:

            - `attempts`: maximum number of attempts per item (default: 1).
            - `retry_on`: errors after which an item is tried again: `Exception` (the default) or a tuple of classes.
            - `retry_wait`: seconds before the second attempt (default: 0.5). The wait doubles each time, up to 30 s,
              and is then shortened by a random amount of up to half. The worker takes no other item while it waits.

    Raises:
        ValueError: `limit`, `rate`, `chunksize` or `on_error` is invalid.
    """
    check_on_error(on_error)
    if chunksize < 1:
        raise ValueError(f"chunksize must be at least 1, not {chunksize!r}")
    if "item_timeout" in retries:
        raise TypeError(
            "item_timeout works only with coroutines and processes, because a call in a thread cannot be stopped"
        )
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
    """A worker that calls the function in its own thread."""

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

    def call(self, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - any return value
        return self._function(*arguments, *self._started)

    def end(self) -> None:
        if self._on_done is not None:
            self._on_done(*self._started or (None,))

    def give_up(self) -> None:
        """Do nothing, because a call in a thread cannot be stopped."""
