"""Feeds of lists whose lines are not all targets."""

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
    """A job that reads its pipe and counts the bytes later, as comments are counted with the next target."""

    def __init__(self, feed: PipeFeed) -> None:
        self.listed = self.counted = self.received = self.skipped = 0
        self._input = int(feed.source.rpartition("/")[2])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while block := os.read(self._input, MIB):
            self.received += len(block)

    def join(self) -> None:
        """Waits for the end of the pipe."""
        self._thread.join(30)

    def snapshot(self) -> Mapping[str, Any]:
        """Returns counts: no target has an outcome, unless it was skipped."""
        counts = {**dict.fromkeys(OUTCOMES, 0), "skipped": self.skipped}
        return {**counts, "concurrency": 4, "listed": self.listed, "list_read": self.counted}

    def wait(self, seconds: float) -> bool:
        """Returns at once: the job goes on."""
        del seconds
        return False


def feed_of(path: Path, content: bytes) -> PipeFeed:
    """Returns the feed of a whole file."""
    path.write_bytes(content)
    found = path.stat()
    file = ListFile(path=str(path), size=found.st_size, modified=found.st_mtime_ns, has_lines=True)
    return PipeFeed(file, Range(file=0, start=0, end=found.st_size), "txt")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the number of bytes of each read of a list."""
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
    """Its attempt goes on although its time is over. Otherwise it would be repeated for ever."""
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
    """The start of the range does not matter then."""
    feed = feed_of(tmp_path / "a.txt", b"http://a.test/\n")
    job = Reader(feed)

    feed.feed(cast("Job", job), lambda: True, lambda: True)
    job.join()

    assert (feed.position(cast("Job", job)), job.received) == (0, 0)
    feed.close()


def test_late_counted_bytes_are_subtracted_once(tmp_path: Path) -> None:
    """A job counts comments with the next target. They must not be subtracted twice."""
    comments, targets = b"# comment\n" * 100_000, b"http://a.test/\n" * 200_000
    feed = feed_of(tmp_path / "a.txt", comments + targets)
    job = Reader(feed)

    def is_to_end() -> bool:
        # As soon as targets have come, the job counts all that it has read.
        fed = feed.position(cast("Job", job))
        if fed > len(comments):
            job.listed, job.counted = (fed - len(comments)) // 15, fed
            ends.append(fed)
        return len(ends) > 100

    ends: list[int] = []
    feed.feed(cast("Job", job), is_to_end, lambda: False)
    job.join()

    # One block came after the last comments. It has more targets than there is room for.
    assert len(set(ends)) == 1, ends
    feed.close()


class Skipping(Reader):
    """A job that skips the first targets and requests the others, which get no outcome."""

    def __init__(self, feed: PipeFeed, line: int, skipped: int) -> None:
        super().__init__(feed)
        self._line, self._most = line, skipped

    def snapshot(self) -> Mapping[str, Any]:
        """Returns counts. All that was received is listed."""
        received = self.received
        self.listed, self.counted = received // self._line, received
        self.skipped = min(self.listed, self._most)
        return super().snapshot()


def test_feed_stays_close_to_job_after_skipped_targets(tmp_path: Path) -> None:
    """After many skipped targets, a feed that waits for outcomes is only some targets ahead."""
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
