"""The order of test_sync_order.py for shards: data is durable before commit records, renames and removals."""

import json
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from conftest import format_options
from fetchmill.testing import Fault, Server
from foreign import STATE, SUFFIXES
from independent import Expected, find_problems, open_journal, synthetic
from system_calls import JOURNAL, SYNCS, Call, JournalCopy, Traced

Serve = Callable[..., Server]

WINDOW = ("--commit-window", "20ms")
# A job with one writer takes at least seven seconds. It creates the sixteen shards of a merge even if each sync is
# slow.
MERGING = ("--seal-after", "50ms", "--concurrency", "24", "--threads", "1")
# `warc` and `jsonl` use the sink of `tar`.
FORMATS = ("tar", "parquet")
COUNT = 900


@dataclass(frozen=True)
class Sealed:
    """A row of `shards`: the former names of its file and its manifest, and the number of its replacement."""

    data: str
    manifest: str
    replaced_by: int | None


@dataclass
class Journaled:
    """A journal's data about shards: sealed ones by number, and the ends of files in `open` and `failures`."""

    sealed: dict[int, Sealed] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    # Temporary name of the failures file.
    failures: set[str] = field(default_factory=set)
    has_open: bool = False
    is_finished: bool = False

    @property
    def numbers(self) -> dict[str, int]:
        """Returns the numbers of sealed shards by the names of both files."""
        return {name: number for number, row in self.sealed.items() for name in (row.data, row.manifest)}


def read_shards(db: sqlite3.Connection) -> Journaled:
    """Reads a journal; shard numbers are those in the names, which start at 0."""
    if "shards" not in {row[0] for row in db.execute("SELECT name FROM sqlite_master")}:
        return Journaled()
    ends = {f"failures/{path}": end for path, end in db.execute("SELECT path, end FROM failures")}
    for table in ("open_shards", "shards"):
        for row in db.execute(f"SELECT path, end, manifest, manifest_end FROM {table}"):  # noqa: S608 - of constants
            ends |= {f"open/{row[0]}": row[1], f"open/{row[2]}": row[3]}
    facts = db.execute("SELECT value FROM job WHERE key = 'unfetched'").fetchall()
    failures = {file["data"]["path"]: file["data"]["end"] for (text,) in facts for file in json.loads(text)}
    ends |= {f"open/{name}": end for name, end in failures.items()}
    rows = db.execute("SELECT number - 1, path, manifest, replaced_by - 1 FROM shards")
    return Journaled(
        {number: Sealed(*row) for number, *row in rows},
        ends,
        set(failures),
        has_open=db.execute("SELECT count(*) FROM open_shards").fetchone()[0] > 0,
        is_finished=db.execute("SELECT count(*) FROM job WHERE key = 'finished_at'").fetchone()[0] > 0,
    )


@dataclass
class Disk:
    """The state after a power cut: bytes of files, and entries of folders. Without syncs, the state after a kill."""

    is_durable: bool = True
    written: Counter[Path] = field(default_factory=Counter)
    synced: Counter[Path] = field(default_factory=Counter)
    # Files that were created, renamed or removed and are not durable: the line of the call.
    unsynced: dict[Path, int] = field(default_factory=dict)

    def follow(self, call: Call) -> None:
        """Applies a successful call."""
        path = Path(call.path)
        if call.name == "write":
            self.written[path] += call.result
        elif call.name == "ftruncate":
            self.written[path] = call.number(-1)
            self.synced[path] = min(self.synced[path], self.written[path])
        elif call.name in {"fsync", "fdatasync"}:
            self.synced[path] = self.written[path]
            self.unsynced = {at: line for at, line in self.unsynced.items() if at.parent != path or line > call.began}
        elif (call.name == "openat" and "O_CREAT" in call.arguments) or call.name in {"mkdir", "unlink", "renameat2"}:
            self.unsynced[call.paths[-1]] = call.ended

    def copy(self) -> "Disk":
        """Returns a copy of the current state."""
        if not self.is_durable:
            return Disk(written=self.written.copy(), synced=self.written.copy())
        return Disk(written=self.written.copy(), synced=self.synced.copy(), unsynced=self.unsynced.copy())


