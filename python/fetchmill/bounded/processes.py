"""Bounded concurrency in processes: `each` and `map` for plain functions, with input of any length.

    def main():
        with bounded.processes.map(parse, pages(), limit=8, chunksize=16) as parsed:
            for page in parsed: ...

    if __name__ == "__main__":
        main()

This module behaves like `bounded.threads`, but uses processes. It differs as follows:

- A process is spawned when an item is waiting and no worker is free. The function, `on_start`, `on_done`, items and
  results are pickled, and the program's main module needs `if __name__ == "__main__":`.
- If a worker process dies (killed, out of memory, `os._exit`), its items fail with a `WorkerDiedError` that names them.
  With `on_error="return"`, a new worker replaces it. If a worker dies before it is ready, the whole run ends.
- If the run is abandoned (after an exception, `break`, `timeout` or KeyboardInterrupt), busy worker processes are
  killed with SIGKILL and do not run `on_done`. Workers ignore Ctrl-C, which only the parent process handles.
- If the parent process is killed, each worker finishes its current call and ends.
- The cause of an error is the worker's traceback. An error that cannot be pickled becomes a RuntimeError with the same
  text.

Until the parent process ends, multiprocessing also keeps its resource tracker running in another process.
"""

import multiprocessing.util  # noqa: F401 - registers an exit handler that waits for all processes
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
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
    """Call `function(item)` for every item, using up to `limit` processes. Wait for all calls and discard the results.

    >>> each(abs, [-1, 2], limit=4)
    Tally(done=2, failed=0, failures=())

    Args:
        function: Called with an item, followed by the value that `on_start` returned, if `on_start` is given.
        items: Any iterable, even an endless one. The next item is read when a worker has room for it.
        limit: Maximum number of items processed at the same time.
        on_start: Called once by each process before its first item.
        on_done: Called once by each process after its last item, with the value that `on_start` returned (None if it is
            not given).
        on_error: "raise" stops at the function's first exception and raises it; "return" counts failures.
        rate: Maximum number of items started per second, evenly spaced; None for no limit.
        retries: The keywords of the retry policy:

            - `attempts`: maximum number of attempts per item (default: 1).
            - `retry_on`: errors after which an item is tried again: `Exception` (the default) or a tuple of classes.
            - `retry_wait`: seconds before the second attempt (default: 0.5). The wait doubles each time, up to 30 s,
              and is then shortened by a random amount of up to half. The worker takes no other item while it waits.
            - `item_timeout`: seconds for a call, including all attempts. After that, the process is killed and the item
              fails with `ItemTimeoutError`. With `chunksize`, the limit for a chunk is the sum of its items' limits.

    Returns:
        The numbers of items done and failed, and the first 100 failures.

    Raises:
        ValueError: `limit`, `rate` or `on_error` is invalid.
        Exception: The exception raised by the function, the input, `on_start` or `on_done`.
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
    **retries: Unpack[CallOptions],
) -> Results[Any]:
    """Yield `function(item)` for every item as results arrive, using up to `limit` processes.

    >>> list(map(pow, [2, 3], [5, 2], limit=2, ordered=True))
    [32, 9]

    The input is read at most `2 * limit` items ahead of the yielded results, so it can be endless.

    Args:
        function: Called with one item from each iterable, followed by the value that `on_start` returned, if given.
        iterables: The input, which ends when the shortest iterable ends.
        limit: Maximum number of items processed at the same time.
        ordered: Yield results in input order, as `Executor.map` does; one slow item delays all later results.
        on_start: Called once by each process before its first item.
        on_done: Called once by each process after its last item, with the value that `on_start` returned (None if it is
            not given).
        on_error: "raise" raises the function's exception; "return" yields a `Failed` in place of the result.
        rate: Maximum number of items started per second, evenly spaced; None for no limit.
        timeout: Seconds from this call, after which waiting for a result raises TimeoutError.
        chunksize: Number of items sent to a process together, which lowers the cost per item. The window and `rate`
            count chunks. If a worker dies, its whole chunk fails.
        retries: The keywords of the retry policy:

            - `attempts`: maximum number of attempts per item (default: 1).
            - `retry_on`: errors after which an item is tried again: `Exception` (the default) or a tuple of classes.
            - `retry_wait`: seconds before the second attempt (default: 0.5). The wait doubles each time, up to 30 s,
              and is then shortened by a random amount of up to half. The worker takes no other item while it waits.
            - `item_timeout`: seconds for a call, including all attempts. After that, the process is killed and the item
              fails with `ItemTimeoutError`. With `chunksize`, the limit for a chunk is the sum of its items' limits.

    Raises:
        ValueError: `limit`, `rate`, `chunksize` or `on_error` is invalid.
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


def _results(  # noqa: PLR0913 - the parameters of `map`
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
        raise ValueError(f"chunksize must be at least 1, not {chunksize!r}")
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
    """Group items into chunks. If the input raises in the middle of a chunk, that chunk is yielded first."""
    while True:
        chunk: list[tuple[Any, ...]] = []
        try:
            # If the input raises, the list contains the items read before.
            chunk.extend(islice(items, size))
        except Exception:
            if chunk:
                yield chunk
            raise
        if chunk:
            yield chunk
        if len(chunk) < size:
            return
