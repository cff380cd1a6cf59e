"""Bounded concurrency in processes: `each` and `map` for plain functions, over input of any length.

    def main():
        with bounded.processes.map(parse, pages(), limit=8, chunksize=16) as parsed:
            for page in parsed: ...

    if __name__ == "__main__":
        main()

It is `bounded.threads` with a process for each thread, and ends in the same ways, but for these:

- Processes start by spawn, when an item waits and none is free: the function, `on_start`, `on_done`, items and results
  are pickled, and the program's main module needs its `if __name__ == "__main__":`.
- A worker process that dies (a signal, no memory, `os._exit`) fails the items that it had, with `WorkerDiedError`,
  which names them; with `on_error="return"` another takes its place. One that dies before it was ready ends everything.
- A call that runs when all is given up (an exception, `break`, `timeout`, KeyboardInterrupt) is ended with its process,
  by SIGKILL: there `on_done` does not run. Ctrl-C means something to this process only.
- When this process is killed, workers end after the call they are in.
- An error comes with the worker's traceback as its cause; one that cannot be pickled as a RuntimeError with its text.

multiprocessing itself keeps one more process, its resource tracker, until this one ends.
"""

import multiprocessing.util  # noqa: F401 - it registers what waits for all processes at the interpreter's end
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar, Unpack, overload

from fetchmill.bounded.calls import ResultBuffer
from fetchmill.bounded.failures import Failed, OnError, Tally, check_on_error, count
from fetchmill.bounded.process_worker import ProcessWorker
from fetchmill.bounded.rate_limit import make_rate_limiter
from fetchmill.bounded.results import Results
from fetchmill.bounded.retries import CallOptions, RetryPolicy
from fetchmill.bounded.scaling import Scaler
from fetchmill.bounded.worker_entry import WorkerFunctions
from fetchmill.bounded.worker_pool import WorkerPool, end_all_first

__all__ = ["Results", "each", "map"]

R = TypeVar("R")

end_all_first()


def each(
    function: Callable[..., object],
    items: Iterable[Any],
    *,
    limit: int,
    on_start: Callable[[], Any] | None = None,
    on_done: Callable[[Any], object] | None = None,
    on_error: OnError = "raise",
    rate: float | None = None,
    **retries: Unpack[CallOptions],
) -> Tally:
    """Calls `function(item)` for every item, in at most `limit` processes, and waits for all; results are dropped.

    >>> each(abs, [-1, 2], limit=4)
    Tally(done=2, failed=0, failures=())

    Args:
        function: Called with an item, and with what `on_start` gave, if there is one.
        items: Any iterable, also one without end; read on when there is a place.
        limit: How many items are worked on at most.
        on_start: Called once by each process, before its first item.
        on_done: Called once by each process, after its last item, with what `on_start` gave (None without one).
        on_error: "raise" ends it with the first exception of the function; "return" counts failures.
        rate: Items a second that begin, evenly; None for as fast as it goes.
        retries: `attempts`, how often an item is tried (1); `retry_on`, the errors after which it is tried again
            (`Exception`, or a tuple of classes); `retry_wait`, seconds before the second attempt (0.5), which double
            each time, to 30 at most, and are shortened by up to a half at random. A worker waits with its item.
            `item_timeout`: seconds of a call, all attempts included; then its process is killed and the item has failed
            with `ItemTimeoutError`. With `chunksize` it is that of a chunk's items together.

    Returns:
        How many were done and how many failed, with the first hundred failures.

    Raises:
        ValueError: `limit`, `rate` or `on_error` makes no sense.
        Exception: What the function, the input, `on_start` or `on_done` raised.
    """
    policy = RetryPolicy(**retries)
    functions = WorkerFunctions(policy.of_function(function), on_start, on_done, keeps_values=False)
    call_timeout = policy.item_timeout
    with _results(functions, (items,), limit=limit, on_error=on_error, rate=rate, call_timeout=call_timeout) as results:
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
    **retries: Unpack[CallOptions],
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
    **retries: Unpack[CallOptions],
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
    **retries: Unpack[CallOptions],
) -> Results[Any]:
    """Gives `function(item)` for every item, as they come; at most `limit` processes.

    >>> list(map(pow, [2, 3], [5, 2], limit=2, ordered=True))
    [32, 9]

    At most `2 * limit` items are read and not yet handed over, so that any iterable will do, also one without end.

    Args:
        function: Called with an item (with one of each iterable), and with what `on_start` gave, if there is one.
        iterables: The input; it ends with the shortest.
        limit: How many items are worked on at most.
        ordered: Gives results in the order of the input, as `Executor.map` does: one slow item holds up the rest.
        on_start: Called once by each process, before its first item.
        on_done: Called once by each process, after its last item, with what `on_start` gave (None without one).
        on_error: "raise" raises the function's exception; "return" gives a `Failed` in the result's place.
        rate: Items a second that begin, evenly; None for as fast as it goes.
        timeout: Seconds from this call on, after which waiting for a result raises TimeoutError.
        chunksize: Items that travel to a process together, which costs less for each. The window and `rate` count
            chunks; a worker that dies fails its whole chunk.
        retries: `attempts`, how often an item is tried (1); `retry_on`, the errors after which it is tried again
            (`Exception`, or a tuple of classes); `retry_wait`, seconds before the second attempt (0.5), which double
            each time, to 30 at most, and are shortened by up to a half at random. A worker waits with its item.
            `item_timeout`: seconds of a call, all attempts included; then its process is killed and the item has failed
            with `ItemTimeoutError`. With `chunksize` it is that of a chunk's items together.

    Raises:
        ValueError: `limit`, `rate`, `chunksize` or `on_error` makes no sense.
    """
    policy = RetryPolicy(**retries)
    functions = WorkerFunctions(policy.of_function(function), on_start, on_done, keeps_values=True)
    return _results(
        functions,
        iterables,
        limit=limit,
        ordered=ordered,
        on_error=on_error,
        rate=rate,
        timeout=timeout,
        chunksize=chunksize,
        call_timeout=policy.item_timeout,
    )


def _results(  # noqa: PLR0913 - those of `map`
    functions: WorkerFunctions,
    iterables: tuple[Iterable[Any], ...],
    *,
    limit: int,
    ordered: bool = False,
    on_error: OnError,
    rate: float | None,
    timeout: float | None = None,
    chunksize: int = 1,
    call_timeout: float | None,
) -> Results[Any]:
    check_on_error(on_error)
    if chunksize < 1:
        raise ValueError(f"chunksize is {chunksize!r}: give 1 or more")
    pool = WorkerPool(
        _chunks(zip(*iterables, strict=False), chunksize),
        lambda: ProcessWorker(functions, call_timeout),
        Scaler(limit, is_slow=True, is_paced=rate is not None),
        ResultBuffer(ordered=ordered),
        on_error=on_error,
        rate_limiter=make_rate_limiter(rate),
        timeout=timeout,
    )
    return Results(pool, on_error, iterables)


def _chunks(items: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    """What the input raises in the middle of a chunk comes behind that chunk."""
    chunk: list[tuple[Any, ...]] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
