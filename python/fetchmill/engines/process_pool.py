"""The parent's pool of engine processes. It starts them, attaches them to the job, and restarts dead processes."""

import contextlib
import multiprocessing
import pickle
import socket
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING

from fetchmill.bounded.interrupts import start_without_interrupts
from fetchmill.bounded.portable import NotPortableError, portable
from fetchmill.engines.worker_entry import READY, JoinParameters, WorkerMain, run_worker
from fetchmill.errors import FetchmillError, UsageError

if TYPE_CHECKING:
    from fetchmill._native import Job

# Maximum number of consecutive failed starts of a process. A start fails if the process dies before it joins the job.
STARTS_MAX = 3
POLL_SECONDS = 0.1
# A process that does not end within this time, for example because it is waiting for a server, is killed.
JOIN_SECONDS = 2.0


@dataclass
class _Slot:
    """A worker: its work, its process, and the number of consecutive failed starts."""

    worker: int
    worker_main: bytes
    process: SpawnProcess | None = None
    messages: Connection | None = None
    failed_starts: int = 0
    was_started: bool = False


class ProcessPool:
    """Worker processes that fetch targets. They exchange targets, answers and commit records with the native job.

    Another process is started only if the running ones cannot make as many concurrent requests as the job requires.

    Args:
        job: the job, which has one worker for each of `worker_mains`.
        options: the options of the job, for the native module.
        worker_mains: the pickled work of each process.
    """

    def __init__(self, job: "Job", options: str, worker_mains: list[bytes]) -> None:
        self._job = job
        self._options = options
        self._slots = [_Slot(worker, worker_main) for worker, worker_main in enumerate(worker_mains)]
        # One thread starts the processes, and another kills them.
        self._lock = threading.Lock()
        self._is_killed = False

    def run(self) -> None:
        """Run the processes until the job has ended. If a process raised an error, raise it."""
        context = multiprocessing.get_context("spawn")
        try:
            while not self._job.wait(0):
                self._start_wanted(context)
                sentinels = [slot.process.sentinel for slot in self._slots if slot.process]
                if not sentinels:
                    self._job.wait(POLL_SECONDS)
                elif ended := wait(sentinels, POLL_SECONDS):
                    for slot in self._slots:
                        if slot.process and slot.process.sentinel in ended:
                            self._on_exit(context, slot)
        finally:
            self.end()

    def end(self) -> None:
        """Wait up to `JOIN_SECONDS` for each process to end, then kill it if necessary."""
        for slot in self._slots:
            process = slot.process
            if process is None:
                continue
            process.join(JOIN_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            slot.process = None

    def kill(self) -> None:
        """Kill all processes immediately, and do not start new ones."""
        with self._lock:
            self._is_killed = True
            processes = [slot.process for slot in self._slots if slot.process is not None]
        for process in processes:
            _kill(process)

    def _start_wanted(self, context: multiprocessing.context.SpawnContext) -> None:
        """Start the processes that the job needs."""
        if all(slot.was_started for slot in self._slots):
            return
        for slot in self._slots[: self._job.snapshot()["concurrency"]]:
            if not slot.was_started:
                slot.was_started = True
                self._start(context, slot)

    def _start(self, context: multiprocessing.context.SpawnContext, slot: _Slot) -> None:
        own_turns, turns = socket.socketpair()
        own_receipts, receipts = socket.socketpair()
        slot.messages, messages = context.Pipe(duplex=False)
        parameters = JoinParameters(self._options, slot.worker, self._job.kept(), turns, receipts)
        process = context.Process(
            target=run_worker, args=(slot.worker_main, parameters, messages), name="fetchmill-worker"
        )
        with turns, receipts, messages:
            start_without_interrupts(process)
        with self._lock:
            # From now on, other threads can wait for the process or kill it.
            slot.process = process
            is_killed = self._is_killed
        if is_killed:
            _kill(process)
        pid = process.pid or 0
        self._job.attach(slot.worker, pid, own_turns.detach(), own_receipts.detach())

    def _on_exit(self, context: multiprocessing.context.SpawnContext, slot: _Slot) -> None:
        """Handle the end of a process that finished, failed or died."""
        process, messages = slot.process, slot.messages
        if process is None or messages is None:
            return
        with messages:
            has_joined = _read_messages(messages)
        process.join()
        code = process.exitcode
        slot.process = slot.messages = None
        if code == 0 or self._is_over():
            return
        slot.failed_starts = 0 if has_joined else slot.failed_starts + 1
        if slot.failed_starts >= STARTS_MAX:
            raise UsageError(
                f"the processes of this engine ended before they were ready (exit code {code}); check "
                "that the program starts below `if __name__ == '__main__':`"
            )
        self._start(context, slot)

    def _is_over(self) -> bool:
        return self._job.snapshot()["phase"] in ("draining", "done")


def pickle_worker_main(worker_main: WorkerMain) -> bytes:
    """Pickle the work of a process.

    Raises:
        UsageError: the work cannot be pickled.
    """
    try:
        return bytes(ForkingPickler.dumps(portable(worker_main)))
    except NotPortableError as error:
        raise UsageError(f"cannot send fetch, on_start and on_done to the processes of this engine: {error}") from error


def _kill(process: SpawnProcess) -> None:
    with contextlib.suppress(ValueError):  # the process may have ended in the meantime
        process.kill()


def _read_messages(messages: Connection) -> bool:
    """Return whether the process has joined the job. If the process sent an error, raise it."""
    received = []
    with contextlib.suppress(EOFError, OSError):
        while messages.poll():
            received.append(messages.recv_bytes())
    for pickled in received:
        if pickled != READY:
            error = pickle.loads(pickled)  # noqa: S301 - from our own process
            raise error if isinstance(error, BaseException) else FetchmillError(str(error))
    return bool(received)
