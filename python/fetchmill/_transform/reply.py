"""The input of a transform."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FetchedReply:
    """A fetched reply, as passed to a transform. A value is `None` if it is unknown.

    Args:
        name: the name under which the object will be stored. As in file names, invalid UTF-8 becomes surrogates.
        url: the requested URL, or the URL that answered after redirects.
        status: the HTTP status.
        body: the complete body, as sent by the server.
        content_type: the header field `Content-Type`.
        etag: the header field `ETag`.
        last_modified: the header field `Last-Modified`, in UTC.
        content_encoding: the header field `Content-Encoding`, if the server encoded the body without being asked.
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
"""A transform. It returns bytes, None, a dict or an exception for each reply."""
