"""Programs that tests of the engines run separately, to interrupt and kill them.

Usage: engine_programs.py PROGRAM ENGINE DEST [MORE]
"""

import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fetchmill
from engine_functions import give_slowly, give_slowly_soon
from engines import PATIENCE, WITH_COROUTINES, engine_keywords, limit_of, worker_processes
from independent import synthetic_name

# Nothing is requested at this port.
NOWHERE = "http://127.0.0.1:1"
WINDOW = 0.05


def endless(engine: str, dest: str, source: str) -> None:
    """Fetches from an endless generator until it is interrupted; prints what is left in the process."""
    last = 0

    def targets() -> Iterator[tuple[str, str]]:
        nonlocal last
        for last in itertools.count():
            yield f"{source}/get/{synthetic_name(last % 1000)}", f"n{last}"

    threads = _threads()
    try:
        fetchmill.get(targets(), dest, format="files", commit_window=WINDOW, **engine_keywords(engine))
    except KeyboardInterrupt:
        deadline = time.monotonic() + PATIENCE
        while (_threads() > threads or worker_processes(os.getpid())) and time.monotonic() < deadline:
            time.sleep(0.005)
    left = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    print(  # noqa: T201 - for the test
        json.dumps(
            {
                "taken": last,
                "threads": _threads() - threads,
                "processes": len(worker_processes(os.getpid())),
                "open": [link for link in left if link.startswith(os.path.realpath(dest))],
            }
        )
    )


def own_function(engine: str, dest: str, count: str) -> None:
    """Fetches the given number of targets with a function that makes each body from its target's name."""
    given = give_slowly_soon if engine in WITH_COROUTINES else give_slowly
    targets = ((f"{NOWHERE}/{index}", f"n{index}") for index in range(int(count)))
    settings: dict[str, Any] = {"fetch": given, "limit": limit_of(engine), **engine_keywords(engine)}
    fetchmill.get(targets, dest, commit_window=WINDOW, **settings)


def _threads() -> int:
    """Returns the threads of this process, without those that uvloop keeps after its first name look-up."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            count += (task / "comm").read_text().strip() != "libuv-worker"
    return count


PROGRAMS: dict[str, Callable[..., None]] = {"endless": endless, "own_function": own_function}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