@dataclass
class Watcher:
    """Follows the calls of a job and checks the order."""

    dest: Path
    suffix: str
    journal: JournalCopy
    disk: Disk = field(default_factory=Disk)
    problems: list[str] = field(default_factory=list)
    # Contents of the journal at its last sync, and the disk when its current transaction began.
    journaled: Journaled = field(default_factory=Journaled)
    before: Disk | None = None
    removed: set[Path] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)

    def follow(self, calls: list[Call]) -> None:
        """Processes each call when it ends."""
        for call in calls:
            if call.result < 0:
                continue
            if Path(call.path).name in JOURNAL:
                self.follow_journal(call)
            else:
                self.follow_disk(call)
        if not self.disk.is_durable:
            self.check()

    def follow_journal(self, call: Call) -> None:
        """Compares the journal, when it is synced, with the disk as it was when its transaction began."""
        event = self.journal.follow(call)
        if event == "begun":
            self.before = self.disk.copy()
        elif event == "synced":
            self.check()

    def follow_disk(self, call: Call) -> None:
        """Processes shards and their manifests."""
        if not self.disk.is_durable and call.name in {"write", "renameat2", "unlink"}:
            # A transaction counts once it is written.
            self.check()
            self.journal.is_begun = False
        if call.name == "renameat2":
            self.check_rename(call)
        elif call.name == "unlink" and call.paths[0].suffix in {self.suffix, ".manifest", ".shard"}:
            self.check_removal(call.paths[0])
        self.disk.follow(call)

    def check(self) -> None:
        """Checks that everything that the journal calls durable was durable before the journal wrote it."""
        before, self.before = self.before, None
        if before is None:
            return
        found = self.read_journal()
        for name, end in found.ends.items() - self.journaled.ends.items():
            path = self.dest / STATE / name
            if before.synced[path] < end:
                self.problems.append(f"{name} is journaled up to {end} and durable up to {before.synced[path]}")
            self.problems += [
                f"{name} is journaled and {at.name} has no durable entry"
                for at in (path, *path.parents)
                if at in before.unsynced
            ]
        for number in self.journaled.sealed.keys() - found.sealed.keys():
            self.problems += [
                f"{path.name} is forgotten and its removal not durable"
                for path in self.final_paths(number)
                if path not in self.removed or path in before.unsynced
            ]
        if found.is_finished:
            paths = {path for number in found.sealed for path in self.final_paths(number)} | {self.failures_path}
            left = sorted(path.name for path in paths & before.unsynced.keys())
            self.problems += [f"the job is finished and the rename of {name} not durable" for name in left]
        self.journaled = found
        self.seen["open"] += found.has_open
        self.seen["sealed"] += bool(found.sealed)
        self.seen["finished"] += found.is_finished

    def check_rename(self, call: Call) -> None:
        """Checks a rename of a sealed shard, its manifest, or the failures file."""
        source, target = call.paths
        number = self.journaled.numbers.get(source.name)
        if source.name in self.journaled.failures:
            if target != self.failures_path:
                self.problems.append(f"{source.name} is the failures file and was renamed to {target}")
            self.seen["failures"] += 1
        elif number is None:
            self.problems.append(f"{source.name} was renamed before the journal was synced with it as sealed")
        elif target not in self.final_paths(number):
            self.problems.append(f"{source.name} has the number {number} and was renamed to {target}")
        if "RENAME_NOREPLACE" not in call.arguments:
            self.problems.append(f"{source.name} was renamed so that it could replace something")
        self.seen["renamed"] += source.name not in self.journaled.failures

    def check_removal(self, path: Path) -> None:
        """Checks a removal: of a shard whose replacement has its name, or of an open shard without a commit record."""
        self.removed.add(path)
        if path.parent == self.dest / STATE / "open":
            if f"open/{path.name}" in self.journaled.ends:
                self.problems.append(f"{path.name} was removed and has a receipt")
            return
        rows = [row for number, row in self.journaled.sealed.items() if path in self.final_paths(number)]
        if not rows or rows[0].replaced_by is None:
            self.problems.append(f"{path.name} was removed before the journal was synced with it as replaced")
        elif missing := self.disk.copy().unsynced.keys() & self.final_paths(rows[0].replaced_by):
            self.problems.append(f"{path.name} was removed before the renames of {len(missing)} were durable")
        self.seen["replaced"] += 1

    @property
    def failures_path(self) -> Path:
        """Returns the final path of the failures file."""
        return self.dest / "_failures.ndjson"

    def final_paths(self, number: int) -> set[Path]:
        """Returns the final paths of a sealed shard and its manifest."""
        name = f"shard-{number:06}"
        return {self.dest / f"{name}{self.suffix}", self.dest / STATE / "index" / f"{name}.manifest"}

    def remember(self) -> None:
        """Takes over the state of an earlier run, whose renames and removals may not be durable.

        Its last transaction may not be durable either: nothing counts as journaled before this run has synced the
        journal.
        """
        self.journal.remember(self.dest)
        found = self.read_journal()
        for name, end in found.ends.items():
            path = self.dest / STATE / name
            self.disk.written[path] = path.stat().st_size if path.exists() else end
            self.disk.synced[path] = end
        for number in found.sealed:
            paths = self.final_paths(number)
            self.disk.unsynced |= dict.fromkeys(paths, -1)
            self.removed |= {path for path in paths if not path.exists()}

    def read_journal(self) -> Journaled:
        """Returns the contents of the copied journal."""
        with closing(self.journal.open()) as db:
            return read_shards(db)


