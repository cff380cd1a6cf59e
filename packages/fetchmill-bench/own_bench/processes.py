"""Runs processes pinned to a core, and measures their CPU time and memory as reported by the kernel."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FETCHMILL = (sys.executable, "-m", "fetchmill")
STOP_SECONDS = 20.0
_TICK = os.sysconf("SC_CLK_TCK")
_KIB_A_MIB = 1024


@dataclass(frozen=True)
class Cores:
    """The cores for client and server. None leaves the choice to the kernel."""

    client: int | None
    server: int | None

    @classmethod
    def pick(cls) -> "Cores":
        """Picks the last usable core for the client, and the first one for the server."""
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) == 1:
            sys.exit("this needs two processors, one for the client and one for the server")
        return cls(client=allowed[-1], server=allowed[0])


@dataclass(frozen=True)
class Usage:
    """The resources that a process used from its start to its end."""

    code: int
    seconds: float
    user: float
    system: float
    peak_mib: float
    output: str = ""

    @property
    def cpu(self) -> float:
        """User and system seconds."""
        return self.user + self.system


class Process:
    """A child process that dies with this process. Once the child has ended, the resources that it used are known."""

    def __init__(
        self,
        command: Sequence[str | Path],
        core: int | None = None,
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self._started = time.monotonic()
        self.popen = subprocess.Popen(
            [*_prefix(core), *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            process_group=0,
        )
        self.pid = self.popen.pid

    def runs(self) -> bool:
        """Returns whether the process is still running, without waiting for it."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait(self) -> Usage:
        """Waits for the process to end."""
        output = self.popen.stdout.read() if self.popen.stdout else ""
        _, status, usage = os.wait4(self.pid, 0)
        seconds = time.monotonic() - self._started
        self.popen.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss / _KIB_A_MIB
        return Usage(self.popen.returncode, seconds, usage.ru_utime, usage.ru_stime, peak, output)

    def stop(self) -> None:
        """Asks the process to end, and kills it if it does not."""
        if self.popen.returncode is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


def measure(command: Sequence[str | Path], core: int | None) -> Usage:
    """Runs a command, which must succeed."""
    process = Process(command, core, stdout=subprocess.PIPE)
    try:
        usage = process.wait()
    except BaseException:
        process.popen.kill()
        process.popen.wait()
        raise
    if usage.code:
        sys.exit(f"this failed with exit code {usage.code}: {' '.join(map(str, command))}")
    return usage


def cpu_seconds(pid: int) -> float:
    """Returns the user and system seconds of all threads of a process so far."""
    # The program's name is in parentheses, and may contain spaces.
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = after_name[11:13]
    return (int(user) + int(system)) / _TICK


def peak_mib(pid: int) -> float:
    """Returns the peak resident memory of a process so far, in MiB."""
    return _status_mib(pid, "VmHWM:")


def resident_mib(pid: int) -> float:
    """Returns the current resident memory of a process, in MiB."""
    return _status_mib(pid, "VmRSS:")


def listens(port: int, server: Process) -> None:
    """Waits until a server on loopback is listening."""
    for _ in range(round(STOP_SECONDS / 0.02)):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        if not server.runs():
            break
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on port {port}")


@contextlib.contextmanager
def fetchmill_server(core: int | None, *arguments: str) -> Iterator[tuple[Process, str]]:
    """Starts `fetchmill serve`. Returns the process and its URL."""
    server = Process((*FETCHMILL, "serve", *arguments), core, stderr=subprocess.PIPE)
    try:
        assert server.popen.stderr is not None  # noqa: S101 - it is a pipe
        line = server.popen.stderr.readline()
        url = next((word.rstrip(",") for word in line.split() if word.startswith("http://")), "")
        if not url:
            sys.exit(f"the server did not start: {line}{server.popen.stderr.read()}")
        yield server, url
    finally:
        server.stop()


def _status_mib(pid: int, field: str) -> float:
    """Returns a memory value of a process; None if the process has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / _KIB_A_MIB for line in lines if line.startswith(field)), 0.0)


def _prefix(core: int | None) -> tuple[str, ...]:
    dies_with_us = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    return (*dies_with_us, *(("taskset", "-c", str(core)) if core is not None else ()))
