"""Exceptions for everything that stops a job.

A failed target does not raise an exception: its failure is an outcome, which the ledger counts. Each class defines the
command line's exit code (docs/reference/exit-codes.md). The native module raises these classes by name.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

# Maximum number of indexes in an error's text.
_NAMED_MAX = 5


class FetchmillError(Exception):
    """The base class of all errors that fetchmill raises deliberately. The text is one line that says what is wrong.

    Args:
        hint: the next step, unless the text names it. The command line shows the hint on a separate line.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *arguments: object, hint: str | None = None) -> None:
        super().__init__(*arguments)
        self.hint = hint


class InternalError(FetchmillError):
    """A bug in fetchmill. The job can be resumed."""


class UsageError(FetchmillError, ValueError):
    """The options are invalid, or the destination belongs to something else. Nothing was changed.

    Args:
        options: the Python names of options in the text, which the command line replaces with its own names.
    """

    exit_code = 2

    def __init__(self, *arguments: object, hint: str | None = None, options: Sequence[str] = ()) -> None:
        super().__init__(*arguments, hint=hint)
        self.options = tuple(options)


class ListingError(FetchmillError):
    """The listing failed, is incomplete or never ends. The job can be resumed."""

    exit_code = 4


class TemporaryError(FetchmillError):
    """No request to the origin has succeeded for a long time. The job can be resumed later."""

    exit_code = 5


class SecurityError(FetchmillError):
    """Continuing would be unsafe, for example because the listing's next page is on another origin."""

    exit_code = 6


class StorageError(FetchmillError):
    """The local storage failed: no space, inodes or descriptors left, a read-only file system, or a failed sync."""

    exit_code = 7


class BusyError(FetchmillError):
    """Another process is running this job."""

    exit_code = 9


class JournalError(FetchmillError):
    """The journal and the output contradict each other, so the job does not continue."""

    exit_code = 10


class DeleteLimitError(FetchmillError):
    """A sync would remove more than `max_delete` allows. Nothing was changed."""

    exit_code = 11


class AccessError(FetchmillError):
    """The server refuses all requests with 401 or 403. The job can be resumed with other credentials."""

    exit_code = 12


class ReplyError(FetchmillError):
    """A request did not get a complete reply. Streams set it as `reply.error`, or raise it with `on_error="raise"`.

    Args:
        url: the requested URL.
        kind: the failure kind, as listed in docs/reference/exit-codes.md, or `opted-out` (with `opt_out`).
        reason: the cause in words, or the header field or `meta` element through which the reply opted out.
    """

    exit_code = 3

    def __init__(self, url: str, kind: str, reason: str) -> None:
        opted_out = f"{url} opted out: {reason}"
        super().__init__(opted_out if kind == "opted-out" else f"no reply from {url}: {kind} ({reason})")
        self.url = url
        self.kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.url, self.kind, self.reason)


class StrayReplyError(FetchmillError):
    """A server sent an unsolicited response, so replies of the stream may belong to other requests.

    A stream raises this error instead of returning the next reply. With `certain=True`, the affected requests are
    repeated before their replies are returned. The error is then raised only if the unsolicited response arrives too
    late (docs/guide/streaming.md).

    Args:
        indexes: the input positions of all replies that may be wrong, including replies that were not returned yet.
    """

    exit_code = 3

    def __init__(self, indexes: Sequence[int]) -> None:
        places = ", ".join(map(str, indexes[:_NAMED_MAX])) + (", ..." if len(indexes) > _NAMED_MAX else "")
        many = f"{len(indexes)} replies may belong to other requests"
        replies = "1 reply may belong to another request" if len(indexes) == 1 else many
        super().__init__(
            f"a server sent an unsolicited response: {replies} (index {places}); repeat the requests, or open the "
            "stream with certain=True"
        )
        self.indexes = tuple(indexes)

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[int, ...]]]:
        return type(self), (self.indexes,)


class StatusError(FetchmillError):
    """The status of a reply is not 2xx. Raised by `reply.raise_for_status()`.

    Args:
        url: the requested URL.
        status: the HTTP status of the reply.
    """

    exit_code = 3

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url} returned status {status}")
        self.url = url
        self.status = status

    def __reduce__(self) -> tuple[type[Self], tuple[str, int]]:
        return type(self), (self.url, self.status)
