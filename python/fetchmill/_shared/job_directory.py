"""A job directory: the files by which workers on any machines agree who fetches what, and what is final.

job.json                      what the job is asked to do
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
from collections.abc import Iterator
from pathlib import Path

from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.folder_store import FolderStore
from fetchmill._shared.ranges import Range
from fetchmill._shared.records import CommitRecord, JobRecord
from fetchmill.errors import JournalError, SecurityError, UsageError

JOB = "job.json"
STOPPED = "stopped"
SETTINGS = "settings.json"
FINISHED = "finished.json"
# The claims of processes that make the list of a source.
LISTING = "listing"
_PROBE = "probe"
_COMMITS = "commits"
_ATTEMPT = re.compile(r"[0-9]{5}-[0-9]{14}-[0-9a-f]{16}")
# What is there before the job, where a process lists its source.
_BEFORE_THE_JOB = ("list.json", "list", "claims", "workers", "logs")
_FOLDERS = (_COMMITS, "claims", "workers", "logs", "data")
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
        path: the folder.

    Raises:
        StorageError: of each method, when the file system fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = FolderStore(path)
        self._id: str | None = None
        # Commit records never change, so each is read once. Its id and its attempt stay in memory: 200 bytes.
        self._lock = threading.Lock()
        self._attempts: dict[str, str] = {}
        self._rests: list[Range] = []

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
        """The job.

        Raises:
            UsageError: there is none, or it is of another release.
            SecurityError: it is of another user.
            JournalError: it is damaged.
        """
        place = self.path / JOB
        content = self.store.read(JOB)
        if content is None and self.claims().get(LISTING):
            raise UsageError(
                f"{self.path} has no job yet: its source is being listed; wait, or run the command again that began it"
            )
        if content is None:
            raise UsageError(
                f"{self.path} has no shared job; create one with fetchmill get SOURCE {self.path} --shared"
            )
        owner = self.store.owner(JOB)
        if owner != os.geteuid():
            raise SecurityError(
                f"{place} belongs to user {owner}, and this is user {os.geteuid()}; run all workers as its owner"
            )
        for name in _FOLDERS:
            if (self.path / name).is_symlink():
                raise SecurityError(f"{self.path / name} is a link, and may lead out of the job directory: remove it")
        job = JobRecord.from_bytes(content, str(place))
        if self._id not in (None, job.id):
            raise UsageError(f"{place} is of another job now: it was replaced while this process worked at it")
        self._id = job.id
        return job

    def refuse_foreign(self) -> None:
        """What is in the folder must be of processes that create the same job now.

        Raises:
            UsageError: it has something else, or is no folder.
        """
        try:
            names = os.listdir(self.path)  # noqa: PTH208 - names only
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{self.path} is no folder ({error.strerror}); a shared job needs one") from error
        own = (JOB, f".{JOB}.", _PROBE, f".{_PROBE}", ".list.json.")
        foreign = sorted(name for name in names if not name.startswith(own) and name not in _BEFORE_THE_JOB)
        # Another process may have created the job since, and work at it.
        if foreign and not self.exists():
            raise UsageError(f"{self.path} is not empty ({foreign[0]}); a shared job needs an empty or missing folder")

    def _prove_creation(self, token: str) -> None:
        """Two creations of one file: the second must fail, or two workers could both believe that they were first."""
        name = f"{_PROBE}-{token}"
        try:
            if not self.store.create(name, b"1") or self.store.create(name, b"2"):
                raise UsageError(
                    f"{self.path}: the file system lets two processes create the same file; a shared job needs a local "
                    "file system, NFS, Lustre or GPFS"
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
            raise JournalError(f"{self.path / name} is gone, though it was just written; restore it from a backup")
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
        record = CommitRecord.from_bytes(content, str(self.path / name))
        if record.range.id != range_id:
            raise JournalError(f"{self.path / name} is of another range ({record.range.id}); restore it")
        if record.job != self._id:
            raise JournalError(f"{self.path / name} is of another job ({record.job}); restore it")
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
            return [each for each in (*job.ranges, *self._rests) if each.id not in self._attempts]

    # Claims.

    def claims(self) -> dict[str, list[str]]:
        """The names of the claims on each range, the oldest first."""
        found: dict[str, list[str]] = {}
        for name in self.store.names("claims"):
            range_id, _, number = name.rpartition(".")
            if number.isdigit():
                found.setdefault(range_id, []).append(name)
        return {range_id: sorted(names, key=number_of) for range_id, names in found.items()}

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
        content = self.store.read(f"claims/{name}")
        try:
            values = json.loads(content or b"null")
        except ValueError:
            return None
        return values.get("worker") if isinstance(values, dict) else None

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
                raise JournalError(f"{self.path / SETTINGS} is damaged ({error}); remove it") from error
        rate = job.options.get("rate")
        return None if rate is None else float(rate)

    def set_rate(self, rate: float) -> None:
        """Changes it, also while workers run."""
        self.store.replace(SETTINGS, json.dumps({"rate": rate}).encode())

    def attempts(self) -> Iterator[Path]:
        """The folders of all attempts, and nothing else that somebody may have put there."""
        for name in self.store.names("data"):
            if _ATTEMPT.fullmatch(name):
                yield self.path / "data" / name
