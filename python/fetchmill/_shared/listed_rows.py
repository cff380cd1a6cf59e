"""The rows of a source's list that a shared job already has.

If the process that lists a source dies, another one lists the source again, and drops these rows. They are kept in a
table on this machine's disk: about 100 bytes per row.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

# Maximum memory for pages of the table in KiB.
_CACHE_KIB = 32 << 10
_ROWS_AT_A_TIME = 1_000


class ListedRows:
    """See the module. For use by one thread.

    Args:
        folder: a folder of this process on its machine.
    """

    def __init__(self, folder: Path) -> None:
        self._table = sqlite3.connect(folder / "rows")
        # The table is rebuilt after a crash, so it need not be durable.
        self._table.execute("PRAGMA journal_mode = OFF")
        self._table.execute("PRAGMA synchronous = OFF")
        self._table.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._table.execute("CREATE TABLE rows (name TEXT PRIMARY KEY) WITHOUT ROWID")

    def add(self, lines: Iterable[bytes]) -> None:
        """Add rows, as lines of a manifest."""
        self._table.executemany("INSERT OR IGNORE INTO rows VALUES (?)", ((_identity(line),) for line in lines))

    def new(self, lines: list[bytes]) -> Iterator[bytes]:
        """Yield those lines of a manifest whose rows were not added."""
        for start in range(0, len(lines), _ROWS_AT_A_TIME):
            names = [_identity(line) for line in lines[start : start + _ROWS_AT_A_TIME]]
            marks = ",".join("?" * len(names))
            found = self._table.execute(f"SELECT name FROM rows WHERE name IN ({marks})", names)  # noqa: S608 - marks
            known = {name for (name,) in found}
            yield from (line for name, line in zip(names, lines[start:], strict=False) if name not in known)

    def close(self) -> None:
        """Close the table. Its folder is removed by the caller."""
        self._table.close()


def _identity(line: bytes) -> str:
    """Return the name of a row, or its URL if it has no name."""
    row = json.loads(line)
    return f"n{row['name']}" if row["name"] is not None else f"u{row['url']}"
