"""Reads from /proc the resources used by a process and by all processes that it has started."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KIB = 1024


@dataclass(frozen=True)
class _Stat:
    """A line of /proc/PID/stat."""

    parent: int
    group: int
    started: int
    cpu_seconds: float


@dataclass(frozen=True)
class Sample:
    """The total resources used by processes.

    Args:
        cpu_seconds: user and system seconds so far, including those of children that were waited for.
        memory_bytes: current memory. Shared memory counts only once, because it is divided among the processes that
            share it.
    """

    cpu_seconds: float
    memory_bytes: int


class ProcessTree:
    """A process that leads its own group, the other members of the group, and descendants that have left the group.

    Args:
        root: the id of that process.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._members: dict[int, int] = {}
        self._others: set[int] = set()

    def sample(self) -> Sample:
        """Returns the resources of all members."""
        pids = self._pids()
        stats = [stat for pid in pids if (stat := _read_stat(pid)) is not None]
        return Sample(sum(stat.cpu_seconds for stat in stats), sum(map(_memory_bytes, pids)))

    def kill(self) -> None:
        """Kills all members. Call this before waiting for the root, whose process id could be reused afterwards."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._root, signal.SIGKILL)
        for pid, started in self._members.items():
            stat = _read_stat(pid)
            if stat is not None and stat.started == started and stat.group != self._root:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _pids(self) -> list[int]:
        """Returns the current members. Each process on the machine is checked only once, when it first appears."""
        present = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 - only numbers
        self._others.intersection_update(present)
        for pid in present:
            if pid in self._members or pid in self._others:
                continue
            stat = _read_stat(pid)
            if stat is not None and (self._root in (pid, stat.group) or stat.parent in self._members):
                self._members[pid] = stat.started
            else:
                self._others.add(pid)
        for pid in self._members.keys() - set(present):
            del self._members[pid]
        return list(self._members)


def cpu_seconds(pid: int) -> float:
    """Returns the user and system seconds of a process so far; 0 if the process does not exist."""
    stat = _read_stat(pid)
    return 0.0 if stat is None else stat.cpu_seconds


def _read_stat(pid: int) -> _Stat | None:
    """Returns a process's line from /proc; None if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name is in parentheses, and may itself contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return _Stat(int(fields[1]), int(fields[2]), int(fields[19]), sum(map(int, fields[11:15])) / _TICK)


def _memory_bytes(pid: int) -> int:
    """Returns the proportional set size. If the kernel does not report it, returns the resident set size."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * _KIB
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    return 0