@pytest.fixture
def expected() -> Expected:
    """Returns the stored and the refused objects."""
    return synthetic(COUNT, failures=range(120, 130))


@pytest.fixture
def source(server: Serve) -> Server:
    """Serves a job of many windows. Replies are so slow that they become certain one by one, not once per second."""
    refused = Fault("status", status=404, match="file-00000000012*")
    return server(synthetic=COUNT, page_size=60, delay=(0.16, 0.2), list_delay=(0.0, 0.03), faults=[refused])


@pytest.fixture
def watch(dest: Path, tmp_path: Path) -> Callable[..., Watcher]:
    """Creates a watcher for a job of a format, without earlier runs."""

    def make(format: str, *, is_durable: bool = True) -> Watcher:
        copies = tmp_path / "copies"
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir()
        return Watcher(dest, SUFFIXES[format], JournalCopy(copies), Disk(is_durable))

    return make


def arguments(source: Server, dest: Path, format: str, *more: str) -> tuple[object, ...]:
    """Returns the arguments of a job with small shards and short windows."""
    return ("get", source.url, dest, *WINDOW, "--concurrency", "96", *format_options(format), *more)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_shards_are_durable_before_journal_and_renamed_after(
    traced: Callable[..., Traced],
    source: Server,
    dest: Path,
    expected: Expected,
    watch: Callable[..., Watcher],
    format: str,
) -> None:
    """At each sync of the journal, its data about shards is durable, and each shard has its name when the job ends."""
    watcher = watch(format)
    ended = traced(*arguments(source, dest, format))

    watcher.follow(ended.calls)

    assert ended.code == 3
    assert watcher.problems == []
    assert find_problems(dest, expected, format) == []
    shards = len(list(dest.glob("shard-*[!j]")))
    assert watcher.seen["renamed"] == 2 * shards >= 4
    assert watcher.seen["failures"] == 1
    assert watcher.seen["sealed"] >= 2
    assert watcher.seen["open"] >= 2
    assert watcher.seen["finished"] == 1


