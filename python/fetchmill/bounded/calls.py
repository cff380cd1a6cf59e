"""Calls of the function, and the buffer that orders finished calls."""

from collections import deque
from typing import Any, NamedTuple

# Maximum number of items read but not yet returned, as a multiple of `limit`. For each item in progress, another can be
# waiting to start or to be taken.
AHEAD = 2


class Call:
    """A call of the function: its arguments and, once it has finished, its value or error."""

    __slots__ = ("arguments", "error", "number", "value")

    def __init__(self, number: int, arguments: Any) -> None:  # noqa: ANN401 - any item
        self.number = number
        self.arguments = arguments
        self.value: Any = None
        self.error: BaseException | None = None

    def errors(self) -> list[BaseException]:
        """Return the call's error, or the errors of all its items."""
        if isinstance(self.value, Chunk):
            return [outcome.error for outcome in self.value if outcome.error is not None]
        return [] if self.error is None else [self.error]


class Outcome(NamedTuple):
    """The outcome of one item in a call with several items."""

    arguments: tuple[Any, ...]
    value: Any
    error: BaseException | None


class Chunk(list[Outcome]):
    """The outcomes of a call with several items."""


class Values(list[Any]):
    """The values of a call in which all items succeeded, so that no item needs an `Outcome`."""


def item_of(arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - any item
    """Return an item as the input yielded it, without a tuple around a single argument."""
    return arguments[0] if len(arguments) == 1 else arguments


class ResultBuffer:
    """Finished calls that have not been returned yet, ordered by completion or by number."""

    def __init__(self, *, ordered: bool) -> None:
        self._is_ordered = ordered
        self._early: dict[int, Call] = {}
        self._ready: deque[Call] = deque()
        self._next = 0

    def add(self, call: Call) -> None:
        """Add a finished call."""
        if not self._is_ordered:
            self._ready.append(call)
            return
        self._early[call.number] = call
        while (ready := self._early.pop(self._next, None)) is not None:
            self._ready.append(ready)
            self._next += 1

    def take(self) -> Call | None:
        """Return the next call, or None if it has not finished yet."""
        return self._ready.popleft() if self._ready else None

    def is_ready(self) -> bool:
        """Return whether the next call has finished."""
        return bool(self._ready)


def as_raisable(error: BaseException) -> BaseException:
    """Return an error that an iterator can raise. Wrap StopIteration, which would silently end the iterator."""
    if isinstance(error, StopIteration | StopAsyncIteration):
        instead = RuntimeError(f"the function raised {type(error).__name__}")
        instead.__cause__ = error
        return instead
    return error
