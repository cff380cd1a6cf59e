"""Ranges of a list: together they cover it, and each begins at the start of a line."""

import io
import itertools
import random
from pathlib import Path

import pytest

from fetchmill._shared.ranges import ListFile, Range, divide, first_ranges, header_end
from fetchmill.errors import UsageError

LINES = ListFile(path="", size=0, modified=0, has_lines=True)


def test_ranges_cover_list_in_whole_lines() -> None:
    """This holds for any length of lines and any size of ranges."""
    for seed in range(200):
        rng = random.Random(seed)
        lines = [b"x" * rng.choice((0, 1, 5, rng.randrange(200))) for _ in range(rng.randrange(1, 60))]
        content = b"\n".join(lines) + rng.choice((b"", b"\n"))
        start = content.find(b"\n") + 1 if rng.random() < 0.3 else 0
        whole = Range(file=0, start=start, end=len(content))
        if start >= len(content):
            continue
        ranges = list(divide(io.BytesIO(content), LINES, whole, rng.randrange(1, 300)))

        assert ranges[0].start == start, seed
        assert ranges[-1].end == len(content), seed
        for before, after in itertools.pairwise(ranges):
            assert before.end == after.start, seed
            assert content[after.start - 1 : after.start] == b"\n", seed


def test_indivisible_file_is_one_range_and_empty_file_none(tmp_path: Path) -> None:
    """A compressed file, for example, cannot be divided."""
    files = []
    for name, content, has_lines in [("a", b"x" * 5_000_000, False), ("b", b"", True), ("c", b"", False)]:
        path = tmp_path / name
        path.write_bytes(content)
        found = path.stat()
        files.append(ListFile(path=str(path), size=found.st_size, modified=found.st_mtime_ns, has_lines=has_lines))

    assert list(first_ranges(files)) == [Range(file=0, start=0, end=5_000_000)]


def test_endless_line_is_refused() -> None:
    """Otherwise, the line would be cut in the middle."""
    content = io.BytesIO(b"x" * (17 << 20))
    with pytest.raises(UsageError, match="longer than 16 MiB"):
        list(divide(content, LINES, Range(file=0, start=0, end=17 << 20), 1000))


def test_parquet_rows_are_divided_by_number() -> None:
    """The file itself is not read."""
    rows = ListFile(path="", size=100, modified=0, has_lines=False, rows=10)
    ranges = list(divide(io.BytesIO(), rows, Range(file=3, start=2, end=10), 3))

    assert [(each.start, each.end) for each in ranges] == [(2, 5), (5, 8), (8, 10)]
    assert sum(rows.share(each) for each in [Range(file=3, start=0, end=2), *ranges]) == 100


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (b"a,b\n1,2\n", 4),
        (b"\n\r\na,b\r\n1,2\n", 8),
        (b"\xef\xbb\xbf\na,b\n1,2\n", 8),
        (b"a,b", 3),
        (b"\n\n", 2),
        (b"", 0),
    ],
)
def test_header_includes_preceding_empty_lines(content: bytes, end: int) -> None:
    """The list reader skips empty lines. Each range begins with a copy of the header, not of an empty line."""
    assert header_end(io.BytesIO(content)) == end
