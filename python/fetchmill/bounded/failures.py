"""What failed: an item, or the process that had it; and what `each` tells of all its items."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

OnError = Literal["raise", "return"]

# Failures that a tally keeps in full: there may be millions of them, and each holds its item and a traceback.
FAILURES_MAX = 100
# Characters of an item in a message.
SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class Failed:
    """An item whose function raised, in place of a result (`on_error="return"`)."""

    item: Any
    """The item; a tuple of them where `map` was given several iterables."""
    error: BaseException
    """What the function raised: an `Exception`, or a coroutine's `CancelledError`."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the items of an `each`."""

    done: int
    """Items whose function returned."""
    failed: int
    """Items whose function raised; always 0 with `on_error="raise"`."""
    failures: tuple[Failed, ...]
    """The first hundred of those."""


class WorkerDiedError(RuntimeError):
    """A worker process ended by itself, by a signal or for want of memory. The message names the item it had."""


class ItemTimeoutError(WorkerDiedError, TimeoutError):
    """A worker process was killed, since its item took longer than `item_timeout`."""


class RemoteTraceback(Exception):  # noqa: N818 - it is no error of its own: the cause of one
    """Where in a worker process an error was raised: the traceback as text, as the error's `__cause__`."""


def count(results: Iterable[object]) -> Tally:
    """Takes all results and counts them."""
    counter = Counter()
    for result in results:
        counter.add(result)
    return counter.tally()


class Counter:
    """Counts results as they come."""

    def __init__(self) -> None:
        self._done = 0
        self._failed = 0
        self._failures: list[Failed] = []

    def add(self, result: object) -> None:
        """One more."""
        if not isinstance(result, Failed):
            self._done += 1
            return
        self._failed += 1
        if len(self._failures) < FAILURES_MAX:
            self._failures.append(result)

    def tally(self) -> Tally:
        """All so far."""
        return Tally(self._done, self._failed, tuple(self._failures))


def format_item(item: object) -> str:
    """An item in a message: its `repr` in one line, cut where it is long."""
    text = repr(item)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def check_count(name: str, value: object, otherwise: str = "") -> None:
    """Raises ValueError for what is no number of items: it may come from a configuration, as a text.

    Args:
        name: of the keyword.
        value: what was given for it.
        otherwise: what else could be given.
    """
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}: give a whole number of at least 1{otherwise}")


def check_on_error(on_error: str) -> None:
    """Raises ValueError for what is neither of the two."""
    if on_error not in {"raise", "return"}:
        raise ValueError(f"on_error is {on_error!r}: give 'raise' or 'return'")
