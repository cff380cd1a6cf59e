"""One program, run in a group of its own, with bounds: what it wrote, how it ended, what all its processes took."""

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
# Sampling takes at most this share of a processor: reading the memory of a process of some GiB takes a while.
_SAMPLE_SHARE = 0.1
# The end of what a program writes that is kept: its last line is what is asked for.
_OUTPUT_MAX = 8 << 20
_ERRORS_MAX = 4 << 10
_CHUNK = 1 << 16
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How long a program may run.

    Args:
        seconds: after this it is asked to stop.
        asks: whether it is asked, by SIGINT; one that ends by itself at that time is not.
        from_first_line: whether that time begins with its first line, rather than with its start.
        grace: seconds after that in which it must have ended; also those in which its first line must come.
    """

    seconds: float
    asks: bool = True
    from_first_line: bool = False
    grace: float = 15.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """How a program ran.

    Args:
        code: its exit code; negative: the signal that ended it.
        stopped: whether it was asked to stop.
        killed: whether it was killed, because it did not end in time.
        seconds: from its start to its end.
        cpu_seconds: user and system seconds of all its processes.
        peak_mib: the most memory that its processes had together.
        output: the end of its standard output.
        errors: the end of its standard error.
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
    """Runs a program to its end, or to the end of its time; nothing of it is left afterwards.

    Args:
        command: the program and its arguments.
        bounds: how long it may run.
        folder: where it runs.
        environment: its environment.

    Raises:
        OSError: it cannot be started.
    """
    with contextlib.ExitStack() as stack:
        with defer_signals():
            program = stack.enter_context(_Program(command, bounds, folder, environment))
        program.watch()
        return program.end()


class _Program:
    """A running program, and what is seen of it."""

    def __init__(
        self,
        command: Sequence[str],
        bounds: Bounds,
        folder: str | os.PathLike[str],
        environment: Mapping[str, str],
    ) -> None:
        self._bounds = bounds
        self._started = time.monotonic()
        # A group of its own: Ctrl-C in the terminal is this process's, and its end is everyone's in it.
        self._popen = subprocess.Popen(  # noqa: S603 - what it runs is what it is for
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
        """Reads and samples until it has ended, or its time is over."""
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
        """What it was, after its end; ends what is left of it."""
        seconds = time.monotonic() - self._started
        # The root is not waited for yet: its own seconds can still be read, and those of children that it has left.
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
        """Whether there was something to read; keeps the end of it."""
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
        """Asks it to stop when it is time; as a terminal would, but only the process that was started."""
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
        """CPU time only grows: it is less only when a child has ended that nobody waited for."""
        sample = self._tree.sample()
        self._peak = max(self._peak, sample.memory_bytes)
        self._cpu = max(self._cpu, sample.cpu_seconds)


def _set_nonblocking(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe that is read as far as there is something in it."""
    assert pipe is not None  # noqa: S101 - it was asked for
    os.set_blocking(pipe.fileno(), False)
    return pipe


def raise_descriptor_limit(pid: int) -> None:
    """Of a process, as far as it may be raised: a thousand connections are more than a thousand descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
