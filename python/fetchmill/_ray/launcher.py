"""The process `python -m fetchmill._ray.launcher`, which keeps workers running in a Ray cluster.

The first line of the input is an order. Each further line is a command: `drain`, `abort` or `end`. The end of the input
means `abort`, because the process that sent the order has ended. The launcher writes events as JSON lines: `say` with a
message for the user, `received` with a command, and `kind` with `error` if the launcher fails.
"""

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from fetchmill.errors import FetchmillError

_STEP_SECONDS = 0.2
# Time limit for a worker to end after it was asked to end.
_DRAIN_SECONDS = 27.0
# Time limit for connecting. A local Ray starts within 5 s on a quiet machine.
_CONNECT_SECONDS = 120.0
# Time limit for workers to end by themselves when the job is finished.
_END_SECONDS = 1.5
# Time limit for Ray's shutdown, which may wait for nodes that do not answer.
_SHUTDOWN_SECONDS = 1.0
_SET_PDEATHSIG = 1


class _Commands:
    """The lines of the input after the order."""

    def __init__(self, source: TextIO, emit: Any) -> None:  # noqa: ANN401 - any keyword arguments
        self._source = source
        self._emit = emit
        self._last = ""
        threading.Thread(target=self._read, name="fetchmill-commands", daemon=True).start()

    @property
    def last(self) -> str:
        """The last command; empty before the first one."""
        return self._last

    def _read(self) -> None:
        for line in self._source:
            self._last = line.strip()
            self._emit(received=self._last)
        if self._last != "end":
            self._last = "abort"


def main() -> int:
    """Run until a command ends the launcher, or all workers have ended."""
    # This process must not outlive the caller. Ray's local processes end with this process.
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints to standard output, which is for events
    lock = threading.Lock()

    def emit(**values: Any) -> None:  # noqa: ANN401 - JSON
        with lock, suppress(OSError):  # the caller has ended
            events.write(json.dumps(values) + "\n")
            events.flush()

    order = json.loads(sys.stdin.readline())
    try:
        _run(order, _Commands(sys.stdin, emit), emit)
    except FetchmillError as error:
        emit(kind=type(error).__name__, error=str(error))
        return 1
    return 0


@contextmanager
def _limit(emit: Any) -> Iterator[None]:  # noqa: ANN401 - any keyword arguments
    """End this process if Ray does not answer, because Ray's own limits add up to many minutes."""

    def end() -> None:
        where = os.environ.get("RAY_ADDRESS") or "the cluster that was found on this machine"
        emit(
            kind="TemporaryError",
            error=f"{where} did not respond within {_CONNECT_SECONDS:.0f} s; check RAY_ADDRESS and `ray status`, or "
            "set RAY_ADDRESS=local for a local Ray",
        )
        os._exit(1)

    timer = threading.Timer(_CONNECT_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _run(order: dict[str, Any], commands: _Commands, emit: Any) -> None:  # noqa: ANN401 - any keyword arguments
    from fetchmill._ray.cluster import connect, disconnect
    from fetchmill._ray.pool import RayPool

    with _limit(emit):
        emit(say=connect())
    pool = RayPool(order, emit)
    try:
        while not commands.last and pool.tend():
            time.sleep(_STEP_SECONDS)
        _end(pool, commands)
    finally:
        pool.close()
        limit = threading.Timer(_SHUTDOWN_SECONDS, os._exit, (0,))
        limit.daemon = True
        limit.start()
        disconnect()
        limit.cancel()


def _end(pool: Any, commands: _Commands) -> None:  # noqa: ANN401 - a RayPool, whose module imports Ray
    """Wait for the workers to end. The time limit depends on the last command."""
    began = time.monotonic()
    done = ""
    while pool.has_running():
        command = commands.last
        if command != done and command in ("drain", "abort"):
            pool.drain(now=command == "abort")
            began = time.monotonic()
        done = command
        if time.monotonic() - began > (_DRAIN_SECONDS if command == "drain" else _END_SECONDS):
            return
        time.sleep(_STEP_SECONDS)


if __name__ == "__main__":
    os._exit(main())
