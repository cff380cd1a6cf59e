"""One call of the function, and the order in which calls are handed over."""

from collections import deque
from typing import Any, NamedTuple

# Items that are read and not yet handed over, for each place of the limit: one is worked on, one waits on either side.
AHEAD = 2


class Call:
    """The function with one item: its arguments, then its value or error."""

    __slots__ = ("arguments", "error", "number", "value")

    def __init__(self, number: int, arguments: Any) -> None:  # noqa: ANN401 - whatever the input gives
        self.number = number
        self.arguments = arguments
        self.value: Any = None
        self.error: BaseException | None = None

    def errors(self) -> list[BaseException]:
        """What failed of it."""
        if isinstance(self.value, Chunk):
            return [outcome.error for outcome in self.value if outcome.error is not None]
        return [] if self.error is None else [self.error]


class Outcome(NamedTuple):
    """How one item ended, where a call has several."""

    arguments: tuple[Any, ...]
    value: Any
    error: BaseException | None


class Chunk(list[Outcome]):
    """What a call gives that has several items."""


def item_of(arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - whatever the input gives
    """An item as the input gave it: without the tuple where there is one argument."""
    return arguments[0] if len(arguments) == 1 else arguments


class ResultBuffer:
    """Calls that are done and not yet handed over: as they come, or by their numbers."""

    def __init__(self, *, ordered: bool) -> None:
        self._is_ordered = ordered
        self._early: dict[int, Call] = {}
        self._ready: deque[Call] = deque()
        self._next = 0

    def add(self, call: Call) -> None:
        """One that is done."""
        if not self._is_ordered:
            self._ready.append(call)
            return
        self._early[call.number] = call
        while (ready := self._early.pop(self._next, None)) is not None:
            self._ready.append(ready)
            self._next += 1

    def take(self) -> Call | None:
        """The next one, if it is there."""
        return self._ready.popleft() if self._ready else None

    def is_ready(self) -> bool:
        """Whether one is there."""
        return bool(self._ready)


def as_raisable(error: BaseException) -> BaseException:
    """An error as an iterator may raise it: one that means the iterator's end would be lost without a word."""
    if isinstance(error, StopIteration | StopAsyncIteration):
        instead = RuntimeError(f"the function raised {type(error).__name__}")
        instead.__cause__ = error
        return instead
    return error
