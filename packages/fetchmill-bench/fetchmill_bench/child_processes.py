"""Child processes of contenders. They report their work to the parent, and end when the parent ends."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

# Fork, as in the published texts. The children inherit the parent's imports and table of names.
FORK = multiprocessing.get_context("fork")


def processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def end_with_parent() -> None:
    """Ends this child once its parent has ended, for example at the contender's deadline."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:  # noqa: ANN401 - no public type
    parent.join()
    os._exit(1)


class Reports:
    """Calls a function in the parent process when a child asks for it.

    Create the object before starting the children, but enter its block only after the fork, because a process with
    threads must not fork. The end of the block waits until all reports from the children have been processed.

    Args:
        take: the parent's function, which is called in a thread.
    """

    def __init__(self, take: Callable[..., None]) -> None:
        self._take = take
        self._queue: Any = FORK.SimpleQueue()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def put(self, *arguments: object) -> None:
        """Makes the parent call its function with these arguments. Children call this method."""
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
