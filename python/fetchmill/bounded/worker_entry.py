"""The main function of a worker process, which receives items over a pipe, calls the function, and sends back outcomes.

This module imports little, because every worker process pays for its imports.
"""

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from fetchmill.bounded.interrupts import ignore_interrupts

# Sent by the parent when no items are left.
END = b""
# First byte of all other messages: whether the items are pickled together or separately.
TOGETHER, SEPARATE = b"t", b"s"
# Types whose values are immutable and can always be pickled, so that several values can safely be pickled together.
_PLAIN_TYPES = frozenset((bool, bytes, float, int, str, type(None)))


def is_plain(value: object) -> bool:
    """Return whether a value has a plain type or is a tuple of such values."""
    return type(value) in _PLAIN_TYPES or (type(value) is tuple and _PLAIN_TYPES.issuperset(map(type, value)))


def are_plain(chunk: list[tuple[Any, ...]]) -> bool:
    """Return whether all arguments in a chunk are plain."""
    arguments = chain.from_iterable(chunk)
    return _PLAIN_TYPES.issuperset(map(type, arguments)) or all(map(is_plain, chain.from_iterable(chunk)))


@dataclass(frozen=True, slots=True)
class WorkerFunctions:
    """The functions that a worker process calls."""

    function: Callable[..., Any]
    on_start: Callable[[], Any] | None
    on_done: Callable[[Any], object] | None
    keeps_values: bool
    """Whether to send back the function's values instead of None."""

    def start(self) -> tuple[Any, ...]:
        """Call `on_start`, and return the extra arguments for each call."""
        return () if self.on_start is None else (self.on_start(),)

    def call(self, arguments: tuple[Any, ...], started: tuple[Any, ...]) -> Any:  # noqa: ANN401 - any return value
        """Call the function with one item."""
        value = self.function(*arguments, *started)
        return value if self.keeps_values else None

    def end(self, started: tuple[Any, ...]) -> None:
        """Call `on_done` with the value that `on_start` returned."""
        if self.on_done is not None:
            self.on_done(*started or (None,))


def serve(connection: Connection, functions: WorkerFunctions) -> None:
    """Handle requests until the parent sends `END` or dies."""
    ignore_interrupts()
    try:
        started = functions.start()
    except BaseException as error:  # noqa: BLE001 - re-raised in the parent
        connection.send_bytes(_encode_error(error))
        return
    try:
        connection.send_bytes(_encode_value(None))
        while (request := connection.recv_bytes()) != END:
            answer = _answer(functions, request, started)
            connection.send_bytes(answer)
            del request, answer
    except (EOFError, OSError):
        # The parent is dead, so nothing receives the outcome of `end`.
        functions.end(started)
        return
    connection.send_bytes(_end(functions, started))


def _answer(functions: WorkerFunctions, request: bytes, started: tuple[Any, ...]) -> bytes:
    """Call the function for the items in a request.

    Return a pickled pair: the list of all values, and a dict from index to outcomes that are pickled separately (errors
    and values that are not plain). Such a value is pickled immediately, so that a pickling error affects only its item
    and later calls cannot change the value.
    """
    is_together = request.startswith(TOGETHER)
    values: list[Any] = []
    separate: dict[int, bytes] = {}
    for item in pickle.loads(memoryview(request)[1:]):  # noqa: S301 - our parent
        try:
            value = functions.call(item if is_together else pickle.loads(item), started)  # noqa: S301 - our parent
            if type(value) in _PLAIN_TYPES or is_plain(value):
                values.append(value)
                continue
            pickled = _encode_value(value)
        except BaseException as error:  # noqa: BLE001 - re-raised in the parent
            pickled = _encode_error(error)
        separate[len(values)] = pickled
        values.append(None)
    return pickle.dumps((values, separate))


def _end(functions: WorkerFunctions, started: tuple[Any, ...]) -> bytes:
    try:
        functions.end(started)
    except BaseException as error:  # noqa: BLE001 - re-raised in the parent
        return _encode_error(error)
    return _encode_value(None)


def _encode_value(value: Any) -> bytes:  # noqa: ANN401 - any return value
    return bytes(ForkingPickler.dumps((value, None, "")))


def _encode_error(error: BaseException) -> bytes:
    """Pickle an error. An error that does not survive pickling becomes a RuntimeError with the same text."""
    text = "".join(traceback.format_exception(error))
    try:
        pickled = bytes(ForkingPickler.dumps((None, error, text)))
        pickle.loads(pickled)  # noqa: S301 - pickled here
    except Exception:  # noqa: BLE001 - unpickling a user's class may raise anything
        instead = RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
        return pickle.dumps((None, instead, text))
    return pickled
