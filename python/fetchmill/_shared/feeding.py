"""Feeds an attempt's list to its job in small steps, so that the attempt can end early.

To stop early, a worker stops feeding. The job then finishes its current targets, and the unfed part remains for other
workers. Lines go through a pipe. For Parquet, the job reads rows itself, up to a limit that the worker raises step by
step.
"""

import fcntl
import os
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

from fetchmill._native import Job
from fetchmill._shared.ranges import BLOCK, LINE_MAX, ListFile, Range
from fetchmill._shared.records import OUTCOMES
from fetchmill.errors import UsageError

# Maximum number of fed targets without an outcome: the number requested in this time, twice the maximum in flight, or
# this minimum, whichever is largest. These targets must be fetched before a range can end early.
_AHEAD_SECONDS = 1.5
_AHEAD_MIN = 32
# If most targets so far were skipped, more targets are fed at a time than there is room for. This limits the number of
# extra targets, because all of the next targets may be requested.
_SKIPPED_MAX = 1_000
# Bytes fed at a time: the number used in this time, limited by the targets that may be listed, but at least this
# minimum.
_BLOCK_SECONDS = 1.0
_BLOCK_MIN = 2 << 10
_PIPE_BYTES = 1 << 20
_STEP_SECONDS = 0.01
# If a job without open targets lists nothing for this long, the lines it has read are not targets.
_LISTED_SECONDS = 0.1
# Poll interval for the job while its pipe is full.
_LOOK_SECONDS = 0.2
# More blank lines than may precede a JSON array, so that a line starting with `[` is not read as an array.
NO_ARRAY = b"\n" * 4097
_MARK = b"\xef\xbb\xbf"


class Feed(Protocol):
    """Feeds a range to a job."""

    # The source that the job reads.
    source: str
    # Core options that `get` does not have.
    options: Mapping[str, Any]

    def feed(self, job: Job, is_to_end: Callable[[], bool], is_ended: Callable[[], bool]) -> None:
        """Feed the range until its end, or until the caller stops the feed.

        Args:
            job: the job.
            is_to_end: returns whether the range must end early.
            is_ended: returns whether the worker is ending. A range that cannot end early is then abandoned.

        Raises:
            UsageError: the list has changed.
            OSError: the list cannot be read.
        """

    def position(self, job: Job) -> int:
        """Return the end of the fed part. The job must have ended."""

    def close(self) -> None:
        """Close the file descriptors."""


def make_feed(file: ListFile, range: Range, list_format: str) -> Feed:
    """Return the feed for a range."""
    if file.rows is not None:
        return RowFeed(file, range)
    return PipeFeed(file, range, list_format) if file.inventory is None else FileFeed(file, range)


class _Ahead:
    """A limit on fed targets without an outcome. It grows with the pace, which does not include skipped targets."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds since the feed started, at least 0.1."""
        return max(time.monotonic() - self.started, 0.1)

    def room(self, snapshot: Mapping[str, Any]) -> int:
        """Return how many more targets may be listed now; 0 or less if none."""
        settled = sum(snapshot[name] for name in OUTCOMES)
        requested = settled - snapshot["skipped"]
        most = max(_AHEAD_MIN, 2 * snapshot["concurrency"], int(requested / self.seconds() * _AHEAD_SECONDS))
        return int(most - (snapshot["listed"] - settled))

    def targets(self, snapshot: Mapping[str, Any]) -> int:
        """Return how many more targets may be listed now, including those that will be skipped."""
        room = self.room(snapshot)
        if room <= 0:
            return 0
        listed = snapshot["listed"]
        requested_share = (listed - snapshot["skipped"] + 1) / (listed + 1)
        return max(room, min(int(room / requested_share), _SKIPPED_MAX))


