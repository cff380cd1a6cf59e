"""The rows of a source's list that are already in the shared job.

If the process that lists a source dies, another process lists the source again and drops these rows. The rows are
stored in a table on this machine's disk, at about 100 bytes per row.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from fetchmill.errors import ListingError

# Maximum memory for cached pages of the table, in KiB.
_CACHE_KIB = 32 << 10
# SQLite before 3.32 accepts at most 999 variables in a statement.
_ROWS_AT_A_TIME = 500
# Maximum number of unknown rows before the first known one. If a source lists the same objects again, its first rows
# are known.
_ROWS_WITHOUT_KNOWN_MAX = 1_000


class ListedRows:
    """See the module docstring. Only one thread may use an instance.

    Args:
        folder: a local folder that belongs to this process.
    """

    def __init__(self, folder: Path) -> None:
        self._table = sqlite3.connect(folder / "rows")
        # The table is rebuilt after a crash, so it need not be durable.
        self._table.execute("PRAGMA journal_mode = OFF")
        self._table.execute("PRAGMA synchronous = OFF")
        self._table.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # The count is needed because a name may occur several times.
        self._table.execute("CREATE TABLE rows (name TEXT PRIMARY KEY, count INTEGER) WITHOUT ROWID")
        self._rows, self._has_known = 0, False

    def add(self, lines: Iterable[bytes]) -> None:
        """Add rows, as lines of a manifest."""
        statement = "INSERT INTO rows VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1"
        self._table.executemany(statement, ((_identity(line),) for line in lines))

    def new(self, lines: list[bytes]) -> Iterator[bytes]:
        """Yield the lines of a manifest, except those whose rows were added. Each added row removes only one line.

        Raises:
            ListingError: the source seems to name its objects differently in each listing.
        """
        for start in range(0, len(lines), _ROWS_AT_A_TIME):
            of_step = lines[start : start + _ROWS_AT_A_TIME]
            names = [_identity(line) for line in of_step]
            left = self._counts(names)
            self._check(len(names), bool(left))
            changed = set()
            for name, line in zip(names, of_step, strict=True):
                if left.get(name, 0) > 0:
                    left[name] -= 1
                    changed.add(name)
                else:
                    yield line
            self._table.executemany(
                "UPDATE rows SET count = ? WHERE name = ?", ((left[name], name) for name in sorted(changed))
            )

    def _counts(self, names: list[str]) -> dict[str, int]:
        """Return, for each of these names, the number of added rows that were not found again."""
        marks = ",".join("?" * len(names))
        query = f"SELECT name, count FROM rows WHERE name IN ({marks})"  # noqa: S608 - only placeholders
        return {name: count for name, count in self._table.execute(query, names) if count > 0}

    def _check(self, rows: int, has_known: bool) -> None:
        self._rows += rows
        self._has_known = self._has_known or has_known
        if not self._has_known and self._rows > _ROWS_WITHOUT_KNOWN_MAX:
            raise ListingError(
                "the source lists none of the objects that it listed before; if its URLs change with each listing, use "
                "--name-field in a new job"
            )

    def close(self) -> None:
        """Close the table. The caller removes the folder."""
        self._table.close()


def _identity(line: bytes) -> str:
    """Return the name of a row, or its URL if it has no name."""
    row = json.loads(line)
    return f"n{row['name']}" if row["name"] is not None else f"u{row['url']}"
