"""A job directory: the files by which workers on any machines agree who fetches what, and what is final.

job.json                      what the job is asked to do
lists/N.json                  a list that was added to it
commits/RANGE.json            the commit record of a range
claims/RANGE.N                who works at a range; N counts the workers that died at it
workers/WORKER.json           the heartbeat of a worker
logs/HOST-PID.log             what a worker wrote
data/RANGE-ATTEMPT/           the objects of an attempt; those of commit records are the result
stopped                       there while the job is stopped
settings.json                 what `fetchmill set` has changed
finished.json                 the sum of all ledgers, when every range has a commit record
"""

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.ranges import ListFile, Range
from fetchmill._shared.records import AddedList, CommitRecord, JobRecord
from fetchmill._shared.store import Store, open_store
from fetchmill.errors import JournalError, UsageError

JOB = "job.json"
STOPPED = "stopped"
SETTINGS = "settings.json"
FINISHED = "finished.json"
# The claims of processes that make the list of a source.
LISTING = "listing"
_PROBE = "probe"
_COMMITS = "commits"
_LISTS = "lists"
_ATTEMPT = re.compile(r"[0-9]{5}-[0-9]{14}-[0-9a-f]{16}")
# What is there before the job, where a process lists its source.
_BEFORE_THE_JOB = ("list.json", "list", "claims", "workers", "logs")
# A range whose workers died so often is set aside: it is what kills them.
DEATHS_MAX = 3


