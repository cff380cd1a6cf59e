"""The engines, and shared code of their tests: options, requests in flight, processes.

`FETCHMILL_ENGINES` selects some of them, separated by commas: `FETCHMILL_ENGINES=native,sync`. `pipelined` is `native`
with `--pipeline 32`: it keeps the same promises, but takes no lists.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from raw_server import Behaviour, Exchange, reply

ALL = ("native", "sync", "threads", "processes", "asyncio", "combo")
ENGINES = tuple((os.environ.get("FETCHMILL_ENGINES") or ",".join(ALL)).split(","))
IN_PYTHON = tuple(engine for engine in ENGINES if engine not in {"native", "pipelined"})
# Engines that accept lists and iterables.
WITH_LISTS = tuple(engine for engine in ENGINES if engine != "pipelined")
# Engines whose workers are processes.
WITH_PROCESSES = tuple(engine for engine in ENGINES if engine in {"processes", "combo"})
# Engines that call a coroutine function instead of a plain one.
WITH_COROUTINES = ("asyncio", "combo")
# Time limit in seconds for events that come immediately on a quiet machine.
PATIENCE = 60.0


def engine_options(engine: str) -> tuple[str, ...]:
    """Returns the command line options. `native` is used if none is named."""
    if engine == "pipelined":
        return ("--pipeline", "32")
    return () if engine == "native" else ("--engine", engine)


def engine_keywords(engine: str) -> dict[str, Any]:
    """Returns the same for `fetchmill.get`."""
    if engine == "pipelined":
        return {"pipeline": 32}
    return {} if engine == "native" else {"engine": engine}


def limit_of(engine: str, limit: int = 8) -> int:
    """Returns an engine's number of requests in flight in a test, if other engines have the given number.

    With `processes`, each request needs its own process, which takes longer to start.
    """
    return {"sync": 1, "processes": min(limit, 3)}.get(engine, limit)


def limit_options(engine: str, limit: int = 8) -> tuple[str, ...]:
    """Returns the same as command line options."""
    return ("--concurrency", str(limit_of(engine, limit)))


def pace(engine: str, seconds: float) -> tuple[float, float]:
    """Returns the delay of replies with which an engine at its limit needs the given seconds per target."""
    return (0.0, 2 * seconds * limit_of(engine))


class InFlight:
    """Answers slowly, and counts the requests in progress.

    Args:
        seconds: duration of each request.
    """

    def __init__(self, seconds: float = 0.02) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def answer(self, name: str) -> Behaviour:
        """Returns the reply for a name."""

        def behave(_exchange: Exchange) -> bytes:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            time.sleep(self._seconds)
            with self._lock:
                self._now -= 1
            return reply(name.encode())

        return behave


def wait_for(is_so: Callable[[], bool], pause: float = 0.002) -> bool:
    """Returns whether a condition becomes true in time."""
    deadline = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < deadline:
        time.sleep(pause)
    return is_so()


# --- processes ---------------------------------------------------------------------------------------------------


def children(pid: int) -> set[int]:
    """Returns the living processes that a process has started."""
    found: set[int] = set()
    for task in _entries(f"/proc/{pid}/task"):
        found |= {int(child) for child in _text(f"/proc/{pid}/task/{task}/children").split()}
    return {child for child in found if _is_alive(child)}


def worker_processes(pid: int) -> set[int]:
    """Returns the same without the process that tracks shared memory for the standard library."""
    return {child for child in children(pid) if "resource_tracker" not in _text(f"/proc/{child}/cmdline")}


def group_members(group: int) -> set[int]:
    """Returns the living processes of a process group."""
    return {pid for pid in _processes() if _status(pid)[2:3] == [str(group)] and _is_alive(pid)}


def kill_group(group: int) -> None:
    """Sends SIGKILL to a process group, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def group_ends(group: int) -> bool:
    """Returns whether a process group ends in time; remaining processes are killed."""
    if wait_for(lambda: not group_members(group), pause=0.02):
        return True
    kill_group(group)
    return False


def _processes() -> Iterator[int]:
    return (int(entry) for entry in _entries("/proc") if entry.isdigit())


def _is_alive(pid: int) -> bool:
    """Returns whether a process is alive; a zombie counts as ended."""
    return _status(pid)[:1] not in ([], ["Z"], ["X"])


def _status(pid: int) -> list[str]:
    """Returns state, parent and process group; None if it is gone. Its name may have any letters."""
    return _text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:3]


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return []


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
