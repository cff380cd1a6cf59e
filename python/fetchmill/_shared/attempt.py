"""One attempt at a range: a job of its own, whose list is fed through a pipe.

The pipe makes the range elastic. To stop early the worker stops feeding: the job fetches what it was given and is
finished, and what it was not given is the rest. The job's journal is on this machine, its objects go to a folder of the
attempt. When it is finished, the journal follows them, and the folder is a whole destination.
"""

import fcntl
import os
import secrets
import select
import shutil
import struct
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from fetchmill._native import Job
from fetchmill._options.get import GetOptions
from fetchmill._shared.folder_store import sync_folder, sync_tree
from fetchmill._shared.job_directory import Claim, JobDirectory
from fetchmill._shared.ranges import BLOCK, LINE_MAX, Range, divide
from fetchmill._shared.records import COUNTS, NAMED_COUNTS, CommitRecord, JobRecord
from fetchmill.errors import FetchmillError, StorageError, UsageError

# Targets that are fed ahead of those with an outcome: as many as come in this time, twice what may be in flight, and at
# least so many. What is ahead must be fetched before a range can end early.
_AHEAD_SECONDS = 1.5
_AHEAD_MIN = 200
# Bytes that are fed at once: what is used in this time, at least so many.
_BLOCK_SECONDS = 1.0
_BLOCK_MIN = 8 << 10
# Ranges that one commit record may leave.
_PIECES_MAX = 1_000
_PIPE_BYTES = 1 << 20
_STEP_SECONDS = 0.01
# Lines that were not listed after this time are no targets.
_LISTED_SECONDS = 0.1
# How often the job is looked at while it is fed.
_LOOK_SECONDS = 0.2
# More blanks than a JSON array may have before it: a line that begins with `[` is no array of the whole list.
_NO_ARRAY = b"\n" * 4097
# What a journal needs only while its job runs.
_LEFT_BEHIND = ("lock", "token")


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
        self._folder = directory.path / "data" / f"{claim.range.id}-{self.id}"
        self._state = local / self.id
        self._position = claim.range.start
        self._listed = -1
        self._fed_at = 0.0
        self._input, self._output = os.pipe()
        with suppress(OSError):  # the kernel's default serves as well
            fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(self._output, False)
        own = {"dest": str(self._folder), "state": str(self._state), "list_format": job.list_format}
        checked = GetOptions(source=f"/dev/fd/{self._input}", **{**options, **own})
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self.running = Job(checked.to_json("list"))
        except BaseException:
            self._close()
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

    def feed(self, is_to_end: "Callable[[Attempt], bool]") -> None:
        """Feeds the range to the job, until its end or until the caller says so.

        Raises:
            UsageError: the list has changed.
        """
        file = self._job.files[self.claim.range.file]
        try:
            with file.open() as opened:
                if not file.has_lines:
                    self._feed_file(opened)
                elif self._write(_NO_ARRAY if self._job.list_format == "jsonl" else opened.read(file.header)):
                    self._feed_lines(opened, is_to_end)
                file.check(opened)
        finally:
            os.close(self._output)
            self._output = -1

    def _feed_lines(self, file: BinaryIO, is_to_end: "Callable[[Attempt], bool]") -> None:
        end, rest = self.claim.range.end, b""
        file.seek(self._position)
        while self._position < end and self._wait_for_room(is_to_end):
            block = rest + file.read(min(self._block_bytes(), end - self._position - len(rest)))
            is_last = self._position + len(block) >= end
            count = len(block) if is_last else block.rfind(b"\n") + 1
            if not count and len(block) >= LINE_MAX:
                raise UsageError(f"{file.name} has a line of more than {LINE_MAX >> 20} MiB: no URL is so long")
            if count and not self._write(block[:count]):
                return
            self._fed_at = time.monotonic()
            self._position += count
            rest = block[count:]

    def _feed_file(self, file: BinaryIO) -> None:
        """A file that cannot be divided: all of it, as fast as the job takes it."""
        file.seek(0)
        while (block := file.read(BLOCK)) and self._write(block):
            pass
        self._position = self.claim.range.end

    def _block_bytes(self) -> int:
        used = self._position - self.claim.range.start
        pace = used / max(time.monotonic() - self.started, 0.1)
        return min(max(int(pace * _BLOCK_SECONDS), _BLOCK_MIN), BLOCK)

    def _wait_for_room(self, is_to_end: "Callable[[Attempt], bool]") -> bool:
        """Waits until few enough targets have no outcome; whether to go on."""
        while not is_to_end(self):
            if self._has_room():
                return True
            if self.running.wait(_STEP_SECONDS):
                return False
        return False

    def _has_room(self) -> bool:
        snapshot = self.running.snapshot()
        settled = sum(snapshot[name] for name in ("fetched", "absent", "failed", "skipped"))
        rate = settled / max(time.monotonic() - self.started, 0.1)
        ahead = max(_AHEAD_MIN, 2 * snapshot["concurrency"], int(rate * _AHEAD_SECONDS))
        # What was fed last is listed a moment later. Lines that are no targets never are.
        is_listed = snapshot["listed"] > self._listed or time.monotonic() - self._fed_at > _LISTED_SECONDS
        if not is_listed or snapshot["listed"] - settled >= ahead or self._unread_bytes():
            return False
        self._listed = snapshot["listed"]
        return True

    def _unread_bytes(self) -> int:
        """Bytes in the pipe."""
        (count,) = struct.unpack("i", fcntl.ioctl(self._input, termios.FIONREAD, bytes(4)))
        return int(count)

    def _write(self, content: bytes) -> bool:
        """Writes into the pipe; false if the job has ended."""
        view = memoryview(content)
        while view:
            try:
                view = view[os.write(self._output, view) :]
            except BlockingIOError:
                select.select((), (self._output,), (), _LOOK_SECONDS)
                if self.running.wait(0.0):
                    return False
        return True

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
            if report["interrupted"] or self._position == self.claim.range.start:
                return None
            self._publish()
            return self._commit(report, pieces, piece_seconds)
        finally:
            self._close()

    def _report(self) -> dict[str, Any]:
        """What the job counted; an error names the list, and not the pipe."""
        try:
            return self.running.report()
        except FetchmillError as error:
            path = self._job.files[self.claim.range.file].path
            raise type(error)(str(error).replace(f"/dev/fd/{self._input}", path)) from error

    def _publish(self) -> None:
        """Moves the journal to the objects, and makes all of it durable."""
        hidden = self._folder / ".fetchmill"
        try:
            for name in ("state", "state-token"):
                (hidden / name).unlink(missing_ok=True)
            for entry in self._state.iterdir():
                if entry.name not in _LEFT_BEHIND:
                    copy = shutil.copytree if entry.is_dir() else shutil.copyfile
                    copy(entry, hidden / entry.name)
            sync_tree(hidden)
            sync_folder(self._folder)
            sync_folder(self._folder.parent)
        except OSError as error:
            raise StorageError(f"cannot write {hidden}: {error}") from error

    def _commit(self, report: Mapping[str, Any], pieces: int, piece_seconds: float) -> CommitRecord:
        whole = self.claim.range
        done = Range(file=whole.file, start=whole.start, end=self._position)
        seconds = time.monotonic() - self.started
        record = CommitRecord(
            job=self._job.id,
            range=done,
            rest=tuple(self._rest(pieces, piece_seconds, seconds)),
            attempt=self.id,
            worker=self._worker,
            ledger={name: report[name] for name in COUNTS},
            named={name: dict(report[name]) for name in NAMED_COUNTS},
            seconds=seconds,
        )
        # A worker must not write into another job that has taken the directory's place.
        self._directory.job()
        return self._directory.commit(record)

    def _rest(self, pieces: int, piece_seconds: float, seconds: float) -> list[Range]:
        """The ranges that this attempt leaves."""
        whole = self.claim.range
        left = whole.end - self._position
        if not left:
            return []
        by_pace = (self._position - whole.start) / max(seconds, 0.1) * piece_seconds
        size = int(max(min(by_pace, left / pieces), 1))
        rest = Range(file=whole.file, start=self._position, end=whole.end)
        with self._job.files[whole.file].open() as opened:
            return list(divide(opened, rest, max(size, left // _PIECES_MAX)))

    def _close(self) -> None:
        for descriptor in (self._input, self._output):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self._input = self._output = -1

    def discard(self) -> None:
        """Removes what the attempt wrote, unless a commit record names it."""
        record = self._directory.commits().get(self.claim.range.id)
        if record is None or record.attempt != self.id:
            shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(self._state, ignore_errors=True)
