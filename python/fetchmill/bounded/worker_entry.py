"""What runs in a worker process: it gets items by a pipe, calls the function, and gives outcomes back.

It imports little, because every worker process has to.
"""

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from fetchmill.bounded.interrupts import ignore_interrupts

# What the parent sends instead of items when there are no more.
END = b""


@dataclass(frozen=True, slots=True)
class WorkerFunctions:
    """What a worker process does."""

    function: Callable[..., Any]
    on_start: Callable[[], Any] | None
    on_done: Callable[[Any], object] | None
    keeps_values: bool
    """Whether anybody wants to have what the function gives."""

    def start(self) -> tuple[Any, ...]:
        """What each call gets beside its item."""
        return () if self.on_start is None else (self.on_start(),)

    def call(self, arguments: tuple[Any, ...], started: tuple[Any, ...]) -> Any:  # noqa: ANN401 - whatever it gives
        """The function with one item."""
        value = self.function(*arguments, *started)
        return value if self.keeps_values else None

    def end(self, started: tuple[Any, ...]) -> None:
        """Puts away what was started."""
        if self.on_done is not None:
            self.on_done(*started or (None,))


def serve(connection: Connection, functions: WorkerFunctions) -> None:
    """Works until the parent says that it is over, or is gone."""
    ignore_interrupts()
    try:
        started = functions.start()
    except BaseException as error:  # noqa: BLE001 - raised in the parent
        connection.send_bytes(_encode_error(error))
        return
    try:
        connection.send_bytes(_encode_value(None))
        while (request := connection.recv_bytes()) != END:
            outcomes = [_call(functions, pickled, started) for pickled in pickle.loads(request)]  # noqa: S301 - the parent's
            connection.send_bytes(pickle.dumps(outcomes))
            del request, outcomes
    except (EOFError, OSError):
        # The parent is gone: nobody is left who would want to know how it ends.
        functions.end(started)
        return
    connection.send_bytes(_end(functions, started))


def _call(functions: WorkerFunctions, pickled: bytes, started: tuple[Any, ...]) -> bytes:
    """What the function gives or raises for an item, as bytes: each by itself, so that what cannot be fails alone."""
    try:
        return _encode_value(functions.call(pickle.loads(pickled), started))  # noqa: S301 - the parent's
    except BaseException as error:  # noqa: BLE001 - raised in the parent
        return _encode_error(error)


def _end(functions: WorkerFunctions, started: tuple[Any, ...]) -> bytes:
    try:
        functions.end(started)
    except BaseException as error:  # noqa: BLE001 - raised in the parent
        return _encode_error(error)
    return _encode_value(None)


def _encode_value(value: Any) -> bytes:  # noqa: ANN401 - whatever the function gives
    return bytes(ForkingPickler.dumps((value, None, "")))


def _encode_error(error: BaseException) -> bytes:
    """An error as bytes; one that does not survive pickling as a RuntimeError with its text."""
    text = "".join(traceback.format_exception(error))
    try:
        pickled = bytes(ForkingPickler.dumps((None, error, text)))
        pickle.loads(pickled)  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever a class of somebody else's does when it is made again
        instead = RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
        return pickle.dumps((None, instead, text))
    return pickled
