"""Runs a command and disturbs it before its n-th durable system call."""

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fetchmill._torture import seccomp
from fetchmill._torture.disturbances import DURABLE, WRITES, Disturbance

_START_SECONDS_MAX = 20.0
_POLL_SECONDS = 0.05
_REASON_BYTES_MAX = 4096
_ERRORS_BYTES_MAX = 1 << 20
# Index of the argument that names the output of a write, if it is not the first argument.
_OUTPUT_ARGUMENT = {"copy_file_range": 2}


@dataclass(frozen=True)
class Ended:
    """A finished run.

    Args:
        code: the exit code, or the negative number of a signal.
        calls: number of durable calls.
        was_disturbed: whether the run reached its disturbance.
        hung: whether the run was killed because it exceeded its time limit.
        seconds: duration of the run.
        errors: the last 1 MiB of standard error.
    """

    code: int
    calls: int
    was_disturbed: bool
    hung: bool
    seconds: float
    errors: str

    @property
    def last_error(self) -> str:
        """The last error from fetchmill, or the last line if there is no error."""
        lines = self.errors.strip().splitlines() or ["no message"]
        return next((line for line in reversed(lines) if line.startswith("fetchmill: error: ")), lines[-1])


def run(
    command: Sequence[str],
    dest: Path,
    disturbance: Disturbance | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    seconds_max: float | None = None,
) -> Ended:
    """Run a command until it ends.

    Args:
        command: the absolute path of the program, and its arguments.
        dest: the folder on the disk that becomes full.
        disturbance: the disturbance of the run; None for no disturbance.
        environment: environment variables of the program; None for those of this process.
        seconds_max: time after which the program is killed; None for no limit.

    Raises:
        UnsupportedError: processes cannot be monitored on this machine.
    """
    fills = disturbance is not None and disturbance.kind == "full-disk"
    calls = (*DURABLE, "connect", *(WRITES if fills else ()))
    ours, theirs = socket.socketpair()
    started = time.monotonic()
    with ours, theirs, tempfile.TemporaryFile(dir=dest.parent) as errors:
        launcher = [sys.executable, "-P", "-m", "fetchmill._torture.launch", str(theirs.fileno()), ",".join(calls)]
        process = subprocess.Popen(  # noqa: S603 - the command comes from the caller
            [*launcher, *command],
            # Prevent Python from writing files of its own, so that only the command's calls are counted.
            env={**(os.environ if environment is None else environment), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[theirs.fileno()],
        )
        try:
            theirs.close()
            supervisor = _Supervisor(process, _receive_listener(ours), dest, disturbance)
            hung = supervisor.supervise(None if seconds_max is None else started + seconds_max)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _ERRORS_BYTES_MAX))
        text = errors.read().decode(errors="replace")
    seconds = time.monotonic() - started
    return Ended(process.returncode, supervisor.calls, supervisor.was_disturbed, hung, seconds, text)


def can_cut() -> bool:
    """Return whether the kernel allows this process to shut down another process's connections."""
    command = [sys.executable, "-I", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - constant
        try:
            pidfd = seccomp.open_process(process.pid)
            try:
                taken = seccomp.take_descriptor(pidfd, 0)
            finally:
                os.close(pidfd)
        except seccomp.UnsupportedError:
            return False
        finally:
            process.kill()
        if taken is not None:
            os.close(taken)
        return True


def _receive_listener(ours: socket.socket) -> int:
    ours.settimeout(_START_SECONDS_MAX)
    try:
        text, descriptors, _flags, _address = socket.recv_fds(ours, _REASON_BYTES_MAX, 1)
    except TimeoutError:
        late = f"torture cannot trace processes: the traced process did not start within {_START_SECONDS_MAX:.0f} s"
        raise seccomp.UnsupportedError(late) from None
    if not descriptors:
        raise seccomp.UnsupportedError(
            text.decode() or "torture cannot trace processes: the traced process ended immediately"
        )
    return descriptors[0]


@dataclass
class _Supervisor:
    """Answers each call of one process, and counts the durable calls."""

    process: "subprocess.Popen[bytes]"
    listener: int
    dest: Path
    disturbance: Disturbance | None
    calls: int = 0
    was_disturbed: bool = False
    cut_until: float = 0.0

    def supervise(self, ends_at: float | None) -> bool:
        """Answer calls until the process ends. Return whether it was killed for exceeding its time limit."""
        waiting = select.poll()
        waiting.register(self.listener, select.POLLIN)
        try:
            while self.process.poll() is None:
                for _descriptor, events in waiting.poll(_POLL_SECONDS * 1000):
                    self._take_call(events, waiting)
                if ends_at is not None and time.monotonic() > ends_at:
                    self.process.kill()
                    self.process.wait()
                    return True
        finally:
            os.close(self.listener)
        return False

    def _take_call(self, events: int, waiting: select.poll) -> None:
        if not events & select.POLLIN:
            waiting.unregister(self.listener)
            return
        asked = seccomp.receive(self.listener)
        if asked is None:
            return
        if asked.call in DURABLE:
            self.calls += 1
            if self.disturbance and self.calls == self.disturbance.call:
                self.was_disturbed = True
                if self.disturbance.kind == "kill":
                    # The thread waits for an answer that never arrives, so the call is never executed.
                    self.process.send_signal(signal.SIGKILL)
                    return
                if self.disturbance.kind == "cut":
                    self._cut(self.disturbance.seconds)
        seccomp.answer(self.listener, asked, self._error_of(asked))

    def _error_of(self, asked: seccomp.Notification) -> int:
        if asked.call == "connect":
            return errno.ENETUNREACH if time.monotonic() < self.cut_until else 0
        is_full = self.was_disturbed and self.disturbance is not None and self.disturbance.kind == "full-disk"
        return errno.ENOSPC if is_full and asked.call in WRITES and self._is_below_dest(asked) else 0

    def _is_below_dest(self, asked: seccomp.Notification) -> bool:
        output = asked.arguments[_OUTPUT_ARGUMENT.get(asked.call, 0)]
        try:
            path = Path(f"/proc/{asked.thread}/fd/{output}").readlink()
        except OSError:
            return False
        return path.is_relative_to(self.dest)

    def _cut(self, seconds: float) -> None:
        self.cut_until = time.monotonic() + seconds
        pidfd = seccomp.open_process(self.process.pid)
        try:
            for descriptor in _sockets_of(self.process.pid):
                taken = seccomp.take_descriptor(pidfd, descriptor)
                if taken is not None:
                    _shut_down(taken)
        finally:
            os.close(pidfd)


def _sockets_of(pid: int) -> list[int]:
    found = []
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []  # the process has just ended
    for descriptor in descriptors:
        try:
            if descriptor.readlink().name.startswith("socket:"):
                found.append(int(descriptor.name))
        except OSError:
            continue  # the descriptor has just been closed
    return found


def _shut_down(descriptor: int) -> None:
    """Shut down a TCP or UDP socket. Ignore sockets of other families."""
    with socket.socket(fileno=descriptor) as taken:
        if taken.family not in (socket.AF_INET, socket.AF_INET6):
            return
        try:
            taken.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # not connected yet, or no longer connected
