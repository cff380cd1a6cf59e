"""SIGINT and SIGTERM at random moments: a checkpoint, an exit code, and a job that resumes.

`FETCHMILL_SEED` repeats the moments of a failed run.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import COMMAND
from fetchmill.testing import Fault, Server, serve
from independent import Expected, find_broken, find_problems, has_journal, read_ledger, synthetic

pytestmark = pytest.mark.entry_point

Serve = Callable[..., Server]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
MOMENTS = 20
# Fetching threads.
WORKERS = len(os.sched_getaffinity(0))
AT_ONCE = 6
# Maximum seconds until an end. Tests with many moments run next to others, and drain tests measure their end exactly.
SOON = 30
WINDOW = 0.05
EXPECTED = synthetic(1600)
# The job takes two seconds, so that every moment is in the middle of it, even if the sleep before it is long.
PACE: dict[str, Any] = {"synthetic": 1600, "page_size": 50, "delay": (0.0, 0.15), "list_delay": (0.0, 0.03)}
# Replies take up to three seconds, so it is worth waiting for requests in flight.
SLOW: dict[str, Any] = {"synthetic": 150, "page_size": 100, "delay": (0.0, 3.0)}
HOW_TO_RESUME = "run the same command again to resume"
# Calls fetchmill.get, prints what KeyboardInterrupt leaves in the process, and may call it again.
IN_PYTHON = """
import json, os, sys, time, fetchmill
source, dest, resumes = sys.argv[1:]
count = lambda: len(os.listdir("/proc/self/task"))
threads = count()
raised = None
try:
    fetchmill.get(source, dest, commit_window=0.05, concurrency=64)
except KeyboardInterrupt:
    raised = time.time()
    while count() > threads and time.time() < raised + 1:
        time.sleep(0.005)
    threads -= count()
links = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
children = open(f"/proc/self/task/{os.getpid()}/children").read()
again = fetchmill.get(source, dest).fetched if resumes == "again" else None
print(json.dumps({
    "raised": raised, "threads": -threads, "children": children, "fetched": again,
    "open": [link for link in links if link.startswith(os.path.realpath(dest))],
}))
"""


@dataclass(frozen=True)
class Interrupted:
    """A run that got one or two signals: how it ended, how long after the last signal, and its output."""

    code: int
    seconds: float
    out: str
    err: str


@pytest.fixture
def interrupt(environment: dict[str, str]) -> Callable[..., Interrupted]:
    """Starts a command, sends it signals some seconds after a certain moment, and waits for its end."""

    def send(
        command: list[str],
        is_near: Callable[[], bool],
        *signals: tuple[float, signal.Signals],
    ) -> Interrupted:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
            while not is_near():
                assert process.poll() is None, process.communicate()
                time.sleep(0.001)
            for delay, number in signals:
                time.sleep(delay)
                process.send_signal(number)
            sent = time.monotonic()
            try:
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
            return Interrupted(process.returncode, time.monotonic() - sent, out, err)

    return send


def get_command(source: str, dest: Path, concurrency: int = 64) -> list[str]:
    """Returns the real command."""
    return [*COMMAND, "get", source, str(dest), "--commit-window", "50ms", "-j", str(concurrency)]


def python_command(source: Server, dest: Path, *, resumes: bool = False) -> list[str]:
    """Returns a program that calls fetchmill.get."""
    return [sys.executable, "-c", IN_PYTHON, source.url, str(dest), "again" if resumes else "once"]


def is_fetching(source: Server) -> Callable[[], bool]:
    """Returns whether the first page has arrived."""
    return lambda: source.stats()["get"] > 0


def is_listing(source: Server) -> Callable[[], bool]:
    """Returns whether the first page was requested."""
    return lambda: source.stats()["list"] > 0


def find_not_resumed(source: Server, dest: Path, environment: dict[str, str], expected: Expected) -> list[str]:
    """Runs the same command again, which must finish the job. Returns the problems found."""
    command = get_command(source.url, dest)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    problems = [f"it resumes with exit code {ended.returncode}: {ended.stderr}"] if ended.returncode else []
    return problems + find_problems(dest, expected)


def in_parallel(work: Callable[[int], list[str]], count: int = MOMENTS) -> None:
    """Calls the function for each moment, several in parallel; each call returns its problems."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [
            f"{index}: {problem}" for index, problems in enumerate(pool.map(work, range(count))) for problem in problems
        ]
    assert not found, f"FETCHMILL_SEED={SEED}: {found[:10]}"


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_command_after_checkpoint(
    interrupt: Callable[..., Interrupted], environment: dict[str, str], memory_path: Path, number: signal.Signals
) -> None:
    """The exit code is 130 or 143. The job ends soon, says how to continue, leaves nothing staged, and resumes."""

    def one(index: int) -> list[str]:
        rng = random.Random(f"{SEED}-{number}-{index}")
        dest = memory_path / f"out{index}"
        with serve(**PACE) as source:
            near = rng.choice([is_listing, is_fetching, is_fetching])(source)
            ended = interrupt(get_command(source.url, dest), near, (rng.uniform(0, 14) * WINDOW, number))
            problems = find_broken(dest, EXPECTED)
            if ended.code != 128 + number or ended.seconds > SOON or HOW_TO_RESUME not in ended.err.splitlines()[-1]:
                problems.append(f"{ended}")
            return problems + find_not_resumed(source, dest, environment, EXPECTED)

    in_parallel(one)


