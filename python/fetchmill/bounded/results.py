"""The results iterator that `threads.map` and `processes.map` return."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from fetchmill.bounded.calls import Call, Chunk, Outcome, Values, as_raisable, item_of
from fetchmill.bounded.failures import Failed, OnError
from fetchmill.bounded.worker_pool import WorkerPool

R = TypeVar("R")


class Results(Generic[R]):
    """An iterator over results, and a context manager that abandons remaining items and waits for running calls.

    Only one thread can use it at a time. If the iterator is discarded, no further items are started. Calls running in
    threads finish; busy worker processes are killed.
    """

    def __init__(self, pool: WorkerPool, on_error: OnError, iterables: tuple[Iterable[Any], ...]) -> None:
        self._pool = pool
        self._returns_errors = on_error == "return"
        self._ready: deque[Outcome] = deque()
        # Remaining values of a chunk without errors, in reverse order. `_ready` stays empty until all are yielded.
        self._values: list[Any] = []
        self._is_begun = False
        self._is_over = False
        # A collection is read now, because that takes no time. Other inputs are read when results are requested.
        if iterables and all(isinstance(iterable, Sequence | AbstractSet | Mapping) for iterable in iterables):
            pool.read_at_once()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if self._values:
            value: R = self._values.pop()
            return value
        self._is_begun = True
        outcome = None
        try:
            outcome = self._next_outcome()
            if outcome is not None:
                return self._unpack(outcome)
            if self._values:
                return self._values.pop()  # type: ignore[no-any-return] # as above
        except BaseException:
            # The error's traceback refers to this frame, so this frame must not refer to the error.
            outcome = None
            self._give_up()
            raise
        raise StopIteration

    def _next_outcome(self) -> Outcome | None:
        """Wait for the next outcome. Return None at the end, or if `_values` contains the next results."""
        while not self._ready:
            call = None if self._is_over else self._pool.next_call()
            if call is None:
                self._end()
                return None
            if isinstance(call.value, Values):
                self._values = call.value
                self._values.reverse()
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
            # The error's traceback also refers to this frame.
            del error, outcome

    def _give_up(self) -> None:
        self._is_over = True
        self._ready.clear()
        self._values.clear()
        self._pool.give_up()

    def close(self) -> None:
        """Abandon items that have not started, wait for running calls, and kill busy worker processes."""
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
            # As with Executor.map, items read during the call are processed even if no result is ever requested.
            self._pool.end_input()


def _outcomes(call: Call) -> Iterator[Outcome]:
    if isinstance(call.value, Chunk):
        yield from call.value
    elif isinstance(call.arguments, list):
        # The worker did not return any outcomes, so every item in the chunk fails with the error.
        yield from (Outcome(arguments, None, call.error) for arguments in call.arguments)
    else:
        yield Outcome(call.arguments, call.value, call.error)
