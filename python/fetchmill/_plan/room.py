"""What is free where a destination would be, and what of it a job needs."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# As the core's preflight has it: larger blocks may be shared or compressed.
BLOCK_MAX = 4096
# Of the journal: its write-ahead log is cut at a thousand pages of 4 KiB, and a small job's does not get so far.
JOURNAL_BYTES_MAX, JOURNAL_BYTES_AN_OBJECT = 4 << 20, 64
# The journal's files and the stage; and of each worker the stage's folder and the failures shard.
INODES_OF_A_JOB, INODES_OF_A_WORKER = 6, 2
# Staged files lie in folders of so many, and there are so many folders at most.
STAGE_FOLDER_FILES, STAGE_FOLDERS = 64, 1024


@dataclass(frozen=True, kw_only=True)
class Room:
    """What is free in a file system.

    Args:
        path: the folder that was looked at: the destination, or the nearest one above it that is there.
        free_bytes: bytes that this user may write.
        free_inodes: files that this user may make; None where they are made as they are needed, such as on btrfs.
        block: bytes that a file takes at least, and by which it grows.
    """

    path: str
    free_bytes: int
    free_inodes: int | None
    block: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def room_at(dest: str) -> Room | None:
    """What is free at a destination; None when its file system does not tell."""
    path = Path(dest).absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    free_inodes = found.f_favail if found.f_files else None
    block = 1 if free_inodes is None else min(max(found.f_frsize, 1), BLOCK_MAX)
    return Room(path=str(path), free_bytes=found.f_bavail * found.f_frsize, free_inodes=free_inodes, block=block)


def journal_bytes(objects: float) -> float:
    """Of the journal at its largest."""
    return min(JOURNAL_BYTES_MAX, JOURNAL_BYTES_AN_OBJECT * objects)


def state_inodes(objects: float, workers: int, *, is_files: bool) -> float:
    """Of all that is no output, as the preflight of `get` counts it."""
    stage = workers * min(-(-int(objects) // STAGE_FOLDER_FILES), STAGE_FOLDERS) if is_files else 0
    return INODES_OF_A_JOB + workers * INODES_OF_A_WORKER + stage
