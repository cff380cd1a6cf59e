"""Defers signals while a process is being started, because a handler can end only a process whose id it knows."""

import contextlib
import signal
import threading
from collections.abc import Iterator

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Defers SIGINT and SIGTERM until the end of the block, but not in processes that the block starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
