"""What a transport of an engine in Python gives for a target: a reply as it came, or why there is none.

What becomes of the target follows from it in the native module, by the same rules as for its own replies.
"""

from typing import NamedTuple


class Replied(NamedTuple):
    """A reply that came to its end.

    Args:
        sequence: the target's number.
        status: the status.
        body: its bytes as they were sent, not decoded.
        is_verified: whether the reply told its length, and that is what came.
        content_type: the field Content-Type, if it was there; likewise the others.
        etag: the field ETag.
        last_modified: the field Last-Modified.
        retry_after: the field Retry-After.
    """

    sequence: int
    status: int
    body: bytes
    is_verified: bool = True
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    retry_after: str | None = None


class Broken(NamedTuple):
    """No complete reply.

    Args:
        sequence: the target's number.
        kind: the failure kind, one of `FAILURE_KINDS`.
        detail: what a person should know besides, in one line.
    """

    sequence: int
    kind: str
    detail: str | None = None


Answer = Replied | Broken
