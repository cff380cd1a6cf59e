"""A process of an engine: it joins the job, fetches until there is no more, and leaves when the parent has gone."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from socket import socket
from typing import Any

# What is said when it has joined.
READY = b""


@dataclass(frozen=True)
class Member:
    """What a process does once it has a desk: `run(desk, *arguments)`."""

    run: Callable[..., None]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Seat:
    """What a process needs to join: the native job's options, its number, the kept columns, its ends of the sockets."""

    options: str
    worker: int
    kept: list[str] | None
    turns: socket
    receipts: socket


def work(pickled: bytes, seat: Seat, says: Connection) -> None:
    """The whole of the process."""
    from fetchmill._native import Desk

    # Ctrl-C reaches all processes of a terminal: the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        member: Member = pickle.loads(pickled)  # noqa: S301 - the parent's
        desk = Desk.join(seat.options, seat.worker, seat.kept, seat.turns.detach(), seat.receipts.detach())
        says.send_bytes(READY)
        if desk is None:
            return
        try:
            member.run(desk, *member.arguments)
        finally:
            desk.close()
    except BaseException as error:  # noqa: BLE001 - raised in the parent
        says.send_bytes(_pickled(error))


def _leave_with_parent() -> None:
    """Without a parent there is no journal: what would be fetched is lost."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _pickled(error: BaseException) -> bytes:
    """An error as bytes; one that does not survive that as a RuntimeError with its text."""
    try:
        pickled = bytes(ForkingPickler.dumps(error))
        pickle.loads(pickled)  # noqa: S301 - what was pickled here
    except Exception:  # noqa: BLE001 - any class of a user
        return bytes(ForkingPickler.dumps(RuntimeError(f"{type(error).__name__}: {error}")))
    return pickled
