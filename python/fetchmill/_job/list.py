"""A list as one blocking call: what a source would hand over, as a manifest or to a function, without fetching it."""

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
    """A target as it was listed. What its source does not tell is None.

    Args:
        name: what its object is called; None when that is its URL, or no text.
        url: where it can be asked for; None when no URL leads to it.
        size: bytes of its object.
        etag: its ETag, without quotes.
        last_modified: when its object was written, UTC.
        columns: the kept columns of its list, by name.
    """

    name: str | None
    url: str | None
    size: int | None
    etag: str | None
    last_modified: datetime | None
    columns: dict[str, ColumnValue]


# Takes targets as they are listed, so many as there are.
OnTargets = Callable[[Sequence[ListedTarget]], object]


@dataclass(frozen=True, kw_only=True, repr=False)
class ListReport(ReadableReport):
    """What a source has listed.

    Args:
        source: where the targets come from.
        manifest: the file with the rows; None when they were given away.
        rows: targets that have a row.
        without_url: those of them that no URL leads to: `get` fails them.
        failed_folders: folders of a web server that gave no listing: what is in them is missing.
        skipped: left out on purpose.
        seconds: time of this run.
        already_finished: whether the list was finished before this run, which then asked nobody.
        interrupted: whether the run was stopped before the end; the same call resumes one with a manifest.
        resumed: whether an earlier run began the list.
        notices: what a person should know, a line each.
        found_nothing: whether a list has no target, or all that is listed was skipped and nobody asked for that.
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
        """For JSON."""
        return asdict(self) | {"notices": [*self.notices]}

    @classmethod
    def from_native(cls, values: Mapping[str, Any], manifest: str | None) -> Self:
        """From what the native module returns."""
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
    """Lists what `get` would fetch, and fetches nothing; resumes what an earlier call began.

    With `manifest` every target becomes a row of a file, which `get` takes as its source: now, later, or elsewhere. The
    file has all of them or is not there. With `each` they are given to a function as they are listed, and nothing is
    kept: such a list begins anew each time. Blocks until the end, and releases the GIL meanwhile. On KeyboardInterrupt
    (or any other exception that a signal handler raises) a checkpoint is written, and the exception goes on.

    Args:
        source: a server that lists its objects, or the path of a list, as for `get`.
        manifest: the file for the rows: .parquet, .csv or .jsonl, the last two also with .gz or .zst.
        each: called with the next targets, some hundreds at once; what it raises ends the list.
        progress: as for `get`.
        **options: the fields of `ListOptions`, which has their units and defaults.

    Returns:
        The summary.

    Raises:
        UsageError: an option cannot be used, or `manifest` is something else; nothing was touched.
        ListingError: the source cannot be listed to its end.
        TemporaryError: the server is not reachable for too long.
        StorageError: the local storage failed.
        BusyError: another process runs this list.
        JournalError: the journal or the rows contradict each other.

    Example:
        >>> report = fetchmill.list("http://127.0.0.1:8080", "manifest.parquet")  # doctest: +SKIP
        >>> fetchmill.get("manifest.parquet", "out/", allow_private=True)  # doctest: +SKIP
    """
    listed = ListOptions(source=source, manifest=manifest, **options)
    if manifest is not None:
        if each is not None:
            raise UsageError("each and manifest exclude each other: the rows go to the one or into the other")
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
    """A job whose rows are taken by a function, on the thread that waits for it."""

    def __init__(self, job: Job, take: OnTargets) -> None:
        self._job = job
        self._take = take
        self._columns = job.kept() or ()

    def wait(self, seconds: float) -> bool:
        """Waits for rows or for the end, at most so many seconds; whether the end has come."""
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
        """The counters now."""
        return self._job.snapshot()

    def samples(self, after: float = 0.0) -> Sequence[dict[str, Any]]:
        """What was sampled behind a moment, seconds since 1970 UTC."""
        return self._job.samples(after)

    def stop(self) -> None:
        """Asks for the end; rows that come until then are not taken any more."""
        self._take = _ignore
        self._job.stop()

    def abort(self) -> None:
        """Ends at once."""
        self._take = _ignore
        self._job.abort()

    def report(self) -> dict[str, Any]:
        """What came of it, after the end."""
        return self._job.report()


@contextlib.contextmanager
def state_folder(options: ListOptions) -> Iterator[str | None]:
    """A temporary folder for what a list knows whose rows are given away; None when there is a manifest."""
    if options.manifest is not None:
        yield None
        return
    if options.state is not None:
        raise UsageError("state needs a manifest: a list whose rows are given away cannot be resumed")
    with tempfile.TemporaryDirectory(prefix="fetchmill-list-") as folder:
        yield folder


def _time(seconds: int) -> datetime | None:
    """A moment; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _ignore(_targets: Sequence[ListedTarget]) -> None:
    """Takes targets that nobody wants."""
