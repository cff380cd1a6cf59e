"""What stops a job, as exceptions.

What becomes of one target is never an exception: that is an outcome, and the ledger counts it. Each class has the
exit code that the command line gives (docs/reference/exit-codes.md); the native module raises these classes by name.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

# Indexes that the text of an error names.
_NAMED_MAX = 5


class FetchmillError(Exception):
    """Base of everything that fetchmill raises on purpose. Its text is one line that says what is wrong.

    Args:
        hint: the next step, if the text does not say it: the command line shows it on a line of its own.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *arguments: object, hint: str | None = None) -> None:
        super().__init__(*arguments)
        self.hint = hint


class InternalError(FetchmillError):
    """A mistake in fetchmill. The job can be resumed."""


class UsageError(FetchmillError, ValueError):
    """The options cannot be used, or the destination belongs to something else. Nothing was touched.

    Args:
        options: the options that the text names, as Python has them: the command line shows its own names.
    """

    exit_code = 2

    def __init__(self, *arguments: object, hint: str | None = None, options: Sequence[str] = ()) -> None:
        super().__init__(*arguments, hint=hint)
        self.options = tuple(options)


class ListingError(FetchmillError):
    """The listing failed, is incomplete or never ends. The job can be resumed."""

    exit_code = 4


class TemporaryError(FetchmillError):
    """The origin gave no success for too long. The job can be resumed later."""

    exit_code = 5


class SecurityError(FetchmillError):
    """Going on would carry something where it must not go, such as a next page on another origin."""

    exit_code = 6


class StorageError(FetchmillError):
    """The local storage failed: no space, no inodes, no descriptors, read-only, a failed sync."""

    exit_code = 7


class BusyError(FetchmillError):
    """Another process runs this job."""

    exit_code = 9


class JournalError(FetchmillError):
    """The journal or the output contradict each other: refused to go on."""

    exit_code = 10


class DeleteLimitError(FetchmillError):
    """A sync would remove more than `max_delete` allows. Nothing was changed."""

    exit_code = 11


class AccessError(FetchmillError):
    """The server refuses everything: 401 or 403. The job can be resumed with other credentials."""

    exit_code = 12


class ReplyError(FetchmillError):
    """A request without a complete reply: `reply.error` of a stream, raised with `on_error="raise"`.

    Args:
        url: what was asked for.
        kind: the failure kind, one of those in docs/reference/exit-codes.md, or `opted-out` (with `opt_out`).
        reason: the same for people; of a reply that opted out, the field or the `meta` that reserves it.
    """

    exit_code = 3

    def __init__(self, url: str, kind: str, reason: str) -> None:
        opted_out = f"{url} opted out: {reason}"
        super().__init__(opted_out if kind == "opted-out" else f"{url} gave no reply: {kind} ({reason})")
        self.url = url
        self.kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.url, self.kind, self.reason)


class StrayReplyError(FetchmillError):
    """A server has sent a reply that nobody asked for: replies that a stream has given may be those of other requests.

    Raised by a stream in the place of the next reply. With `certain=True` the requests are made again instead, before
    the program has their replies; it is raised only when the stray reply comes too late for that
    (docs/guide/streaming.md).

    Args:
        indexes: the places in the input of all replies that may be wrong, whether the program has had them or not.
    """

    exit_code = 3

    def __init__(self, indexes: Sequence[int]) -> None:
        places = ", ".join(map(str, indexes[:_NAMED_MAX])) + (", ..." if len(indexes) > _NAMED_MAX else "")
        many = f"{len(indexes)} replies may be those of other requests"
        replies = "1 reply may be that of another request" if len(indexes) == 1 else many
        super().__init__(
            f"a server sent a reply that nobody asked for: {replies} (index {places}); ask again, or open the stream "
            "with certain=True"
        )
        self.indexes = tuple(indexes)

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[int, ...]]]:
        return type(self), (self.indexes,)


class StatusError(FetchmillError):
    """A reply whose status is not 2xx: raised by `reply.raise_for_status()`.

    Args:
        url: what was asked for.
        status: the status of the reply.
    """

    exit_code = 3

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url} gave status {status}")
        self.url = url
        self.status = status

    def __reduce__(self) -> tuple[type[Self], tuple[str, int]]:
        return type(self), (self.url, self.status)
