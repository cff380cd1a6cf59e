"""The capacity and the cost of the wide-area link: `make wide-area-link` (a minute; quiet machine).

Each row is a transfer over the link, with the link's processor time as a share of one processor. `nothing between` is
the same within the far namespace, over loopback: any difference comes from the link or its settings.
docs/internals/testing.md has the last figures.
"""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wide_area import CLEAN, HOSTS, SITE, WideArea, dropped_by_devices, wide_area

PORT = 4000
BULK_SECONDS = 5.0
OBJECTS = 100_000
# With fewer names per page, the listing would be measured, because its pages come one after the other.
PAGE = 10_000
# Sends zeros for this many seconds to each client.
SOURCE = """
import socket, time
with socket.create_server(({host!r}, {port}), backlog=64) as listener:
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            end = time.monotonic() + {seconds}
            while time.monotonic() < end:
                connection.sendall(bytes(1 << 18))
"""
# Receives them, and prints the number of bytes and seconds, without the start, in which TCP finds its pace.
TAKE = """
import socket, time
with socket.create_connection(({host!r}, {port}), timeout=60) as connection:
    buffer, count, first = bytearray(1 << 18), 0, time.monotonic() + {seconds} / 3
    while taken := connection.recv_into(buffer):
        if time.monotonic() >= first:
            count += taken
    print(count, time.monotonic() - first)
"""


@dataclass
class Share:
    """The link's share of a processor."""

    value: float = 0.0


@contextmanager
def link_share(area: WideArea) -> Iterator[Share]:
    """Measures the link's share during a block."""
    share = Share()
    before, started = area.link.cpu_seconds(), time.monotonic()
    yield share
    share.value = (area.link.cpu_seconds() - before) / (time.monotonic() - started)


def bulk(area: WideArea, *, is_near: bool) -> str:
    """Transfers over one connection, as fast as TCP permits."""
    settings = {"host": HOSTS[SITE], "port": PORT, "seconds": BULK_SECONDS}
    side = area.near if is_near else area.far
    with area.far.running(sys.executable, "-c", SOURCE.format(**settings)):
        ended = side.python(TAKE.format(**settings))
    assert ended.code == 0, ended.err
    count, seconds = ended.out.split()
    return f"{int(count) * 8 / float(seconds) / 1e6:,.0f} Mbit/s"


def objects(area: WideArea, *, is_near: bool, limit: int, count: int = OBJECTS) -> str:
    """Runs a job of small objects that stores nothing."""
    side = area.near if is_near else area.far
    with tempfile.TemporaryDirectory() as folder:
        dest = Path(folder, "out")
        with area.serving(tls=False, content={"synthetic": {"count": count, "size": 100}}, page_size=PAGE) as site:
            options = ("--format", "null", "--concurrency", limit, "--threads", 1)
            url = site.url if is_near else site.url.replace(SITE, HOSTS[SITE])
            ended = side.fetchmill("get", url, dest, *options, environment=CLEAN, timeout=600)
        assert ended.code == 0, ended.err
        # The summary comes last.
        return str(re.findall(r"[\d,]+ objects/s", ended.err)[-1])


def show(what: str, area: WideArea, measure: Callable[[], str]) -> None:
    """Measures and prints a row."""
    with link_share(area) as share:
        value = measure()
    dropped = sum(map(dropped_by_devices, (area.near, area.far)))
    print(f"| {what} | {value} | {share.value:.0%} | {dropped} |", flush=True)


def main() -> None:
    """Measures everything."""
    print("| transfer | rate | processor of the link | dropped by a device |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        with wide_area(Path(folder)) as area:
            show("bulk, nothing between", area, lambda: bulk(area, is_near=False))
            show("bulk, no delay, no bound", area, lambda: bulk(area, is_near=True))
            area.link.change(round_trip=0.15, megabits=100)
            show("bulk, 150 ms, 100 Mbit/s", area, lambda: bulk(area, is_near=True))
        with wide_area(Path(folder)) as area:
            show("small objects, nothing between", area, lambda: objects(area, is_near=False, limit=64))
            area.link.change(round_trip=0.0002)
            show("small objects, 0.2 ms, 64 in flight", area, lambda: objects(area, is_near=True, limit=64))
            area.link.change(round_trip=0.15)
            area.link.change(round_trip=0.01)
            show("small objects, 10 ms, 500 in flight", area, lambda: objects(area, is_near=True, limit=500))
            area.link.change(megabits=10)
            show("the same, 10 Mbit/s", area, lambda: objects(area, is_near=True, limit=500, count=20_000))


if __name__ == "__main__":
    main()
