"""An engine's process, which joins the job, fetches until no targets are left, and exits if the parent ends."""

import contextlib
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from socket import socket
from typing import Any

from fetchmill.bounded.interrupts import ignore_interrupts
from fetchmill.engines.garbage import collect_rarely

# Sent when the process has joined the job.
READY = b""


@dataclass(frozen=True)
class WorkerMain:
    """The work of a process, once it has a dispatcher: `run(dispatcher, *arguments)`."""

    run: Callable[..., None]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class JoinParameters:
    """The parameters for joining a job: its options, the worker's number, the columns to keep, and the socket ends."""

    options: str
    worker: int
    kept: list[tuple[str, str]] | None
    turns: socket
    receipts: socket


def run_worker(pickled: bytes, parameters: JoinParameters, messages: Connection) -> None:
    """Join the job and fetch its targets. Errors are sent to the parent."""
    ignore_interrupts()
    from fetchmill._native import Dispatcher

    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        worker_main: WorkerMain = pickle.loads(pickled)  # noqa: S301 - sent by the parent
        collect_rarely()
        dispatcher = Dispatcher.join(
            parameters.options,
            parameters.worker,
            parameters.kept,
            parameters.turns.detach(),
            parameters.receipts.detach(),
        )
        messages.send_bytes(READY)
        if dispatcher is None:
            return
        try:
            worker_main.run(dispatcher, *worker_main.arguments)
        finally:
            dispatcher.close()
    except BaseException as error:  # noqa: BLE001 - re-raised in the parent
        # If the job has ended, nothing reads the pipe.
        with contextlib.suppress(BrokenPipeError):
            messages.send_bytes(_pickle_error(error))


def _exit_with_parent() -> None:
    """Exit when the parent ends. Only the parent writes the journal, so objects fetched later would be lost."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _pickle_error(error: BaseException) -> bytes:
    """Pickle an error. An error that does not survive pickling becomes a RuntimeError with the same text."""
    try:
        pickled = bytes(ForkingPickler.dumps(error))
        pickle.loads(pickled)  # noqa: S301 - pickled here
    except Exception:  # noqa: BLE001 - unpickling a user's class may raise anything
        return bytes(ForkingPickler.dumps(RuntimeError(f"{type(error).__name__}: {error}")))
    return pickled
