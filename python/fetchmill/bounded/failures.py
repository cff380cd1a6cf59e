"""Failed items, errors of worker processes, and the counts that `each` returns."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

OnError = Literal["raise", "return"]

# Maximum number of failures that a tally keeps. A run can have millions, each with an item and a traceback.
FAILURES_MAX = 100
# Maximum number of characters of an item in a message.
SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed item, returned in place of its result with `on_error="return"`."""

    item: Any
    """The item, or a tuple of items if `map` was given several iterables."""
    error: BaseException
    """The error that the function raised: an `Exception`, or a coroutine's `CancelledError`."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts that `each` returns: items done and items failed."""

    done: int
    """Number of items for which the function returned."""
    failed: int
    """Number of items for which the function raised; always 0 with `on_error="raise"`."""
    failures: tuple[Failed, ...]
    """The first 100 failures."""


class WorkerDiedError(RuntimeError):
    """A worker process exited, was killed, or ran out of memory. The message names the item that it was processing."""


class ItemTimeoutError(WorkerDiedError, TimeoutError):
    """A worker process was killed because its item took longer than `item_timeout`."""


class RemoteTraceback(Exception):  # noqa: N818 - the cause of an error, not an error itself
    """A worker process's traceback as text. It becomes the `__cause__` of the error raised in that process."""


def count(results: Iterable[object]) -> Tally:
    """Consume and count all results."""
    counter = Counter()
    for result in results:
        counter.add(result)
    return counter.tally()


class Counter:
    """A counter of results as they arrive."""

    def __init__(self) -> None:
        self._done = 0
        self._failed = 0
        self._failures: list[Failed] = []

    def add(self, result: object) -> None:
        """Count one result."""
        if not isinstance(result, Failed):
            self._done += 1
            return
        self._failed += 1
        if len(self._failures) < FAILURES_MAX:
            self._failures.append(result)

    def tally(self) -> Tally:
        """Return the counts so far."""
        return Tally(self._done, self._failed, tuple(self._failures))


def format_item(item: object) -> str:
    """Format an item for a message: its `repr`, truncated to `SHOWN_MAX` characters."""
    text = repr(item)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def check_count(name: str, value: object, otherwise: str = "") -> None:
    """Raise ValueError if a value is not a valid number of items. Values from configuration files can be text.

    Args:
        name: name of the keyword.
        value: value of the keyword.
        otherwise: text that names other allowed values in the message.
    """
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1{otherwise}, not {value!r}")


def check_on_error(on_error: str) -> None:
    """Raise ValueError if the value is neither "raise" nor "return"."""
    if on_error not in {"raise", "return"}:
        raise ValueError(f"on_error must be 'raise' or 'return', not {on_error!r}")
