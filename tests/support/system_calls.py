"""A command under strace: its system calls in the order in which they ended, and its journal at each sync.

The journal is rebuilt from its traced writes, so that Python's sqlite3 can read its contents at that moment.
"""

import codecs
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from foreign import STATE
from independent import open_journal

SYNCS = ("fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "msync")
CALLS = (
    *SYNCS,
    *("open", "creat", "openat", "openat2", "close", "write", "writev", "pwrite64", "pwritev", "ftruncate", "truncate"),
    *("sendto", "sendmsg"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat", "symlinkat", "mkdirat", "mkdir"),
)
JOURNAL = ("job.sqlite", "job.sqlite-wal", "job.sqlite-journal")
WAL = "job.sqlite-wal"
LINE = re.compile(r"(\d+)<(.*?)> (.*)")
PATH = re.compile(r"\d+<(.*?)>")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
NAMED = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')


@dataclass
class Call:
    """A system call: its thread, name, arguments and result in the trace, and the lines where it began and ended."""

    thread: str
    name: str
    arguments: str
    result: int
    began: int
    ended: int

    @property
    def path(self) -> str:
        """Returns the path of its descriptor, or the path that it names."""
        found = PATH.match(self.arguments)
        return found[1] if found else self.text().decode(errors="surrogateescape")

    @property
    def paths(self) -> list[Path]:
        """Returns all paths that it names, each below the folder before it."""
        return [Path(folder, codecs.escape_decode(name)[0].decode()) for folder, name in NAMED.findall(self.arguments)]

    def text(self, index: int = 0) -> bytes:
        """Returns a quoted argument."""
        return codecs.escape_decode(QUOTED.findall(self.arguments)[index])[0]

    def number(self, position: int) -> int:
        """Returns a number among the arguments, counted from the end."""
        return int(self.arguments.rsplit(", ", -position)[position])


@dataclass
class Traced:
    """A command, its calls in the order in which they ended, and its exit code."""

    calls: list[Call] = field(default_factory=list)
    code: int = 0


def read_trace(trace: Path) -> Iterator[Call]:
    """Reads calls; those that another thread interrupted are joined."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(trace.read_text(errors="surrogateescape").splitlines()):
        found = LINE.match(line)
        if not found or found[3].startswith(("+++", "---")):
            continue
        thread, rest = found[2], found[3]
        began = number
        if rest.endswith("<unfinished ...>"):
            begun[found[1]] = (number, rest.removesuffix("<unfinished ...>").rstrip())
            continue
        if rest.startswith("<... "):
            began, start = begun.pop(found[1])
            rest = start + re.sub(r"^<\.\.\. \w+ resumed>", "", rest)
        call = re.fullmatch(r"(\w+)\((.*)\)\s+= (-?\d+)(?:<.*>(?:\(deleted\))?)?(?: .*)?", rest, re.DOTALL)
        assert call is not None, line
        yield Call(thread, call[1], call[2], int(call[3]), began, number)


def trace(
    command: list[str], folder: Path, environment: Mapping[str, str], slow: Mapping[str, float] | None = None
) -> Traced:
    """Runs a command under strace in a folder, which also keeps the trace; `slow`: calls, and seconds for each."""
    strace = shutil.which("strace")
    assert strace, "strace is missing: make servers"
    lines = folder / "trace"
    options = ["-f", "--seccomp-bpf", "--decode-pids=comm", "-y", "-s", "100000", "-o", str(lines)]
    for call, seconds in (slow or {}).items():
        options += ["-e", f"inject={call}:delay_enter={round(seconds * 1_000_000)}"]
    ended = subprocess.run(
        [strace, *options, "-e", f"trace={','.join(CALLS)}", *command],
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Traced(list(read_trace(lines)), ended.returncode)


@dataclass
class JournalCopy:
    """A journal that is rebuilt from its writes."""

    folder: Path
    # A transaction is being written, or is written but not synced.
    is_begun: bool = False

    def follow(self, call: Call) -> Literal["begun", "synced"] | None:
        """Follows a call for the journal. Returns the event if a transaction begins or becomes durable."""
        copy = self.folder / Path(call.path).name
        is_wal = copy.name == WAL
        if call.name == "pwrite64":
            with copy.open("r+b" if copy.exists() else "wb") as file:
                file.seek(call.number(-1))
                file.write(call.text())
            if is_wal and not self.is_begun:
                self.is_begun = True
                return "begun"
        elif call.name == "ftruncate":
            with copy.open("r+b") as file:
                file.truncate(call.number(-1))
        elif call.name in {"unlink", "unlinkat"}:
            copy.unlink()
        elif call.name in SYNCS and is_wal and self.is_begun:
            self.is_begun = False
            return "synced"
        return None

    def remember(self, dest: Path) -> None:
        """Starts with the state after an earlier run."""
        for name in JOURNAL:
            if (dest / STATE / name).exists():
                shutil.copy(dest / STATE / name, self.folder)

    def open(self) -> sqlite3.Connection:
        """Opens it for reading."""
        return open_journal(self.folder, self.folder)


def kill_before(call: str, at: int, environment: dict[str, str], folder: Path, *command: str) -> int:
    """Runs the command and kills it before a thread's N-th such call. Returns its exit code."""
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={at}"]
    strace = ["strace", "-f", "-o", "/dev/null", *inject, *command]
    ended = subprocess.run(strace, cwd=folder, env=environment, capture_output=True, check=False, timeout=120)
    return ended.returncode
