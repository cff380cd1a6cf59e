"""A wide-area network for tests: two namespaces, and a link with delay, jitter, loss and bandwidth between them.

The command runs in the near namespace, and servers in the far one, under real-looking names and over TLS. Both sides
use the kernel's TCP. The link is a separate program (crates/fetchmill-server/examples/wide_area_link.rs). A seed, which
is printed, determines lost packets and the delay of each packet; FETCHMILL_SEED repeats it. There are no other routes.
"""

import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certificates import Leaf, issued_for
from conftest import Ended, example
from fetchmill.testing import Fault
from network import PATH, START_SECONDS, Network, name_server, namespace

DEVICE = "wide0"
# Addresses of the link's ends, and the network that has all addresses of far hosts.
NEAR, FAR, FAR_NET = "192.0.2.1", "192.0.2.2", "198.51.100.0/24"
# Queue of a device before the link takes packets: large enough that nothing is dropped there uncounted.
DEVICE_PACKETS = 10_000
# IPv6 is off, because its own packets would be counted.
DEVICE_SCRIPT = """
ipv6=/proc/sys/net/ipv6/conf/{device}/disable_ipv6
[ ! -e $ipv6 ] || echo 1 > $ipv6
ip address add {here} peer {there} dev {device}
ip link set {device} txqueuelen {packets} mtu 1500 up
{route}
"""
SITE = "files.example.com"
HOSTS = {SITE: "198.51.100.12"}
# The environment of commands has no proxy, because none would be reachable.
CLEAN = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@dataclass(frozen=True)
class Counters:
    """The fate of one direction's packets.

    Args:
        sent: all packets; the sum of the next four.
        delivered: packets that arrived.
        lost: packets that were lost.
        dropped: packets that found the queue before the bandwidth limit full.
        on_the_way: packets that will still arrive.
        sent_bytes: bytes of all packets, with their heads.
        delivered_bytes: bytes of those that arrived.
        late: the longest delay in seconds that was caused by waiting for a processor.
    """

    sent: int
    delivered: int
    lost: int
    dropped: int
    on_the_way: int
    sent_bytes: int
    delivered_bytes: int
    late: float


class Link:
    """The running link between two namespaces."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def change(
        self,
        *,
        round_trip: float | None = None,
        jitter: float | None = None,
        loss: float | None = None,
        megabits: float | None = None,
    ) -> None:
        """Changes the given values; packets on their way are not affected, and none overtakes another.

        Args:
            round_trip: round-trip time in seconds, half of it each way.
            jitter: maximum additional random time per packet in seconds.
            loss: share of lost packets each way, 0 to 1.
            megabits: 10^6 bits per second each way, including heads; 0 means no limit. A queue of 100 ms, at least 64
                KiB, precedes the limit and drops packets that do not fit.
        """
        values = {"round_trip": round_trip, "jitter": jitter, "loss": loss, "megabits": megabits}
        self._ask({name: value for name, value in values.items() if value is not None})

    def counters(self) -> tuple[Counters, Counters]:
        """Returns the counters of the near and of the far side."""
        up, down = self._ask({})
        return Counters(**up), Counters(**down)

    def cpu_seconds(self) -> float:
        """Returns the processor time that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _ask(self, change: Mapping[str, float]) -> Any:  # noqa: ANN401 - JSON
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(change)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the link has ended with {self._process.wait(START_SECONDS)}"
        return json.loads(answer)


@dataclass(frozen=True)
class FarServer:
    """A `fetchmill serve` in the far namespace.

    Args:
        url: the SOURCE of a job.
        stats: its counters, once it has ended.
    """

    url: str
    stats: dict[str, Any]


