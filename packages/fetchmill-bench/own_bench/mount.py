"""Mounts a fresh file system, ext4 in an image on the real disk, so that all runs have the same conditions."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from own_bench.machine import program

# Bytes per small file, enough for a block, an inode, a folder entry and the journals.
BYTES_A_FILE = 4096 + 256 + 512
SPARE_BYTES = 1 << 30
SPARE_INODES = 10_000


@contextlib.contextmanager
def fresh_ext4(folder: Path, files: int) -> Iterator[Path]:
    """Mounts a file system with room for this many small files. At the end, unmounts and removes the file system."""
    if os.geteuid() != 0:
        sys.exit(
            "mounting a fresh file system requires root; --no-mount measures in a folder, which is less conclusive"
        )
    image, point = folder / "ext4.image", folder / "ext4"
    point.mkdir(parents=True, exist_ok=True)
    try:
        _run("fallocate", "--length", str(BYTES_A_FILE * files + SPARE_BYTES), image)
        # Write all tables now. Otherwise the kernel would write them during the measurement.
        options = ("-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")
        _run("mkfs.ext4", *options, "-N", str(files + SPARE_INODES), image)
        _run("mount", "-o", "loop,noatime", image, point)
        try:
            yield point
        finally:
            _run("umount", point)
    finally:
        image.unlink(missing_ok=True)


def _run(name: str, *arguments: str | Path) -> None:
    subprocess.run([program(name), *arguments], check=True, stdout=subprocess.DEVNULL)
