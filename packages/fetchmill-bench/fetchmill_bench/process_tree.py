"""What a process and all that it has started take, read from /proc."""

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
    """What processes take together.

    Args:
        cpu_seconds: user and system seconds so far, with those of children that their parents have waited for.
        memory_bytes: memory now; what processes share is counted once, divided among those who share it.
    """

    cpu_seconds: float
    memory_bytes: int


class ProcessTree:
    """A process that leads a group of its own, the group, and the descendants that have left it.

    Args:
        root: its process id.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._members: dict[int, int] = {}
        self._others: set[int] = set()

    def sample(self) -> Sample:
        """What all of them take."""
        pids = self._pids()
        stats = [stat for pid in pids if (stat := _read_stat(pid)) is not None]
        return Sample(sum(stat.cpu_seconds for stat in stats), sum(map(_memory_bytes, pids)))

    def kill(self) -> None:
        """Ends all of them. The root must not have been waited for: its number would be free for another group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._root, signal.SIGKILL)
        for pid, started in self._members.items():
            stat = _read_stat(pid)
            if stat is not None and stat.started == started and stat.group != self._root:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _pids(self) -> list[int]:
        """Members that are there. Each process of the machine is looked at once, when it is new."""
        present = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 - numbers only
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
    """User and system seconds so far of a process; 0 when it is not there."""
    stat = _read_stat(pid)
    return 0.0 if stat is None else stat.cpu_seconds


def _read_stat(pid: int) -> _Stat | None:
    """None of a process that has gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name, in brackets, may hold spaces and brackets.
    fields = text.rpartition(")")[2].split()
    return _Stat(int(fields[1]), int(fields[2]), int(fields[19]), sum(map(int, fields[11:15])) / _TICK)


def _memory_bytes(pid: int) -> int:
    """The proportional set size; the resident one where the kernel does not tell the other."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * _KIB
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    return 0
