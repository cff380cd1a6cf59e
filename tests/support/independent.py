"""A job's leftovers, inspected without fetchmill: with independent readers and Python's own sqlite3."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from faults import note_problems
from fetchmill.testing import synthetic_body
from foreign import READERS, STATE, SUFFIXES, Stored, read_objects

# Contents that a finished job's folder may have: files, and empty folders except for the index of packs.
STATE_FILES = {"job.sqlite", "lock", "failures", "index", "manifests", "token"}
STATE_FOLDERS = {"stage", "open"}


@dataclass(frozen=True)
class Expected:
    """The expected end of a job: stored names and bytes, and names that are listed as failures."""

    bodies: dict[str, bytes]
    failures: frozenset[str] = frozenset()
    listed: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "listed", len(self.bodies) + len(self.failures))

    @property
    def bytes(self) -> int:
        """Returns the size of all bodies."""
        return sum(map(len, self.bodies.values()))


@dataclass(frozen=True)
class Ledger:
    """The journal's tally."""

    listed: int
    fetched: int
    absent: int
    failed: int
    skipped: int
    bytes: int
    next_sequence: int

    @property
    def settled(self) -> int:
        """Returns the number of targets with an outcome."""
        return self.fetched + self.absent + self.failed + self.skipped


def synthetic(count: int, size: int = 100, failures: Iterable[int] = ()) -> Expected:
    """Returns the expected results for a server of synthetic objects; `failures` are indexes of refused ones."""
    refused = frozenset(synthetic_name(index) for index in failures)
    names = (synthetic_name(index) for index in range(count))
    return Expected({name: synthetic_body(name, size) for name in names if name not in refused}, refused)


def synthetic_name(index: int) -> str:
    """Returns the name of a synthetic object."""
    return f"file-{index:012}"


def find_wrong(dest: Path, expected: Expected, format: str = "files", reader: str | None = None) -> list[str]:
    """Returns unexpected objects and wrong bytes, which must not exist at any moment."""
    return note_problems(compare(_stored(dest, format, reader), _bodies(expected, format))[0])


def find_lost(dest: Path, expected: Expected, format: str = "files") -> list[str]:
    """Returns objects that are missing at the end."""
    counts = compare(_stored(dest, format), {})[1]
    return note_problems([f"{name} is lost" for name in sorted(_bodies(expected, format).keys() - counts.keys())])


def compare(stored: Iterable[Stored], bodies: Mapping[str, bytes]) -> tuple[list[str], Counter[str]]:
    """Returns faults of single objects, and the number of times that each name occurs."""
    problems = []
    counts: Counter[str] = Counter()
    for each in stored:
        name = os.fsdecode(each.name)
        counts[name] += 1
        body = bodies.get(name)
        if body is None:
            problems.append(f"{name} is there and was never listed")
        elif each.body != body:
            problems.append(f"{name} has wrong bytes")
    return problems, counts


def find_unlike(stored: Iterable[Stored], bodies: Mapping[str, bytes]) -> list[str]:
    """Returns all differences from the expected objects, each once."""
    problems, counts = compare(stored, bodies)
    problems += [f"{name} is lost" for name in sorted(bodies.keys() - counts.keys())]
    problems += [f"{name} is there {count} times" for name, count in counts.items() if count > 1]
    return note_problems(problems)


def _stored(dest: Path, format: str, reader: str | None = None) -> Iterable[Stored]:
    """Reads with one reader, the first one unless another one is named."""
    return read_objects(dest, format, reader or next(iter(READERS[format])))


def _bodies(expected: Expected, format: str) -> Mapping[str, bytes]:
    """Returns the bodies; `null` stores none."""
    return {} if format == "null" else expected.bodies


def staged_files(dest: Path) -> list[str]:
    """Returns temporary files of a job."""
    return [
        str(path.relative_to(dest))
        for folder in sorted(STATE_FOLDERS)
        for path in (dest / STATE / folder).rglob("*")
        if not path.is_dir()
    ]


def find_leftovers(dest: Path, state: Path | None = None) -> list[str]:
    """Returns leftovers that a finished job must have removed."""
    problems = [f"{name} is left" for name in staged_files(dest)]
    state = state or dest / STATE
    extra = {path.name for path in state.iterdir()} - STATE_FILES - STATE_FOLDERS
    return problems + [f"{name} is left in {state.name}" for name in sorted(extra)]


def read_ledger(dest: Path, state: Path | None = None) -> Ledger:
    """Returns the tally."""
    columns = "listed, fetched, absent, failed, skipped, bytes, next_sequence"
    with closing(open_journal(dest, state)) as db:
        row = db.execute(f"SELECT {columns} FROM tally").fetchone()  # noqa: S608 - a constant
    return Ledger(*row)


