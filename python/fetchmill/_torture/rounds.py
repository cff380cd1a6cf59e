"""Runs a round: disturbs a job, resumes it until it finishes, and compares its objects with the expected ones."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fetchmill._torture.comparison import Found, compare
from fetchmill._torture.disturbances import Disturbance, draw
from fetchmill._torture.sources import FINISHED, Job, Source
from fetchmill._torture.supervisor import Ended, run
from fetchmill.errors import StorageError

_KILLED = -9
# Exit code of an internal error; no disturbance excuses it.
_INTERNAL_ERROR = 1
# Exit code of a job that cannot write.
_CANNOT_WRITE = 7
# Minimum free space. A job that cannot write proves nothing.
_FREE_BYTES_MIN = 64 << 20


@dataclass(frozen=True)
class Round:
    """A finished round.

    Args:
        number: round number, starting at 1.
        format: format of the destination.
        disturbances: the disturbances that happened. A run may end before its disturbance.
        objects: number of objects that the job must store.
        server_faults: number of faulty replies.
        fetched_again: number of requests beyond one per object; None for the user's source.
        found: the faults.
        dest: the destination, which is kept if there is a fault.
    """

    number: int
    format: str
    disturbances: Sequence[Disturbance]
    objects: int
    server_faults: int
    fetched_again: int | None
    found: Found
    dest: Path


def run_round(number: int, format: str, source: Source, folder: Path, seed: int, *, can_cut: bool) -> Round:
    """Run a round.

    Args:
        number: round number, starting at 1.
        format: format of the destination.
        source: creates the job.
        folder: the folder for the destination.
        seed: the seed of all rounds.
        can_cut: whether the kernel allows network cuts.

    Raises:
        UsageError: a source's undisturbed job does not finish, or stores nothing.
        UnsupportedError: this machine cannot trace processes.
        StorageError: the disk that holds `folder` is full.
    """
    of_round = f"{seed}-{number}"
    dest = folder / f"round-{number}"
    is_faulty = False
    try:
        with source.job(format, dest, of_round) as job:
            problems, happened = _disturb(job, draw(of_round, job.calls, can_cut=can_cut))
            problems += _finish(job)
            found = compare(dest, format, job.expected)
            found = replace(found, problems=(*problems, *found.problems))
            is_faulty = not found.is_clean
            objects = job.expected.total()
            return Round(number, format, happened, objects, job.server_faults, job.fetched_again, found, dest)
    finally:
        if not is_faulty:
            shutil.rmtree(dest, ignore_errors=True)


def _disturb(job: Job, disturbances: Sequence[Disturbance]) -> tuple[list[str], list[Disturbance]]:
    """Run the job once per disturbance. Return the problems, and the disturbances that happened."""
    problems, happened = [], []
    for disturbance in disturbances:
        ended = run(job.get, job.dest, disturbance, environment=job.environment, seconds_max=job.seconds_max)
        problems += _problems(job, ended, disturbance)
        if ended.was_disturbed:
            happened.append(disturbance)
    return problems, happened


def _finish(job: Job) -> list[str]:
    """Run the job until it has ended, then verify it. Return the problems."""
    ended = _run_undisturbed(job, job.get)
    if ended.code not in FINISHED:
        _must_have_room(job.dest.parent, ended)
        return [_failed(job, ended, "resumed run")]
    verified = _run_undisturbed(job, job.verify)
    return [] if verified.code == 0 else [_failed(job, verified, "verify")]


def _run_undisturbed(job: Job, command: Sequence[str]) -> Ended:
    return run(command, job.dest, environment=job.environment, seconds_max=job.seconds_max)


def _problems(job: Job, ended: Ended, disturbance: Disturbance) -> list[str]:
    """Return the problems that the disturbance does not explain."""
    if not ended.was_disturbed:
        is_excused = ended.code in FINISHED
    elif disturbance.kind == "kill":
        is_excused = ended.code == _KILLED
    else:
        is_excused = ended.code >= 0 and ended.code != _INTERNAL_ERROR
    return [] if is_excused else [_failed(job, ended, f"run with {disturbance}")]


def _failed(job: Job, ended: Ended, what: str) -> str:
    if ended.hung:
        return f"{what} did not end within {job.seconds_max:.0f} s"
    return f"{what} failed (exit code {ended.code}): {ended.last_error}"


def _must_have_room(folder: Path, ended: Ended) -> None:
    if ended.code == _CANNOT_WRITE and shutil.disk_usage(folder).free < _FREE_BYTES_MIN:
        raise StorageError(f"{folder}: disk is full ({ended.last_error})")
