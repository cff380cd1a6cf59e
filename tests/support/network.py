"""A separate network for a test: a namespace with real-looking names and addresses, and nothing else.

Programs in it see a name server at 127.0.0.1 and the addresses of `hosts`; no packet can leave it. It ends with the
test, even if the test is killed. It shares no code with the project.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from conftest import COMMAND, Ended

START_SECONDS = 30.0
NAME_SERVER = Path(__file__).with_name("name_server.py")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
# Tells a process that it must be killed when its parent has been killed.
ENDS_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL")
# The namespace lives as long as this process, which reports when its network is up.
HOLD = 'ip link set lo up && {addresses} mount --bind "$0" /etc/resolv.conf && echo up && exec cat'


@dataclass
class Network:
    """Runs commands in the namespace of a process."""

    holder: int
    folder: Path

    def command(self, *arguments: object) -> list[str]:
        """Returns the prefix that runs a command in it."""
        enter = ["nsenter", f"--target={self.holder}", "--user", "--net", "--mount", "--preserve-credentials"]
        return [*enter, *ENDS_WITH_ITS_PARENT, *map(str, arguments)]

    def fetchmill(self, *arguments: object, environment: Mapping[str, str] = os.environ, timeout: float = 60) -> Ended:
        """Runs the command line in it."""
        command = self.command(*COMMAND, *arguments)
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def python(self, program: str, *, environment: Mapping[str, str] = os.environ, timeout: float = 60) -> Ended:
        """Runs a Python program in it."""
        command = self.command(sys.executable, "-c", program)
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    @contextlib.contextmanager
    def running(self, *command: object, ready: int | None = None, **environment: str) -> Iterator[IO[bytes]]:
        """Runs a server in it until the end of the block. Returns the file with its output.

        Args:
            command: the program and its arguments.
            ready: a TCP port on which it answers when it is ready; without one, it prints a line.
            environment: more variables.
        """
        path = self.folder / f"{Path(str(command[0])).name}-{time.monotonic_ns()}.log"
        with path.open("wb") as log, path.open("rb") as said:
            process = subprocess.Popen(
                self.command(*command),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                self._await(process, path, ready)
                yield said
            finally:
                process.kill()
                process.wait()

    def _await(self, process: subprocess.Popen[bytes], log: Path, ready: int | None) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not (self._listens(ready) if ready else b"\n" in log.read_bytes()):
            said = log.read_text(errors="replace")[-1000:]
            assert process.poll() is None, f"{process.args!r} has ended: {said}"
            assert time.monotonic() < deadline, f"{process.args!r} is not ready: {said}"
            time.sleep(0.02)

    def _listens(self, port: int) -> bool:
        """Returns whether a TCP port of the namespace has a listener."""
        listening = f":{port:04X} 00000000:0000 0A"
        tables = (Path(f"/proc/{self.holder}/net/{name}").read_text() for name in ("tcp", "tcp6"))
        return any(listening in line.replace("0" * 32, "00000000") for table in tables for line in table.splitlines())


@contextlib.contextmanager
def namespace(folder: Path, addresses: Iterable[str], beside: Network | None = None) -> Iterator[Network]:
    """Creates a namespace with its own IPv4 addresses, whose name server is 127.0.0.1.

    Args:
        folder: an empty folder.
        addresses: its addresses.
        beside: a namespace with the same owner, for programs that use both.
    """
    resolv = folder / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\n")
    script = HOLD.format(addresses="".join(f"ip address add {address}/32 dev lo && " for address in addresses))
    unshare = ["unshare", "--user", "--map-root-user"]
    if beside:
        unshare = ["nsenter", f"--target={beside.holder}", "--user", "--preserve-credentials", "unshare"]
    command = [*unshare, "--net", "--mount", "sh", "-c", script, str(resolv)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": PATH}
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "up\n", "no network namespace can be had"
            yield Network(holder.pid, folder)
        finally:
            holder.kill()


@contextlib.contextmanager
def name_server(inside: Network, hosts: Mapping[str, str], *options: str) -> Iterator[None]:
    """Starts a name server with these addresses; a name `*.x` stands for all names below `x`.

    `options` are those of the program.
    """
    names = [f"{name}={address}" for name, address in hosts.items()]
    with inside.running(sys.executable, NAME_SERVER, *options, *names):
        yield


@contextlib.contextmanager
def network(folder: Path, hosts: Mapping[str, str], *options: str) -> Iterator[Network]:
    """Creates a network with names and their addresses; a name `*.x` stands for all below `x`.

    Args:
        folder: an empty folder.
        hosts: names with their IPv4 addresses, each an address of the namespace.
        options: more arguments of `name_server.py`.
    """
    with namespace(folder, sorted(set(hosts.values()))) as inside, name_server(inside, hosts, *options):
        yield inside
