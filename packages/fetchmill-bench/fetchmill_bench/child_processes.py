"""Child processes of contenders. They end with their parent and report their work to it."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

# As in the texts. The children inherit the parent's imports and its table of names.
FORK = multiprocessing.get_context("fork")


def processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def end_with_parent() -> None:
    """Ends this child as soon as its parent has ended, for example at the deadline of the contender."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:  # noqa: ANN401 - what stands for a parent has no public type
    parent.join()
    os._exit(1)


class Reports:
    """Calls of a function in the parent, requested by its children.

    Create it before the children, and enter it after they were forked, because a process with threads must not fork.
    Leaving the block waits until all reports of the children are processed.

    Args:
        take: the parent's function. It is called in a thread.
    """

    def __init__(self, take: Callable[..., None]) -> None:
        self._take = take
        self._queue: Any = FORK.SimpleQueue()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def put(self, *arguments: object) -> None:
        """Makes the parent call its function with these arguments. For children."""
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
