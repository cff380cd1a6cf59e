"""A host that records the times of requests, and how many were in flight together."""

import selectors
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Default number of seconds until a reply.
DELAY = 0.02


class Observed(ThreadingHTTPServer):
    """A host that records the times of requests, and how many were in flight together."""

    daemon_threads = True
    request_queue_size = 64
    # `handle_request` returns if no connection waits.
    timeout = 0

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), Handler)
        self.delay = DELAY
        self.lock = threading.Lock()
        self.in_flight = 0
        self.most_in_flight = 0
        self.came: list[float] = []
        self.url = f"http://{host}:{self.server_address[1]}"

    def handle_error(self, *_arguments: object) -> None:
        """Prints nothing, because workers are killed."""

    def most_within(self, seconds: float) -> int:
        """Returns the highest number of requests in any interval of this length."""
        first, most = 0, 0
        for last, time_of_last in enumerate(self.came):
            while time_of_last - self.came[first] > seconds:
                first += 1
            most = max(most, last - first + 1)
        return most


class Handler(BaseHTTPRequestHandler):
    """Replies after a moment."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Observed

    def do_GET(self) -> None:
        """See `Observed`."""
        with self.server.lock:
            self.server.came.append(time.monotonic())
            self.server.in_flight += 1
            self.server.most_in_flight = max(self.server.most_in_flight, self.server.in_flight)
        time.sleep(self.server.delay)
        with self.server.lock:
            self.server.in_flight -= 1
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

    def log_message(self, *_arguments: object) -> None:
        """Logs nothing."""


@contextmanager
def serving_hosts(addresses: Iterable[str]) -> Iterator[list[Observed]]:
    """Serves a host at each address. One thread accepts all connections, since many threads would poll all the time."""
    hosts = [Observed(address) for address in addresses]
    here, there = socket.socketpair()
    accepting = threading.Thread(target=_accept, args=(hosts, there), daemon=True)
    accepting.start()
    try:
        yield hosts
    finally:
        here.close()
        accepting.join()
        there.close()
        for host in hosts:
            host.server_close()


def _accept(hosts: list[Observed], end: socket.socket) -> None:
    """Accepts connections until the other side of `end` is closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        for host in hosts:
            selector.register(host, selectors.EVENT_READ, host)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    return
                key.data.handle_request()
