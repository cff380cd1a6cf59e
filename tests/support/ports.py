"""Ports of loopback that no other test is given, also when tests run side by side."""

import contextlib
import errno
import itertools
import os
import socket
from collections.abc import Iterator

# The kernel gives those above to whoever asks for any, clients as well: what was free a moment ago is theirs then.
FIRST, LAST = 10_000, 32_000
# A worker of pytest-xdist takes them from a part of its own; of others, each process begins elsewhere.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
SHARE = (LAST - FIRST) // WORKERS
_numbers = itertools.count(os.getpid() * 137)


def free_ports(count: int) -> list[int]:
    """Ports where nothing listens, for servers that are told theirs; each is given once."""
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
    """A port that refuses connections: it is taken, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
