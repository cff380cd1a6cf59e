"""Streams take an iterable of URLs and return the replies, in constant memory.

    for reply in fetchmill.stream(f"http://127.0.0.1:8080/get/{number}" for number in range(1_000_000)):
        print(reply.url, reply.status, len(reply.body))

The core fetches on a separate thread and exchanges batches with the program, so that no lock, message or task is needed
per reply. The iterable runs in the thread that reads the replies.
"""

import os
from collections.abc import AsyncIterable, Iterable, Mapping
from types import TracebackType
from typing import Literal, NamedTuple, Self, Unpack

from fetchmill._job.async_input import from_async
from fetchmill._native import Batches, Fetcher, Headers, Reply, Request, Stream, Timings
from fetchmill._options.keywords import StreamKeywords
from fetchmill._options.stream import StreamOptions
from fetchmill._stream.async_stream import AsyncStream
from fetchmill.errors import UsageError

__all__ = ["Client", "Headers", "Reply", "Request", "Timings", "astream", "stream", "stream_batches"]

OnReplyError = Literal["reply", "raise"]
RequestItems = Iterable[str | Request] | AsyncIterable[str | Request]
StatePath = str | os.PathLike[str] | None

# Rows per batch, which amount to a few megabytes if bodies are small.
BATCH_SIZE = 8192

Mapping.register(Headers)


class Client:
    """A client that keeps connections open between any number of streams.

    Several threads and event loops can share a client, but each stream belongs to only one of them.

    Args:
        **options: the fields of `StreamOptions`.

    Raises:
        UsageError: an option is invalid.

    Example:
        >>> with fetchmill.Client(concurrency=16) as client:  # doctest: +SKIP
        ...     first = client.get("http://127.0.0.1:8080/list").json()
        ...     for reply in client.stream(urls_of(first)):
        ...         print(reply.status)
    """

    def __init__(self, **options: Unpack[StreamKeywords]) -> None:
        self._fetcher = Fetcher(StreamOptions(**options).to_json())

    def stream(
        self,
        items: RequestItems,
        *,
        ordered: bool = False,
        on_error: OnReplyError = "reply",
        state: StatePath = None,
        certain: bool | None = None,
    ) -> Stream:
        """Like `fetchmill.stream`, but use this client's connections."""
        return _open(self._fetcher, items, _Manner(ordered, on_error, state, certain), owns=False)

    def astream(
        self,
        items: RequestItems,
        *,
        ordered: bool = False,
        on_error: OnReplyError = "reply",
        state: StatePath = None,
        certain: bool | None = None,
    ) -> AsyncStream:
        """Like `fetchmill.astream`, but use this client's connections."""
        return _open_async(self._fetcher, items, _Manner(ordered, on_error, state, certain), owns=False)

    def stream_batches(self, items: RequestItems, *, batch_size: int = BATCH_SIZE, certain: bool = False) -> Batches:
        """Like `fetchmill.stream_batches`, but use this client's connections."""
        return _open_batches(self._fetcher, items, batch_size, certain=certain, owns=False)

    def get(self, item: str | Request) -> Reply:
        """Fetch one URL or request and return the reply."""
        with self.stream((item,)) as replies:
            return next(replies)

    @property
    def concurrency(self) -> int:
        """Current maximum number of requests in flight, which changes over time if `concurrency` is `auto`."""
        return self._fetcher.concurrency

    def close(self) -> None:
        """Close all connections and end open streams. A second call does nothing."""
        self._fetcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


def stream(
    items: RequestItems,
    *,
    ordered: bool = False,
    on_error: OnReplyError = "reply",
    state: StatePath = None,
    certain: bool | None = None,
    **options: Unpack[StreamKeywords],
) -> Stream:
    """Fetch the URLs of an iterable and yield the replies.

    The iterable can be endless. At most `concurrency` requests are in flight; with `auto`, fetchmill finds a suitable
    number. In addition, up to 256 items are read ahead. No item is read while the loop body runs.

    The iterable runs in the loop's thread between two replies, so a slow iterable delays replies that are ready. An
    async iterable runs in a separate event loop, and up to 64 more items are read ahead. If the iterable raises, the
    exception ends the loop. Leaving the loop abandons requests in flight.

    Every status results in a `Reply`. Requests answered with 408, 425, 429 or 5xx are first tried `attempts` times. A
    request that does not get a complete reply also results in a `Reply`, with `error` set.

    Args:
        items: URLs, including `s3://bucket/key`, or `Request` objects for anything but a plain GET.
        ordered: whether replies are returned in input order. If False, they are returned as they complete.
        on_error: `raise` raises the `ReplyError` of the first request that does not get a complete reply. Statuses and
            replies that opted out (`opt_out`) never raise an error.
        state: a folder in which to store the progress of the loop. A later run with the same folder and the same items
            in the same order skips items that are done. An item is done once the loop requests the next reply. If the
            program is killed, the next run repeats only items that were read but not done, or done in the last second.
        certain: whether to hold each reply for up to a second, until it is certain to belong to its request. If True,
            up to `concurrency + 4096` items are read ahead. If False, replies are returned immediately, and
            `StrayReplyError` is raised if some of them may belong to other requests. The default is True with `state`
            and False without it.
        **options: the fields of `StreamOptions`.

    Returns:
        An iterator over replies, which is also a context manager.

    Raises:
        UsageError: an option or an item is invalid, or the items differ from the earlier run's items.
        StrayReplyError: replies may belong to other requests (raised by the loop; rare with `certain`).
        BusyError: another stream uses the state folder.

    Example:
        >>> urls = (f"http://127.0.0.1:8080/get/{number}" for number in range(1_000_000))  # doctest: +SKIP
        >>> sum(reply.ok for reply in fetchmill.stream(urls, concurrency=128))  # doctest: +SKIP
        1000000
    """
    return _open(_fetcher(options), items, _Manner(ordered, on_error, state, certain), owns=True)


