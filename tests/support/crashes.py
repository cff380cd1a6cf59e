"""Jobs that are killed at moments of their life: the state after `kill -9`, and the end of the same command."""

import contextlib
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from conftest import COMMAND, format_options
from fetchmill.testing import Server
from foreign import SUFFIXES
from independent import Expected, find_problems, find_unbalanced, find_wrong, has_journal, read_ledger

KILLS_IN_A_JOB = 7
WINDOW = 0.05
OPTIONS = ("--commit-window", "50ms", "--attempts", "8", "--quiet")
LIMIT = 32
# Highest N for a kill before a thread's N-th such call. The main thread makes the journal's first writes.
CALLS = {"renameat2": 100, "pwrite64": 120, "fsync": 8, "syncfs": 5, "mkdir": 2}
# Calls that only a resumed run may make: staged files are removed.
CALLS_OF_RESUME = {"unlinkat": 40, "rmdir": 2}
# The same for packs, which are appended to, synced, and renamed when they are sealed.
PACK_CALLS = {"renameat2": 6, "pwrite64": 120, "fsync": 12, "fdatasync": 20, "mkdir": 2}
PACK_CALLS_OF_RESUME = {"ftruncate": 3, "unlinkat": 3}
MERGE_CALLS = {
    "fdatasync": range(60, 130),
    "renameat2": range(31, 37),
    "fsync": range(95, 106),
    "unlink": range(1, 36),
    "pwrite64": range(200, 900),
}
MERGE_CALLS_OF_RESUME = {call: range(1, numbers.stop) for call, numbers in MERGE_CALLS.items()}
MOMENTS = ("listing", "fetching", "fetching", "committing", "resuming", "call", "call")


@dataclass
class Case:
    """A job that is killed repeatedly, and its expected result."""

    source: Server
    dest: Path
    expected: Expected
    environment: dict[str, str]
    format: str = "files"
    more: tuple[str, ...] = ()
    merges: bool = False
    listed: Path | None = None
    killed: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def calls(self) -> dict[str, range]:
        """Returns the calls before which a run may be killed."""
        if self.merges:
            return MERGE_CALLS_OF_RESUME if self.killed else MERGE_CALLS
        if self.format in SUFFIXES:
            calls = PACK_CALLS | (PACK_CALLS_OF_RESUME if self.killed else {})
        else:
            calls = CALLS | (CALLS_OF_RESUME if self.killed else {})
        return {call: range(1, count + 1) for call, count in calls.items()}

    @property
    def moments(self) -> tuple[str, ...]:
        """Returns the moments at which a run may be killed."""
        if self.listed is not None:
            return tuple(moment for moment in MOMENTS if moment != "listing")
        return ("call",) if self.merges else MOMENTS

    @property
    def command(self) -> list[str]:
        """Returns the command, which is always the same."""
        settings = [*OPTIONS, "--concurrency", str(LIMIT), *format_options(self.format), *self.more]
        settings += ["--allow-private"] if self.listed else []
        return [*COMMAND, "get", str(self.listed or self.source.url), str(self.dest), *settings]

    def start(self, *before: str) -> subprocess.Popen[str]:
        """Starts a run."""
        return subprocess.Popen(
            [*before, *self.command], env=self.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def finish(self) -> None:
        """Lets a run finish undisturbed. Checks the result."""
        settled = read_ledger(self.dest).settled if has_journal(self.dest) else 0
        served = self.source.stats()["get"]
        process = self.start()
        _, err = process.communicate(timeout=120)
        if process.returncode != (3 if self.expected.failures else 0):
            self.problems.append(f"the last run ended with {process.returncode}: {err}")
            return
        self.problems += find_problems(self.dest, self.expected, self.format)
        self.problems += find_doubled_failures(self.dest, self.expected, self.environment)
        served = self.source.stats()["get"] - served
        if self.format == "null" and served != self.expected.listed - settled:
            self.problems.append(f"{served} requests when {settled} of {self.expected.listed} targets were settled")


def find_doubled_failures(dest: Path, expected: Expected, environment: dict[str, str]) -> list[str]:
    """Returns whether the command lists exactly the failed and absent targets, each once."""
    shown = subprocess.run(
        [*COMMAND, "status", str(dest), "--failures", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    names = [json.loads(line)["name"] for line in shown.stdout.splitlines()]
    return [] if sorted(names) == sorted(expected.failures) else [f"the failures listed are {sorted(names)}"]


def kill(case: Case, rng: random.Random) -> bool:
    """Kills one run at a moment of its life. False if it ended first."""
    moment = rng.choice(case.moments)
    if moment == "call":
        call = rng.choice(sorted(case.calls))
        at = rng.choice(case.calls[call])
        moment = f"{call} {at}"
        # With --seccomp-bpf, strace would not turn this into a signal.
        inject = f"inject={call}:signal=SIGKILL:when={at}"
        process = case.start("strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
    else:
        process = case.start()
        wait_for(moment, case, process, rng)
        process.kill()
    process.communicate(timeout=120)
    was_killed = process.returncode == -signal.SIGKILL
    case.killed += was_killed
    if not was_killed and process.returncode not in {0, 3}:
        case.problems.append(f"a run that was to be killed at {moment} ended with {process.returncode}")
    case.problems += [f"{problem} after {moment}" for problem in find_broken(case)]
    return was_killed


def find_broken(case: Case) -> list[str]:
    """Returns states that a kill must never leave."""
    problems = find_wrong(case.dest, case.expected, case.format) if case.dest.exists() else []
    return problems + (find_unbalanced(case.dest) if has_journal(case.dest) else [])


def wait_for(moment: str, case: Case, process: subprocess.Popen[str], rng: random.Random) -> None:
    """Waits until the moment has come, or the run has ended."""
    before = case.source.stats()
    wal = case.dest / ".fetchmill" / "job.sqlite-wal"

    kind = "list" if moment == "listing" else "get"

    def is_near() -> bool:
        if moment == "resuming":
            return has_open(process, "job.sqlite")
        return bool(case.source.stats()[kind] > before[kind])

    wait_until(is_near, process)
    if moment == "fetching":
        time.sleep(rng.uniform(0.1, 3) * WINDOW)
    elif moment == "committing":
        time.sleep(rng.uniform(0.1, 2) * WINDOW)
        seen = size_of(wal)
        wait_until(lambda: size_of(wal) != seen, process)
        time.sleep(rng.uniform(0, 0.01))
    else:
        time.sleep(rng.uniform(0, 0.02))


def wait_until(is_near: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Checks a condition every half millisecond."""
    while process.poll() is None and not is_near():
        time.sleep(0.0005)


def size_of(path: Path) -> int:
    """Returns 0 if there is no file."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def has_open(process: subprocess.Popen[str], name: str) -> bool:
    """Returns whether a process has a file of this name open."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if descriptor.readlink().name == name:
                    return True
    return False


def crash(make_case: Callable[[], Case], seed: str, kills: int) -> list[Case]:
    """Kills jobs until enough kills have hit, or there is a problem; each is killed several times and then finishes."""
    rng = random.Random(seed)
    cases: list[Case] = []
    while (left := kills - sum(case.killed for case in cases)) > 0:
        case = make_case()
        cases.append(case)
        for _ in range(min(left, rng.randint(2, KILLS_IN_A_JOB))):
            if not kill(case, rng):
                break
        case.finish()
        if case.problems:
            break
    return cases
