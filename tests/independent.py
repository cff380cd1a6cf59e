"""What a job has left behind, looked at without fetchmill: with the file system and Python's own sqlite3."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from fetchmill.testing import synthetic_body

STATE = ".fetchmill"
# What may lie in a job's folder once it has ended.
STATE_FILES = {"job.sqlite", "lock", "failures"}


@dataclass(frozen=True)
class Expected:
    """How the job must end: names and bytes that are stored, and names that are listed as failures."""

    bodies: dict[str, bytes]
    failures: frozenset[str] = frozenset()
    listed: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "listed", len(self.bodies) + len(self.failures))

    @property
    def bytes(self) -> int:
        """Of all bodies."""
        return sum(map(len, self.bodies.values()))


@dataclass(frozen=True)
class Ledger:
    """The tally as the journal has it."""

    listed: int
    fetched: int
    absent: int
    failed: int
    skipped: int
    bytes: int
    next_sequence: int

    @property
    def settled(self) -> int:
        """Targets that have an outcome."""
        return self.fetched + self.absent + self.failed + self.skipped


def synthetic(count: int, size: int = 100, failures: Iterable[int] = ()) -> Expected:
    """What a server of synthetic objects must leave; `failures` are indexes of those that it refuses."""
    refused = frozenset(synthetic_name(index) for index in failures)
    names = (synthetic_name(index) for index in range(count))
    return Expected({name: synthetic_body(name, size) for name in names if name not in refused}, refused)


def synthetic_name(index: int) -> str:
    """The name of a synthetic object."""
    return f"file-{index:012}"


def stored_files(dest: Path) -> Iterator[tuple[str, Path]]:
    """Names and paths of everything in a destination that is no folder, but the job's own."""
    for folder, folders, files in os.walk(dest):
        if Path(folder) == dest and STATE in folders:
            folders.remove(STATE)
        for file in files:
            path = Path(folder, file)
            yield path.relative_to(dest).as_posix(), path


def find_wrong(dest: Path, expected: Expected) -> list[str]:
    """Files that must not be there, or have wrong bytes: true at every moment of a job's life."""
    problems = []
    for name, path in stored_files(dest):
        body = expected.bodies.get(name)
        if body is None:
            problems.append(f"{name} is there and was never listed")
        elif path.is_symlink() or path.read_bytes() != body:
            problems.append(f"{name} has wrong bytes")
    return problems


def find_lost(dest: Path, expected: Expected) -> list[str]:
    """Files that must be there at the end and are not."""
    return [f"{name} is lost" for name in sorted(expected.bodies.keys() - {name for name, _ in stored_files(dest)})]


def staged_files(dest: Path) -> list[str]:
    """Temporary files of a job."""
    stage = dest / STATE / "stage"
    return [str(path.relative_to(dest)) for path in stage.rglob("*") if not path.is_dir()]


def find_leftovers(dest: Path, state: Path | None = None) -> list[str]:
    """What a job that has ended must have removed."""
    problems = [f"{name} is left" for name in staged_files(dest)]
    state = state or dest / STATE
    extra = {path.name for path in state.iterdir()} - STATE_FILES - {"stage"}
    return problems + [f"{name} is left in {state.name}" for name in sorted(extra)]


def read_ledger(dest: Path, state: Path | None = None) -> Ledger:
    """The tally."""
    columns = "listed, fetched, absent, failed, skipped, bytes, next_sequence"
    with closing(_open(dest, state)) as db:
        row = db.execute(f"SELECT {columns} FROM tally").fetchone()  # noqa: S608 - a constant
    return Ledger(*row)


def has_journal(dest: Path, state: Path | None = None) -> bool:
    """Whether a run came so far as to make the journal's tables: all of them or none."""
    if not ((state or dest / STATE) / "job.sqlite").exists():
        return False
    with closing(_open(dest, state)) as db:
        return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def find_unbalanced(dest: Path, state: Path | None = None) -> list[str]:
    """Contradictions inside the journal: true at every moment, whatever was killed."""
    with closing(_open(dest, state)) as db:
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
    """Rows that a finished job must not have."""
    rows = {
        "live pages": "SELECT count(*) FROM pages",
        "waiting targets": "SELECT count(*) FROM waiting",
        "staged windows": "SELECT count(*) FROM staged",
        "missing end of the listing": "SELECT count(*) = 0 FROM job WHERE key = 'listed_at'",
        "missing end of the job": "SELECT count(*) = 0 FROM job WHERE key = 'finished_at'",
    }
    with closing(_open(dest, state)) as db:
        found = {what: db.execute(query).fetchone()[0] for what, query in rows.items()}
    return [f"{count} {what}" for what, count in found.items() if count]


def find_problems(dest: Path, expected: Expected, *, is_null: bool = False, state: Path | None = None) -> list[str]:
    """Everything that is wrong with a finished job, as lines; nothing when each object is there exactly once."""
    ledger = read_ledger(dest, state)
    problems = find_wrong(dest, Expected({}) if is_null else expected)
    if not is_null:
        problems += find_lost(dest, expected)
    problems += find_leftovers(dest, state) + find_unbalanced(dest, state) + find_unfinished(dest, state)
    counts = (ledger.listed, ledger.fetched, ledger.absent + ledger.failed, ledger.bytes)
    wanted = (expected.listed, len(expected.bodies), len(expected.failures), expected.bytes)
    if counts != wanted:
        problems.append(f"listed, fetched, failed or absent, bytes are {counts}, not {wanted}")
    return problems


def _open(dest: Path, state: Path | None) -> sqlite3.Connection:
    """A copy in memory, so that looking changes nothing: opening a journal after a kill would tidy it up."""
    folder = state or dest / STATE
    memory = sqlite3.connect(":memory:")
    with tempfile.TemporaryDirectory() as copies:
        for name in ("job.sqlite", "job.sqlite-wal"):
            if (folder / name).exists():
                shutil.copy(folder / name, copies)
        with closing(sqlite3.connect(Path(copies, "job.sqlite"))) as copy:
            copy.backup(memory)
    return memory
