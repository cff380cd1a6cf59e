"""Every engine is interrupted and killed at random moments: nothing is lost or duplicated, and the job resumes.

`FETCHMILL_SEED` reproduces the random moments of a failed run. `FETCHMILL_ENGINE_KILLS` is the number of kills per
engine (`make engine-kills`: 100). `FETCHMILL_ENGINES` selects engines.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import engine_functions
import fetchmill
from conftest import COMMAND, SUPPORT, format_options
from engines import (
    ENGINES,
    IN_PYTHON,
    PATIENCE,
    WITH_LISTS,
    WITH_PROCESSES,
    engine_options,
    group_ends,
    kill_group,
    limit_options,
    pace,
    wait_for,
    worker_processes,
)
from fetchmill.testing import Fault, Server, serve
from independent import (
    Expected,
    find_broken,
    find_problems,
    find_unbalanced,
    find_wrong,
    has_journal,
    read_ledger,
    synthetic,
)

Serve = Callable[..., Server]
Popen = subprocess.Popen[str]

SEED = int(os.environ.get("FETCHMILL_SEED") or time.time_ns() % 1_000_000)
KILLS = int(os.environ.get("FETCHMILL_ENGINE_KILLS") or 10)
KILLS_IN_A_JOB = 3
PROGRAMS = SUPPORT / "engine_programs.py"
OPTIONS = ("--commit-window", "50ms", "--attempts", "8", "--quiet")
# A job of about a second in every engine.
COUNT = 300
SECONDS_EACH = 0.003
FORMATS = ("files", "parquet")
# Some are always refused, others only at first.
ABSENT = range(120, 130)
FAULTS = [
    Fault("status", status=404, match="file-00000000012*"),
    Fault("status", status=500, times=1, rate=0.02),
    Fault("reset", times=1, rate=0.01),
]
HOW_TO_RESUME = "run the same command again to resume"


@dataclass
class Case:
    """A job that is ended repeatedly, each time in its own process group, and its expected result."""

    source: Server
    dest: Path
    environment: dict[str, str]
    format: str = "files"
    expected: Expected = field(default_factory=lambda: synthetic(COUNT, failures=ABSENT))
    more: tuple[str, ...] = ()

    def command(self, engine: str) -> list[str]:
        """Returns the command, which is always the same except for the engine."""
        settings = [*OPTIONS, *limit_options(engine), *format_options(self.format), *self.more]
        return [*COMMAND, "get", self.source.url, str(self.dest), *settings, *engine_options(engine)]

    def start(self, engine: str) -> contextlib.AbstractContextManager[Popen]:
        """Starts a run."""
        return group(self.command(engine), self.environment)

    def broken(self) -> list[str]:
        """Returns violations of the invariants that hold at any moment."""
        if not has_journal(self.dest):
            return []
        return find_wrong(self.dest, self.expected, self.format) + find_unbalanced(self.dest)

    def finish(self, engine: str) -> list[str]:
        """Lets a run finish undisturbed. Returns problems of its result."""
        with self.start(engine) as process:
            _, err = process.communicate(timeout=120)
            code = 3 if self.expected.failures else 0
            problems = [] if process.returncode == code else [f"it ended with {process.returncode}: {err}"]
            problems += [] if group_ends(process.pid) else ["a process is left"]
        problems += find_problems(self.dest, self.expected, self.format)
        listed = sorted(failure.name for failure in fetchmill.failures(self.dest))
        return problems + ([] if listed == sorted(self.expected.failures) else [f"the failures are {listed}"])


@contextlib.contextmanager
def group(command: list[str], environment: dict[str, str]) -> Iterator[Popen]:
    """Starts a process in its own group, as a shell does. At the end, no process of the group is left."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            kill_group(process.pid)


def wait_for_requests(source: Server, count: int, process: Popen) -> None:
    """Waits until a server has received the given number of requests, or until the process has ended."""
    wait_for(lambda: source.stats()["get"] >= count or process.poll() is not None)