@pytest.mark.thorough
def test_signal_ends_python_get_after_checkpoint(
    interrupt: Callable[..., Interrupted], environment: dict[str, str], memory_path: Path
) -> None:
    """KeyboardInterrupt reaches the caller soon; no thread, process or file is left."""

    def one(index: int) -> list[str]:
        rng = random.Random(f"{SEED}-python-{index}")
        dest = memory_path / f"out{index}"
        with serve(**PACE) as source:
            delay = rng.uniform(0, 14) * WINDOW
            command = python_command(source, dest, resumes=index % 4 == 0)
            ended = interrupt(command, is_fetching(source), (delay, signal.SIGINT))
            if ended.code:
                return [f"{ended}"]
            left = json.loads(ended.out)
            problems = [] if left["raised"] else ["it was not interrupted"]
            problems += [f"{what}: {left[what]}" for what in ("threads", "children", "open") if left[what]]
            if ended.seconds > SOON:
                problems.append(f"it took {ended.seconds} s")
            if left["fetched"] is not None:
                problems += [] if left["fetched"] == EXPECTED.listed else [f"again: {left}"]
                return problems + find_problems(dest, EXPECTED)
            return problems + find_broken(dest, EXPECTED) + find_not_resumed(source, dest, environment, EXPECTED)

    in_parallel(one)


@pytest.mark.thorough
def test_sigterm_ends_program_without_handler(
    interrupt: Callable[..., Interrupted], environment: dict[str, str], memory_path: Path
) -> None:
    """The signal kills the program like any other; the job resumes as after any kill."""

    def one(index: int) -> list[str]:
        delay = random.Random(f"{SEED}-term-{index}").uniform(0, 14) * WINDOW
        dest = memory_path / f"out{index}"
        with serve(**PACE) as source:
            ended = interrupt(python_command(source, dest), is_fetching(source), (delay, signal.SIGTERM))
            problems = [] if ended.code == -signal.SIGTERM else [f"{ended}"]
            return problems + find_not_resumed(source, dest, environment, EXPECTED)

    in_parallel(one, 4)


@pytest.mark.timing
def test_requests_in_flight_are_drained_after_signal(
    interrupt: Callable[..., Interrupted], environment: dict[str, str], memory_path: Path
) -> None:
    """Replies that arrive within three seconds are stored, and nothing is requested again.

    The exception is the second reply on a thread's first connection, which continues while everything seems fast.
    """
    expected = synthetic(150)

    def one(index: int) -> list[str]:
        number = (signal.SIGINT, signal.SIGTERM)[index % 2]
        delay = random.Random(f"{SEED}-drain-{index}").uniform(0.1, 1.5)
        dest = memory_path / f"out{index}"
        in_python = index >= 2
        with serve(**SLOW | {"delay": (0.0, 2.7)}) as source:
            command = python_command(source, dest) if in_python else get_command(source.url, dest)
            ended = interrupt(command, is_fetching(source), (delay, signal.SIGINT if in_python else number))
            requests = source.stats()["get"]
            problems = find_broken(dest, expected)
            if ended.code != (0 if in_python else 128 + number) or ended.seconds > 5:
                problems.append(f"{ended}")
            kept = read_ledger(dest).fetched
            if not requests - WORKERS <= kept <= requests or not 64 <= requests < expected.listed:
                problems.append(f"{read_ledger(dest).fetched} fetched of {requests} requests")
            return problems

    del environment
    in_parallel(one, 4)