@dataclass(frozen=True)
class WideArea:
    """Both sides, and the link between them.

    Args:
        near: namespace of the command; it has a name server.
        far: namespace of servers, each at the address of its name.
        link: the link, which can be changed and counts packets.
        hosts: names with their addresses.
        ca_file: the authority to trust.
        leaf: a certificate of it for all the names.
        seed: seed of lost packets and of the server.
    """

    near: Network
    far: Network
    link: Link
    hosts: Mapping[str, str]
    ca_file: Path
    leaf: Leaf
    seed: int

    def fetchmill(self, *arguments: object, environment: Mapping[str, str] = CLEAN, timeout: float = 240) -> Ended:
        """Runs the command line in the near namespace; it trusts the authority."""
        return self.near.fetchmill(*arguments, "--ca-file", self.ca_file, environment=environment, timeout=timeout)

    @contextlib.contextmanager
    def serving(
        self, name: str = SITE, *, tls: bool = True, faults: Sequence[Fault] = (), **options: object
    ) -> Iterator[FarServer]:
        """Starts a server of the list/get API at a name; the options are those of the crate, in JSON."""
        given = [
            {key: value for key, value in dataclasses.asdict(fault).items() if value is not None} for fault in faults
        ]
        settings = {"host": self.hosts[name], "port": 443 if tls else 80, "seed": self.seed, "faults": given, **options}
        if tls:
            settings["certificate"] = {"chain": str(self.leaf.chain), "key": str(self.leaf.key)}
        command = self.far.command(example("serve"), json.dumps(settings))
        server = FarServer(f"http{'s' * tls}://{name}", {})
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline(), "the server has not started"
                yield server
                said, _ = process.communicate(timeout=START_SECONDS)
                server.stats.update(json.loads(said))
            finally:
                process.kill()


def dropped_by_devices(side: Network) -> int:
    """Returns the packets that a side's device has dropped because the link was too slow."""
    lines = Path(f"/proc/{side.holder}/net/dev").read_text().splitlines()
    (line,) = (line for line in lines if line.strip().startswith(f"{DEVICE}:"))
    return int(line.rpartition(":")[2].split()[11])


def connect(side: Network, here: str, there: str, route: str = "") -> None:
    """Gives a side's device its address and its routes."""
    script = DEVICE_SCRIPT.format(here=here, there=there, device=DEVICE, packets=DEVICE_PACKETS, route=route)
    command = side.command("sh", "-ec", script)
    subprocess.run(command, env={**os.environ, "PATH": PATH}, check=True, timeout=START_SECONDS)


@contextlib.contextmanager
def linked(near: Network, far: Network, seed: int) -> Iterator[Link]:
    """Links two namespaces with the same owner."""
    ends = (f"/proc/{side.holder}/ns/net" for side in (near, far))
    command = near.command(example("wide_area_link"), *ends, DEVICE, seed)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n", "no TUN device can be had: is /dev/net/tun there?"
            connect(near, NEAR, FAR, f"ip route add {FAR_NET} dev {DEVICE}")
            connect(far, FAR, NEAR)
            yield Link(process)
        finally:
            process.kill()


@contextlib.contextmanager
def wide_area(
    folder: Path,
    *,
    round_trip: float = 0.0,
    jitter: float = 0.0,
    loss: float = 0.0,
    megabits: float = 0.0,
    seed: int | None = None,
    hosts: Mapping[str, str] = HOSTS,
) -> Iterator[WideArea]:
    """Creates a wide-area network, and removes it at the end of the block, even if this process is killed.

    Args:
        folder: folder of its files.
        round_trip: as in `Link.change`, like the next three.
        jitter: as above.
        loss: as above.
        megabits: as above.
        seed: seed of lost packets and of delays; a new one each time if not given.
        hosts: names with their addresses, all in 198.51.100.0/24. A name `*.x` stands for all below `x`.
    """
    seed = int(os.environ.get("FETCHMILL_SEED") or random.randrange(1 << 32)) if seed is None else seed
    print(f"wide-area network: FETCHMILL_SEED={seed}", file=sys.stderr)  # noqa: T201 - shown when the test fails
    folder = folder / f"wide-area-{time.monotonic_ns()}"
    for part in ("near", "far"):
        (folder / part).mkdir(parents=True)
    ca_file, leaf = issued_for(folder, *hosts)
    with contextlib.ExitStack() as stack:
        near = stack.enter_context(namespace(folder / "near", ()))
        far = stack.enter_context(namespace(folder / "far", sorted(set(hosts.values())), near))
        link = stack.enter_context(linked(near, far, seed))
        stack.enter_context(name_server(near, hosts))
        link.change(round_trip=round_trip, jitter=jitter, loss=loss, megabits=megabits)
        yield WideArea(near, far, link, hosts, ca_file, leaf, seed)
