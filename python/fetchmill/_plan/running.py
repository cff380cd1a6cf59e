"""Ensures that work in the native module does not outlive its caller."""

import contextlib
from collections.abc import Iterator
from typing import Protocol, TypeVar

# Time limit for an aborted job to end. It usually ends immediately, unless the operating system hangs.
ABORT_SECONDS = 10.0


class _Running(Protocol):
    """A job or an export."""

    def wait(self, seconds: float) -> bool: ...

    def abort(self) -> None: ...


R = TypeVar("R", bound=_Running)


@contextlib.contextmanager
def running(work: R) -> Iterator[R]:
    """Yield the work. When the block is left for any reason, ensure that the work has ended."""
    try:
        yield work
    finally:
        work.abort()
        work.wait(ABORT_SECONDS)