class PipeFeed:
    """Feeds bytes of a file through a pipe."""

    def __init__(self, file: ListFile, range: Range, list_format: str) -> None:
        self._file, self._range, self._list_format = file, range, list_format
        self._input, self._output = os.pipe()
        with suppress(OSError):  # the default size also works
            fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(self._output, False)
        self.source = f"/dev/fd/{self._input}"
        self.options: Mapping[str, Any] = {"is_range": True}
        self._position = range.start
        self._ahead = _Ahead()
        # The number of bytes written, the number of lines written, and the number of bytes that the job has read but
        # not counted in `list_read`.
        self._bytes = self._lines = self._uncounted = 0
        self._fed_at = 0.0

    def feed(self, job: Job, is_to_end: Callable[[], bool], is_ended: Callable[[], bool]) -> None:
        """See `Feed`."""
        self._ahead = _Ahead()
        try:
            with self._file.open() as opened:
                if not self._file.has_lines:
                    self._feed_file(job, opened, is_ended)
                elif self._begin(job, NO_ARRAY if self._list_format == "jsonl" else opened.read(self._file.header)):
                    self._feed_lines(job, opened, is_to_end, is_ended)
                self._file.check(opened)
        finally:
            os.close(self._output)
            self._output = -1

    def position(self, job: Job) -> int:
        """See `Feed`."""
        del job
        return self._position

    def close(self) -> None:
        """See `Feed`."""
        for descriptor in (self._input, self._output):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self._input = self._output = -1

    def _feed_lines(
        self, job: Job, file: BinaryIO, is_to_end: Callable[[], bool], is_ended: Callable[[], bool]
    ) -> None:
        end, rest = self._range.end, b""
        file.seek(self._position)
        if self._position == 0 and self._list_format == "jsonl":
            # Skip a byte order mark. The job expects this mark only at the start, and `NO_ARRAY` has been fed first.
            self._position = len(_MARK) if file.read(len(_MARK)) == _MARK else 0
            file.seek(self._position)
        while self._position < end:
            # Feed something before ending early, because an attempt that feeds nothing is repeated, perhaps forever.
            has_begun = self._position > self._range.start
            if not self._wait_for_room(job, is_to_end if has_begun else is_ended):
                return
            # Double the block for a long line. Otherwise its start would be copied thousands of times.
            length = max(self._block_bytes(job), len(rest))
            block = rest + file.read(min(length, end - self._position - len(rest)))
            if len(block) == len(rest):
                self._file.check(file)
                raise OSError("it ends too early")
            is_last = self._position + len(block) >= end
            count = len(block) if is_last else block.rfind(b"\n") + 1
            if not count and len(block) >= LINE_MAX:
                raise UsageError(
                    f"{self._file.path} has a line longer than {LINE_MAX >> 20} MiB, which cannot be a URL"
                )
            if count and not self._write(job, block[:count]):
                return
            self._fed_at = time.monotonic()
            self._bytes += count
            self._lines += block.count(b"\n", 0, count)
            self._position += count
            rest = block[count:]

    def _feed_file(self, job: Job, file: BinaryIO, is_ended: Callable[[], bool]) -> None:
        """Feed a file that cannot be divided, as fast as the job reads it. Stop the job if the worker is ending."""
        while block := file.read(BLOCK):
            if not self._write(job, block, is_ended):
                job.stop()
                return
        self._position = self._range.end

    def _begin(self, job: Job, preamble: bytes) -> bool:
        """Write the bytes that precede the range. Return False if the job has ended."""
        self._bytes = self._uncounted = len(preamble)
        return self._write(job, preamble)

    def _block_bytes(self, job: Job) -> int:
        pace = (self._position - self._range.start) / self._ahead.seconds()
        length = int(pace * _BLOCK_SECONDS)
        snapshot = job.snapshot()
        if listed := snapshot["listed"]:
            # Include the bytes of comments, because comments are fed together with targets.
            of_target = (self._uncounted + snapshot["list_read"]) / listed
            length = min(length, int(self._ahead.targets(snapshot) * of_target))
        return min(max(length, _BLOCK_MIN), BLOCK)

    def _wait_for_room(self, job: Job, is_to_end: Callable[[], bool]) -> bool:
        """Wait until there is room for another target. Return whether to continue."""
        while not is_to_end():
            if self._has_room(job):
                return True
            if job.wait(_STEP_SECONDS):
                return False
        return False

    def _has_room(self, job: Job) -> bool:
        snapshot = job.snapshot()
        settled = sum(snapshot[name] for name in OUTCOMES)
        is_old = time.monotonic() - self._fed_at > _LISTED_SECONDS
        unseen = self._bytes - snapshot["list_read"]
        is_idle = is_old and snapshot["listed"] == settled and not self._unread_bytes()
        # The job may count some of these bytes later. Do not subtract them twice.
        self._uncounted = unseen if is_idle else min(self._uncounted, unseen)
        return self._ahead.room(snapshot) > self._unlisted_lines(snapshot["list_read"])

    def _unlisted_lines(self, list_read: int) -> float:
        """Estimate the number of lines that were fed but not listed, from their bytes and the mean line length.

        A job lists only the lines that it needs soon, and keeps all other lines in its buffer.
        """
        return (self._bytes - self._uncounted - list_read) * self._lines / max(self._bytes, 1)

    def _unread_bytes(self) -> int:
        """Return the number of unread bytes in the pipe."""
        (count,) = struct.unpack("i", fcntl.ioctl(self._input, termios.FIONREAD, bytes(4)))
        return int(count)

    def _write(self, job: Job, content: bytes, is_ended: Callable[[], bool] | None = None) -> bool:
        """Write to the pipe. Return False if the job has ended or the worker is ending."""
        view = memoryview(content)
        while view:
            try:
                view = view[os.write(self._output, view) :]
            except BlockingIOError:
                select.select((), (self._output,), (), _LOOK_SECONDS)
                if job.wait(0.0) or (is_ended is not None and is_ended()):
                    return False
        return True


