"""A job that stands still, its dashboard, and a client that sends any bytes: for tests of dashboards."""

import contextlib
import copy
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fetchmill._dashboard.dashboard import Dashboard

TOKEN = "0123456789abcdef0123"  # noqa: S105 - a test's
SNAPSHOT: Mapping[str, Any] = {
    "listed": 1500,
    "fetched": 1000,
    "absent": 3,
    "failed": 7,
    "skipped": 1,
    "bytes": 123_456,
    "in_flight": 12,
    "waiting": 2,
    "listing_done": True,
    "failures": {"truncated": 5, "dns": 2},
    "phase": "fetching",
    "seconds": 12.5,
    "resumed": False,
    "start_settled": 0,
    "waits": [],
    "stopped_by": None,
    "attempts": 1100,
    "concurrency": 64,
    "limited_by": {"kind": "server", "text": "latency has grown from 1 ms to 9 ms"},
    "latency": {"p50": 0.0012, "p90": 0.004, "p99": 0.0191, "max": 1.25},
    "origins": [],
}


def sample(number: int, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns the counts of one second."""
    counts = {"settled": 100, "fetched": 99, "absent": 0, "failed": 1, "bytes": 9900, "attempts": 110, "listed": 150}
    now = {"in_flight": 12, "concurrency": 64, "waiting": 2, "latency": SNAPSHOT["latency"], "limited_by": "server"}
    return {"time": 1e9 + number, "interval": 1.0, **counts, **now, "failures": {"truncated": 1}, **given}


class StillJob:
    """A job as a dashboard sees it; its values can be changed."""

    def __init__(self, samples: Sequence[dict[str, Any]] = (), **given: Any) -> None:  # noqa: ANN401
        self.given: dict[str, Any] = {**copy.deepcopy(dict(SNAPSHOT)), **given}
        self.sampled = list(samples)

    def snapshot(self) -> dict[str, Any]:
        """Returns the same each time."""
        return copy.deepcopy(self.given)

    def samples(self, after: float) -> list[dict[str, Any]]:
        """Returns the samples after a time."""
        return [copy.deepcopy(each) for each in self.sampled if each["time"] > after]


@dataclass(frozen=True)
class Got:
    """A reply: empty if the connection ended first."""

    status: int
    fields: dict[str, str]
    body: bytes


@contextlib.contextmanager
def showing(
    job: StillJob | None = None,
    address: str | None = None,
    names: Sequence[str] = (),
    token: str | None = None,
    **told: str | None,
) -> Iterator[Dashboard]:
    """Shows a dashboard of a job that stands still."""
    with Dashboard(
        address, names, token, {"command": "get", "source": "http://a/", "dest": "out", **told}
    ) as dashboard:
        dashboard.show(job or StillJob())
        yield dashboard


def port_of(dashboard: Dashboard) -> int:
    """Returns its port."""
    return int(dashboard.url.rstrip("/").rpartition(":")[2])


def exchange(dashboard: Dashboard, sent: bytes, seconds: float = 10.0) -> Got:
    """Sends bytes, and reads until the connection ends."""
    host = "::1" if "[" in dashboard.url else "127.0.0.1"
    with socket.create_connection((host, port_of(dashboard)), timeout=seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        return read_reply(connection)


def read_reply(connection: socket.socket) -> Got:
    """Reads until the connection ends."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(1 << 16):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    if not head:
        return Got(0, {}, b"")
    first, *lines = head.decode().split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Got(int(first.split()[1]), fields, body)


def ask(dashboard: Dashboard, path: str = "/", method: str = "GET", host: str | None = None, **fields: str) -> Got:
    """Sends a request as a browser does."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port_of(dashboard)}'}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return exchange(dashboard, "\r\n".join([*lines, "", ""]).encode())


def wait_until(is_met: Any, seconds: float = 20.0) -> None:  # noqa: ANN401 - a function
    """Waits for a condition."""
    deadline = time.monotonic() + seconds
    while not is_met():
        assert time.monotonic() < deadline
        time.sleep(0.02)
