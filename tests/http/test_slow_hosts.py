"""A list of many hosts, most of them slow: prompt hosts keep their rate."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from independent import read_ledger
from raw_server import Exchange, RawServer, reply

SLOW_HOSTS = 40
GOOD = 600
HEAD_TIMEOUT = 4.0


@contextlib.contextmanager
def trickling(hosts: list[str]) -> Iterator[int]:
    """Runs servers at these addresses, on one port, that endlessly send a head byte by byte. Returns the port."""
    stopped = threading.Event()
    open_sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def trickle(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not stopped.wait(0.5):
                connection.sendall(b"a")

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not stopped.is_set():
                connection, _ = listener.accept()
                open_sockets.append(connection)
                threads.append(threading.Thread(target=trickle, args=(connection,), daemon=True))
                threads[-1].start()

    port = 0
    for host in hosts:
        listener = socket.create_server((host, port), backlog=64)
        port = listener.getsockname()[1]
        open_sockets.append(listener)
        threads.append(threading.Thread(target=accept, args=(listener,), daemon=True))
        threads[-1].start()
    try:
        yield port
    finally:
        stopped.set()
        for each in open_sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in threads:
            thread.join(10)


@pytest.mark.thorough
@pytest.mark.timing
def test_slow_hosts_do_not_delay_prompt_host(
    raw: Callable[..., RawServer], run: Callable[..., Any], tmp_path: Path
) -> None:
    """With forty slow hosts and sixteen slots, a good host's objects do not wait for their timeouts."""
    served_at: list[float] = []

    def get(exchange: Exchange) -> bytes:
        served_at.append(time.monotonic())
        return reply(exchange.target.encode())

    good = raw({f"/get/g{number}": get for number in range(GOOD)})
    hosts = [f"127.0.0.{number}" for number in range(2, 2 + SLOW_HOSTS)]
    with trickling(hosts) as port:
        lines = []
        for number in range(GOOD):
            lines.append(f"{good.url}/get/g{number}")
            if number % 3 == 0:
                lines.append(f"http://{hosts[number // 3 % SLOW_HOSTS]}:{port}/x{number}")
        (tmp_path / "list.txt").write_text("\n".join(lines))
        limits = (
            "--concurrency",
            "16",
            "--rate-per-host",
            "0",
            "--attempts",
            "1",
            "--head-timeout",
            f"{HEAD_TIMEOUT}s",
        )
        ended = run("get", "list.txt", "out", "--format", "jsonl", "--allow-private", *limits, timeout=200)

    assert ended.code == 3, ended.err
    ledger = read_ledger(tmp_path / "out")
    assert (ledger.fetched, ledger.failed) == (GOOD, GOOD // 3)
    # 200 slow requests in sixteen slots take fifty seconds. This is the time of the good ones.
    assert max(served_at) - min(served_at) < 3 * HEAD_TIMEOUT