@pytest.mark.thorough
def test_small_shards_are_removed_after_their_replacement(
    traced: Callable[..., Traced], source: Server, dest: Path, expected: Expected, watch: Callable[..., Watcher]
) -> None:
    """The merged shard is journaled and renamed first, and the removal is durable before it is journaled."""
    watcher = watch("parquet")
    ended = traced(*arguments(source, dest, "parquet", *MERGING))

    watcher.follow(ended.calls)

    assert ended.code == 3
    assert watcher.problems == []
    assert find_problems(dest, expected, "parquet") == []
    assert watcher.seen["replaced"] >= 2 * 16


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_resumed_run_keeps_shard_sync_order(
    traced: Callable[..., Traced],
    start: Callable[..., subprocess.Popen[str]],
    source: Server,
    dest: Path,
    expected: Expected,
    watch: Callable[..., Watcher],
    format: str,
) -> None:
    """Sealed shards of a killed run get their names, and open ones are sealed. All of them are durable at the end."""
    process = start(*arguments(source, dest, format))
    while not (list(dest.glob("shard-*")) and has_open(dest)):
        assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    watcher = watch(format)
    watcher.remember()

    ended = traced(*arguments(source, dest, format))
    watcher.follow(ended.calls)

    assert ended.code == 3
    assert watcher.problems == []
    assert watcher.seen["finished"] == 1
    assert find_problems(dest, expected, format) == []


def has_open(dest: Path) -> bool:
    """Returns whether the journal of a running job has an open shard."""
    with closing(open_journal(dest)) as db:
        return read_shards(db).has_open


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_process_durability_keeps_shard_order_without_syncs(
    traced: Callable[..., Traced],
    source: Server,
    dest: Path,
    expected: Expected,
    watch: Callable[..., Watcher],
    format: str,
) -> None:
    """Nothing is synced, and the state after a kill is still correct."""
    watcher = watch(format, is_durable=False)
    ended = traced(*arguments(source, dest, format, *MERGING, "--durability", "process"))

    watcher.follow(ended.calls)

    assert ended.code == 3
    assert [f"{call.name} {call.path}" for call in ended.calls if call.name in SYNCS] == []
    assert watcher.problems == []
    assert watcher.seen["sealed"] >= 1
    assert watcher.seen["finished"] == 1
    assert (watcher.seen["replaced"] > 0) == (format == "parquet")
    assert find_problems(dest, expected, format) == []


def is_sync_of(call: Call, end: str) -> bool:
    """Returns whether a call syncs a file or folder whose path ends in this way."""
    return call.name in {"fsync", "fdatasync"} and call.path.endswith(end)


@pytest.mark.thorough
def test_shard_order_check_detects_each_missing_sync(
    traced: Callable[..., Traced], source: Server, dest: Path, watch: Callable[..., Watcher]
) -> None:
    """Each kind of sync is removed in turn from the calls of a correct job, and the check fails each time."""
    calls = traced(*arguments(source, dest, "parquet", *MERGING)).calls
    missing = {
        ".shard": "is journaled up to",
        ".manifest": "is journaled up to",
        ".jsonl.zst": "is journaled up to",
        "/open": "no durable entry",
        "/.fetchmill": "and open has no durable entry",
        "/out": "not durable",
        "/index": "not durable",
        "job.sqlite-wal": "was renamed before the journal was synced",
    }

    unseen = []
    for end, problem in missing.items():
        watcher = watch("parquet")
        watcher.follow([call for call in calls if not is_sync_of(call, end)])
        unseen += [] if any(problem in found for found in watcher.problems) else [(end, watcher.problems[:3])]

    assert unseen == []


def test_shard_order_check_detects_overwriting_renames(
    traced: Callable[..., Traced], source: Server, dest: Path, watch: Callable[..., Watcher]
) -> None:
    """The check fails for renames without the flag that protects existing files."""
    calls = traced(*arguments(source, dest, "tar")).calls
    watcher = watch("tar")

    watcher.follow([replace(call, arguments=call.arguments.replace("RENAME_NOREPLACE", "0")) for call in calls])

    assert any("could replace something" in problem for problem in watcher.problems)