@pytest.mark.timing
def test_drain_after_signal_has_time_limit(
    interrupt: Callable[..., Interrupted], environment: dict[str, str], memory_path: Path
) -> None:
    """Slower replies are not awaited; the next run requests them again."""
    expected = synthetic(10)

    def one(index: int) -> list[str]:
        number = (signal.SIGINT, signal.SIGTERM)[index % 2]
        dest = memory_path / f"out{index}"
        with serve(synthetic=10, faults=[Fault("stall", seconds=8, times=1, after_bytes=0)]) as source:
            command = python_command(source, dest) if index == 2 else get_command(source.url, dest)
            ended = interrupt(command, is_fetching(source), (0.1, signal.SIGINT if index == 2 else number))
            problems = find_broken(dest, expected)
            if ended.code != (0 if index == 2 else 128 + number) or not 2.5 < ended.seconds < 5:
                problems.append(f"{ended}")
            return problems + find_not_resumed(source, dest, environment, expected)

    in_parallel(one, 3)


@pytest.mark.timing
def test_second_signal_ends_command_immediately(
    interrupt: Callable[..., Interrupted], environment: dict[str, str], memory_path: Path
) -> None:
    """Requests in flight are not drained; the job resumes as after a kill."""
    pairs = [(first, second) for first in (signal.SIGINT, signal.SIGTERM) for second in (signal.SIGINT, signal.SIGTERM)]
    expected = synthetic(100)

    def one(index: int) -> list[str]:
        rng = random.Random(f"{SEED}-second-{index}")
        in_python = index >= len(pairs)
        first, second = (signal.SIGINT, signal.SIGINT) if in_python else pairs[index]
        dest = memory_path / f"out{index}"
        with serve(synthetic=100, delay=(0.0, 1.0)) as source:
            command = python_command(source, dest) if in_python else get_command(source.url, dest)
            # Python sees two signals within 0.1 s as one.
            delays = (rng.uniform(0, 0.3), rng.uniform(0.15 if in_python else 0.01, 0.3))
            ended = interrupt(command, is_fetching(source), (delays[0], first), (delays[1], second))
            # Simultaneous signals are handled in the order of their numbers.
            problems = [] if ended.code in ({0} if in_python else {128 + first, 128 + second}) else [f"{ended}"]
            if ended.seconds > 1:
                problems.append(f"it took {ended.seconds} s")
            if in_python:
                left = json.loads(ended.out)
                problems += [f"{what}: {left[what]}" for what in ("threads", "children", "open") if left[what]]
            return problems + find_not_resumed(source, dest, environment, expected)

    in_parallel(one, len(pairs) + 4)


def has_begun(process: subprocess.Popen[str]) -> bool:
    """Returns whether the command's own first lines have run: it catches SIGTERM, which the interpreter does not.

    Before exec, the child still catches the signals of this process, which another test may have changed. It does not
    ignore SIGPIPE at that time, because that comes with the interpreter.
    """
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines)
        is_caught = int(values["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1
        is_ignored = int(values["SigIgn"], 16) >> (signal.SIGPIPE - 1) & 1
        return bool(is_caught and is_ignored)
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["native", "processes", "threads"])
def test_signal_at_any_moment_ends_job_without_traceback(
    environment: dict[str, str], memory_path: Path, engine: str
) -> None:
    """From the program's first line until after its report, the exit code is 130, or the job's own if it is over.

    The terminal sends the signal to all processes of the command. There is never a traceback.
    """
    # Six commands with 64 processes each would keep two processors busy for a minute and a half.
    concurrency = 8 if engine == "processes" else 64

    def one(index: int) -> list[str]:
        rng = random.Random(f"{SEED}-any-{engine}-{index}")
        dest = memory_path / f"{engine}{index}"
        with serve(synthetic=300, page_size=100) as source:
            command = [*get_command(source.url, dest, concurrency), "--format", "jsonl", "--engine", engine]
            pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
            with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:
                try:
                    while not has_begun(process):
                        assert process.poll() is None, process.communicate()
                        time.sleep(0.001)
                    said = ""
                    if index % 4 == 0:  # while its last lines are written, or later
                        while process.stderr and (line := process.stderr.readline()):
                            said += line
                            if "listed =" in line:
                                break
                        time.sleep(rng.uniform(0, 0.05))
                    else:
                        time.sleep(rng.choice([0.02, 0.2, 1.0]) * rng.random())
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGINT)
                    _, rest = process.communicate(timeout=120)
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            said += rest
            problems = [f"{word}: {said}" for word in ("Traceback", "bug", "ignored", "error") if word in said]
            is_over = has_journal(dest) and not find_problems(dest, synthetic(300), "jsonl")
            if process.returncode != 130 and not (process.returncode == 0 and is_over):
                problems.append(f"exit code {process.returncode}: {said}")
            if not said.strip():
                problems.append("it says nothing")
            return problems

    in_parallel(one, 24)


