"""Results of calls that threads or processes work on: what `map` gives there."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from fetchmill.bounded.calls import Call, Chunk, Outcome, as_raisable, item_of
from fetchmill.bounded.failures import Failed, OnError
from fetchmill.bounded.worker_pool import WorkerPool

R = TypeVar("R")


class Results(Generic[R]):
    """An iterator of results, and a context manager that gives up what is left and waits for what runs.

    It belongs to one thread at a time. When nobody holds it any more, no other item begins; calls that run in threads
    come to their ends by themselves, in processes they are ended with them.
    """

    def __init__(self, pool: WorkerPool, on_error: OnError, iterables: tuple[Iterable[Any], ...]) -> None:
        self._pool = pool
        self._returns_errors = on_error == "return"
        self._ready: deque[Outcome] = deque()
        self._is_begun = False
        self._is_over = False
        # Reading from these takes no time; another input is read when somebody asks.
        if iterables and all(isinstance(iterable, Sequence | AbstractSet | Mapping) for iterable in iterables):
            pool.read_at_once()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        self._is_begun = True
        outcome = None
        try:
            outcome = self._next_outcome()
            if outcome is not None:
                return self._unpack(outcome)
        except BaseException:
            # The error holds this frame by its traceback: it must not hold the error.
            outcome = None
            self._give_up()
            raise
        raise StopIteration

    def _next_outcome(self) -> Outcome | None:
        while not self._ready:
            call = None if self._is_over else self._pool.next_call()
            if call is None:
                self._end()
                return None
            self._ready.extend(_outcomes(call))
        return self._ready.popleft()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._pool.finish()

    def _unpack(self, outcome: Outcome) -> R:
        error = outcome.error
        if error is None:
            value: R = outcome.value
            return value
        try:
            if self._returns_errors and isinstance(error, Exception):
                failed: Any = Failed(item_of(outcome.arguments), error)
                return failed  # type: ignore[no-any-return] # R is wide enough where errors are returned
            raise as_raisable(error)
        finally:
            # As there.
            del error, outcome

    def _give_up(self) -> None:
        self._is_over = True
        self._ready.clear()
        self._pool.give_up()

    def close(self) -> None:
        """Gives up what has not begun, and waits for the rest; in processes that is ended at once."""
        self._give_up()
        self._pool.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._is_begun:
            self._pool.give_up()
        else:
            # As of Executor.map: what was read at the call is done, even if nobody ever asks for it.
            self._pool.end_input()


def _outcomes(call: Call) -> Iterator[Outcome]:
    if isinstance(call.value, Chunk):
        yield from call.value
    elif isinstance(call.arguments, list):
        # Nothing came back: the error is that of each.
        yield from (Outcome(arguments, None, call.error) for arguments in call.arguments)
    else:
        yield Outcome(call.arguments, call.value, call.error)