def paced(engine: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - of `serve`
    """Starts a server with the given number of synthetic objects."""
    delay = pace(engine, SECONDS_EACH)
    return {"synthetic": COUNT, "page_size": 60, "delay": delay, "list_delay": (0.0, 0.02), "faults": FAULTS, **more}


# --- Ctrl-C ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reached", ["group", "parent"])
def test_ctrl_c_ends_job_after_checkpoint(
    environment: dict[str, str], memory_path: Path, engine: str, reached: str
) -> None:
    """The exit code is 130, nothing is left over, and the job resumes. The command or all processes get the signal."""
    rng = random.Random(f"{SEED}-{engine}-{reached}")
    with serve(**paced(engine)) as source:
        case = Case(source, memory_path / "out", environment)
        command = [argument for argument in case.command(engine) if argument != "--quiet"]
        with group(command, environment) as process:
            wait_for_requests(source, rng.randint(10, COUNT // 2), process)
            sent = time.monotonic()
            (os.killpg if reached == "group" else os.kill)(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=120)
            seconds = time.monotonic() - sent
            is_gone = group_ends(process.pid)
        settled = read_ledger(case.dest).settled
        problems = find_broken(case.dest, case.expected) + case.finish(engine)

    assert process.returncode == 130, err
    assert HOW_TO_RESUME in err.splitlines()[-1]
    assert "Traceback" not in err
    assert seconds < 10
    assert is_gone
    assert 0 < settled < COUNT
    assert problems == [], f"FETCHMILL_SEED={SEED}"


@pytest.mark.sampled(3)
@pytest.mark.timing
@pytest.mark.parametrize("engine", ENGINES)
def test_second_ctrl_c_ends_job_immediately(environment: dict[str, str], memory_path: Path, engine: str) -> None:
    """The first Ctrl-C waits for replies that never come; the second one does not.

    No process is left, and the job resumes.
    """
    silent = Fault("stall", seconds=60, after_bytes=0, times=1)
    with serve(synthetic=20, faults=[silent]) as source:
        case = Case(source, memory_path / "out", environment, expected=synthetic(20))
        with case.start(engine) as process:
            wait_for_requests(source, 1, process)
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.3)
            was_waiting = process.poll() is None
            sent = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=120)
            seconds = time.monotonic() - sent
            is_gone = group_ends(process.pid)
        case.more = ("--head-timeout", "300ms")
        problems = case.finish("native")

    assert was_waiting
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert seconds < 2
    assert is_gone
    assert problems == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", WITH_LISTS)
def test_ctrl_c_ends_program_with_endless_generator(
    environment: dict[str, str], memory_path: Path, engine: str
) -> None:
    """`KeyboardInterrupt` is raised after a checkpoint, and no thread, process or file is left."""
    dest = memory_path / "out"
    with serve(synthetic=1000, delay=(0.0, 0.004)) as source:
        command = [sys.executable, str(PROGRAMS), "endless", engine, str(dest), source.url]
        with group(command, environment) as process:
            wait_for_requests(source, 200, process)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=120)
            is_gone = group_ends(process.pid)
        asked = source.stats()["get"]

    assert process.returncode == 0, err
    left = json.loads(out)
    bodies = list(synthetic(1000).bodies.values())
    expected = Expected({f"n{index}": bodies[index % 1000] for index in range(left["taken"] + 1)})
    assert is_gone
    assert {what: left[what] for what in ("threads", "processes", "open")} == {"threads": 0, "processes": 0, "open": []}
    assert 200 <= read_ledger(dest).fetched <= asked <= left["taken"] + 1 <= asked + 300_000
    assert find_broken(dest, expected) == []


# --- kill -9 -----------------------------------------------------------------------------------------------------


