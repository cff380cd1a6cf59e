"""Loopback ports that no other test gets, even if tests run in parallel."""

import contextlib
import errno
import itertools
import os
import socket
from collections.abc import Iterator

# The kernel gives ports above these to any program, including clients, so a free port may be taken a moment later.
FIRST, LAST = 10_000, 32_000
# Each worker of pytest-xdist has its own part of the range; other processes start at different places.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
SHARE = (LAST - FIRST) // WORKERS
_numbers = itertools.count(os.getpid() * 137)


def free_ports(count: int) -> list[int]:
    """Returns ports without a listener, for servers that need to know their port; each is returned once."""
    found = (FIRST + WORKER * SHARE + number % SHARE for number in _numbers)
    return list(itertools.islice(filter(_is_free, found), count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Binds a port without a listener, which refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
