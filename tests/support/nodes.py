"""Machines of a cluster for tests: namespaces on one bridge, whose cables can be cut.

The server of synthetic objects, and a store if there is one, run in the namespace of the bridge. All nodes see the same
folders, like machines that mount a shared file system over another network.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conftest import COMMAND
from network import PATH, START_SECONDS, Network, namespace

HUB = "10.9.0.1"
PORT = 8080
URL = f"http://{HUB}:{PORT}"
BRIDGE = f"ip link add hub type bridge && ip address add {HUB}/24 dev hub && ip link set hub up"
CABLE = "ip link add {name} type veth peer name eth0 netns {holder} && ip link set {name} master hub up"
NODE = "ip address add {address}/24 dev eth0 && ip link set eth0 up"


@dataclass(frozen=True)
class Node:
    """A machine.

    Args:
        network: its namespace.
        cable: the device at the bridge.
        hub: the namespace of the bridge.
    """

    network: Network
    cable: str
    hub: Network

    def start(
        self,
        *arguments: object,
        environment: Mapping[str, str] = os.environ,
        program: Sequence[object] = COMMAND,
    ) -> "subprocess.Popen[str]":
        """Starts the real command on it, or another program. It starts in another folder, so paths must be absolute."""
        command = self.network.command(*program, *arguments)
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def plug(self, *, connected: bool) -> None:
        """Cuts its cable, or connects it again."""
        shell(self.hub, f"ip link set {self.cable} {'up' if connected else 'down'}")


@dataclass(frozen=True)
class Cluster:
    """Machines, and the namespace of their servers."""

    hub: Network
    nodes: list[Node]


def shell(side: Network, script: str) -> None:
    """Runs commands in a namespace."""
    command = side.command("sh", "-ec", script)
    subprocess.run(command, env={**os.environ, "PATH": PATH}, check=True, timeout=START_SECONDS)


@contextlib.contextmanager
def cluster(folder: Path, count: int, *, objects: int, delay: str = "0-0") -> Iterator[Cluster]:
    """Creates machines with a server of synthetic objects at `URL`.

    Args:
        folder: an empty folder.
        count: number of machines.
        objects: number of objects.
        delay: delay of each reply in seconds, for example `0-0.02`.
    """
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(namespace(make(folder / "hub"), []))
        shell(hub, BRIDGE)
        nodes = []
        for number in range(count):
            inside = stack.enter_context(namespace(make(folder / f"node{number}"), [], beside=hub))
            shell(hub, CABLE.format(name=f"node{number}", holder=inside.holder))
            shell(inside, NODE.format(address=f"10.9.0.{10 + number}"))
            nodes.append(Node(inside, f"node{number}", hub))
        serve = ("serve", "--synthetic", objects, "--host", HUB, "--port", PORT, "--delay", delay)
        stack.enter_context(hub.running(*COMMAND, *serve, ready=PORT))
        yield Cluster(hub, nodes)


def make(folder: Path) -> Path:
    """Creates a folder."""
    folder.mkdir()
    return folder
