"""A Ray cluster in a network namespace, with a server of synthetic objects next to it. It ends with the test."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conftest import COMMAND
from network import Network, network

PROGRAM = Path(__file__).with_name("ray_cluster.py")
LEFT = """
"$@"; code=$?; n=0
while pgrep -x 'raylet|gcs_server' > /dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done
[ $n -lt 50 ] || echo left
exit $code
"""
URL = "http://127.0.0.1:8080"


@dataclass
class RayRig:
    """Runs commands next to a cluster, with absolute paths: they do not start in the test's folder.

    Args:
        network: the namespace.
        environment: environment of commands.
        cluster: the program that runs the cluster; None if there is none.
    """

    network: Network
    environment: dict[str, str]
    cluster: "subprocess.Popen[str] | None" = None
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start(self, *arguments: object) -> "subprocess.Popen[str]":
        """Starts the real command, which is killed if it still runs at the end of the test."""
        return self._start([*COMMAND, *map(str, arguments)])

    def python(self, program: str, *arguments: object) -> "subprocess.Popen[str]":
        """Starts a Python program that sees only its own process, so that it finds no other Ray.

        It prints `left` if a local Ray is still there 5 s after its end.
        """
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", LEFT, "sh"]
        return self._start([*alone, sys.executable, "-c", program, *map(str, arguments)])

    def kill_node(self, number: int) -> None:
        """Kills a node with all its processes."""
        assert self.cluster is not None
        assert self.cluster.stdin is not None
        self.cluster.stdin.write(f"{number}\n")
        self.cluster.stdin.flush()
        self._await("killed")

    def _start(self, command: list[str]) -> "subprocess.Popen[str]":
        self.started.append(
            subprocess.Popen(
                self.network.command(*command),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self.started[-1]

    def start_cluster(self, folder: Path, nodes: int, cpus: int, *, hidden: Path | None = None) -> None:
        """Starts the cluster.

        Args:
            folder: an empty folder with a short path, because it has sockets.
            nodes: nodes in addition to the head, which has no CPUs.
            cpus: CPUs of each node.
            hidden: a folder that is empty for the cluster.
        """
        command = [sys.executable, str(PROGRAM), str(folder), str(nodes), str(cpus)]
        if hidden is not None:
            command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden), *command]
        with (self.network.folder / "cluster.log").open("w") as log:
            self.cluster = subprocess.Popen(
                self.network.command(*command),
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.environment["RAY_ADDRESS"] = self._await("address ").split()[1]

    def _await(self, start: str) -> str:
        assert self.cluster is not None
        for line in self.cluster.stdout or ():
            if line.startswith(start):
                return line
        raise AssertionError((self.network.folder / "cluster.log").read_text()[-2000:])

    def close(self) -> None:
        """Ends everything that was started."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        if self.cluster is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.cluster.communicate(timeout=20)
            self.cluster.kill()
            self.cluster.wait()


@contextlib.contextmanager
def ray_rig(
    folder: Path, *, nodes: int = 0, cpus: int = 2, delay: str = "0-0", hidden: Path | None = None
) -> Iterator[RayRig]:
    """Creates a namespace with a server at `URL`, and a cluster if it has nodes.

    Args:
        folder: an empty folder.
        nodes: nodes in addition to the head.
        cpus: CPUs of each node.
        delay: delay of each reply of the server in seconds.
        hidden: a folder that is empty for the cluster.
    """
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "HOME": str(folder)}
    environment.pop("RAY_ADDRESS", None)
    serve = ("serve", "--synthetic", "1e6", "--port", "8080", "--delay", delay)
    with (
        # Paths of sockets have at most 107 bytes.
        tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as sockets,
        network(folder, {"files.example": "10.9.0.1"}) as inside,
        inside.running(*COMMAND, *serve, ready=8080),
    ):
        rig = RayRig(inside, environment | {"RAY_TMPDIR": sockets})
        try:
            if nodes:
                rig.start_cluster(Path(sockets), nodes, cpus, hidden=hidden)
            yield rig
        finally:
            rig.close()
