"""The wide-area network of the tests has the given latency, loss and bandwidth, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SUPPORT, example
from network import START_SECONDS, Network
from wide_area import DEVICE, HOSTS, SITE, Counters, WideArea, dropped_by_devices, wide_area

ADDRESS = HOSTS[SITE]
PORT = 4000
SMALL = {"synthetic": {"count": 10, "size": 100}}
# Tunnel devices that some kernels create in each namespace; they are down.
BUILT_IN = {"tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"}
# Connects to one address after the other, and prints the seconds that each takes.
CONNECT = """
import socket, time
for _ in range({count}):
    started = time.perf_counter()
    socket.create_connection(({host!r}, {port}), timeout=20).close()
    print(time.perf_counter() - started)
"""
# Sends this many bytes to each client, numbered every four bytes to show their order.
SOURCE = """
import array, socket
body = array.array("I", range({count} // 4)).tobytes()
with socket.create_server(({host!r}, {port}), backlog=64) as listener:
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(body)
"""
TAKE = """
import array, socket, time
taken = bytearray()
started = time.perf_counter()
with socket.create_connection(({host!r}, {port}), timeout=60) as connection:
    while piece := connection.recv(1 << 16):
        taken += piece
print(time.perf_counter() - started, taken == array.array("I", range({count} // 4)).tobytes())
"""
# Sends numbered datagrams, and prints the number and the seconds of each that comes back, in order.
ECHO = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    udp.bind(({host!r}, {port}))
    print("ready", flush=True)
    while True:
        udp.sendto(*udp.recvfrom(2000))
"""
PING = """
import select, socket, time
sent, back = {{}}, []
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    udp.connect(({host!r}, {port}))
    for number in range({count}):
        sent[number] = time.perf_counter()
        udp.send(number.to_bytes(4, "big") + bytes({size}))
        while select.select([udp], [], [], {pause})[0]:
            back.append((int.from_bytes(udp.recv(2000)[:4], "big"), time.perf_counter()))
    while select.select([udp], [], [], 2)[0]:
        back.append((int.from_bytes(udp.recv(2000)[:4], "big"), time.perf_counter()))
for number, at in back:
    print(number, at - sent[number])
"""


def filled(program: str, **values: object) -> str:
    """Returns a program with its placeholders filled."""
    return program.format(host=ADDRESS, port=PORT, **values)


def said(side: Network, program: str) -> list[list[str]]:
    """Returns the output of a successful program as lines of words."""
    ended = side.python(program)
    assert ended.code == 0, ended.err
    return [line.split() for line in ended.out.splitlines()]


def connected(area: WideArea, count: int = 5) -> float:
    """Returns the minimum time of several connections, in seconds."""
    return min(float(seconds) for (seconds,) in said(area.near, filled(CONNECT, count=count)))


def settled(area: WideArea) -> tuple[Counters, Counters]:
    """Returns the counters once no packet is in transit."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        up, down = area.link.counters()
        if not (up.on_the_way or down.on_the_way):
            return up, down
        assert time.monotonic() < deadline, (up, down)
        time.sleep(0.02)


def is_balanced(counters: Counters) -> bool:
    """Returns whether every sent packet was delivered, lost or dropped, or is in transit."""
    return counters.sent == counters.delivered + counters.lost + counters.dropped + counters.on_the_way


def namespace_of(process: int | str) -> str:
    """Returns the network namespace of a process."""
    return os.readlink(f"/proc/{process}/ns/net")


def processes_in(namespaces: set[str]) -> Iterator[str]:
    """Returns the command lines of processes in any of the namespaces."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if namespace_of(folder.name) in namespaces:
                yield (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def test_connecting_takes_at_least_one_round_trip(tmp_path: Path) -> None:
    """Connecting takes at least the current round trip, however often it changes. The name server is near."""
    with wide_area(tmp_path, round_trip=0.01) as area, area.serving(tls=False, port=PORT, content=SMALL):
        for seconds in (0.01, 0.3, 0.01, 0.0):
            area.link.change(round_trip=seconds)
            # Packets of earlier connections must not delay later ones.
            settled(area)
            assert seconds <= connected(area) < seconds + 0.25


def test_bandwidth_sets_transfer_time(tmp_path: Path) -> None:
    """Bytes arrive in order, and with more bandwidth in less time."""
    count = 1_000_000
    with (
        wide_area(tmp_path, round_trip=0.02, megabits=8) as area,
        area.far.running(sys.executable, "-c", filled(SOURCE, count=count)),
    ):
        ((slow, is_right),) = said(area.near, filled(TAKE, count=count))
        area.link.change(megabits=80)
        ((fast, is_right_again),) = said(area.near, filled(TAKE, count=count))
    assert (is_right, is_right_again) == ("True", "True")
    assert float(slow) > 1.0
    assert 0.1 < float(fast) < float(slow)


def test_lost_packets_are_counted_and_resent(tmp_path: Path) -> None:
    """About the given share of packets is lost in both directions, and TCP delivers all bytes."""
    count, share = 6_000_000, 0.02
    with (
        wide_area(tmp_path, round_trip=0.002, loss=share, seed=7) as area,
        area.far.running(sys.executable, "-c", filled(SOURCE, count=count)),
    ):
        ((_, is_right),) = said(area.near, filled(TAKE, count=count))
        found = settled(area)
        assert [dropped_by_devices(side) for side in (area.near, area.far)] == [0, 0]
    assert is_right == "True"
    assert all(map(is_balanced, found)), found
    _, down = found
    assert down.sent > count // 1500
    # Five standard deviations.
    assert abs(down.lost - share * down.sent) < 5 * (share * down.sent) ** 0.5, down


def test_full_queue_drops_packets(tmp_path: Path) -> None:
    """Packets that do not fit into the 64 KiB before a slow link are dropped.

    All others arrive, and each is counted once.
    """
    with (
        wide_area(tmp_path, round_trip=0.01) as area,
        area.far.running(sys.executable, "-c", filled(ECHO)),
    ):
        area.link.change(megabits=0.5)
        numbers = [int(number) for number, _ in said(area.near, filled(PING, count=300, size=1000, pause=0))]
        up, down = settled(area)
    assert up.dropped > 0
    assert (is_balanced(up), is_balanced(down)) == (True, True)
    assert (up.sent, up.delivered) == (300, len(numbers))


def test_jitter_does_not_reorder_packets(tmp_path: Path) -> None:
    """Each packet takes at least a round trip, and some take longer. They arrive in the order of sending."""
    with (
        wide_area(tmp_path, round_trip=0.02, jitter=0.02, seed=3) as area,
        area.far.running(sys.executable, "-c", filled(ECHO)),
    ):
        back = said(area.near, filled(PING, count=200, size=0, pause=0.002))
    numbers, times = [int(number) for number, _ in back], [float(seconds) for _, seconds in back]
    assert numbers == list(range(200))
    assert min(times) >= 0.02
    assert max(times) - min(times) > 0.01


def test_namespaces_have_no_other_route(tmp_path: Path) -> None:
    """Neither side has another device, or a route to an address outside the network."""
    program = """
import socket
print(socket.socket().connect_ex(("203.0.113.1", 80)), *(name for _, name in socket.if_nameindex()))
"""
    with wide_area(tmp_path) as area:
        for side in (area.near, area.far):
            ((unreachable, *devices),) = said(side, program)
            assert (int(unreachable), sorted(set(devices) - BUILT_IN)) == (101, ["lo", DEVICE])


# A test that prints its namespaces and runs until it is killed.
KILLED = """
import sys
sys.path[:0] = {folders!r}
from pathlib import Path
from test_wide_area import SMALL, namespace_of
from wide_area import wide_area
with wide_area(Path({folder!r}), round_trip=0.05) as area, area.serving(content=SMALL):
    with area.near.running(sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"):
        print(namespace_of(area.near.holder), namespace_of(area.far.holder), flush=True)
        sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["end", "kill"])
def test_namespaces_and_processes_are_removed(tmp_path: Path, how: str) -> None:
    """No process, device or namespace is left, even if the test is killed."""
    example("wide_area_link")
    program = KILLED.format(
        folders=[str(folder) for folder in (Path(__file__).parent, SUPPORT.parent, SUPPORT)], folder=str(tmp_path)
    )
    command = (sys.executable, "-c", program)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        namespaces = set(test.stdout.readline().split())
        assert len(namespaces) == 2
        assert len(list(processes_in(namespaces))) >= 6
        if how == "kill":
            test.send_signal(signal.SIGKILL)
        else:
            test.communicate(timeout=START_SECONDS)
    deadline = time.monotonic() + START_SECONDS
    while left := list(processes_in(namespaces)):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
