"""What stops a job, as exceptions.

What becomes of one target is never an exception: that is an outcome, and the ledger counts it. Each class has the
exit code that the command line gives (docs/exit-codes.md); the native module raises these classes by name.
"""

from typing import ClassVar


class FetchmillError(Exception):
    """Base of everything that fetchmill raises on purpose. Its text is one line that says what to do."""

    exit_code: ClassVar[int] = 1


class InternalError(FetchmillError):
    """A mistake in fetchmill. The job can be resumed."""


class UsageError(FetchmillError, ValueError):
    """The options cannot be used, or the destination belongs to something else. Nothing was touched."""

    exit_code = 2


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


class ReplyError(FetchmillError):
    """A request without a complete reply: `reply.error` of a stream, raised with `on_error="raise"`.

    Args:
        url: what was asked for.
        kind: the failure kind, one of those in docs/exit-codes.md.
        reason: the same for people.
    """

    exit_code = 3

    def __init__(self, url: str, kind: str, reason: str) -> None:
        super().__init__(f"{url} gave no reply: {kind} ({reason})")
        self.url = url
        self.kind = kind
        self.reason = reason


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
