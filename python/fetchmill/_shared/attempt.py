"""One attempt at a range: a job of its own.

The job's journal is on this machine, its objects go to a folder of the attempt. When it is finished, the journal
follows them, and the folder is a whole destination.
"""

import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fetchmill._native import Job
from fetchmill._options.get import GetOptions
from fetchmill._shared.feeding import make_feed
from fetchmill._shared.job_directory import Claim, JobDirectory
from fetchmill._shared.ranges import Range, divide
from fetchmill._shared.records import COUNTS, NAMED_COUNTS, CommitRecord, JobRecord
from fetchmill._shared.store import STORE_ERRORS
from fetchmill.errors import FetchmillError, StorageError

# Ranges that one commit record may leave.
_PIECES_MAX = 1_000
_STEP_SECONDS = 0.01


class Attempt:
    """See the module.

    Args:
        directory: the job directory.
        job: the job.
        worker: the name of this worker.
        claim: the range, which this worker has claimed.
        options: the options of the job, with the secrets of this worker.
        local: the folder of this worker, on its machine.
    """

    def __init__(
        self,
        directory: JobDirectory,
        job: JobRecord,
        worker: str,
        claim: Claim,
        options: Mapping[str, Any],
        local: Path,
    ) -> None:
        self.claim = claim
        self.id = secrets.token_hex(8)
        self.started = time.monotonic()
        self.has_rate = options.get("rate") is not None
        self._directory = directory
        self._job = job
        self._worker = worker
        self._name = f"{claim.range.id}-{self.id}"
        self._state = local / self.id
        # Whether a commit record that names this attempt may still appear.
        self._is_in_doubt = False
        self._file = job.files[claim.range.file]
        self._feed = make_feed(self._file, claim.range, job.list_format)
        dest = directory.store.destination(self._name)
        own = {"dest": dest, "state": str(self._state), "list_format": job.list_format}
        try:
            checked = GetOptions(source=self._feed.source, **{**options, **own})
            values = json.loads(checked.to_json("list")) | dict(self._feed.options)
            self.running = Job(json.dumps(values))
        except BaseException:
            self._feed.close()
            raise

    def set_rate(self, per_second: float) -> None:
        """From now on at most so many requests a second."""
        self.running.set_rate(per_second)

    def counts(self) -> dict[str, int]:
        """What the job counted so far."""
        snapshot = self.running.snapshot()
        return {name: snapshot[name] for name in COUNTS}

    def stop(self) -> None:
        """Ends the job; what it fetched is thrown away."""
        self.running.stop()

    def feed(self, is_to_end: "Callable[[Attempt], bool]", is_ended: Callable[[], bool]) -> None:
        """Feeds the range to the job, until its end or until the caller says so.

        Args:
            is_to_end: whether the range is to end early.
            is_ended: whether the worker ends: a range that cannot end early is given up then.

        Raises:
            UsageError: the list has changed.
            StorageError: it cannot be read.
        """
        try:
            self._feed.feed(self.running, lambda: is_to_end(self), is_ended)
        except OSError as error:
            raise StorageError(f"cannot read {self._file.path}: {error.strerror or error}") from error

    def abandon(self) -> None:
        """Ends the job, and waits for that; what it fetched is not made final."""
        self.running.stop()
        while not self.running.wait(_STEP_SECONDS):
            pass
        self._feed.close()

    def finish(self, pieces: int, piece_seconds: float) -> CommitRecord | None:
        """Waits for the job and makes the range final.

        Args:
            pieces: into how many ranges the rest is divided, at least.
            piece_seconds: how long one of them takes, at the pace of this attempt, at most.

        Returns:
            The commit record that counts, which another attempt may have written. None if the job was stopped.

        Raises:
            FetchmillError: the job failed.
        """
        try:
            while not self.running.wait(_STEP_SECONDS):
                pass
            report = self._report()
            position = self._feed.position(self.running)
            if report["interrupted"] or position == self.claim.range.start:
                return None
            self._directory.store.publish(self._name, self._state)
            return self._commit(report, position, pieces, piece_seconds)
        finally:
            self._feed.close()

    def _report(self) -> dict[str, Any]:
        """What the job counted; an error names the list, and not the pipe."""
        try:
            return self.running.report()
        except FetchmillError as error:
            raise type(error)(str(error).replace(self._feed.source, self._file.path)) from error

    def _commit(self, report: Mapping[str, Any], position: int, pieces: int, piece_seconds: float) -> CommitRecord:
        whole = self.claim.range
        done = Range(file=whole.file, start=whole.start, end=position)
        seconds = time.monotonic() - self.started
        record = CommitRecord(
            job=self._job.id,
            range=done,
            rest=tuple(self._rest(position, pieces, piece_seconds, seconds)),
            attempt=self.id,
            worker=self._worker,
            ledger={name: report[name] for name in COUNTS},
            named={name: dict(report[name]) for name in NAMED_COUNTS},
            seconds=seconds,
        )
        # A worker must not write into another job that has taken the directory's place.
        self._directory.job()
        self._is_in_doubt = True
        found = self._directory.commit(record)
        self._is_in_doubt = False
        return found

    def _rest(self, position: int, pieces: int, piece_seconds: float, seconds: float) -> list[Range]:
        """The ranges that this attempt leaves."""
        whole = self.claim.range
        left = whole.end - position
        if not left:
            return []
        by_pace = (position - whole.start) / max(seconds, 0.1) * piece_seconds
        size = int(max(min(by_pace, left / pieces), left / _PIECES_MAX, 1))
        rest = Range(file=whole.file, start=position, end=whole.end)
        with self._file.open() as opened:
            return list(divide(opened, self._file, rest, size))

    def has_lost(self) -> bool:
        """Whether another attempt has made the range final."""
        return self._directory.final_attempts().get(self.claim.range.id, self.id) != self.id

    def discard(self) -> None:
        """Removes what the attempt wrote, unless a commit record names it."""
        shutil.rmtree(self._state, ignore_errors=True)
        # What stays goes when the job is finished.
        with suppress(*STORE_ERRORS):
            if not self._is_in_doubt and self._directory.final_attempts().get(self.claim.range.id) != self.id:
                self._directory.store.remove_attempt(self._name)
