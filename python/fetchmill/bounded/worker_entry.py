"""The main function of a worker process: receives items over a pipe, calls the function, and sends back outcomes.

It imports little, because every worker process pays for the imports.
"""

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from fetchmill.bounded.interrupts import ignore_interrupts

# The parent's message that there are no more items.
END = b""


@dataclass(frozen=True, slots=True)
class WorkerFunctions:
    """The functions that a worker process calls."""

    function: Callable[..., Any]
    on_start: Callable[[], Any] | None
    on_done: Callable[[Any], object] | None
    keeps_values: bool
    """Whether the function's values are sent back; otherwise None is sent."""

    def start(self) -> tuple[Any, ...]:
        """Call `on_start`. Return the extra arguments of each call."""
        return () if self.on_start is None else (self.on_start(),)

    def call(self, arguments: tuple[Any, ...], started: tuple[Any, ...]) -> Any:  # noqa: ANN401 - any return value
        """Call the function with one item."""
        value = self.function(*arguments, *started)
        return value if self.keeps_values else None

    def end(self, started: tuple[Any, ...]) -> None:
        """Call `on_done` with the value of `on_start`."""
        if self.on_done is not None:
            self.on_done(*started or (None,))


def serve(connection: Connection, functions: WorkerFunctions) -> None:
    """Work until the parent sends `END` or has ended."""
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
        # The parent has ended, so nobody receives the outcome of `end`.
        functions.end(started)
        return
    connection.send_bytes(_end(functions, started))


def _call(functions: WorkerFunctions, pickled: bytes, started: tuple[Any, ...]) -> bytes:
    """Pickle the function's value or error for one item. Each is pickled separately, so that only one item can fail."""
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


def _encode_value(value: Any) -> bytes:  # noqa: ANN401 - any return value
    return bytes(ForkingPickler.dumps((value, None, "")))


def _encode_error(error: BaseException) -> bytes:
    """Pickle an error. An error that does not survive pickling becomes a RuntimeError with the same text."""
    text = "".join(traceback.format_exception(error))
    try:
        pickled = bytes(ForkingPickler.dumps((None, error, text)))
        pickle.loads(pickled)  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - a user's class may raise anything when it is unpickled
        instead = RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
        return pickle.dumps((None, instead, text))
    return pickled
