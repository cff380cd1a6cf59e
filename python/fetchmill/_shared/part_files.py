"""Divides hosts into groups, and stores the lines of a list in local files, one for each group."""

import shutil
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from fetchmill._shared.ranges import GROUPS, HostPart

# Maximum number of hosts that are counted. Each needs about 200 bytes of memory.
HOSTS_MAX = 100_000
# Maximum number of bytes that are buffered for a group. All groups together buffer up to 16 MiB.
_BUFFER_BYTES = 64 << 10


class HostGroups(dict[str, int]):
    """A mapping from hosts to groups. Its length is the number of different hosts, up to `HOSTS_MAX`."""

    def __missing__(self, host: str) -> int:
        group = int.from_bytes(blake2b(host.encode(), digest_size=4).digest(), "big") % GROUPS
        if host and len(self) < HOSTS_MAX:
            self[host] = group
        return group


class PartFiles:
    """See the module docstring. A file is open only while a buffer is written, so descriptors do not run out.

    Args:
        folder: a local folder that belongs to this process.
    """

    def __init__(self, folder: Path) -> None:
        self.rows = 0
        self.bytes = 0
        self._folder = folder
        self._buffers = [bytearray() for _ in range(GROUPS)]
        self._groups = HostGroups()

    @property
    def hosts(self) -> int:
        """Number of different hosts, up to `HOSTS_MAX`."""
        return len(self._groups)

    def add(self, rows: Iterable[tuple[bytes, str]]) -> None:
        """Add rows, each with its host. A row without a host causes no request, so it can be in any group."""
        groups, buffers = self._groups, self._buffers
        for row, host in rows:
            group = groups[host]
            buffer = buffers[group]
            buffer += row
            self.rows += 1
            self.bytes += len(row)
            if len(buffer) >= _BUFFER_BYTES:
                self._write(group)

    def move(self, part: HostPart, out: BinaryIO) -> None:
        """Move all rows of a part into a file."""
        for group in part.groups:
            path = self._path(group)
            if path.exists():
                with path.open("rb") as written:
                    shutil.copyfileobj(written, out)
                path.unlink()
            out.write(self._buffers[group])
            self._buffers[group].clear()

    def _write(self, group: int) -> None:
        with self._path(group).open("ab") as file:
            file.write(self._buffers[group])
        self._buffers[group].clear()

    def _path(self, group: int) -> Path:
        return self._folder / f"group-{group}"
