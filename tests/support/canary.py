"""A tree of files around a destination, which shows that a job changes nothing outside it."""

import os
import stat
from pathlib import Path

# Files that names leading out of a destination would hit.
PLANTED = ("passwd", "etc/passwd", "b", "x", "abs", "job.sqlite", ".fetchmill/job.sqlite")
DEPTH = 4

Picture = dict[str, tuple[object, ...]]


class Canary:
    """Files at each level above a destination, which is created empty, some levels below.

    Args:
        folder: an empty folder that only this test uses.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        level = folder
        for depth in range(DEPTH):
            for name in PLANTED:
                path = level / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"planted {depth} {name}")
            level = level / f"level-{depth}"
            level.mkdir()
        self.dest = level / "out"
        self.dest.mkdir()
        self._before = self._picture()

    def assert_untouched(self) -> None:
        """Checks that nothing outside the destination was created, removed, replaced or written."""
        assert self._picture() == self._before

    def look_again(self) -> None:
        """Accepts the current state, for files that the test itself has added."""
        self._before = self._picture()

    def _picture(self) -> Picture:
        found = {}
        for path in sorted(self.folder.rglob("*")):
            if not path.is_relative_to(self.dest) or path == self.dest:
                found[str(path.relative_to(self.folder))] = _describe(path, self.dest)
        return found


def _describe(path: Path, dest: Path) -> tuple[object, ...]:
    """Returns kind, mode, bytes and time of change; for the destination, only that it is the same folder."""
    seen = path.lstat()
    if path == dest:
        return (seen.st_ino, seen.st_mode)
    content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else None
    link = os.readlink(path) if stat.S_ISLNK(seen.st_mode) else None
    return (seen.st_ino, seen.st_mode, seen.st_mtime_ns, content, link)
