"""What runs in the native module and must not outlive its caller."""

import contextlib
from collections.abc import Iterator
from typing import Protocol, TypeVar

# What is aborted ends at once, unless the operating system hangs.
ABORT_SECONDS = 10.0


class _Running(Protocol):
    """A job or an export."""

    def wait(self, seconds: float) -> bool: ...

    def abort(self) -> None: ...


R = TypeVar("R", bound=_Running)


@contextlib.contextmanager
def running(work: R) -> Iterator[R]:
    """Has ended when the block is left, however that is."""
    try:
        yield work
    finally:
        work.abort()
        work.wait(ABORT_SECONDS)