@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a worker has a range.

    Args:
        range: the range.
        name: the file of the claim.
    """

    range: Range
    name: str


def number_of(claim: str) -> int:
    """The number of a claim."""
    return int(claim.rpartition(".")[2])


class JobDirectory:
    """See the module.

    Args:
        store: its files.

    Raises:
        StorageError, TemporaryError: of each method, when the store fails.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._id: str | None = None
        # Commit records never change, so each is read once. Its id and its attempt stay in memory: 200 bytes.
        self._lock = threading.Lock()
        self._attempts: dict[str, str] = {}
        self._rests: list[Range] = []
        # Nor do the records of added lists change.
        self._lists: list[AddedList] = []

    @classmethod
    def at(cls, job: str | os.PathLike[str], reach: Mapping[str, Any] | None = None) -> Self:
        """The job directory of a folder or a bucket; see `open_store`."""
        return cls(open_store(job, reach))

    @property
    def text(self) -> str:
        """The folder or the prefix, as users write it."""
        return self.store.text

    def with_patience(self, seconds: float) -> "JobDirectory":
        """The same job directory, whose methods fail after about this time where the store is a bucket."""
        other = JobDirectory(self.store.with_patience(seconds))
        other._id = self._id
        return other

    def exists(self) -> bool:
        """Whether there is a job."""
        return self.store.read(JOB) is not None

    def create(self, job: JobRecord) -> JobRecord:
        """Creates the job, unless another process was faster; gives the one that is there.

        Raises:
            UsageError: the folder has something else, or its file system cannot tell who was first.
        """
        self.refuse_foreign()
        self._prove_creation(job.id)
        self.store.create(JOB, job.to_bytes())
        return self.job()

    def job(self) -> JobRecord:
        """The job, with all lists that were added to it.

        Raises:
            UsageError: there is none, or it is of another release.
            SecurityError: it is of another user.
            JournalError: it is damaged.
        """
        place = self.store.place(JOB)
        content = self.store.read(JOB)
        if content is None and self.claims().get(LISTING):
            raise UsageError(
                f"{self.text} has no job yet: its source is being listed; wait, or run the command again that began it"
            )
        if content is None:
            raise UsageError(
                f"{self.text} has no shared job; create one with fetchmill get SOURCE {self.text} --shared"
            )
        self.store.check_owner(JOB)
        job = JobRecord.from_bytes(content, place)
        if self._id not in (None, job.id):
            raise UsageError(f"{place} is of another job now: it was replaced while this process worked at it")
        self._id = job.id
        return self._with_lists(job)

    def _with_lists(self, job: JobRecord) -> JobRecord:
        number = 0
        while (record := self._list(number)) is not None:
            if (record.job, record.first_file) != (job.id, len(job.files)):
                place = self.store.place(_list_name(number))
                raise JournalError(f"{place} does not belong to this job or its other lists; restore it from a backup")
            job = job.with_list(record)
            number += 1
        return job

    def _list(self, number: int) -> AddedList | None:
        """Returns the record of an added list by its number from 0; None if it does not exist. Each is read once."""
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

    def add_list(self, source: str, files: list[ListFile], ranges: list[Range]) -> AddedList:
        """Adds a list to the job.

        Args:
            source: the list, as the user wrote it.
            files: its files.
            ranges: the ranges that they begin with; their files are numbered from 0.

        Returns:
            Its record.

        Raises:
            UsageError: the job has one of the files already.
        """
        while True:
            job = self.job()
            known = {file.path for file in job.files}
            doubled = [file.path for file in files if file.path in known]
            if doubled:
                raise UsageError(f"{self.text} already has the list {doubled[0]}; add another list")
            first = len(job.files)
            record = AddedList(
                job=job.id,
                source=source,
                first_file=first,
                files=tuple(files),
                ranges=tuple(replace(each, file=first + each.file) for each in ranges),
            )
            name = _list_name(len(job.added))
            # If another process was faster with another list, this one comes after it.
            if self.store.create(name, record.to_bytes()) or self.store.read(name) == record.to_bytes():
                return record

    def refuse_foreign(self) -> None:
        """What is in the folder must be of processes that create the same job now.

        Raises:
            UsageError: it has something else, or is not a folder.
        """
        own = (JOB, f".{JOB}.", _PROBE, f".{_PROBE}", ".list.json.")
        names = [name for name in self.store.top() if name not in _BEFORE_THE_JOB]
        foreign = sorted(name for name in names if not name.startswith(own))
        # Another process may have created the job since, and work at it.
        if foreign and not self.exists():
            raise UsageError(
                f"{self.text} is not empty ({foreign[0]}); a shared job needs an empty or missing folder or prefix"
            )

    def _prove_creation(self, token: str) -> None:
        """Two creations of one file: the second must fail, or two workers could both believe that they were first."""
        name = f"{_PROBE}-{token}"
        try:
            if not self.store.create(name, b"1") or self.store.create(name, b"2"):
                raise UsageError(
                    f"{self.text} lets two processes create the same file; a shared job needs a local file system, "
                    "NFS, Lustre or GPFS, or a bucket whose store obeys If-None-Match"
                )
        finally:
            self.store.remove(name)

    # Commit records.

    def commit(self, record: CommitRecord) -> CommitRecord:
        """Makes a range final, unless it is final already; gives the record that counts.

        Raises:
            JournalError: the record that is there is damaged.
        """
        name = f"{_COMMITS}/{record.range.id}.json"
        self.store.create(name, record.to_bytes())
        found = self._read_commit(record.range.id)
        if found is None:
            raise JournalError(
                f"{self.store.place(name)} is gone, though it was just written; restore it from a backup"
            )
        return found

    def final_attempts(self) -> dict[str, str]:
        """The attempts that commit records name, by the ids of their ranges; empty for a range that is set aside.

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
        """All commit records, in the order of the list; each is read when it is its turn.

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
            raise JournalError(f"{place} is of another range ({record.range.id}); restore it")
        if record.job != self._id:
            raise JournalError(f"{place} is of another job ({record.job}); restore it")
        with self._lock:
            if range_id not in self._attempts:
                self._attempts[range_id] = record.attempt
                self._rests += record.rest
        return record

    def open_ranges(self, job: JobRecord) -> list[Range]:
        """The ranges without a commit record."""
        self.final_attempts()
        # Threads that finish attempts add to both.
        with self._lock:
            # The rest of a list that was added after `job` was read is left out.
            rests = [each for each in self._rests if each.file < len(job.files)]
            return [each for each in (*job.ranges, *rests) if each.id not in self._attempts]

    # Claims.

    def claims(self) -> dict[str, dict[str, str | None]]:
        """The claims on each range, the oldest first: their names, and the worker that each names."""
        found: dict[str, dict[str, str | None]] = {}
        for file in sorted(self.store.contents("claims"), key=lambda file: file.name):
            range_id, _, number = file.name.rpartition(".")
            if number.isdigit():
                found.setdefault(range_id, {})[file.name] = _claimant(file.content)
        return {each: {name: found[each][name] for name in sorted(found[each], key=number_of)} for each in found}

    def claim(self, range: Range, worker: str, number: int) -> Claim | None:
        """Claims a range for a worker; None if another one was faster."""
        name = self._create_claim(f"{range.id}.{number}", worker)
        return None if name is None else Claim(range=range, name=name)

    def claim_listing(self, worker: str, number: int) -> str | None:
        """Claims the list of the source for a process; gives the file of the claim, None if another one was faster."""
        return self._create_claim(f"{LISTING}.{number}", worker)

    def _create_claim(self, claim: str, worker: str) -> str | None:
        created = self.store.create(f"claims/{claim}", json.dumps({"worker": worker}).encode())
        # A reply that was lost can make a success look like a name that exists.
        return f"claims/{claim}" if created or self.claimant(claim) == worker else None

    def claimant(self, name: str) -> str | None:
        """The worker that a claim names; None if the claim is gone, or says nothing."""
        return _claimant(self.store.read(f"claims/{name}"))

    def release(self, claim: Claim) -> None:
        """Gives a range back, or says that it is final."""
        self.store.remove(claim.name)

    # The state of the job.

    def is_stopped(self) -> str | None:
        """How the job is stopped: `drain` or `now`; None if it is not."""
        content = self.store.read(STOPPED)
        if content is None:
            return None
        return "now" if content.strip() == b"now" else "drain"

    def stop(self, *, now: bool) -> None:
        """Has all workers end."""
        self.store.replace(STOPPED, b"now\n" if now else b"drain\n")

    def go_on(self) -> None:
        """Takes `stop` back."""
        self.store.remove(STOPPED)

    def rate(self, job: JobRecord) -> float | None:
        """Requests a second of all workers together: as `set` says, else as the job began."""
        content = self.store.read(SETTINGS)
        if content is not None:
            try:
                return float(json.loads(content)["rate"])
            except (ValueError, KeyError, TypeError) as error:
                raise JournalError(f"{self.store.place(SETTINGS)} is damaged ({error}); remove it") from error
        rate = job.options.get("rate")
        return None if rate is None else float(rate)

    def set_rate(self, rate: float) -> None:
        """Changes it, also while workers run."""
        self.store.replace(SETTINGS, json.dumps({"rate": rate}).encode())

    def attempts(self) -> list[str]:
        """The folders of all attempts below `data`, and nothing else that somebody may have put there."""
        return [name for name in self.store.attempts() if _ATTEMPT.fullmatch(name)]


def _list_name(number: int) -> str:
    return f"{_LISTS}/{number + 1:05}.json"


def _claimant(content: bytes | None) -> str | None:
    """The worker that a claim names; None if the claim is gone, or says nothing."""
    try:
        values = json.loads(content or b"null")
    except ValueError:
        return None
    return values.get("worker") if isinstance(values, dict) else None
