"""A job directory, with files that assign ranges to workers and record final ranges.

job.json                      the definition of the job
lists/N.json                  a list that was added to the job, or a part of the source's list
list/TOKEN.FORMAT             a part of the source's list or of a list divided by host, or a copy of a whole list
claims/listing.N              the process that lists the source or divides the list
commits/RANGE.json            the commit record of a range
claims/RANGE.N                the worker that holds a range; N - 1 workers died while they held it
workers/WORKER.json           the heartbeat of a worker
logs/HOST-PID.log             the log of a worker
data/RANGE-ATTEMPT/           the objects of an attempt; the attempts in commit records are the result
stopped                       exists while the job is stopped
settings.json                 settings that `fetchmill set` has changed
finished.json                 the sum of all ledgers, written when every range has a commit record
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

from fetchmill._options.shared_parts import ATTEMPT
from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.ranges import ListFile, Range
from fetchmill._shared.records import AddedList, CommitRecord, JobRecord
from fetchmill._shared.store import Store, open_store
from fetchmill.errors import JournalError, UsageError

JOB = "job.json"
STOPPED = "stopped"
SETTINGS = "settings.json"
FINISHED = "finished.json"
# Name of the claims of processes that list the source.
LISTING = "listing"
_PROBE = "probe"
_COMMITS = "commits"
_LISTS = "lists"
# Names that may exist before `job.json`, because a process lists the source first.
_BEFORE_THE_JOB = ("list", "claims", "workers", "logs")
# A range is set aside if this many workers have died while they held it, because it probably caused their deaths.
DEATHS_MAX = 3


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A worker's claim on a range.

    Args:
        range: the range.
        name: name of the claim's file in the job directory.
    """

    range: Range
    name: str


def number_of(claim: str) -> int:
    """Return a claim's number, parsed from its name."""
    return int(claim.rpartition(".")[2])


