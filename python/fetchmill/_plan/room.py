"""Free space at a destination, and the space that a job needs."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Maximum block size to assume, as in the core's preflight. Larger blocks may be shared or compressed.
BLOCK_MAX = 4096
# Maximum size of the journal, in total and per object. Its write-ahead log is truncated at a thousand 4 KiB pages, but
# the log of a small job is smaller.
JOURNAL_BYTES_MAX, JOURNAL_BYTES_AN_OBJECT = 4 << 20, 64
# Inodes that a job uses for the journal's files and the stage, and inodes that each worker uses for its stage folder
# and failure records.
INODES_OF_A_JOB, INODES_OF_A_WORKER = 6, 2
# Number of staged files per folder, and maximum number of such folders.
STAGE_FOLDER_FILES, STAGE_FOLDERS = 64, 1024


@dataclass(frozen=True, kw_only=True)
class Room:
    """Free space of a file system.

    Args:
        path: the destination, or its nearest existing parent.
        free_bytes: bytes that this user may write.
        free_inodes: files that this user may create; None if the file system creates inodes on demand, such as btrfs.
        block: minimum size of a file in bytes. File sizes on disk are multiples of this size.
    """

    path: str
    free_bytes: int
    free_inodes: int | None
    block: int

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


def room_at(dest: str) -> Room | None:
    """Return the free space at a destination; None if its file system does not report it."""
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
    """Return the maximum size of the journal in bytes."""
    return min(JOURNAL_BYTES_MAX, JOURNAL_BYTES_AN_OBJECT * objects)


def state_inodes(objects: float, workers: int, *, is_files: bool) -> float:
    """Return the number of inodes for everything except the output, as the preflight of `get` counts them."""
    stage = workers * min(-(-int(objects) // STAGE_FOLDER_FILES), STAGE_FOLDERS) if is_files else 0
    return INODES_OF_A_JOB + workers * INODES_OF_A_WORKER + stage