# The interpreter loads this module first, from PYTHONPATH. If a KeyboardInterrupt is raised there, Python remembers it,
# even if it is caught, and later ends `python -m` with the signal.
INTERRUPT_IN_EXEC = """
import signal, sys

class Finder:
    def find_spec(name, path=None, target=None):
        handler = signal.getsignal(signal.SIGINT)
        is_released = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and handler != signal.default_int_handler
        if is_released and "fetchmill.cli" in sys.modules:
            sys.meta_path.remove(Finder)
            exec("signal.raise_signal(signal.SIGINT)")

sys.meta_path.insert(0, Finder)
"""


def test_signal_during_module_import_has_same_exit_code(environment: dict[str, str], tmp_path: Path) -> None:
    """Modules with dataclasses execute generated code while they are loaded."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT_IN_EXEC)
    settings = environment | {"PYTHONPATH": str(tmp_path)}

    ended = subprocess.run([*COMMAND, "ls", "out"], env=settings, capture_output=True, cwd=tmp_path, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr.strip()) == (130, b"", b"")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", [("ls", "out"), ("verify", "out"), ("status", "out"), ("--help",)], ids=str)
def test_signal_at_any_moment_ends_command_without_job(
    run: Callable[..., Any], environment: dict[str, str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The exit code is 130, or 0 if the command is done, and there is no traceback."""
    with serve(synthetic=2000) as source:
        assert run("get", source.url, tmp_path / "out", "--format", "jsonl").code == 0

    def one(index: int) -> list[str]:
        rng = random.Random(f"{SEED}-{command}-{index}")
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*COMMAND, *command], env=environment, cwd=tmp_path, **pipes) as process:
            while process.poll() is None and not has_begun(process):
                time.sleep(0.001)
            time.sleep(rng.choice([0.02, 0.3]) * rng.random())
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        problems = [f"exit code {process.returncode}: {said}"] if process.returncode not in {0, 130} else []
        return problems + [f"{word}: {said}" for word in ("Traceback", "bug", "ignored") if word in said]

    in_parallel(one, 12)


@contextlib.contextmanager
def silent_port(*, accepts: bool) -> Iterator[str]:
    """Returns the URL of a port that never replies, or that does not even accept connections."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(64 if accepts else 0)
        for _ in range(0 if accepts else 4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.timing
@pytest.mark.parametrize("accepts", [True, False], ids=["silent", "unreachable"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_job_waiting_for_first_page(
    interrupt: Callable[..., Interrupted], dest: Path, number: signal.Signals, accepts: bool
) -> None:
    """There is nothing to drain: the job waits neither for a connection nor for a missing reply."""
    with silent_port(accepts=accepts) as url:
        journal = dest / ".fetchmill" / "job.sqlite"
        ended = interrupt(get_command(url, dest), journal.exists, (0.5, number))

    assert ended.code == 128 + number
    assert ended.seconds < 1
    assert HOW_TO_RESUME in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_command_waiting_for_unwritten_list(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """The command waits in the operating system before there is a job. A second signal or a few seconds end it."""
    os.mkfifo(tmp_path / "list.txt")
    command = [*COMMAND, "get", str(tmp_path / "list.txt"), str(tmp_path / "out"), "--format", "null"]
    for signals in (1, 2):
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            time.sleep(1.5)
            for _ in range(signals):
                process.send_signal(number)
                time.sleep(0.2)
            assert process.wait(20) == 128 + number
