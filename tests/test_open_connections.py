"""How many connections a job holds open at its server: what its requests need, and few more that rest.

A server may be slow because of how many there are, whether anybody asks on them or not.
"""

import logging
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from benches.concurrency import CROWD, crowded
from benches.processes import FETCHMILL
from fetchmill.testing import Server

LOG = logging.getLogger(__name__)
# As in /proc/net/tcp.
ESTABLISHED = "01"


def open_connections(url: str) -> int:
    """To the port of a URL on this machine."""
    end = f":{urlsplit(url).port:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:])
    return sum(row[2].endswith(end) and row[3] == ESTABLISHED for row in rows)


def watch(url: str, dest: Path, *options: object, seconds: float) -> Iterator[int]:
    """What a job has open, ten times a second while it runs."""
    command = [*FETCHMILL, "get", url, dest, "--format", "null", "--max-duration", f"{seconds}s", *options]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as job:
        while job.poll() is None:
            yield open_connections(url)
            time.sleep(0.1)
        assert job.stderr is not None
        LOG.info("%s", job.stderr.read().decode())


@pytest.mark.timing
def test_connections_that_began_together_rest_one_after_the_other(server: Callable[..., Server], dest: Path) -> None:
    """Replies take 50 ms, so each rests for 0.1 s in a second. All at once they would be half as many again."""
    served: Any = server(synthetic=100_000, delay=(0.05, 0.05))

    found = list(watch(served.url, dest, "--concurrency", 64, seconds=5))

    LOG.info("%s", found)
    # Two are the listing's.
    assert 64 <= statistics.median(found[10:]) <= 64 * 1.4 + 2


@pytest.mark.timing
def test_connections_that_a_lower_number_does_not_need_are_closed(dest: Path) -> None:
    """The search tries twice and four times as many as this server bears; they are not there any more behind it."""
    with crowded() as url:
        found = list(watch(url, dest, "--concurrency", "auto", seconds=14))

    LOG.info("%s", found)
    assert max(found) > 1.2 * CROWD, "it has tried more"
    assert CROWD / 2 <= statistics.median(found[-40:-2]) <= 1.25 * CROWD
