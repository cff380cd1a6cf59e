"""Requests out of a program and replies into it: any iterable of URLs in, replies out, memory flat.

    for reply in fetchmill.stream(f"http://127.0.0.1:8080/get/{number}" for number in range(1_000_000)):
        print(reply.url, reply.status, len(reply.body))

The core fetches on a thread of its own. What goes to it and comes from it are batches, so a reply costs no lock, no
message and no task; the iterable runs in the thread of whoever takes the replies.
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

# Rows of a batch: some megabytes with small bodies.
BATCH_SIZE = 8192

Mapping.register(Headers)


class Client:
    """Fetches for any number of streams and keeps its connections from one to the next.

    It may be used by several threads and event loops at once; a stream belongs to one of them.

    Args:
        **options: the fields of `StreamOptions`.

    Raises:
        UsageError: an option cannot be used.

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
        """The same as `fetchmill.stream`, on this client's connections."""
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
        """The same as `fetchmill.astream`, on this client's connections."""
        return _open_async(self._fetcher, items, _Manner(ordered, on_error, state, certain), owns=False)

    def stream_batches(self, items: RequestItems, *, batch_size: int = BATCH_SIZE, certain: bool = False) -> Batches:
        """The same as `fetchmill.stream_batches`, on this client's connections."""
        return _open_batches(self._fetcher, items, batch_size, certain=certain, owns=False)

    def get(self, item: str | Request) -> Reply:
        """One reply."""
        with self.stream((item,)) as replies:
            return next(replies)

    @property
    def concurrency(self) -> int:
        """Requests in flight at most, now: with `concurrency="auto"` it changes."""
        return self._fetcher.concurrency

    def close(self) -> None:
        """Closes all connections; streams that are open end. A second call does nothing."""
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
    """Fetches what an iterable gives, and gives the replies.

    The iterable may be endless. At most `concurrency` requests are in flight, with `auto` as many as prove useful, and
    at most 256 items more are taken from it whose reply the loop has not had: while the loop is busy with one, nothing
    is taken. The iterable runs in the loop's own thread, between two replies, so one that is slow delays replies that
    are there; an async iterable runs in an event loop of its own, and up to 64 items more are taken from it. What the
    iterable raises ends the loop. Leaving the loop gives up what is in flight.

    A reply of whatever status is a `Reply`: 408, 425, 429 and 5xx are tried `attempts` times before. A request without
    a complete reply is one too, with its `error`.

    Args:
        items: URLs, `s3://bucket/key` too, or `Request` for what is not a plain GET.
        ordered: replies in the order of the input; otherwise as they come.
        on_error: `raise` raises the `ReplyError` of the first request without a complete reply. A status never raises,
            nor does a reply that opted out (`opt_out`).
        state: a folder that remembers how far the loop is. A reply counts as done once the loop asks for the next one;
            with the same folder and the same items in the same order, what is done is left out. A kill costs at most
            what was taken from the input and not done, and what was done in the last second.
        certain: whether a reply is held until it is certain whose it is: for up to a second, and up to `concurrency +
            4096` items are taken from the input. False gives replies at once, and raises `StrayReplyError` when it
            turns out that some may be those of other requests. The default is True with `state`, and False without.
        **options: the fields of `StreamOptions`.

    Returns:
        An iterator of replies, and a context manager that closes it.

    Raises:
        UsageError: an option or an item cannot be used, or the items are others than before.
        StrayReplyError: replies that were given may be those of other requests; by the loop, seldom with `certain`.
        BusyError: another stream has the state folder.

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
    """The same for an event loop: an async iterator of replies.

    An async iterable runs in a task of the same loop; any other one runs between two replies, and must not block.

    Args:
        items: as for `stream`.
        ordered: as for `stream`.
        on_error: as for `stream`.
        state: as for `stream`.
        certain: as for `stream`.
        **options: the fields of `StreamOptions`.

    Returns:
        An async iterator of replies, and an async context manager that closes it.

    Raises:
        UsageError: an option cannot be used.
        BusyError: another stream has the state folder.

    Example:
        >>> async for reply in fetchmill.astream(urls, concurrency=128):  # doctest: +SKIP
        ...     print(reply.status)
    """
    return _open_async(_fetcher(options), items, _Manner(ordered, on_error, state, certain), owns=True)


def stream_batches(
    items: RequestItems, *, batch_size: int = BATCH_SIZE, certain: bool = False, **options: Unpack[StreamKeywords]
) -> Batches:
    """The same as record batches of Arrow: no Python object is made for a reply.

    The columns are index (the place in the input), url, tag (as text), status, error (the failure kind), content_type,
    body and total_time (seconds). Each batch can be given to whatever reads the Arrow PyCapsule interface, such as
    `pyarrow.record_batch(batch)` or `polars.DataFrame(batch)`, and so can all of them at once:
    `pyarrow.table(fetchmill.stream_batches(urls))`.

    Args:
        items: as for `stream`.
        batch_size: rows of a batch; it may have fewer when its bodies have 16 MiB.
        certain: as for `stream`.
        **options: the fields of `StreamOptions`.

    Returns:
        An iterator of record batches, and a context manager that closes it.

    Raises:
        UsageError: an option or an item cannot be used.

    Example:
        >>> for batch in fetchmill.stream_batches(urls):  # doctest: +SKIP
        ...     frame = polars.DataFrame(batch)
    """
    return _open_batches(_fetcher(options), items, batch_size, certain=certain, owns=True)


def _fetcher(options: StreamKeywords) -> Fetcher:
    return Fetcher(StreamOptions(**options).to_json())


class _Manner(NamedTuple):
    """How replies are given: the arguments of `stream`."""

    ordered: bool
    on_error: OnReplyError
    state: StatePath
    certain: bool | None

    @property
    def is_certain(self) -> bool:
        """The default: certain where it is remembered which replies are done."""
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
    """Whether errors are raised."""
    if isinstance(items, (str, bytes, Request)) or not isinstance(items, (Iterable, AsyncIterable)):
        raise UsageError(f"the input must be an iterable of URLs, not {type(items).__name__}; put one URL into a list")
    if on_error not in ("reply", "raise"):
        raise UsageError(f"on_error must be reply or raise, not {on_error!r}")
    return on_error == "raise"
