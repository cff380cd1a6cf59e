"""System calls of a real job have this order: first bytes, then the commit record, then the journal become durable.

This file is for `files`; test_sync_order_of_packs.py is for the shards.
"""

import re
import sqlite3
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fetchmill.testing import Fault, Server
from independent import Expected, find_problems, open_journal
from system_calls import JOURNAL, SYNCS, Call, JournalCopy, Traced

Serve = Callable[..., Server]

WINDOW = ("--commit-window", "20ms")
STAGED = re.compile(r"/\.fetchmill/stage/\d+/\d+/\d+$")


@dataclass
class Watcher:
    """Follows the calls of a job and checks the order."""

    dest: Path
    journal: JournalCopy
    problems: list[str] = field(default_factory=list)
    # Closed staged files, by sequence number: the line where they were closed.
    closed: dict[int, int] = field(default_factory=dict)
    # Staged files and renames that a sync of the file system has made durable.
    staged_durable: set[int] = field(default_factory=set)
    renamed: dict[int, int] = field(default_factory=dict)
    renamed_durable: set[int] = field(default_factory=set)
    # Failures shards: bytes written and bytes synced.
    written: Counter[str] = field(default_factory=Counter)
    synced: Counter[str] = field(default_factory=Counter)
    # Manifests: the lines where bytes were written, with the file's end at that time; and how far they are durable.
    listed: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    listed_durable: Counter[str] = field(default_factory=Counter)
    # Contents of the journal at its last sync.
    journaled: set[int] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)
    # Files of an earlier run: they count as closed, because they are not known individually.
    refused_before: int = 0
    # State of the sinks when the journal began to write its current transaction.
    before: tuple[set[int], set[int], Counter[str], Counter[str]] | None = None

    def follow(self, calls: list[Call]) -> None:
        """Processes each call when it ends."""
        for call in calls:
            if call.result < 0:
                continue
            if Path(call.path).name in JOURNAL:
                self.follow_journal(call)
            elif "/.fetchmill/stage/" in call.path or call.name == "renameat2":
                self.follow_stage(call)
            elif "/.fetchmill/manifests/" in call.path and call.name == "write":
                writes = self.listed.setdefault(Path(call.path).name, [])
                writes.append((call.ended, call.result + (writes[-1][1] if writes else 0)))
            elif "/.fetchmill/failures/" in call.path:
                if call.name == "write":
                    self.written[Path(call.path).name] += call.result
                elif call.name in {"fsync", "fdatasync"}:
                    self.synced[Path(call.path).name] = self.written[Path(call.path).name]

    def follow_stage(self, call: Call) -> None:
        """Checks this order: written and closed, synced, renamed, synced."""
        if call.name == "close" and STAGED.search(call.path):
            self.closed[int(Path(call.path).name)] = call.ended
        elif call.name == "syncfs":
            self.staged_durable |= {number for number, line in self.closed.items() if line < call.began}
            self.renamed_durable |= {number for number, line in self.renamed.items() if line < call.began}
            for manifest, writes in self.listed.items():
                durable = max((end for line, end in writes if line < call.began), default=0)
                self.listed_durable[manifest] = max(self.listed_durable[manifest], durable)
            self.seen["syncfs"] += 1
        elif call.name == "renameat2":
            number = int(Path(call.text().decode()).name)
            if number not in self.journaled:
                self.problems.append(f"{number} was renamed before the journal was synced with it as staged")
            if "RENAME_NOREPLACE" not in call.arguments:
                self.problems.append(f"{number} was renamed so that it could replace something")
            self.renamed[number] = call.ended
            self.seen["renames"] += 1

    def follow_journal(self, call: Call) -> None:
        """Compares the journal with the data that was durable when its transaction began."""
        event = self.journal.follow(call)
        if event == "begun":
            synced = (self.synced.copy(), self.listed_durable.copy())
            self.before = (set(self.staged_durable), set(self.renamed_durable), *synced)
        elif event == "synced" and self.before is not None:
            self.check(*self.before)

    def check(
        self, staged_durable: set[int], renamed_durable: set[int], synced: Counter[str], listed: Counter[str]
    ) -> None:
        """Checks that everything that the journal calls durable was durable before the journal wrote it."""
        found = self.read_journal()
        fetched = {number for number in found.settled if number in self.closed}
        never_staged = len(found.settled - fetched) + self.refused_before
        if never_staged != found.refused:
            self.problems.append(f"{found.refused} are refused, {never_staged} were never staged")
        if missing := found.staged - staged_durable:
            self.problems.append(f"journaled as staged and not durable: {sorted(missing)[:5]}")
        if missing := fetched - renamed_durable:
            self.problems.append(f"journaled as fetched and its rename not durable: {sorted(missing)[:5]}")
        for shard, end in found.failures.items():
            if synced[shard] < end:
                self.problems.append(f"{shard} is journaled up to {end} and durable up to {synced[shard]}")
        for manifest, end in found.manifests.items():
            if listed[manifest] < end:
                self.problems.append(f"{manifest} is journaled up to {end} and durable up to {listed[manifest]}")
        self.journaled = found.staged
        self.seen["windows"] += bool(found.staged)
        self.seen["failures"] += bool(found.failures)
        self.seen["manifests"] += bool(found.manifests)

    def remember(self) -> None:
        """Takes over the state of an earlier run: its journal, staged files, and renamed files."""
        self.journal.remember(self.dest)
        found = self.read_journal()
        on_disk = {int(path.name) for path in self.dest.glob(".fetchmill/stage/*/*/*")}
        # These files were renamed, but the renames might not survive a power cut.
        self.renamed = dict.fromkeys(found.staged - on_disk, -1)
        self.closed = dict.fromkeys(found.settled | found.staged, -1)
        self.staged_durable = set(self.closed)
        self.renamed_durable = set(found.settled)
        self.journaled = found.staged
        self.refused_before = found.refused
        for shard in found.failures:
            size = (self.dest / ".fetchmill" / "failures" / shard).stat().st_size
            self.written[shard] = self.synced[shard] = size
        for manifest in found.manifests:
            size = (self.dest / ".fetchmill" / "manifests" / manifest).stat().st_size
            self.listed[manifest], self.listed_durable[manifest] = [(-1, size)], size

    def read_journal(self) -> "Journaled":
        """Returns the contents of the copied journal."""
        with closing(self.journal.open()) as db:
            return read_journal(db)


