"""The Rust core, as Python sees it. Private: `fetchmill` has the public names.

Options go in as one JSON object, counters come out as dicts, batches as lists: no call is made for an object. All
errors are the classes of `fetchmill.errors`.
"""

from typing import Any, final

__version__: str

@final
class Job:
    """A job that runs on its own threads from the moment it is made. Dropped before its end, it is aborted."""

    def __init__(self, options: str) -> None:
        """Starts the job or resumes it.

        Args:
            options: a JSON object with the fields of `fetchmill.GetOptions`; one that is missing has its default.

        Raises:
            UsageError: an option cannot be used, or the destination is another job's.
            BusyError: another process runs this job.
            JournalError: the journal is damaged.
            StorageError: the destination or the journal cannot be written.
        """

    def wait(self, seconds: float) -> bool:
        """Waits for the end, at most so many seconds, without the GIL. True when the job has ended."""

    def snapshot(self) -> dict[str, Any]:
        """The counters now: the fields of `fetchmill.report.Snapshot`. Cheap, at any time."""

    def stop(self) -> None:
        """Asks for the end: no new request, those in flight drained (3 s at most), a checkpoint. Returns at once."""

    def abort(self) -> None:
        """Ends the job without a checkpoint, as if the process had been killed."""

    def report(self) -> dict[str, Any]:
        """The ledger, after the end: the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: what stopped the job, in the class of its exit code.
        """

@final
class Server:
    """A file server on its own threads."""

    def __init__(self, options: str) -> None:
        """Binds and serves.

        Args:
            options: a JSON object; `fetchmill.server` makes it.

        Raises:
            UsageError: an option cannot be used, or the address is taken.
        """

    @property
    def address(self) -> str:
        """Host and port, such as `127.0.0.1:8080`."""

    def stats(self) -> dict[str, Any]:
        """Counts of requests and replies by kind, the same as `GET /stats`."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class Failures:
    """Reads the absent and failed targets of a job, in batches."""

    def __init__(self, dest: str, state: str | None) -> None:
        """Opens the journal for reading.

        Raises:
            UsageError: there is no job.
            JournalError: the journal or a failures shard cannot be read.
        """

    def next_batch(self) -> list[dict[str, Any]]:
        """The next ones: the fields of `fetchmill.Failure`. Empty at the end."""

def status(dest: str, state: str | None) -> dict[str, Any]:
    """The ledger that the journal of a destination has: the fields of `fetchmill.Status`.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def synthetic_body(name: str, size: int) -> bytes:
    """The body that a synthetic server gives to a name.

    Args:
        name: the name, as listed.
        size: its size in bytes.
    """
