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
class Export:
    """An export that runs on its own threads from the moment it is made. Dropped before its end, it is aborted."""

    def __init__(self, options: str) -> None:
        """Starts it or resumes it.

        Args:
            options: a JSON object; `fetchmill.export` makes it.

        Raises:
            UsageError: an option cannot be used, or the other destination is another job's.
            BusyError: a process works on one of the two.
        """

    def wait(self, seconds: float) -> bool:
        """Waits for the end, at most so many seconds, without the GIL. True when it has ended."""

    def snapshot(self) -> dict[str, Any]:
        """The counters now: the fields of `fetchmill.report.Snapshot`. Cheap, at any time."""

    def stop(self) -> None:
        """Asks for the end, with a checkpoint. Returns at once."""

    def abort(self) -> None:
        """Ends it without a checkpoint, as if the process had been killed."""

    def report(self) -> dict[str, Any]:
        """The ledger, after the end: the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: what stopped it, in the class of its exit code.
        """

@final
class Server:
    """A file server on its own threads."""

    def __init__(self, options: str, dest: str | None = None, state: str | None = None) -> None:
        """Binds and serves.

        Args:
            options: a JSON object; `fetchmill.server` makes it.
            dest: the destination of a job, to be served in the place of the options' content.
            state: folder of its journal, when the job was given one.

        Raises:
            UsageError: an option cannot be used, the address is taken, or the job keeps no objects.
            JournalError: the journal cannot be read.
        """

    @property
    def address(self) -> str:
        """Host and port, such as `127.0.0.1:8080`."""

    def stats(self) -> dict[str, Any]:
        """Counts of requests and replies by kind, the same as `GET /stats`."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class Objects:
    """What a job has stored, read in place. All methods may be called by many threads.

    An object is a tuple: name (str with surrogates for what is not UTF-8), body, status, content_type, etag,
    last_modified (seconds since 1970), fetched_at (microseconds), sequence, crc32c; None is what is not known.
    """

    def __init__(self, dest: str, state: str | None) -> None:
        """Opens the journal and what it names.

        Raises:
            UsageError: there is no job, or its format keeps no objects.
            JournalError: the journal cannot be read.
        """

    def format(self) -> str:
        """How the objects are stored."""

    def close(self) -> None:
        """Closes the files; every other call is a UsageError then."""

    def get(self, name: bytes) -> tuple[Any, ...] | None:
        """The object with this name.

        Raises:
            JournalError: a manifest, the shard or the object is damaged.
        """

    def length(self, name: bytes) -> int | None:
        """Bytes of the object with this name, from the manifests alone; None when there is none."""

    def count(self) -> int:
        """How many names there are."""

    def names(self, position: str | None, max: int, with_lengths: bool) -> tuple[list[Any], str | None]:
        """At most so many names from a position on, or tuples of name and length; and the next position, if any."""

    def batches(self) -> ObjectBatches:
        """All objects in the order of storage."""

    def arrow_stream(self) -> object:
        """The same as a capsule `arrow_array_stream`."""

@final
class ObjectBatches:
    """Goes through the objects, in batches."""

    def next_batch(self) -> list[tuple[Any, ...]]:
        """The next ones. Empty at the end.

        Raises:
            JournalError: a manifest, a shard or an object is damaged.
        """

@final
class Verify:
    """A verification that runs on its own threads from the moment it is made. Dropped before its end, it is ended."""

    def __init__(self, options: str) -> None:
        """Keeps jobs out of the destination and starts.

        Args:
            options: a JSON object; `fetchmill.verify` makes it.

        Raises:
            UsageError: there is no job.
            BusyError: a process runs the job.
        """

    def wait(self, seconds: float) -> bool:
        """Waits for the end, at most so many seconds, without the GIL. Findings must be taken meanwhile."""

    def progress(self) -> dict[str, Any]:
        """How far it is: the fields of `fetchmill.verifying.Progress`. Cheap, at any time."""

    def findings(self, max: int) -> list[dict[str, Any]]:
        """Findings that were not taken yet: the fields of `fetchmill.Finding`."""

    def abort(self) -> None:
        """Asks for an early end. A repair ends behind the shard that it has begun."""

    def report(self) -> dict[str, Any]:
        """What was found, after the end: the fields of `fetchmill.VerifyReport`.

        Raises:
            FetchmillError: what stopped it, in the class of its exit code.
        """

    def next_sampled(self) -> dict[str, Any] | None:
        """The next object that was drawn: its name, the path of its request, its bytes. None behind the last one."""

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
