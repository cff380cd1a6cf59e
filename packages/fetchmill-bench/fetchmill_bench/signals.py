"""Signals that come while a process is being started: it must be known before anyone is told to end it."""

import contextlib
import signal
import threading
from collections.abc import Iterator

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Lets SIGINT and SIGTERM have their effect at the end of the block; what is started in it inherits none of it."""
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
