"""Runs one program in its own process group and within limits. Records its output, its exit code and its resources."""

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Self

from fetchmill_bench.process_tree import ProcessTree
from fetchmill_bench.signals import defer_signals

SAMPLE_SECONDS = 0.05
# Maximum share of a processor for sampling, because reading the memory of a process with several GiB takes a while.
_SAMPLE_SHARE = 0.1
# Maximum size of a program's output to keep. Only the end is kept, because the last line is needed.
_OUTPUT_MAX = 8 << 20
_ERRORS_MAX = 4 << 10
_CHUNK = 1 << 16
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits on a program's duration.

    Args:
        seconds: time after which the program is asked to stop.
        asks: whether to ask the program to stop with SIGINT; False if it ends by itself at that time.
        from_first_line: whether `seconds` counts from the first line of output instead of from the start.
        grace: seconds that the program has to end after `seconds`. With `from_first_line`, this also limits the wait
            for the first line.
    """

    seconds: float
    asks: bool = True
    from_first_line: bool = False
    grace: float = 15.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The measurement of a program.

    Args:
        code: the exit code. A negative number is the signal that ended the program.
        stopped: whether the program was asked to stop.
        killed: whether the program was killed because it did not end in time.
        seconds: time from the start of the program to its end.
        cpu_seconds: user and system CPU seconds of all processes.
        peak_mib: peak of the total memory of all processes in MiB.
        output: the end of the standard output.
        errors: the end of the standard error.
    """

    code: int
    stopped: bool
    killed: bool
    seconds: float
    cpu_seconds: float
    peak_mib: float
    output: str
    errors: str


def measure(
    command: Sequence[str], bounds: Bounds, *, folder: str | os.PathLike[str], environment: Mapping[str, str]
) -> Measurement:
    """Runs a program until it ends or its time is up. Leaves none of the program's processes running.

    Args:
        command: the program and its arguments.
        bounds: limits on the duration.
        folder: the working folder.
        environment: the environment variables.

    Raises:
        OSError: the program cannot be started.
    """
    with contextlib.ExitStack() as stack:
        with defer_signals():
            program = stack.enter_context(_Program(command, bounds, folder, environment))
        program.watch()
        return program.end()


class _Program:
    """A running program and its observed state."""

    def __init__(
        self,
        command: Sequence[str],
        bounds: Bounds,
        folder: str | os.PathLike[str],
        environment: Mapping[str, str],
    ) -> None:
        self._bounds = bounds
        self._started = time.monotonic()
        # Use a separate process group, so that Ctrl-C in the terminal reaches only this process, and all members can be
        # killed together.
        self._popen = subprocess.Popen(  # noqa: S603 - running a given command is the purpose
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self._tree = ProcessTree(self._popen.pid)
        self._pidfd = os.pidfd_open(self._popen.pid)
        raise_descriptor_limit(self._popen.pid)
        self._pipes = (_set_nonblocking(self._popen.stdout), _set_nonblocking(self._popen.stderr))
        self._written = {pipe.fileno(): bytearray() for pipe in self._pipes}
        self._output, self._errors = self._written.values()
        self._peak = 0
        self._cpu = 0.0
        self._next_sample = self._started
        self._is_stopped = self._killed = False
        self._asks_at: float | None = None if bounds.from_first_line else self._started + bounds.seconds
        self._kills_at = self._started + bounds.grace + (0.0 if bounds.from_first_line else bounds.seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._popen.returncode is None:
            self._tree.kill()
            self._popen.wait()
        os.close(self._pidfd)
        for pipe in self._pipes:
            pipe.close()

    def watch(self) -> None:
        """Reads output and takes samples until the program has ended, or its time is up."""
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._pidfd, *self._written):
                selector.register(descriptor, selectors.EVENT_READ)
            while True:
                ready = [key.fd for key, _ in selector.select(self._pause())]
                for descriptor in self._written.keys() & set(ready):
                    if not self._read(descriptor):
                        selector.unregister(descriptor)
                if self._pidfd in ready:
                    return
                now = time.monotonic()
                if now >= self._kills_at:
                    self._killed = True
                    return
                self._ask(now)
                self._sample(now)

    def end(self) -> Measurement:
        """Ends the remaining processes. Returns the measurement."""
        seconds = time.monotonic() - self._started
        # The root has not been waited for yet, so its CPU time and that of its remaining children can still be read.
        self._note()
        self._tree.kill()
        for descriptor in self._written:
            while self._read(descriptor):
                pass
        return Measurement(
            code=self._popen.wait(),
            stopped=self._is_stopped,
            killed=self._killed,
            seconds=seconds,
            cpu_seconds=self._cpu,
            peak_mib=self._peak / _MIB,
            output=self._output.decode(errors="replace"),
            errors=self._errors.decode(errors="replace"),
        )

    def _pause(self) -> float:
        next_at = min(self._next_sample, self._kills_at)
        if self._bounds.asks and not self._is_stopped and self._asks_at is not None:
            next_at = min(next_at, self._asks_at)
        return max(0.0, next_at - time.monotonic())

    def _read(self, descriptor: int) -> bool:
        """Reads output and keeps its end. Returns whether there was anything to read."""
        kept = self._written[descriptor]
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if self._asks_at is None and b"\n" in chunk and kept is self._output:
            self._asks_at = time.monotonic() + self._bounds.seconds
            self._kills_at = self._asks_at + self._bounds.grace
        kept += chunk
        bound = _OUTPUT_MAX if kept is self._output else _ERRORS_MAX
        if len(kept) > 2 * bound:
            del kept[:-bound]
        return bool(chunk)

    def _ask(self, now: float) -> None:
        """When the time is up, asks the started process to stop, with the signal that Ctrl-C sends."""
        if self._bounds.asks and not self._is_stopped and self._asks_at is not None and now >= self._asks_at:
            self._is_stopped = True
            self._popen.send_signal(signal.SIGINT)

    def _sample(self, now: float) -> None:
        if now < self._next_sample:
            return
        self._note()
        took = time.monotonic() - now
        self._next_sample = now + max(SAMPLE_SECONDS, took / _SAMPLE_SHARE)

    def _note(self) -> None:
        """Records a sample. The CPU time falls only if a child has ended and its parent did not wait for it."""
        sample = self._tree.sample()
        self._peak = max(self._peak, sample.memory_bytes)
        self._cpu = max(self._cpu, sample.cpu_seconds)


def _set_nonblocking(pipe: IO[bytes] | None) -> IO[bytes]:
    """Makes a pipe non-blocking, and returns it."""
    assert pipe is not None  # noqa: S101 - it was requested
    os.set_blocking(pipe.fileno(), False)
    return pipe


def raise_descriptor_limit(pid: int) -> None:
    """Raises a process's descriptor limit to the maximum, because the default may be too low for 1,000 connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