def kill(case: Case, engine: str, rng: random.Random) -> bool:
    """Kills a run with all its processes, during startup or later. Returns False if the run ended first."""
    with case.start(engine) as process:
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 0.6))
        else:
            before = case.source.stats()["get"]
            settled = read_ledger(case.dest).settled if has_journal(case.dest) else 0
            wait_for_requests(case.source, before + rng.randint(1, max(1, (COUNT - settled) // 2)), process)
            time.sleep(rng.uniform(0, 0.1))
        kill_group(process.pid)
        process.communicate(timeout=120)
        group_ends(process.pid)
    return process.returncode == -signal.SIGKILL


def crash(engine: str, format: str, folder: Path, environment: dict[str, str], kills: int) -> list[str]:
    """Repeats jobs that are killed several times and then finish, until enough kills have hit or a problem is found."""
    rng = random.Random(f"{SEED}-{engine}-{format}")
    for number in itertools.count():
        with serve(**paced(engine)) as source:
            case = Case(source, folder / f"{format}{number}", environment, format)
            problems: list[str] = []
            for _ in range(min(kills, KILLS_IN_A_JOB)):
                if kill(case, engine, rng):
                    kills -= 1
                problems += case.broken()
            problems += case.finish(engine)
        if problems or not kills:
            return [f"{case.dest.name}: {problem}" for problem in problems]
    raise AssertionError


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.timeout(300 + 10 * KILLS)
@pytest.mark.parametrize("engine", ENGINES)
def test_repeatedly_killed_job_completes_correctly(environment: dict[str, str], memory_path: Path, engine: str) -> None:
    """All processes are killed together. Each object is stored once with its bytes, and each failure is listed once."""
    of_each = -(-KILLS // len(FORMATS))
    with ThreadPoolExecutor(len(FORMATS)) as pool:
        found = pool.map(lambda each: crash(engine, each, memory_path, environment, of_each), FORMATS)
        problems = [problem for each in found for problem in each]

    assert not problems, f"FETCHMILL_SEED={SEED}: {problems[:20]}"


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("engine", WITH_PROCESSES)
def test_killed_worker_process_loses_no_targets(
    environment: dict[str, str], memory_path: Path, engine: str, format: str
) -> None:
    """The run continues, and the killed worker's uncommitted targets are fetched again."""
    rng = random.Random(f"{SEED}-{engine}-{format}-worker")
    with serve(**paced(engine)) as source:
        case = Case(source, memory_path / "out", environment, format)
        with case.start(engine) as process:
            killed = []
            for count in (rng.randint(1, COUNT // 3), rng.randint(COUNT // 2, COUNT - 60)):
                wait_for_requests(source, count, process)
                killed.append(rng.choice(sorted(worker_processes(process.pid))))
                os.kill(killed[-1], signal.SIGKILL)
            _, err = process.communicate(timeout=120)
            is_gone = group_ends(process.pid)
        problems = find_problems(case.dest, case.expected, format)
        failures = sorted(failure.name for failure in fetchmill.failures(case.dest))

    assert len(set(killed)) == 2
    assert process.returncode == 3, err
    assert problems == [], f"FETCHMILL_SEED={SEED}"
    assert failures == sorted(case.expected.failures)
    assert is_gone


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", WITH_PROCESSES)
def test_worker_processes_end_when_parent_is_killed(
    environment: dict[str, str], memory_path: Path, engine: str
) -> None:
    """Workers end even if only their parent is killed: no process still fetches or writes, and the job resumes."""
    with serve(**paced(engine)) as source:
        case = Case(source, memory_path / "out", environment)
        with case.start(engine) as process:
            wait_for_requests(source, 50, process)
            process.kill()
            process.communicate(timeout=120)
            is_gone = group_ends(process.pid)
        problems = case.broken() + case.finish(engine)

    assert is_gone
    assert problems == []


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", FORMATS)
def test_job_resumes_with_another_engine(environment: dict[str, str], memory_path: Path, format: str) -> None:
    """The engine is not part of a job's identity: each engine does a part of the job and is killed."""
    with serve(**paced("native")) as source:
        case = Case(source, memory_path / "out", environment, format)
        killed = 0
        for engine in ENGINES:
            before = source.stats()["get"]
            with case.start(engine) as process:
                wait_for_requests(source, before + COUNT // 12, process)
                time.sleep(0.06)
                kill_group(process.pid)
                process.communicate(timeout=120)
                group_ends(process.pid)
                killed += process.returncode == -signal.SIGKILL
        problems = case.broken() + case.finish(ENGINES[0])

    assert killed >= len(ENGINES) / 2
    assert problems == []


# --- custom fetch function ---------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", IN_PYTHON)
def test_killed_job_with_custom_fetch_function_resumes(
    environment: dict[str, str], memory_path: Path, engine: str
) -> None:
    """Results of the function are stored once, and committed targets are not repeated."""
    rng = random.Random(f"{SEED}-{engine}-function")
    dest = memory_path / "out"
    expected = Expected({f"n{index}": engine_functions.body_of(f"n{index}") for index in range(COUNT)})
    command = [sys.executable, str(PROGRAMS), "own_function", engine, str(dest), str(COUNT)]

    for _ in range(2):
        settled = read_ledger(dest).settled if has_journal(dest) else 0
        until = settled + rng.randint(1, max(1, (COUNT - settled) // 2))
        with group(command, environment) as process:
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and not (has_journal(dest) and read_ledger(dest).settled >= until):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            kill_group(process.pid)
            process.communicate(timeout=120)
            group_ends(process.pid)
        assert find_wrong(dest, expected) + find_unbalanced(dest) == []
    with group(command, environment) as process:
        _, err = process.communicate(timeout=120)

    assert process.returncode == 0, err
    assert find_problems(dest, expected) == [], f"FETCHMILL_SEED={SEED}"
