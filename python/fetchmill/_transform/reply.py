"""What a transform gets."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FetchedReply:
    """A reply that was fetched, as a transform gets it; `None` is what is not known.

    Args:
        name: the name under which it will be stored; bytes that are not UTF-8 are surrogates, as in names of files.
        url: the URL it was asked for or, after redirects, the one that answered.
        status: its status.
        body: its bytes, complete, as they were sent.
        content_type: the field `Content-Type`.
        etag: the field `ETag`.
        last_modified: the field `Last-Modified`, in UTC.
        content_encoding: the field `Content-Encoding`: the body is in this form, although nobody asked for one.
    """

    name: str
    url: str
    status: int
    body: bytes
    content_type: str | None
    etag: str | None
    last_modified: datetime | None
    content_encoding: str | None = None


Function = Callable[[list[FetchedReply]], Iterable[object]]
"""A transform: it gives bytes, None, a dict or an exception for each reply."""
