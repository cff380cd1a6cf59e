"""Lists the source of a shared job in a thread, and adds the list to the job part by part.

Workers fetch the parts that the job has while the listing continues. Each part is a manifest of JSON lines in the job
directory. The record that adds it has a number, and can be created once. If another process takes over, the first of
them to add a part is the one that continues, so no two parts have the same row.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from fetchmill._native import Job
from fetchmill._options.list import ListOptions
from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.listed_rows import ListedRows
from fetchmill._shared.local_lists import LocalLists, in_job_directory
from fetchmill._shared.local_state import default_folder, make_folder, remove_folder
from fetchmill._shared.ranges import ListFile, Range, first_ranges
from fetchmill._shared.records import AddedList, JobRecord, ListingTotals
from fetchmill._shared.store import STORE_ERRORS, is_bucket
from fetchmill._shared.stored_options import LISTED_FORMAT
from fetchmill.errors import FetchmillError, UsageError

# Folder of the parts in the job directory.
FOLDER = "list"
# Duration of the first part. Each part takes twice as long as the one before it, up to the maximum.
_PART_SECONDS = 2.0
_PART_SECONDS_MAX = 30.0
# Maximum size of a part in bytes. A part is copied to the job directory as a whole.
_PART_BYTES = 64 << 20
_STEP_SECONDS = 0.1
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the list in the job directory.

    Args:
        file: the part as the job names it.
        ranges: its first ranges. Their file number is 0.
    """

    file: ListFile
    ranges: tuple[Range, ...]


class ListedJob(Protocol):
    """The job that gets the parts."""

    def add(self, part: Part) -> bool:
        """Add a part. Returns False if another process has added one meanwhile, or has created the job."""

    def end(self, totals: ListingTotals) -> bool:
        """End the list. Returns False as `add` does."""

    def known_files(self) -> tuple[ListFile, ...]:
        """Return the parts that the job had before this process began to list."""


