"""A job waits if all local ports to a server are in use."""

import json
import subprocess
import sys
from pathlib import Path

from wide_area import SITE, WideArea, wide_area

PORTS = range(40_000, 40_020)
HELD_SECONDS = 8
# Takes every port to the server, and releases them so that none of them rests.
HOLDER = """
import socket, struct, sys, time
held = []
for _ in range(int(sys.argv[2])):
    held.append(socket.create_connection((sys.argv[1], 80)))
    held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
print("held", flush=True)
time.sleep(float(sys.argv[3]))
"""


def hold_all_ports(area: WideArea) -> "subprocess.Popen[str]":
    """Starts a process that occupies all ports until it ends."""
    few = f"echo {PORTS.start} {PORTS.stop - 1} > /proc/sys/net/ipv4/ip_local_port_range"
    subprocess.run(area.near.command("sh", "-ec", few), check=True, timeout=10)
    command = area.near.command(sys.executable, "-c", HOLDER, area.hosts[SITE], len(PORTS), HELD_SECONDS)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_listing_waits_for_free_local_port(tmp_path: Path) -> None:
    """A listing waits for a port.

    It used to fail within seconds, and to ask whether the server was running.
    """
    content = {"synthetic": {"count": 50, "size": 100}}
    with wide_area(tmp_path) as area, area.serving(tls=False, content=content) as site, hold_all_ports(area) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        ended = area.near.fetchmill("get", site.url, tmp_path / "out", "--format", "jsonl", "-j", 2, "--json")
        assert holder.poll() is not None, "the job ended before a port was free"

    assert ended.code == 0, ended.err
    assert json.loads(ended.out.splitlines()[-1])["fetched"] == 50
