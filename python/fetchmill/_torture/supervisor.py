"""Runs a command, and disturbs it before a system call that is chosen by its number."""

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fetchmill._torture import seccomp
from fetchmill._torture.disturbances import DURABLE, WRITES, Disturbance

# A run that takes longer hangs.
RUN_SECONDS_MAX = 60.0
_START_SECONDS_MAX = 20.0
_POLL_SECONDS = 0.05
_REASON_BYTES_MAX = 4096
_ERRORS_BYTES_MAX = 1 << 20


@dataclass
class Ended:
    """A run that is over.

    Args:
        code: its exit code; of a signal, its negative number.
        calls: how many durable calls it made.
        was_disturbed: whether it came as far as its disturbance.
        hung: whether it was killed because it did not end.
        errors: the end of what it wrote to standard error.
    """

    code: int
    calls: int
    was_disturbed: bool
    hung: bool
    errors: str


def run(command: Sequence[str], dest: Path, disturbance: Disturbance | None = None) -> Ended:
    """Runs a command to its end.

    Args:
        command: the program, with its whole path, and arguments.
        dest: the folder that is on the disk that fills.
        disturbance: what happens to it; None for nothing.

    Raises:
        UnsupportedError: the machine cannot watch a process.
    """
    fills = disturbance is not None and disturbance.kind == "full-disk"
    calls = (*DURABLE, "connect", *(WRITES if fills else ()))
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as errors:
        launcher = [sys.executable, "-m", "fetchmill._torture.launch", str(theirs.fileno()), ",".join(calls)]
        process = subprocess.Popen(  # noqa: S603 - the command of the caller
            [*launcher, *command],
            # Python writes no files of its own: only calls of the command are counted.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[theirs.fileno()],
        )
        try:
            theirs.close()
            supervisor = _Supervisor(process, _receive_listener(ours), dest, disturbance)
            hung = supervisor.supervise()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _ERRORS_BYTES_MAX))
        text = errors.read().decode(errors="replace")
    return Ended(process.returncode, supervisor.calls, supervisor.was_disturbed, hung, text)


def _receive_listener(ours: socket.socket) -> int:
    ours.settimeout(_START_SECONDS_MAX)
    try:
        text, descriptors, _flags, _address = socket.recv_fds(ours, _REASON_BYTES_MAX, 1)
    except TimeoutError:
        late = f"torture cannot watch a process: it did not start within {_START_SECONDS_MAX:.0f} s"
        raise seccomp.UnsupportedError(late) from None
    if not descriptors:
        raise seccomp.UnsupportedError(text.decode() or "torture cannot watch a process: it ended at its start")
    return descriptors[0]


@dataclass
class _Supervisor:
    """Answers each call of one process, and counts the durable ones."""

    process: "subprocess.Popen[bytes]"
    listener: int
    dest: Path
    disturbance: Disturbance | None
    calls: int = 0
    was_disturbed: bool = False
    cut_until: float = 0.0

    def supervise(self) -> bool:
        """Until the process has ended; whether it had to be killed because it did not."""
        ends_at = time.monotonic() + RUN_SECONDS_MAX
        waiting = select.poll()
        waiting.register(self.listener, select.POLLIN)
        try:
            while self.process.poll() is None:
                for _descriptor, events in waiting.poll(_POLL_SECONDS * 1000):
                    self._take_call(events, waiting)
                if time.monotonic() > ends_at:
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
                    # It waits for its answer, which does not come: the call is never carried out.
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
        try:
            path = Path(f"/proc/{asked.thread}/fd/{asked.arguments[0]}").readlink()
        except OSError:
            return False
        return path.is_relative_to(self.dest)

    def _cut(self, seconds: float) -> None:
        self.cut_until = time.monotonic() + seconds
        pidfd = os.pidfd_open(self.process.pid)
        try:
            for descriptor in _sockets_of(self.process.pid):
                taken = seccomp.take_descriptor(pidfd, descriptor)
                if taken is not None:
                    _shut_down(taken)
        finally:
            os.close(pidfd)


def _sockets_of(pid: int) -> list[int]:
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if descriptor.readlink().name.startswith("socket:"):
                found.append(int(descriptor.name))
        except OSError:
            continue  # closed meanwhile
    return found


def _shut_down(descriptor: int) -> None:
    """Of a connection over IP; others are not the network."""
    with socket.socket(fileno=descriptor) as taken:
        if taken.family not in (socket.AF_INET, socket.AF_INET6):
            return
        try:
            taken.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # not connected yet, or not any more