def has_journal(dest: Path, state: Path | None = None) -> bool:
    """Returns whether a run has created the journal's tables: all of them or none."""
    if not ((state or dest / STATE) / "job.sqlite").exists():
        return False
    with closing(open_journal(dest, state)) as db:
        return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def find_unbalanced(dest: Path, state: Path | None = None) -> list[str]:
    """Returns contradictions inside the journal, which must not exist at any moment, whatever was killed."""
    with closing(open_journal(dest, state)) as db:
        pages = db.execute("SELECT first, count, settled FROM pages ORDER BY first").fetchall()
        waiting = db.execute("SELECT count(*) FROM waiting").fetchone()[0]
    ledger = read_ledger(dest, state)
    problems = []
    at = pending = 0
    for first, count, settled in pages:
        if first < at:
            problems.append(f"a page starts at {first}, before the end of the last one, {at}")
        at = first + count
        pending += count - sum(byte.bit_count() for byte in settled or b"")
    if at > ledger.next_sequence or ledger.listed != ledger.next_sequence + ledger.skipped:
        problems.append(f"the pages end at {at}: {ledger}")
    if ledger.listed != ledger.settled + pending + waiting:
        problems.append(f"not balanced: {ledger}, {pending} pending in pages, {waiting} waiting")
    return problems


def find_unfinished(dest: Path, state: Path | None = None) -> list[str]:
    """Returns rows that a finished job must not have."""
    rows = {
        "live pages": "SELECT count(*) FROM pages",
        "waiting targets": "SELECT count(*) FROM waiting",
        "staged windows": "SELECT count(*) FROM staged",
        "missing end of the listing": "SELECT count(*) = 0 FROM job WHERE key = 'listed_at'",
        "missing end of the job": "SELECT count(*) = 0 FROM job WHERE key = 'finished_at'",
    }
    with closing(open_journal(dest, state)) as db:
        found = {what: db.execute(query).fetchone()[0] for what, query in rows.items()}
    return [f"{count} {what}" for what, count in found.items() if count]


def find_problems(dest: Path, expected: Expected, format: str = "files", state: Path | None = None) -> list[str]:
    """Returns all problems of a finished job as lines; nothing if each object is stored exactly once.

    Each independent reader of the format is used.
    """
    ledger = read_ledger(dest, state)
    problems = find_leftovers(dest, state) + find_unbalanced(dest, state) + find_unfinished(dest, state)
    for reader in READERS[format]:
        found = find_unlike(_stored(dest, format, reader), _bodies(expected, format))
        problems += [f"{problem} ({reader})" for problem in found] if format in SUFFIXES else found
    counts = (ledger.listed, ledger.fetched, ledger.absent + ledger.failed, ledger.bytes)
    wanted = (expected.listed, len(expected.bodies), len(expected.failures), expected.bytes)
    if counts != wanted:
        problems.append(f"listed, fetched, failed or absent, bytes are {counts}, not {wanted}")
    return problems


def find_broken(dest: Path, expected: Expected) -> list[str]:
    """Returns states that a checkpoint of `files` must not leave: incomplete, staged or uncounted objects."""
    problems = find_wrong(dest, expected) + find_unbalanced(dest)
    problems += [f"{name} is left" for name in staged_files(dest)]
    stored = sum(1 for path in dest.rglob("*") if path.is_file() and STATE not in path.parts)
    if stored != read_ledger(dest).fetched:
        problems.append(f"{stored} are stored, {read_ledger(dest).fetched} counted as fetched")
    return problems


def open_journal(dest: Path, state: Path | None = None) -> sqlite3.Connection:
    """Opens a copy in memory: opening a journal after a kill would change it."""
    memory = sqlite3.connect(":memory:")
    with tempfile.TemporaryDirectory() as copies:
        _copy_journal(state or dest / STATE, Path(copies))
        with closing(sqlite3.connect(Path(copies, "job.sqlite"))) as copy:
            copy.backup(memory)
    return memory


def is_finished(dest: Path) -> bool:
    """Returns whether the journal says so; one without tables, after a kill, does not."""
    with closing(open_journal(dest)) as journal:
        tables = journal.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        return tables > 0 and bool(journal.execute("SELECT value FROM job WHERE key = 'finished_at'").fetchall())


def _copy_journal(folder: Path, copies: Path) -> None:
    """Copies the journal, and again if the job meanwhile wrote its log into the database or ended.

    Otherwise, the two files would not match.
    """
    for _ in range(100):
        before = _generation(folder)
        for path in copies.iterdir():
            path.unlink()
        for name in ("job.sqlite", "job.sqlite-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(folder / name, copies)
        if _generation(folder) == before:
            return
    raise AssertionError(f"{folder} changed while each of 100 copies was made")


def _generation(folder: Path) -> tuple[int, int, bytes]:
    """Returns the generation of the database and its log.

    The header of the log changes whenever it restarts; rows are only appended.
    """
    database = (folder / "job.sqlite").stat()
    try:
        with (folder / "job.sqlite-wal").open("rb") as log:
            header = log.read(32)
    except FileNotFoundError:
        header = b""
    return database.st_mtime_ns, database.st_size, header
