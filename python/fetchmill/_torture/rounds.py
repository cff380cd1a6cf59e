"""One round: a job is disturbed, resumed to its end, and compared with what it must have."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fetchmill._torture.comparison import Found, compare
from fetchmill._torture.disturbances import Disturbance, draw
from fetchmill._torture.sources import FINISHED, Job, Source
from fetchmill._torture.supervisor import RUN_SECONDS_MAX, Ended, run

_KILLED = -9
# What no disturbance excuses: a mistake in fetchmill, and its process's own crash.
_INTERNAL_ERROR = 1


@dataclass(frozen=True)
class Round:
    """A round that is over.

    Args:
        number: from 1.
        format: of the destination.
        disturbances: those that came to pass; a run may end before its disturbance.
        objects: how many the job must have.
        lies: replies that were wrong or cut on purpose.
        fetched_again: requests for objects beyond one each; None if nobody counts them.
        found: what is wrong.
        dest: the destination; it is kept if something is wrong.
    """

    number: int
    format: str
    disturbances: Sequence[Disturbance]
    objects: int
    lies: int
    fetched_again: int | None
    found: Found
    dest: Path


def run_round(number: int, format: str, source: Source, folder: Path, seed: int) -> Round:
    """Runs a round.

    Args:
        number: of the round, from 1.
        format: of the destination.
        source: makes the job.
        folder: where the destination is made.
        seed: of all rounds.

    Raises:
        FetchmillError: a job that nobody disturbs does not finish, or the machine cannot watch a process.
    """
    of_round = f"{seed}-{number}"
    dest = folder / f"round-{number}"
    is_faulty = False
    try:
        with source.job(format, dest, of_round) as job:
            problems, happened = _disturb(job, draw(of_round, job.calls))
            problems += _finish(job)
            found = compare(dest, format, job.expected)
            found = replace(found, problems=(*problems, *found.problems))
            is_faulty = not found.is_clean
            return Round(number, format, happened, len(job.expected), job.lies, job.fetched_again, found, dest)
    finally:
        if not is_faulty:
            shutil.rmtree(dest, ignore_errors=True)


def _disturb(job: Job, disturbances: Sequence[Disturbance]) -> tuple[list[str], list[Disturbance]]:
    """Runs the job once for each; what no disturbance excuses, and those that came to pass."""
    problems, happened = [], []
    for disturbance in disturbances:
        ended = run(job.command, job.dest, disturbance)
        problems += _problems(ended, str(disturbance))
        if ended.was_disturbed:
            happened.append(disturbance)
    return problems, happened


def _finish(job: Job) -> list[str]:
    """Resumes the job until it has ended, and verifies it."""
    ended = run(job.command, job.dest)
    if ended.code not in FINISHED:
        return [f"resumed: exit code {ended.code}: {_last_line(ended)}", *_problems(ended, "resumed")]
    python, module, name, *_ = job.command
    verified = run([python, module, name, "verify", str(job.dest), "--quiet"], job.dest)
    return [] if verified.code == 0 else [f"verify: exit code {verified.code}: {_last_line(verified)}"]


def _problems(ended: Ended, when: str) -> list[str]:
    if ended.hung:
        return [f"{when}: the run did not end within {RUN_SECONDS_MAX:.0f} s"]
    if ended.code == _INTERNAL_ERROR or (ended.code < 0 and ended.code != _KILLED):
        return [f"{when}: exit code {ended.code}: {_last_line(ended)}"]
    return []


def _last_line(ended: Ended) -> str:
    lines = ended.errors.strip().splitlines()
    return lines[-1] if lines else "no message"
