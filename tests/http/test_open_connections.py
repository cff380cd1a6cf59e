"""A job's open connections: those that its requests need, and a few more that rest.

A server may become slow because of their number, even if they are idle.
"""

import json
import logging
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fetchmill.testing import Server
from own_bench.concurrency import crowded
from own_bench.processes import FETCHMILL

LOG = logging.getLogger(__name__)
# As in /proc/net/tcp.
ESTABLISHED = "01"
# Enough objects that their listing takes as long as the job.
OBJECTS = 400_000


def open_connections(url: str) -> int:
    """Returns the number of connections to the port of a URL on this machine."""
    end = f":{urlsplit(url).port:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:])
    return sum(row[2].endswith(end) and row[3] == ESTABLISHED for row in rows)


class WatchedJob:
    """A job that runs for a given time.

    `open` has its connections ten times per second, `limits` its limit once per second, and `slowest` its slowest reply
    in seconds.
    """

    def __init__(self, url: str, dest: Path, *options: object, seconds: float) -> None:
        limits = ("--format", "null", "--max-duration", f"{seconds}s", "--json")
        command = [str(word) for word in (*FETCHMILL, "get", url, dest, *limits, *options)]
        self.open: list[int] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
            while job.poll() is None:
                self.open.append(open_connections(url))
                time.sleep(0.1)
            assert job.stdout is not None
            events = [json.loads(line) for line in job.stdout]
        self.limits = [event["concurrency"] for event in events if event["event"] == "progress"]
        self.slowest = max(event["latency"]["max"] for event in events if event.get("latency"))
        LOG.info("open: %s, limits: %s, the slowest reply took %s s", self.open, self.limits, self.slowest)


@pytest.mark.timing
def test_connections_opened_together_rest_in_turn(server: Callable[..., Server], dest: Path) -> None:
    """With 50 ms replies, each connection rests for 0.1 s per second.

    If all rested together, 1.5 times as many would be open.
    """
    served = server(synthetic=OBJECTS, delay=(0.05, 0.05))

    job = WatchedJob(served.url, dest, "--concurrency", 64, seconds=5)

    # A rest is twice the slowest reply. By chance, some more connections rest at the same time, and two are the
    # listing's.
    resting = 64 * 2 * job.slowest
    assert 64 <= statistics.median(job.open[10:-2]) <= 64 + 2.5 * resting + 2 + 5


@pytest.mark.timing
def test_surplus_connections_close_when_concurrency_falls(dest: Path) -> None:
    """The search tries more than this server can handle, and goes back. The final number does not matter."""
    with crowded() as url:
        job = WatchedJob(url, dest, "--concurrency", "auto", seconds=16)

    limit = max(job.limits[-5:])
    assert max(job.open) > 1.2 * limit, "it has tried more"
    # At most half as many in addition rest, and two are the listing's.
    assert limit / 2 <= statistics.median(job.open[-40:-2]) <= 1.5 * limit + 2