class RowFeed:
    """Feeds rows of a Parquet file. The job reads the rows itself, up to a limit that the feed raises."""

    def __init__(self, file: ListFile, range: Range) -> None:
        self._file, self._range = file, range
        self.source = file.path
        rows = {"first_row": range.start, "row_count": range.end - range.start}
        self.options: Mapping[str, Any] = rows | file.core_options

    def feed(self, job: Job, is_to_end: Callable[[], bool], is_ended: Callable[[], bool]) -> None:
        """See `Feed`."""
        del is_ended
        ahead = _Ahead()
        with self._file.open() as opened:
            while not job.wait(_STEP_SECONDS):
                snapshot = job.snapshot()
                job.allow_rows(snapshot["list_read"] + ahead.targets(snapshot))
                if snapshot["listing_done"]:
                    break
                if is_to_end():
                    job.end_list()
                    break
            self._file.check(opened)

    def position(self, job: Job) -> int:
        """See `Feed`."""
        cut_at = job.snapshot()["list_cut_at"]
        return self._range.end if cut_at is None else self._range.start + int(cut_at)

    def close(self) -> None:
        """See `Feed`."""


class FileFeed:
    """Feeds a compressed data file of an inventory, which the job reads as a whole."""

    def __init__(self, file: ListFile, range: Range) -> None:
        self._file, self._range = file, range
        self.source = file.path
        self.options: Mapping[str, Any] = file.core_options
        self._position = range.start

    def feed(self, job: Job, is_to_end: Callable[[], bool], is_ended: Callable[[], bool]) -> None:
        """See `Feed`. The range cannot end early."""
        with self._file.open() as opened:
            while not job.wait(_STEP_SECONDS) and not job.snapshot()["listing_done"]:
                is_to_end()  # records the progress
                if is_ended():
                    job.stop()
                    return
            self._file.check(opened)
        self._position = self._range.end

    def position(self, job: Job) -> int:
        """See `Feed`."""
        del job
        return self._position

    def close(self) -> None:
        """See `Feed`."""
