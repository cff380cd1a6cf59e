"""Lists the source of a shared job in a thread, and adds the list to the job part by part.

Workers fetch the parts added so far while the listing continues. Each part is a JSON-lines manifest in the job
directory. The record that adds a part is numbered and can be created only once. If another process takes over, only the
process that adds the next part first continues, so no row is in two parts.
"""

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from fetchmill._native import Job
from fetchmill._options.list import ListOptions
from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.listed_rows import ListedRows
from fetchmill._shared.local_lists import FOLDER, LocalLists, in_job_directory
from fetchmill._shared.local_state import default_folder, make_folder, remove_folder
from fetchmill._shared.ranges import ListFile, Range, first_ranges
from fetchmill._shared.records import AddedList, JobRecord, ListingTotals
from fetchmill._shared.store import STORE_ERRORS
from fetchmill._shared.stored_options import LISTED_FORMAT
from fetchmill.errors import FetchmillError, StorageError, UsageError

# Time limit for the first part. The limit doubles with each further part, up to the maximum.
_PART_SECONDS = 2.0
_PART_SECONDS_MAX = 30.0
# Maximum size of a part in bytes. A part is copied to the job directory as a whole.
_PART_BYTES = 64 << 20
# Number of first ranges of a part. A few are enough, because more parts follow. Starting an attempt takes as long as
# fetching several thousand objects.
_PART_RANGES = 4
_STEP_SECONDS = 0.1
# Time limit for a listing to end. Its thread does not keep the process alive.
LISTING_END_SECONDS = 1.0
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the list in the job directory.

    Args:
        file: the part, with its path in the job.
        ranges: the first ranges of the part. Their file number is 0.
    """

    file: ListFile
    ranges: tuple[Range, ...]


class ListedJob(Protocol):
    """The job that receives the parts."""

    def add(self, part: Part) -> bool:
        """Add a part. Return False if another process has added a part or created the job in the meantime."""

    def end(self, totals: ListingTotals) -> bool:
        """End the list. Return False in the same cases as `add`."""

    def known_files(self) -> tuple[ListFile, ...]:
        """Return the parts added before this process began to list."""


class SourceLister:
    """See the module docstring.

    Args:
        directory: the job directory.
        worker: the name of this process.
        options: options for listing the source.
        job: receives the parts.
        claim: this process's claim on the listing, removed at the end.
        parent: the folder in which listing processes on this machine create their own folders.
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
        parent: Path,
        sharing: Mapping[str, int],
    ) -> None:
        # Error that ended the listing; None if there was none.
        self.failure: BaseException | None = None
        self._directory = directory
        self._store = directory.store
        self._worker = worker
        self._options = options
        self._to = job
        self._claim = claim
        self._parent = parent
        self._sharing = dict(sharing)
        self._folder: Path | None = None
        self._rate: float | None = None
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

    @property
    def has_rate(self) -> bool:
        """Whether the rate can change."""
        return self._options.rate is not None

    def set_rate(self, per_second: float) -> None:
        """Limit the requests per second from now on."""
        self._rate = per_second
        running = self._running
        if running is not None:
            running.set_rate(per_second)

    def stop(self) -> None:
        """Ask the listing to end. Another process will list the rows that are not in a part yet."""
        self._is_stopped.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the listing has ended. Return immediately if the listing has not started."""
        with suppress(RuntimeError):  # a signal arrived before the thread ran
            self._thread.join(seconds)

    def raise_failure(self) -> None:
        """Raise the error that ended the listing, if any."""
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self._folder = make_folder(self._parent, self._worker)
            self._list(self._folder)
        except (OSError, sqlite3.Error) as error:
            self.failure = StorageError(f"cannot store the list of {self._options.source} in {self._parent}: {error}")
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.failure = error
        finally:
            with suppress(*STORE_ERRORS):
                self._store.remove(self._claim)
            if self._folder is not None:
                remove_folder(self._folder)

    def _list(self, folder: Path) -> None:
        (folder / "state").mkdir()
        known = self._known_rows(folder)
        if self._is_stopped.is_set():
            return
        job = self._running = Job(self._core_options(folder))
        try:
            if self._rate is not None:
                job.set_rate(self._rate)
            if self._add_parts(job, folder, known):
                self._to.end(self._totals(job))
        finally:
            job.abort()
            while not job.wait(_STEP_SECONDS):
                pass
            if known is not None:
                known.close()

    def _core_options(self, folder: Path) -> str:
        values = json.loads(self._options.to_json(str(folder / "state")))
        values["rows"]["is_manifest"] = True
        return json.dumps(values | self._sharing)

    def _known_rows(self, folder: Path) -> ListedRows | None:
        """Return the rows already in the job; None if there are no parts. End early if the listing is stopped."""
        files = self._to.known_files()
        if not files:
            return None
        rows = ListedRows(folder)
        for file in files:
            lists = LocalLists(self._store, folder)
            with lists.local(file).open() as opened:
                rows.add(takewhile(lambda _line: not self._is_stopped.is_set(), opened))
            lists.keep(())
        return rows

    def _add_parts(self, job: Job, folder: Path, known: ListedRows | None) -> bool:
        """Add all rows to the job. Return False if this process was stopped or another process has taken over."""
        seconds = _PART_SECONDS
        chunks = _chunks(job, self._is_stopped)
        is_more = True
        while is_more:
            path = folder / f"{self._token}{self._parts:05}.{LISTED_FORMAT}"
            with path.open("xb") as file:
                is_more = _write_part(file, chunks, known, time.monotonic() + seconds)
            if self._is_stopped.is_set() or not self._add(path):
                return False
            path.unlink()
            seconds = min(2 * seconds, _PART_SECONDS_MAX)
        return True

    def _add(self, path: Path) -> bool:
        """Add a part to the job, unless it is empty. Return False if another process has taken over the listing."""
        found = path.stat()
        local = ListFile(path=str(path), size=found.st_size, modified=found.st_mtime_ns, has_lines=True)
        ranges = tuple(first_ranges([local], _PART_RANGES))
        if not ranges:
            return True
        with path.open("rb") as file:
            count = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
        name = f"{FOLDER}/{path.name}"
        self._store.add_file(name, path)
        self._parts += 1
        if not self._to.add(Part(file=in_job_directory(self._store, local, name), ranges=ranges)):
            with suppress(*STORE_ERRORS):
                self._store.remove(name)
            return False
        self._count += count
        return True

    def _totals(self, job: Job) -> ListingTotals:
        report = job.report()
        if report["interrupted"]:
            raise FetchmillError(f"the listing of {self._options.source} was interrupted; run the same command again")
        failed_folders = report["failures"].get("listing", 0)
        return ListingTotals(skipped=dict(report["skipped_by"]), failed_folders=failed_folders)


def lists_folder(state: object) -> Path:
    """Return the folder for listing processes on this machine.

    Args:
        state: the folder for journals; None or empty if the user chose none.
    """
    return Path(str(state)).absolute() / "lists" if state else default_folder("lists")


def _chunks(job: Job, is_stopped: threading.Event) -> Iterator[bytes]:
    """Yield rows as manifest lines until the job has ended. Yield empty bytes if no rows arrive for a while."""
    while (lines := job.take_rows(_STEP_SECONDS)) is not None:
        if is_stopped.is_set():
            return
        yield lines
    while not job.wait(_STEP_SECONDS):
        if is_stopped.is_set():
            return
        yield b""


def _write_part(file: BinaryIO, chunks: Iterator[bytes], known: ListedRows | None, until: float) -> bool:
    """Write rows into a part until its time or size limit is reached. Return whether there may be more rows."""
    size = 0
    for lines in chunks:
        new = lines if known is None else b"".join(known.new(lines.splitlines(keepends=True)))
        size += file.write(new)
        if size >= _PART_BYTES or (size and time.monotonic() >= until):
            return True
    return False


class NewJob:
    """Creates a job from the first part of its list, and adds the other parts.

    Args:
        directory: the job directory.
        plan: creates the job's record from the first part.
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
        # `found` may contain parts added by a process that has taken over. This process does not know the rows of these
        # parts.
        self._job = OpenJob(self._directory, record if found.id == record.id else found)
        self.is_created.set()
        return found.id == record.id

    def end(self, totals: ListingTotals) -> bool:
        """See `ListedJob`.

        Raises:
            UsageError: the source has no objects.
        """
        if self._job is None:
            raise UsageError(
                f"{self._source} has no object that matches the options; inspect it with fetchmill ls, and check the "
                "prefix and --include"
            )
        return self._job.end(totals)

    def known_files(self) -> tuple[ListFile, ...]:
        """See `ListedJob`."""
        return ()


class OpenJob:
    """A job whose list is still incomplete.

    Args:
        directory: the job directory.
        job: the job, including the parts added so far.
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

    def _record(self, **values: Any) -> AddedList:  # noqa: ANN401 - any field of a record
        return AddedList(job=self._id, source=None, first_file=len(self._files), **values)

    def _add(self, record: AddedList) -> bool:
        if not self._directory.add_record(self._lists, record):
            return False
        self._lists += 1
        self._files += record.files
        return True
