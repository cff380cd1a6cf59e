"""A wide-area network for tests: two namespaces, and between them a link with a delay, jitter, loss and a bandwidth.

The command runs in the near one, servers in the far one, under real-looking names and over TLS. TCP is the kernel's, on
both sides. The link is a program of its own (crates/fetchmill-server/examples/wide_area_link.rs); what is lost and how
long each packet takes is drawn from a seed, which is printed. FETCHMILL_SEED repeats it. Nothing leads anywhere else.
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
# Addresses of the link's ends, and the net that all addresses of far hosts must be in.
NEAR, FAR, FAR_NET = "192.0.2.1", "192.0.2.2", "198.51.100.0/24"
# What waits in a device until the link takes it: enough that nothing is dropped there uncounted.
DEVICE_PACKETS = 10_000
# Without IPv6, whose own packets would be counted.
DEVICE_SCRIPT = """
ipv6=/proc/sys/net/ipv6/conf/{device}/disable_ipv6
[ ! -e $ipv6 ] || echo 1 > $ipv6
ip address add {here} peer {there} dev {device}
ip link set {device} txqueuelen {packets} mtu 1500 up
{route}
"""
SITE = "files.example.com"
HOSTS = {SITE: "198.51.100.12"}
# The environment of commands: nobody's proxy, which would not be there.
CLEAN = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@dataclass(frozen=True)
class Counters:
    """What became of the packets of one direction.

    Args:
        sent: all; the sum of the next four.
        delivered: those that arrived.
        lost: those that got lost on the way.
        dropped: those that found the queue before the bandwidth full.
        on_the_way: those that are still to arrive.
        sent_bytes: of all packets, with their heads.
        delivered_bytes: of those that arrived.
        late: the most seconds by which one came too late, because the link had to wait for a processor.
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
    """The link between two namespaces, while it runs."""

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
        """Changes what is given; packets that are on the way are not touched, and none overtakes another.

        Args:
            round_trip: seconds there and back, half of it each way.
            jitter: seconds; each packet takes a random time longer, up to this.
            loss: share of the packets that are lost each way, 0 to 1.
            megabits: 10^6 bits a second each way, heads included; 0 is no bound. Before it is a queue of 100 ms, but of
                64 KiB at least; packets that do not fit are dropped.
        """
        values = {"round_trip": round_trip, "jitter": jitter, "loss": loss, "megabits": megabits}
        self._ask({name: value for name, value in values.items() if value is not None})

    def counters(self) -> tuple[Counters, Counters]:
        """Of what the near side has sent, and the far one."""
        up, down = self._ask({})
        return Counters(**up), Counters(**down)

    def cpu_seconds(self) -> float:
        """Processor time that it has used."""
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
        near: where the command runs; it has a name server.
        far: where servers run, each at the address of its name.
        link: may be changed, and counts.
        hosts: names with their addresses.
        ca_file: the authority to trust.
        leaf: a certificate of it for all the names.
        seed: of what is lost, and of the server.
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
    """Packets that the device of a side has dropped because the link was too slow to take them."""
    lines = Path(f"/proc/{side.holder}/net/dev").read_text().splitlines()
    (line,) = (line for line in lines if line.strip().startswith(f"{DEVICE}:"))
    return int(line.rpartition(":")[2].split()[11])


def connect(side: Network, here: str, there: str, route: str = "") -> None:
    """Gives the device of a side its address, and what leads over it."""
    script = DEVICE_SCRIPT.format(here=here, there=there, device=DEVICE, packets=DEVICE_PACKETS, route=route)
    command = side.command("sh", "-ec", script)
    subprocess.run(command, env={**os.environ, "PATH": PATH}, check=True, timeout=START_SECONDS)


@contextlib.contextmanager
def linked(near: Network, far: Network, seed: int) -> Iterator[Link]:
    """A link between two namespaces with the same owner."""
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
    """Makes one, and takes it down at the end of the block; also when this process is killed.

    Args:
        folder: where its files go.
        round_trip: as `Link.change` has it, and so have the next three.
        jitter: the same.
        loss: the same.
        megabits: the same.
        seed: of what is lost and how long packets take; a new one each time if it is not given.
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