class JobDirectory:
    """See the module docstring.

    Args:
        store: access to the files of the directory.

    Raises:
        StorageError, TemporaryError: raised by every method if the store fails.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._id: str | None = None
        # Commit records never change, so each one is read once. The ids of its range and attempt, about 200 bytes, are
        # cached.
        self._lock = threading.Lock()
        self._attempts: dict[str, str] = {}
        self._rests: list[Range] = []
        # The records of added lists, which never change either.
        self._lists: list[AddedList] = []

    @classmethod
    def at(cls, job: str | os.PathLike[str], reach: Mapping[str, Any] | None = None) -> Self:
        """Return the job directory in a folder or a bucket; see `open_store`."""
        return cls(open_store(job, reach))

    @property
    def text(self) -> str:
        """The folder or the prefix, as users write it."""
        return self.store.text

    def with_patience(self, seconds: float) -> "JobDirectory":
        """Return this job directory with a time limit. In a bucket, methods fail after about `seconds`."""
        other = JobDirectory(self.store.with_patience(seconds))
        other._id = self._id
        return other

    def exists(self) -> bool:
        """Return whether the directory contains a job."""
        return self.store.read(JOB) is not None

    def create(self, job: JobRecord) -> JobRecord:
        """Create the job and return it. If another process was faster, return that process's job.

        Raises:
            UsageError: the directory contains unrelated files, or its store lets two processes create the same file.
        """
        self.refuse_foreign()
        self._prove_creation(job.id)
        self.store.create(JOB, job.to_bytes())
        return self.job()

    def job(self) -> JobRecord:
        """Return the job, including all added lists.

        Raises:
            UsageError: the directory has no job, the job was written by another release, or another job has replaced
                it.
            SecurityError: the job belongs to another user, or a folder of the directory is a link.
            JournalError: a file of the job is damaged.
        """
        place = self.store.place(JOB)
        content = self.store.read(JOB)
        if content is None and self.claims().get(LISTING):
            raise UsageError(
                f"{self.text} has no job yet, because its source is being listed or divided; "
                "wait, or run the original command again"
            )
        if content is None:
            raise UsageError(
                f"{self.text} has no shared job; create one with fetchmill get SOURCE {self.text} --shared"
            )
        self.store.check_owner(JOB)
        job = JobRecord.from_bytes(content, place)
        if self._id not in (None, job.id):
            raise UsageError(
                f"{place} now belongs to another job: it was replaced while this process was working on it"
            )
        self._id = job.id
        return self._with_lists(job)

    def _with_lists(self, job: JobRecord) -> JobRecord:
        records: list[AddedList] = []
        files = len(job.files)
        # No list can be added after the end of the source's list.
        while not (records and records[-1].totals) and (record := self._list(len(records))) is not None:
            is_part = record.source is None
            if (record.job, record.first_file, is_part) != (job.id, files, job.listing is not None):
                place = self.store.place(_list_name(len(records)))
                raise JournalError(f"{place} does not match this job and its earlier lists; restore it from a backup")
            files += len(record.files)
            records.append(record)
        return job.with_lists(records)

    def _list(self, number: int) -> AddedList | None:
        """Return an added list's record by number, from 0; None if the list does not exist. Read each record once."""
        with self._lock:
            if number < len(self._lists):
                return self._lists[number]
        name = _list_name(number)
        content = self.store.read(name)
        if content is None:
            return None
        record = AddedList.from_bytes(content, self.store.place(name))
        with self._lock:
            if number == len(self._lists):
                self._lists.append(record)
        return record

    def add_list(
        self, source: str, files: list[ListFile], ranges: list[Range], divided: tuple[str, ...] = ()
    ) -> AddedList:
        """Add a list to the job.

        Args:
            source: the list, as the user wrote it.
            files: the files of the list.
            ranges: the first ranges of these files. Their file numbers start at 0.
            divided: paths of the list's own files, if `files` are its parts.

        Returns:
            The record of the added list.

        Raises:
            UsageError: one of the files is already in the job.
        """
        while True:
            job = self.job()
            refuse_known(self.text, job, divided or [file.path for file in files])
            first = len(job.files)
            record = AddedList(
                job=job.id,
                source=source,
                first_file=first,
                files=tuple(files),
                ranges=tuple(replace(each, file=first + each.file) for each in ranges),
                divided=divided,
            )
            # If another process was faster and added a different list, add this list after it.
            if self.add_record(job.lists, record):
                return record

    def add_record(self, number: int, record: AddedList) -> bool:
        """Add a list to the job.

        Args:
            number: number of previously added lists known to this process.
            record: the list.

        Returns:
            False, without adding anything, if another process has added a list unknown to this process.
        """
        name, content = _list_name(number), record.to_bytes()
        return self.store.create(name, content) or self.store.read(name) == content

    def refuse_foreign(self) -> None:
        """Refuse a directory with unrelated files. Files from processes creating the same job are allowed.

        Raises:
            UsageError: the directory contains unrelated files, or is not a folder.
        """
        own = (JOB, f".{JOB}.", _PROBE, f".{_PROBE}")
        names = [name for name in self.store.top() if name not in _BEFORE_THE_JOB]
        foreign = sorted(name for name in names if not name.startswith(own))
        # In the meantime, another process may have created the job and started to work on it.
        if foreign and not self.exists():
            raise UsageError(
                f"{self.text} is not empty ({foreign[0]}); a shared job needs a new or empty folder or prefix"
            )

    def _prove_creation(self, token: str) -> None:
        """Check that a file cannot be created twice. Otherwise two workers could both believe they were first."""
        name = f"{_PROBE}-{token}"
        try:
            if not self.store.create(name, b"1") or self.store.create(name, b"2"):
                raise UsageError(
                    f"{self.text} lets two processes create the same file; a shared job needs a local file system, "
                    "NFS, Lustre or GPFS, or a bucket whose store supports If-None-Match"
                )
        finally:
            self.store.remove(name)

    # Commit records.

    def commit(self, record: CommitRecord) -> CommitRecord:
        """Commit a range, unless it is already final. Return the valid commit record.

        Raises:
            JournalError: the existing record is damaged, or the new record is gone.
        """
        name = f"{_COMMITS}/{record.range.id}.json"
        self.store.create(name, record.to_bytes())
        found = self._read_commit(record.range.id)
        if found is None:
            raise JournalError(
                f"{self.store.place(name)} has disappeared, although it was just written; restore it from a backup"
            )
        return found

    def final_attempts(self) -> dict[str, str]:
        """Return the attempts in commit records, by range ID. The attempt is empty for a range that was set aside.

        Raises:
            JournalError: a commit record is damaged.
        """
        for name in self.store.names(_COMMITS):
            range_id = name.removesuffix(".json")
            if range_id not in self._attempts:
                self._read_commit(range_id)
        with self._lock:
            return dict(self._attempts)

    def commits(self) -> Iterator[CommitRecord]:
        """Yield all commit records in list order. Read each record just before yielding it.

        Raises:
            JournalError: a commit record is damaged.
        """
        for range_id in sorted(self.final_attempts()):
            record = self._read_commit(range_id)
            if record is not None:
                yield record

    def _read_commit(self, range_id: str) -> CommitRecord | None:
        name = f"{_COMMITS}/{range_id}.json"
        content = self.store.read(name)
        if content is None:
            return None
        place = self.store.place(name)
        record = CommitRecord.from_bytes(content, place)
        if record.range.id != range_id:
            raise JournalError(f"{place} belongs to another range ({record.range.id}); restore it")
        if record.job != self._id:
            raise JournalError(f"{place} belongs to another job ({record.job}); restore it")
        with self._lock:
            if range_id not in self._attempts:
                self._attempts[range_id] = record.attempt
                self._rests += record.rest
        return record

    def open_ranges(self, job: JobRecord) -> list[Range]:
        """Return the ranges without a commit record."""
        self.final_attempts()
        # Other threads change `_attempts` and `_rests` when they finish attempts.
        with self._lock:
            # Leave out ranges of lists that were added after `job` was read.
            rests = [each for each in self._rests if each.file < len(job.files)]
            return [each for each in (*job.ranges, *rests) if each.id not in self._attempts]

    def is_complete(self, job: JobRecord) -> bool:
        """Return whether the job's list is complete and every range has a commit record."""
        return job.is_listed and not self.open_ranges(job)

    # Claims.

    def claims(self) -> dict[str, dict[str, str | None]]:
        """Return the names and workers of the claims by range ID, oldest first."""
        found: dict[str, dict[str, str | None]] = {}
        for file in sorted(self.store.contents("claims"), key=lambda file: file.name):
            range_id, _, number = file.name.rpartition(".")
            if number.isdigit():
                found.setdefault(range_id, {})[file.name] = _claimant(file.content)
        return {each: {name: found[each][name] for name in sorted(found[each], key=number_of)} for each in found}

    def claim(self, range: Range, worker: str, number: int) -> Claim | None:
        """Claim a range for a worker. Return None if another worker claimed the range first."""
        name = self._create_claim(f"{range.id}.{number}", worker)
        return None if name is None else Claim(range=range, name=name)

    def claim_listing(self, worker: str, number: int) -> str | None:
        """Claim the listing of the source. Return the claim's file; None if another process was faster."""
        return self._create_claim(f"{LISTING}.{number}", worker)

    def _create_claim(self, claim: str, worker: str) -> str | None:
        created = self.store.create(f"claims/{claim}", json.dumps({"worker": worker}).encode())
        # If a reply is lost, a file that was just created can look as if it had already existed.
        return f"claims/{claim}" if created or self.claimant(claim) == worker else None

    def claimant(self, name: str) -> str | None:
        """Return the worker named in a claim; None if the claim is gone or names no worker."""
        return _claimant(self.store.read(f"claims/{name}"))

    def release(self, claim: Claim) -> None:
        """Remove the claim on a range that is final or free for other workers."""
        self.store.remove(claim.name)

    # The state of the job.

    def is_stopped(self) -> str | None:
        """Return how the job was stopped, `drain` or `now`; None if the job is not stopped."""
        content = self.store.read(STOPPED)
        if content is None:
            return None
        return "now" if content.strip() == b"now" else "drain"

    def stop(self, *, now: bool) -> None:
        """Ask all workers to end."""
        self.store.replace(STOPPED, b"now\n" if now else b"drain\n")

    def go_on(self) -> None:
        """Undo `stop`."""
        self.store.remove(STOPPED)

    def rate(self, job: JobRecord) -> float | None:
        """Return the total requests per second for all workers. `fetchmill set` overrides the job's own rate."""
        content = self.store.read(SETTINGS)
        if content is not None:
            try:
                return float(json.loads(content)["rate"])
            except (ValueError, KeyError, TypeError) as error:
                raise JournalError(f"{self.store.place(SETTINGS)} is damaged ({error}); remove it") from error
        rate = job.options.get("rate")
        return None if rate is None else float(rate)

    def set_rate(self, rate: float) -> None:
        """Change the total rate of all workers. Running workers also apply the change.

        Raises:
            UsageError: the rate is not a number above 0.
        """
        if not 0 < rate < float("inf"):
            raise UsageError(f"rate must be a number above 0, not {rate}")
        self.store.replace(SETTINGS, json.dumps({"rate": rate}).encode())

    def attempts(self) -> list[str]:
        """Return the folders of all attempts in `data`. Ignore other names."""
        return [name for name in self.store.attempts() if ATTEMPT.fullmatch(name)]


def refuse_known(text: str, job: JobRecord, paths: Iterable[str]) -> None:
    """Refuse list files that a job already has.

    Args:
        text: the job directory, for messages.
        job: the job.
        paths: the files.

    Raises:
        UsageError: one of the files is already in the job.
    """
    known = {*job.divided, *(file.path for file in job.files)}
    doubled = next((path for path in paths if path in known), None)
    if doubled is not None:
        raise UsageError(f"{text} already has the list {doubled}; add a different list")


def _list_name(number: int) -> str:
    return f"{_LISTS}/{number + 1:05}.json"


def _claimant(content: bytes | None) -> str | None:
    """Return the worker named in a claim; None if the claim is gone or names no worker."""
    try:
        values = json.loads(content or b"null")
    except ValueError:
        return None
    return values.get("worker") if isinstance(values, dict) else None