@dataclass
class Journaled:
    """Contents of a journal: staged and finished sequence numbers, ends of files, and the number of refused targets."""

    staged: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    failures: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    refused: int = 0


def read_journal(db: sqlite3.Connection) -> Journaled:
    """Reads a journal."""
    if "staged" not in {row[0] for row in db.execute("SELECT name FROM sqlite_master")}:
        return Journaled()
    staged = {number for (blob,) in db.execute("SELECT sequences FROM staged") for number in runs(blob)}
    # A page leaves the table when all of its targets are finished.
    settled = set(range(db.execute("SELECT next_sequence FROM tally").fetchone()[0]))
    for first, count, bits in db.execute("SELECT first, count, settled FROM pages"):
        settled -= {first + at for at in range(count) if not (bits and bits[at // 8] >> at % 8 & 1)}
    settled -= {row[0] for row in db.execute("SELECT sequence FROM waiting")}
    failures = dict(db.execute("SELECT path, end FROM failures"))
    refused = db.execute("SELECT absent + failed FROM tally").fetchone()[0]
    manifests = dict(db.execute("SELECT path, end FROM manifests"))
    return Journaled(staged, settled, failures, manifests, refused)


def has_staged(dest: Path) -> bool:
    """Returns whether the journal of a running job has a staged window."""
    with closing(open_journal(dest)) as db:
        return bool(read_journal(db).staged)


def runs(blob: bytes) -> Iterator[int]:
    """Returns the numbers in a column of runs (docs/reference/formats.md)."""
    for first, length in struct.iter_unpack("<QQ", blob):
        yield from range(first, first + length)


def make_content(folder: Path) -> Expected:
    """Creates small files in folders, some refused ones, and two that do not fit into memory."""
    bodies = {f"{index % 5}/{index}": b"x" * (index % 3000) for index in range(400)}
    bodies |= {"large": bytes(1_300_000), "1/large": bytes(1_100_000)}
    for name, body in bodies.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    refused = frozenset(name for name in bodies if name.startswith("3/3"))
    return Expected({name: body for name, body in bodies.items() if name not in refused}, refused)


@pytest.fixture
def content(tmp_path: Path) -> Expected:
    """Returns the served contents."""
    return make_content(tmp_path / "content")


@pytest.fixture
def source(server: Serve, tmp_path: Path, content: Expected) -> Server:
    """Serves a job of half a second: ten windows or more."""
    del content
    faults = [Fault("status", status=404, match="3/3*")]
    return server(tmp_path / "content", page_size=50, delay=(0.0, 0.12), list_delay=(0.0, 0.03), faults=faults)


@pytest.fixture
def watcher(dest: Path, tmp_path: Path) -> Watcher:
    """Creates a watcher without earlier runs."""
    (tmp_path / "copies").mkdir()
    return Watcher(dest, JournalCopy(tmp_path / "copies"))


def assert_no_sync_where_it_fetches(calls: list[Call]) -> None:
    """Checks that fetching threads write only bodies that are too large for memory."""
    threads = Counter(call.thread for call in calls)
    syncing = Counter(call.thread for call in calls if call.name in SYNCS)

    assert threads["fetchmill-fetch"] > 0, threads
    allowed = {f"fetchmill-{name}" for name in ("start", "job", "sink", "sync", "journ")}
    assert set(syncing) <= allowed, syncing


def test_journal_is_synced_after_data_it_covers(
    traced: Callable[..., Traced], source: Server, dest: Path, content: Expected, watcher: Watcher
) -> None:
    """Staged files, renames and failures are durable before the journal says so; renames follow."""
    ended = traced("get", source.url, dest, *WINDOW)

    watcher.follow(ended.calls)

    assert ended.code == 3
    assert watcher.problems == []
    assert find_problems(dest, content) == []
    assert watcher.seen["renames"] == len(content.bodies)
    assert watcher.seen["windows"] >= 5
    assert watcher.seen["failures"] >= 1
    assert watcher.seen["manifests"] >= 5
    assert watcher.seen["syncfs"] >= 5
    assert_no_sync_where_it_fetches(ended.calls)


def test_next_window_is_staged_during_sync(
    traced: Callable[..., Traced], source: Server, dest: Path, content: Expected, watcher: Watcher
) -> None:
    """Each sync takes 0.2 s. Objects are staged in the meantime, and the order stays correct."""
    ended = traced("get", source.url, dest, *WINDOW, slow={"syncfs": 0.2})

    watcher.follow(ended.calls)

    syncs = [call for call in ended.calls if call.name == "syncfs"]
    staged = [call.ended for call in ended.calls if call.name == "close" and STAGED.search(call.path)]
    meanwhile = [line for line in staged if any(sync.began < line < sync.ended for sync in syncs)]
    assert len(meanwhile) >= 50
    assert (ended.code, watcher.problems, find_problems(dest, content)) == (3, [], [])


def test_resumed_run_keeps_sync_order(
    traced: Callable[..., Traced],
    start: Callable[..., subprocess.Popen[str]],
    source: Server,
    dest: Path,
    content: Expected,
    watcher: Watcher,
) -> None:
    """Files that a killed run has staged are renamed, synced and then journaled."""
    process = start("get", source.url, dest, *WINDOW)
    while not (list(dest.glob(".fetchmill/stage/*/*/*")) and has_staged(dest)):
        assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    watcher.remember()

    ended = traced("get", source.url, dest, *WINDOW)
    watcher.follow(ended.calls)

    assert ended.code == 3
    assert watcher.problems == []
    assert find_problems(dest, content) == []


def test_sync_order_check_detects_missing_syncs(
    traced: Callable[..., Traced], source: Server, dest: Path, tmp_path: Path, watcher: Watcher
) -> None:
    """The check fails for traces without the syncs of files or without those of the journal."""
    ended = traced("get", source.url, dest, *WINDOW)
    (tmp_path / "unsynced").mkdir()
    unsynced = Watcher(dest, JournalCopy(tmp_path / "unsynced"))

    watcher.follow([call for call in ended.calls if call.name != "syncfs"])
    unsynced.follow([call for call in ended.calls if not (call.name in SYNCS and Path(call.path).name in JOURNAL)])

    assert any("its rename not durable" in problem for problem in watcher.problems)
    assert any("as staged and not durable" in problem for problem in watcher.problems)
    assert any("before the journal was synced" in problem for problem in unsynced.problems)


def test_sync_pass_files_are_durable_before_next_step(
    traced: Callable[..., Traced], source: Server, dest: Path
) -> None:
    """In each step, a pass renames a whole file into place, and syncs the folder before anything else changes."""
    folder = str(dest / ".fetchmill/sync")
    unsynced: dict[str, int] = {}
    problems, renamed = [], 0

    ended = traced("sync", source.url, dest)
    for call in ended.calls:
        if call.name in SYNCS and call.path == folder:
            unsynced = {name: line for name, line in unsynced.items() if line > call.began}
        elif call.name in {"rename", "renameat2", "unlink", "unlinkat"} and str(call.paths[-1].parent) == folder:
            problems += [f"{call.name}({call.arguments}) before {name} is durable" for name in unsynced]
            if call.name.startswith("rename"):
                unsynced[call.paths[-1].name] = call.ended
                renamed += 1

    assert ended.code == 3
    assert (problems, list(unsynced)) == ([], [])
    assert renamed >= 4


def test_process_durability_keeps_order_without_syncs(
    traced: Callable[..., Traced], source: Server, dest: Path, content: Expected
) -> None:
    """Nothing is synced, neither in the first run nor in a retry run."""
    for arguments in ((), ("--retry-failed",)):
        ended = traced("get", source.url, dest, *WINDOW, "--durability", "process", *arguments)

        assert ended.code == 3
        assert [f"{call.name} {call.path}" for call in ended.calls if call.name in SYNCS] == []
        assert find_problems(dest, content) == []


def test_job_writes_nothing_outside_destination(traced: Callable[..., Traced], source: Server, dest: Path) -> None:
    """No file elsewhere is opened for writing, created, renamed or removed."""
    ended = traced("get", source.url, dest, *WINDOW)

    changes = {"creat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat", "symlinkat"}
    elsewhere = []
    for call in ended.calls:
        opens = call.name in {"open", "openat", "openat2"} and re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", call.arguments)
        if opens or call.name in changes or call.name in {"mkdir", "mkdirat", "truncate"}:
            folder = call.path if Path(call.path).is_absolute() else str(dest.parent / call.path)
            if not (folder == "/dev/null" or Path(folder).is_relative_to(dest)):
                elsewhere.append(f"{call.name}({call.arguments})")
    assert elsewhere == []
    assert any(call.name == "openat" and "O_CREAT" in call.arguments for call in ended.calls)
