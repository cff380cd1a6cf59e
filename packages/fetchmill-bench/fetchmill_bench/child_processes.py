"""Child processes of contenders: they end with their parent, and tell it what they have done."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

# As the texts had it: what the parent has imported, and the names it knows, the children have too.
FORK = multiprocessing.get_context("fork")


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def end_with_parent() -> None:
    """Ends this child at once when its parent has gone, for which a contender's deadline is reason enough."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:  # noqa: ANN401 - what stands for a parent has no public type
    parent.join()
    os._exit(1)


class Reports:
    """Calls of a function in the parent, asked for by its children.

    Made before the children are, entered after that: a thread and a fork do not go together. Leaving the block waits
    until what the children have told is known.

    Args:
        take: the parent's function; called in a thread.
    """

    def __init__(self, take: Callable[..., None]) -> None:
        self._take = take
        self._queue: Any = FORK.SimpleQueue()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def put(self, *arguments: object) -> None:
        """Has the parent call its function with these; for children."""
        self._queue.put(arguments)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._thread.join()

    def _read(self) -> None:
        while (arguments := self._queue.get()) is not None:
            self._take(*arguments)