def astream(
    items: RequestItems,
    *,
    ordered: bool = False,
    on_error: OnReplyError = "reply",
    state: StatePath = None,
    certain: bool | None = None,
    **options: Unpack[StreamKeywords],
) -> AsyncStream:
    """Fetch the URLs of an iterable and yield the replies like `stream`, but in an event loop.

    An async iterable runs in a task of the same loop. Any other iterable runs between two replies and must not block.

    Args:
        items: as for `stream`.
        ordered: as for `stream`.
        on_error: as for `stream`.
        state: as for `stream`.
        certain: as for `stream`.
        **options: the fields of `StreamOptions`.

    Returns:
        An async iterator over replies, which is also an async context manager.

    Raises:
        UsageError: an option is invalid.
        BusyError: another stream uses the state folder.

    Example:
        >>> async for reply in fetchmill.astream(urls, concurrency=128):  # doctest: +SKIP
        ...     print(reply.status)
    """
    return _open_async(_fetcher(options), items, _Manner(ordered, on_error, state, certain), owns=True)


def stream_batches(
    items: RequestItems, *, batch_size: int = BATCH_SIZE, certain: bool = False, **options: Unpack[StreamKeywords]
) -> Batches:
    """Fetch the URLs of an iterable and yield the replies as Arrow record batches.

    No Python object is created per reply. The columns are index (the position in the input), url, tag (as text),
    status, error (the failure kind), content_type, body and total_time (seconds). Libraries that support the Arrow
    PyCapsule interface accept a single batch, as in `pyarrow.record_batch(batch)` or `polars.DataFrame(batch)`. They
    also accept all batches together, as in `pyarrow.table(fetchmill.stream_batches(urls))`.

    Args:
        items: as for `stream`.
        batch_size: maximum number of rows in a batch. A batch is shorter if its bodies reach 16 MiB.
        certain: as for `stream`.
        **options: the fields of `StreamOptions`.

    Returns:
        An iterator over record batches, which is also a context manager.

    Raises:
        UsageError: an option or an item is invalid.

    Example:
        >>> for batch in fetchmill.stream_batches(urls):  # doctest: +SKIP
        ...     frame = polars.DataFrame(batch)
    """
    return _open_batches(_fetcher(options), items, batch_size, certain=certain, owns=True)


def _fetcher(options: StreamKeywords) -> Fetcher:
    return Fetcher(StreamOptions(**options).to_json())


class _Manner(NamedTuple):
    """The arguments of `stream` that determine how replies are returned."""

    ordered: bool
    on_error: OnReplyError
    state: StatePath
    certain: bool | None

    @property
    def is_certain(self) -> bool:
        """Whether to hold replies until they are certain. Defaults to True with a state folder."""
        return self.state is not None if self.certain is None else self.certain


def _open(fetcher: Fetcher, items: RequestItems, manner: _Manner, *, owns: bool) -> Stream:
    if isinstance(items, AsyncIterable):
        items = from_async(items)
    return _open_native(fetcher, items, items, manner, owns)


def _open_async(fetcher: Fetcher, items: RequestItems, manner: _Manner, *, owns: bool) -> AsyncStream:
    fed = items if isinstance(items, AsyncIterable) else None
    pulled = None if isinstance(items, AsyncIterable) else items
    return AsyncStream(_open_native(fetcher, items, pulled, manner, owns), fed)


def _open_native(
    fetcher: Fetcher, items: RequestItems, pulled: Iterable[str | Request] | None, manner: _Manner, owns: bool
) -> Stream:
    raises = _check_items(items, manner.on_error)
    return fetcher.stream(
        pulled, ordered=manner.ordered, raises=raises, certain=manner.is_certain, owns=owns, state=manner.state
    )


def _open_batches(fetcher: Fetcher, items: RequestItems, batch_size: int, *, certain: bool, owns: bool) -> Batches:
    if isinstance(items, AsyncIterable):
        items = from_async(items)
    _check_items(items, "reply")
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, not {batch_size}")
    return fetcher.batches(items, batch_size, certain, owns)


def _check_items(items: RequestItems, on_error: OnReplyError) -> bool:
    """Check the arguments, and return whether a failed request raises an error."""
    if isinstance(items, (str, bytes, Request)) or not isinstance(items, (Iterable, AsyncIterable)):
        raise UsageError(
            f"the input must be an iterable of URLs, not {type(items).__name__}; put a single URL into a list"
        )
    if on_error not in ("reply", "raise"):
        raise UsageError(f"on_error must be reply or raise, not {on_error!r}")
    return on_error == "raise"
