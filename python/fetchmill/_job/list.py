"""`list`: writes targets to a manifest or passes them to a function, without fetching them, in one blocking call."""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from os import PathLike
from typing import Any, NamedTuple, Self, Unpack

from fetchmill._job.column_values import ColumnValue
from fetchmill._job.progress import ProgressChoice, shown
from fetchmill._job.readable_report import ReadableReport
from fetchmill._job.run import run_to_end
from fetchmill._job.with_dashboard import JobDashboard
from fetchmill._native import Job, column_value
from fetchmill._options.keywords import ListKeywords
from fetchmill._options.list import ListOptions
from fetchmill.errors import UsageError


class ListedTarget(NamedTuple):
    """A listed target. A value that the source does not provide is None.

    Args:
        name: name of the object; None if the name is the URL, or is not text.
        url: URL of the object; None if it has no URL.
        size: size of the object in bytes.
        etag: ETag of the object, without quotes.
        last_modified: time when the object was last modified, UTC.
        columns: the kept columns of the list, by name.
    """

    name: str | None
    url: str | None
    size: int | None
    etag: str | None
    last_modified: datetime | None
    columns: dict[str, ColumnValue]


# Function that receives listed targets in batches of any size.
OnTargets = Callable[[Sequence[ListedTarget]], object]


@dataclass(frozen=True, kw_only=True, repr=False)
class ListReport(ReadableReport):
    """The summary of a `list` call.

    Args:
        source: the source of the targets.
        manifest: the file with the rows; None if the rows were passed to a function.
        rows: number of rows, one for each listed target.
        without_url: number of rows without a URL. `get` counts these targets as failed.
        failed_folders: number of web server folders that could not be listed. Their contents are missing.
        skipped: number of targets that were left out on purpose.
        seconds: duration of this run in seconds.
        already_finished: whether an earlier run had already finished the list. This run then made no requests.
        interrupted: whether the run was stopped before the list ended. With a manifest, repeating the call resumes the
            list.
        resumed: whether an earlier run began the list.
        notices: human-readable messages, one line each.
        found_nothing: whether the source is empty, or all listed targets were skipped although no option requested
            this.
    """

    source: str
    manifest: str | None
    rows: int
    without_url: int
    failed_folders: int
    skipped: int
    seconds: float
    already_finished: bool
    interrupted: bool
    resumed: bool
    notices: tuple[str, ...]
    found_nothing: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self) | {"notices": [*self.notices]}

    @classmethod
    def from_native(cls, values: Mapping[str, Any], manifest: str | None) -> Self:
        """Create an instance from the native module's result."""
        without_url = values["failures"].get("url", 0)
        return cls(
            source=values["source"],
            manifest=manifest,
            rows=values["fetched"] + without_url,
            without_url=without_url,
            failed_folders=values["failures"].get("listing", 0),
            skipped=values["skipped"],
            seconds=values["seconds"],
            already_finished=values["already_finished"],
            interrupted=values["interrupted"],
            resumed=values["resumed"],
            notices=tuple(values["notices"]),
            found_nothing=values["found_nothing"],
        )


def list(
    source: str | PathLike[str],
    manifest: str | PathLike[str] | None = None,
    *,
    each: OnTargets | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[ListKeywords],
) -> ListReport:
    """List the targets that `get` would fetch, without fetching them. Resume a list that an earlier call began.

    With `manifest`, every target becomes a row of a file. `get` accepts this file as its source, even on another
    machine. The file appears only when it is complete. With `each`, the listed targets are passed to that function.
    Nothing is then stored, so each call starts from the beginning.

    The call blocks until the list ends, and releases the GIL while it waits. On KeyboardInterrupt (or any other
    exception that a signal handler raises), a checkpoint is written and the exception is raised.

    Args:
        source: a server that lists its objects, or the path of a list, as for `get`.
        manifest: the file for the rows. The name ends with .parquet, .csv or .jsonl, and for CSV and JSON lines
            optionally with .gz or .zst.
        each: called with the listed targets, a few hundred at a time. If it raises, the list ends.
        progress: as for `get`.
        **options: the fields of `ListOptions`, which documents their units and defaults.

    Returns:
        The summary.

    Raises:
        UsageError: an option is invalid, or `manifest` already contains something else; nothing was changed.
        ListingError: the source cannot be listed to its end.
        TemporaryError: the server was unreachable for too long.
        StorageError: the local storage failed.
        BusyError: another process is running this list.
        JournalError: the journal and the rows contradict each other.

    Example:
        >>> report = fetchmill.list("http://127.0.0.1:8080", "manifest.parquet")  # doctest: +SKIP
        >>> fetchmill.get("manifest.parquet", "out/", allow_private=True)  # doctest: +SKIP
    """
    listed = ListOptions(source=source, manifest=manifest, **options)
    if manifest is not None:
        if each is not None:
            raise UsageError("each and manifest cannot be combined; pass only one of them")
        as_json = listed.to_json()
        with JobDashboard("list", listed) as dashboard, shown(progress) as show:
            ended = run_to_end(lambda: dashboard.show_in_program(Job(as_json)), show)
        return ListReport.from_native(ended, str(manifest))
    take = each or _ignore
    with (
        JobDashboard("list", listed) as dashboard,
        state_folder(listed) as temporary,
        shown(progress) as show,
    ):
        as_json = listed.to_json(temporary)
        ended = run_to_end(lambda: RowJob(dashboard.show_in_program(Job(as_json)), take), show)
        return ListReport.from_native(ended, None)


class RowJob:
    """A job that passes its rows to a function, on the thread that waits for the job."""

    def __init__(self, job: Job, take: OnTargets) -> None:
        self._job = job
        self._take = take
        self._columns = job.kept() or ()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for rows or for the job to end. Return whether the job has ended."""
        lines = self._job.take_rows(seconds)
        if lines is None:
            return self._job.wait(seconds)
        if lines:
            self._take([self._target(line) for line in lines.splitlines()])
        return False

    def _target(self, line: bytes) -> ListedTarget:
        row = json.loads(line)
        seconds = row.get("last_modified")
        return ListedTarget(
            name=row.get("name"),
            url=row.get("url"),
            size=row.get("size"),
            etag=row.get("etag"),
            last_modified=None if seconds is None else _time(seconds),
            columns={
                name: None if text is None else column_value(text, kind)
                for (name, kind), text in zip(self._columns, row.get("kept", ()), strict=False)
            },
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the current counters."""
        return self._job.snapshot()

    def samples(self, after: float = 0.0) -> Sequence[dict[str, Any]]:
        """Return the samples taken after a time, which is given in seconds since 1970 UTC."""
        return self._job.samples(after)

    def stop(self) -> None:
        """Signal the job to end. Later rows are discarded."""
        self._take = _ignore
        self._job.stop()

    def abort(self) -> None:
        """End the job immediately."""
        self._take = _ignore
        self._job.abort()

    def report(self) -> dict[str, Any]:
        """Return the report after the job has ended."""
        return self._job.report()


@contextlib.contextmanager
def state_folder(options: ListOptions) -> Iterator[str | None]:
    """Yield a temporary folder for the state of a list without a manifest; None if there is a manifest."""
    if options.manifest is not None:
        yield None
        return
    if options.state is not None:
        raise UsageError("state needs a manifest; a listing without a manifest cannot be resumed")
    with tempfile.TemporaryDirectory(prefix="fetchmill-list-") as folder:
        yield folder


def _time(seconds: int) -> datetime | None:
    """Convert seconds since 1970 to a datetime; None if the time is out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _ignore(_targets: Sequence[ListedTarget]) -> None:
    """Discard targets."""