class SourceLister:
    """See the module.

    Args:
        directory: the job directory.
        worker: the name of this process.
        options: options for listing the source.
        job: gets the parts.
        claim: the claim of this process on the listing. It is removed at the end.
        sharing: this process's place among the workers that share the limits for each host: `host_sharers` and
            `host_sharer`.
    """

    def __init__(
        self,
        directory: JobDirectory,
        worker: str,
        options: ListOptions,
        job: ListedJob,
        claim: str,
        sharing: dict[str, int],
    ) -> None:
        # Why the listing failed.
        self.failure: BaseException | None = None
        self._directory = directory
        self._store = directory.store
        self._worker = worker
        self._options = options
        self._to = job
        self._claim = claim
        self._sharing = sharing
        self._folder = Path()
        self._running: Job | None = None
        self._is_stopped = threading.Event()
        self._count = 0
        self._token = secrets.token_hex(8)
        self._parts = 0
        self._thread = threading.Thread(target=self._run, name="fetchmill-listing", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the listing continues."""
        return self._thread.is_alive()

    @property
    def listed(self) -> int:
        """Number of rows in the parts that this process has added."""
        return self._count

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def set_rate(self, per_second: float) -> None:
        """Limit the requests per second from now on."""
        running = self._running
        if running is not None and self._options.rate is not None:
            running.set_rate(per_second)

    def stop(self) -> None:
        """Request the end. Rows that no part has are listed again by another process."""
        self._is_stopped.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def raise_failure(self) -> None:
        """Raise the error that has ended the listing, if there is one."""
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self._folder = make_folder(default_folder("lists"), self._worker)
            self._list()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.failure = error
        finally:
            with suppress(*STORE_ERRORS):
                self._store.remove(self._claim)
            remove_folder(self._folder)

    def _list(self) -> None:
        (self._folder / "state").mkdir()
        known = self._known_rows()
        job = self._running = Job(self._core_options())
        try:
            if self._add_parts(job, known):
                self._to.end(self._totals(job))
        finally:
            job.abort()
            while not job.wait(_STEP_SECONDS):
                pass
            if known is not None:
                known.close()

    def _core_options(self) -> str:
        values = json.loads(self._options.to_json(str(self._folder / "state")))
        values["rows"]["is_manifest"] = True
        return json.dumps(values | self._sharing)

    def _known_rows(self) -> ListedRows | None:
        """Return the rows that the job has; None if it has none."""
        files = self._to.known_files()
        if not files:
            return None
        rows, lists = ListedRows(self._folder), LocalLists(self._store, self._folder)
        for file in files:
            with lists.local(file).open() as opened:
                rows.add(opened)
        return rows

    def _add_parts(self, job: Job, known: ListedRows | None) -> bool:
        """Add all rows to the job. Returns False if this process stopped, or another one lists now."""
        seconds = _PART_SECONDS
        chunks = _chunks(job, self._is_stopped)
        is_more = True
        while is_more:
            path = self._folder / f"{self._token}{self._parts:05}.{LISTED_FORMAT}"
            with path.open("xb") as file:
                is_more = _write_part(file, chunks, known, time.monotonic() + seconds)
            if self._is_stopped.is_set() or not self._add(path):
                return False
            path.unlink()
            seconds = min(2 * seconds, _PART_SECONDS_MAX)
        return True

    def _add(self, path: Path) -> bool:
        """Add a part to the job, unless it is empty. Returns False if another process lists now."""
        found = path.stat()
        local = ListFile(path=str(path), size=found.st_size, modified=found.st_mtime_ns, has_lines=True)
        ranges = tuple(first_ranges([local]))
        if not ranges:
            return True
        with path.open("rb") as file:
            count = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
        name = f"{FOLDER}/{path.name}"
        self._store.add_file(name, path)
        self._parts += 1
        if not self._to.add(Part(file=self._in_job(local, name), ranges=ranges)):
            with suppress(*STORE_ERRORS):
                self._store.remove(name)
            return False
        self._count += count
        return True

    def _in_job(self, file: ListFile, name: str) -> ListFile:
        """Return a part as the job names it."""
        place = self._store.place(name)
        if is_bucket(self._directory.text):
            return in_job_directory(file, place)
        return ListFile(path=place, size=file.size, modified=Path(place).stat().st_mtime_ns, has_lines=True)

    def _totals(self, job: Job) -> ListingTotals:
        report = job.report()
        if report["interrupted"]:
            raise FetchmillError(f"the listing of {self._options.source} was interrupted; run the same command again")
        failed_folders = report["failures"].get("listing", 0)
        return ListingTotals(skipped=dict(report["skipped_by"]), failed_folders=failed_folders)


def _chunks(job: Job, is_stopped: threading.Event) -> Iterator[bytes]:
    """Yield rows as lines of a manifest. Yields nothing after some time without rows, and until the job has ended."""
    while (lines := job.take_rows(_STEP_SECONDS)) is not None:
        if is_stopped.is_set():
            return
        yield lines
    while not job.wait(_STEP_SECONDS):
        if is_stopped.is_set():
            return
        yield b""


def _write_part(file: BinaryIO, chunks: Iterator[bytes], known: ListedRows | None, until: float) -> bool:
    """Write rows into a part until its time or size is reached. Returns whether there may be more rows."""
    size = 0
    for lines in chunks:
        new = lines if known is None else b"".join(known.new(lines.splitlines(keepends=True)))
        size += file.write(new)
        if size >= _PART_BYTES or (size and time.monotonic() >= until):
            return True
    return False


class NewJob:
    """Creates a job with the first part of its list, and adds the others.

    Args:
        directory: the job directory.
        plan: makes the record of the job from the first part.
        source: the source, for messages.
    """

    def __init__(self, directory: JobDirectory, plan: Callable[[Part], JobRecord], source: str) -> None:
        self.is_created = threading.Event()
        self._directory = directory
        self._plan = plan
        self._source = source
        self._job: OpenJob | None = None

    def add(self, part: Part) -> bool:
        """See `ListedJob`."""
        if self._job is not None:
            return self._job.add(part)
        record = self._plan(part)
        found = self._directory.create(record)
        self._job = OpenJob(self._directory, found)
        self.is_created.set()
        return found.id == record.id

    def end(self, totals: ListingTotals) -> bool:
        """See `ListedJob`.

        Raises:
            UsageError: the source has no objects.
        """
        if self._job is None:
            raise UsageError(
                f"{self._source} has no object that matches the options; inspect it with fetchmill list, and check the "
                "prefix and --include"
            )
        return self._job.end(totals)

    def known_files(self) -> tuple[ListFile, ...]:
        """See `ListedJob`."""
        return ()


class OpenJob:
    """A job that does not have its whole list yet.

    Args:
        directory: the job directory.
        job: the job, with the parts that were added to it.
    """

    def __init__(self, directory: JobDirectory, job: JobRecord) -> None:
        self._directory = directory
        self._files = job.files
        self._id = job.id
        self._lists = job.lists

    def add(self, part: Part) -> bool:
        """See `ListedJob`."""
        number = len(self._files)
        ranges = tuple(Range(file=number, start=each.start, end=each.end) for each in part.ranges)
        return self._add(self._record(files=(part.file,), ranges=ranges))

    def end(self, totals: ListingTotals) -> bool:
        """See `ListedJob`."""
        return self._add(self._record(totals=totals))

    def known_files(self) -> tuple[ListFile, ...]:
        """See `ListedJob`."""
        return self._files

    def _record(self, **values: Any) -> AddedList:  # noqa: ANN401 - fields of a record
        return AddedList(job=self._id, source=None, first_file=len(self._files), **values)

    def _add(self, record: AddedList) -> bool:
        if not self._directory.add_record(self._lists, record):
            return False
        self._lists += 1
        self._files += record.files
        return True
