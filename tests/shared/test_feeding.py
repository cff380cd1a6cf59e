"""Feeding ranges to a job if the lines of their lists are not all targets."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast

import pytest

from fetchmill._native import Job
from fetchmill._shared.feeding import PipeFeed
from fetchmill._shared.ranges import ListFile, Range
from fetchmill._shared.records import OUTCOMES

MIB = 1 << 20


class Reader:
    """A job that reads its pipe and counts the bytes later, as it counts comments together with the next target."""

    def __init__(self, feed: PipeFeed) -> None:
        self.listed = self.counted = self.received = self.skipped = 0
        self._input = int(feed.source.rpartition("/")[2])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while block := os.read(self._input, MIB):
            self.received += len(block)

    def join(self) -> None:
        """Waits until the pipe is closed."""
        self._thread.join(30)

    def snapshot(self) -> Mapping[str, Any]:
        """Returns the counters. Only skipped targets have an outcome."""
        counts = {**dict.fromkeys(OUTCOMES, 0), "skipped": self.skipped}
        return {**counts, "concurrency": 4, "listed": self.listed, "list_read": self.counted}

    def wait(self, seconds: float) -> bool:
        """Returns immediately, because the job continues."""
        del seconds
        return False


def feed_of(path: Path, content: bytes) -> PipeFeed:
    """Returns a feed of the whole file."""
    path.write_bytes(content)
    found = path.stat()
    file = ListFile(path=str(path), size=found.st_size, modified=found.st_mtime_ns, has_lines=True)
    return PipeFeed(file, Range(file=0, start=0, end=found.st_size), "txt")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a record of the number of bytes in each read of a list."""
    found: list[int] = []
    open_list = ListFile.open

    def opened(file: ListFile) -> Any:  # noqa: ANN401 - a file
        source = open_list(file)
        read = source.read

        class Recorded:
            def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
                return getattr(source, name)

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                source.close()

            def read(self, count: int) -> bytes:
                found.append(count)
                return read(count)

        return Recorded()

    monkeypatch.setattr(ListFile, "open", opened)
    return found


def test_range_with_long_first_line_is_fed(tmp_path: Path, reads: list[int]) -> None:
    """The attempt continues after its time limit. Otherwise, the range would be tried again forever."""
    line = b"#" + b"x" * (8 * MIB) + b"\n"
    feed = feed_of(tmp_path / "a.txt", line + b"http://a.test/\n")
    job = Reader(feed)

    feed.feed(cast("Job", job), lambda: True, lambda: False)
    job.join()

    assert feed.position(cast("Job", job)) >= len(line)
    assert job.received == feed.position(cast("Job", job))
    assert len(reads) < 30, "each read copies the line read so far"
    feed.close()


def test_ending_worker_feeds_no_more_targets(tmp_path: Path) -> None:
    """This is also true at the start of a range."""
    feed = feed_of(tmp_path / "a.txt", b"http://a.test/\n")
    job = Reader(feed)

    feed.feed(cast("Job", job), lambda: True, lambda: True)
    job.join()

    assert (feed.position(cast("Job", job)), job.received) == (0, 0)
    feed.close()


def test_late_counted_bytes_are_subtracted_once(tmp_path: Path) -> None:
    """A job counts comments together with the next target."""
    comments, targets = b"# comment\n" * 100_000, b"http://a.test/\n" * 200_000
    feed = feed_of(tmp_path / "a.txt", comments + targets)
    job = Reader(feed)

    def is_to_end() -> bool:
        # As soon as targets have arrived, the job counts everything that it has read.
        fed = feed.position(cast("Job", job))
        if fed > len(comments):
            job.listed, job.counted = (fed - len(comments)) // 15, fed
            ends.append(fed)
        return len(ends) > 100

    ends: list[int] = []
    feed.feed(cast("Job", job), is_to_end, lambda: False)
    job.join()

    # One block came after the last comments. It has more targets than the job has room for.
    assert len(set(ends)) == 1, ends
    feed.close()


class Skipping(Reader):
    """A job that skips the first targets and requests the others, which never get an outcome."""

    def __init__(self, feed: PipeFeed, line: int, skipped: int) -> None:
        super().__init__(feed)
        self._line, self._most = line, skipped

    def snapshot(self) -> Mapping[str, Any]:
        """Returns the counters. Everything received is listed."""
        received = self.received
        self.listed, self.counted = received // self._line, received
        self.skipped = min(self.listed, self._most)
        return super().snapshot()


def test_feed_stays_close_to_job_after_skipped_targets(tmp_path: Path) -> None:
    """Many skipped targets do not let the feed run far ahead of a job that waits for outcomes."""
    line, skipped = b"http://a.test/\n", 300_000
    feed = feed_of(tmp_path / "a.txt", line * (skipped + 200_000))
    job = Skipping(feed, len(line), skipped)
    seen: list[int] = []

    def is_to_end() -> bool:
        if job.received > skipped * len(line):
            seen.append(job.received)
        return len(seen) > 100

    feed.feed(cast("Job", job), is_to_end, lambda: False)
    job.join()

    assert skipped < job.received // len(line) < skipped + 2_000
    feed.close()
