"""An attempt at a range, run as a separate job.

The job's journal is on this machine. Its objects are stored in the attempt's folder. When the job is finished, its
journal is copied to that folder, which is then a complete destination.
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
from fetchmill._shared.progress import AttemptProgress
from fetchmill._shared.range_kinds import kind_of_ranges
from fetchmill._shared.ranges import ListFile, Range
from fetchmill._shared.records import COUNTS, NAMED_COUNTS, OUTCOMES, CommitRecord, JobRecord
from fetchmill._shared.shares import Shares
from fetchmill._shared.store import STORE_ERRORS
from fetchmill.errors import FetchmillError, StorageError

# Maximum number of remaining ranges in one commit record.
_PIECES_MAX = 1_000
_STEP_SECONDS = 0.01
# Time limit for an aborted job to end.
_ABORT_SECONDS = 1.0


class Attempt:
    """See the module docstring.

    Args:
        directory: the job directory.
        job: the job.
        worker: the name of this worker.
        claim: this worker's claim on the range.
        file: the list file that contains the range, with its local path.
        options: the job's options, including this worker's secrets.
        shares: this worker's part of the job's limits.
        local: this worker's local folder.
    """

    def __init__(
        self,
        directory: JobDirectory,
        job: JobRecord,
        worker: str,
        claim: Claim,
        file: ListFile,
        options: Mapping[str, Any],
        shares: Shares,
        local: Path,
    ) -> None:
        self.claim = claim
        self.id = secrets.token_hex(8)
        self.started = time.monotonic()
        # Workers that share the per-host limits with this attempt.
        self.known = shares.workers
        self.has_rate = options.get("rate") is not None
        # Whether the claim has been removed.
        self.is_released = False
        # Whether the attempt was ever stuck. If so, another worker may have taken the range.
        self.was_stuck = False
        # The outcomes so far.
        self.progress = AttemptProgress()
        self._directory = directory
        self._job = job
        self._worker = worker
        self._kind = kind_of_ranges(job)
        self._name = f"{claim.range.id}-{self.id}"
        self._state = local / self.id
        # Whether a commit record that names this attempt may still appear.
        self._is_in_doubt = False
        self._file = file
        self._feed = make_feed(self._file, claim.range, job.list_format)
        dest = directory.store.destination(self._name)
        own = {"dest": dest, "state": str(self._state), "list_format": job.list_format}
        # Set explicitly, because all ranges must be fetched in the same way, and other releases may use a different
        # default.
        by_name = {"cdxj": False}
        try:
            checked = GetOptions(source=self._feed.source, **{**by_name, **options, **own})
            of_core = {"host_sharers": shares.host_sharers, "host_sharer": shares.rank, **self._feed.options}
            values = json.loads(checked.to_json("list")) | of_core
            self.running = Job(json.dumps(values))
        except BaseException:
            self._feed.close()
            raise

    def set_rate(self, per_second: float) -> None:
        """Limit the requests per second from now on."""
        self.running.set_rate(per_second)

    def set_pace(self, per_second: float) -> None:
        """Set the requests per second for a throttling origin."""
        self.running.set_pace(per_second)

    def pace(self) -> float | None:
        """Return the requests per second to a throttling origin; None if the origin does not throttle."""
        pace = self.running.snapshot()["pace"]
        return None if pace is None else float(pace)

    def counts(self) -> dict[str, int]:
        """Return the counts of the job so far."""
        snapshot = self.running.snapshot()
        return {name: snapshot[name] for name in COUNTS}

    def settled(self) -> int:
        """Return the number of targets with an outcome."""
        counts = self.counts()
        return sum(counts[name] for name in OUTCOMES)

    def note_progress(self) -> int:
        """Record the outcomes so far. Return the number of listed targets without an outcome."""
        counts = self.counts()
        settled = sum(counts[name] for name in OUTCOMES)
        self.progress.note(settled)
        return counts["listed"] - settled

    def is_stuck(self) -> bool:
        """Return whether outcomes arrive much more slowly than before, although the origin does not throttle."""
        return self.note_progress() > 0 and self.progress.is_stuck() and self.pace() is None

    def stop(self) -> None:
        """End the job. Its objects are discarded."""
        self.running.stop()

    def abort(self) -> None:
        """End the job and close its connections."""
        self.running.abort()

    def wait_aborted(self) -> None:
        """Wait briefly for the aborted job to end."""
        self.running.wait(_ABORT_SECONDS)

    def feed(self, is_to_end: "Callable[[Attempt], bool]", is_ended: Callable[[], bool]) -> None:
        """Feed the range to the job until the range ends or the caller stops the feed.

        Args:
            is_to_end: returns whether the range must end early.
            is_ended: returns whether the worker is ending. A range that cannot end early is then abandoned.

        Raises:
            UsageError: the list has changed.
            StorageError: the list cannot be read.
        """
        try:
            self._feed.feed(self.running, lambda: is_to_end(self), is_ended)
        except OSError as error:
            raise StorageError(f"cannot read {self._file.path}: {error.strerror or error}") from error

    def abandon(self) -> None:
        """Stop the job and wait until it has ended. Its objects do not become final."""
        self.running.stop()
        while not self.running.wait(_STEP_SECONDS):
            pass
        self._feed.close()

    def finish(self, pieces: int, piece_seconds: float) -> CommitRecord | None:
        """Wait for the job and make the range final.

        Args:
            pieces: minimum number of ranges into which the unfetched rest of the range is divided.
            piece_seconds: maximum duration of each of these ranges in seconds, at this attempt's pace.

        Returns:
            The valid commit record, possibly from another attempt; None if the job was stopped.

        Raises:
            FetchmillError: the job failed.
        """
        try:
            while not self.running.wait(_STEP_SECONDS):
                self.note_progress()
            report = self._report()
            position = self._feed.position(self.running)
            if report["interrupted"] or position == self.claim.range.start:
                return None
            self._directory.store.publish(self._name, self._state)
            return self._commit(report, position, pieces, piece_seconds)
        finally:
            self._feed.close()

    def _report(self) -> dict[str, Any]:
        """Return the report of the job. Errors name the list instead of the pipe."""
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
        # Do not write into the directory if another job has replaced it.
        self._directory.job()
        self._is_in_doubt = True
        found = self._directory.commit(record)
        self._is_in_doubt = False
        return found

    def _rest(self, position: int, pieces: int, piece_seconds: float, seconds: float) -> list[Range]:
        """Return the ranges left to other attempts."""
        whole = self.claim.range
        left = whole.end - position
        if not left:
            return []
        by_pace = (position - whole.start) / max(seconds, 0.1) * piece_seconds
        size = int(max(min(by_pace, left / pieces), left / _PIECES_MAX, 1))
        rest = Range(file=whole.file, start=position, end=whole.end)
        return self._kind.rest(self._file, rest, size)

    def has_lost(self) -> bool:
        """Return whether another attempt has made the range final."""
        return self._directory.final_attempts().get(self.claim.range.id, self.id) != self.id

    def discard(self) -> None:
        """Remove the attempt's objects, unless a commit record names the attempt."""
        shutil.rmtree(self._state, ignore_errors=True)
        # Files that remain are removed when the job is finished.
        with suppress(*STORE_ERRORS):
            if not self._is_in_doubt and self._directory.final_attempts().get(self.claim.range.id) != self.id:
                self._directory.store.remove_attempt(self._name)
