"""Probes a source for some seconds: its listing, and how fast it delivers objects. Nothing is kept.

The probe runs three jobs one after another, each as `get` and `list` would run it:

- The listing alone, if it shows sizes or the number of targets.
- A sample that is stored in a temporary folder, to measure each format.
- For most of the time, objects that are fetched and dropped.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fetchmill._destination.status import failures
from fetchmill._job.report import Failure, Snapshot
from fetchmill._native import Job
from fetchmill._options.plan import PlanOptions
from fetchmill._options.units import format_count, format_seconds
from fetchmill._plan.processors import Processors, busy_seconds
from fetchmill._plan.running import ABORT_SECONDS, running
from fetchmill._plan.windows import found_since, looked_until
from fetchmill.errors import ListingError, TemporaryError

Phase = Literal["listing", "sample", "fetching", "formats"]
# Is told how the probe stands: the phase, seconds of it that are over, and the counters of its job.
OnProgress = Callable[[Phase, float, Snapshot | None], object]

STEP_SECONDS = 0.1
# Shares of the probe: the listing alone, and the sample, which is fetched within the second at most.
LISTING_SHARE, SAMPLE_SHARE = 0.2, 0.15
# A list on this machine is counted for so long, beside the probe: no server is asked. A busy machine may give it a
# tenth of a processor, and a wrong total makes all figures wrong.
COUNTING_SECONDS = 30.0
# The sample ends with the first of these.
SAMPLE_OBJECTS, SAMPLE_BYTES = 3000, 32 << 20
# It goes on for longer when it has fewer objects than these, but not beyond this share of the probe.
SAMPLE_OBJECTS_MIN, SAMPLE_SHARE_MAX = 20, 0.4
# What fetches has this share of the time at least, whatever came before.
FETCHING_SHARE_MIN = 0.5
# What is in flight when the sample ends: slow replies of small objects are waited for.
SAMPLE_DRAIN_SECONDS, SAMPLE_DRAIN_BYTES = 3.5, 64 << 20
# Where the number of requests in flight is still being looked for, the probe goes on until it was found for so long, or
# for half of its time when that is less; fetching takes at most so many times as long. On a network of 50 ms and
# 10 Mbit/s the number is found within 20 s.
FOUND_SECONDS, FOUND_SHARE, LONGER_MAX = 4.0, 0.5, 3.0
# A source that gives nothing for this share of the probe will not be planned.
SILENT_SHARE = 0.6
_SIZE = re.compile(rb'"size":(\d+)')


@dataclass(frozen=True)
class ListingPart:
    """The result of the listing alone.

    Args:
        targets: number of listed targets.
        seconds: duration of the listing in seconds.
        is_complete: whether all targets were listed.
        estimate: estimated number of targets in the whole list, from the part that was read; None if all were listed,
            or if the size of the source is unknown.
        share: share of the list that was read, 0 to 1.
        sizes: number of targets listed with a size.
        bytes: the sum of these sizes in bytes.
    """

    targets: int
    seconds: float
    is_complete: bool
    sizes: int
    bytes: int
    estimate: int | None = None
    share: float = 0.0


@dataclass(frozen=True)
class SamplePart:
    """The result of the sample.

    Args:
        seconds: duration of the sample in seconds.
        is_stored: whether the sample has readable objects.
        attempts: mean number of requests per target; None if requests were still in flight at the end.
    """

    seconds: float
    is_stored: bool
    attempts: float | None


@dataclass(frozen=True)
class Fetching:
    """The result of the part that fetches and drops objects.

    Args:
        snapshots: the counters, ten times a second.
        processors: processor time that this machine had used at each snapshot, in seconds.
        is_finished: whether the whole source was fetched.
    """

    snapshots: Sequence[Snapshot]
    processors: Sequence[Processors]
    is_finished: bool

    @property
    def last(self) -> Snapshot:
        """The counters at its end."""
        return self.snapshots[-1]


def list_alone(options: PlanOptions, state: Path, on_progress: OnProgress) -> ListingPart | None:
    """Runs the listing without fetching, for a part of the time. Returns None if it would show nothing new.

    Raises:
        FetchmillError: the source cannot be listed.
    """
    if options.source_kind == "server":
        return None
    is_local = options.source_kind == "list"
    bound = COUNTING_SECONDS if is_local else LISTING_SHARE * options.probe_seconds
    targets = sizes = size = 0
    estimate, share = None, 0.0
    with running(Job(options.listing_job().to_json(str(state)))) as job:
        started = time.monotonic()
        while (seconds := time.monotonic() - started) < bound:
            lines = job.take_rows(STEP_SECONDS)
            if lines is None:
                job.wait(ABORT_SECONDS)
                job.report()
                break
            found = _SIZE.findall(lines)
            targets, sizes, size = targets + lines.count(b"\n"), sizes + len(found), size + sum(map(int, found))
            on_progress("listing", 0.0 if is_local else seconds, None)
        if lines is not None and is_local:
            estimate, share = _extrapolated(job.snapshot())
    _must_list(options, targets, is_complete=lines is None)
    return ListingPart(targets, time.monotonic() - started, lines is None, sizes, size, estimate, share)


def _extrapolated(snapshot: Mapping[str, Any]) -> tuple[int | None, float]:
    """How many targets a list has by the part that was read of it, and that part."""
    share = snapshot["list_share"]
    listed = snapshot["listed"] - snapshot["skipped"]
    return (round(listed / share), share) if share and listed else (None, 0.0)


def fetch_sample(options: PlanOptions, dest: Path, before: float, on_progress: OnProgress) -> SamplePart:
    """Stores some objects as WARC, which keeps what replies were like.

    Args:
        options: what is planned.
        dest: a folder for them.
        before: seconds of the probe that are over.
        on_progress: told how it stands.

    Raises:
        TemporaryError: none of the first targets could be fetched.
        FetchmillError: the source cannot be listed.
    """
    total = options.probe_seconds
    # A fast server would give many times as many before anybody looks.
    rate = min(SAMPLE_OBJECTS / (SAMPLE_SHARE * total), options.rate or math.inf)
    # WARC stores what was sent, and so is sent what is stored elsewhere; a rate needs one request after the other.
    other = {"max_bytes": SAMPLE_BYTES, "rate": rate, "compressed": False, "pipeline": 1}
    job_options = options.fetching_job(str(dest), "warc", **other)
    with running(Job(job_options.to_json())) as job:
        started = time.monotonic()
        while not job.wait(STEP_SECONDS / 2):
            snapshot, seconds = Snapshot.from_native(job.snapshot()), time.monotonic() - started
            on_progress("sample", before + seconds, snapshot)
            is_enough = seconds > SAMPLE_SHARE * total and snapshot.settled >= SAMPLE_OBJECTS_MIN
            if snapshot.settled >= SAMPLE_OBJECTS or is_enough or seconds > SAMPLE_SHARE_MAX * total:
                break
        is_whole = _drained(job)
        last = Snapshot.from_native(job.snapshot())
        if is_whole:
            job.report()
    if last.listing_done:
        _must_list(options, last.listed - last.skipped, is_complete=True)
    if last.settled > last.skipped and not last.fetched:
        raise TemporaryError(_why_nothing(options, dest, last))
    attempts = last.attempts / last.asked_for if is_whole and last.asked_for else None
    return SamplePart(time.monotonic() - started, is_whole and last.fetched > 0, attempts)


def fetch_to_nowhere(options: PlanOptions, dest: Path, before: float, on_progress: OnProgress) -> Fetching:
    """Fetches and drops objects until the probe is over.

    Raises:
        TemporaryError: nothing was fetched.
        FetchmillError: the source cannot be listed.
    """
    # At least a part of it: a slow sample must not be all that the probe does.
    seconds = max(options.probe_seconds - before, FETCHING_SHARE_MIN * options.probe_seconds)
    snapshots: list[Snapshot] = []
    processors: list[Processors] = []
    with running(Job(options.fetching_job(str(dest), "null").to_json())) as job:
        started, is_finished = time.monotonic(), False
        snapshots.append(Snapshot.from_native(job.snapshot()))
        processors.append(busy_seconds())
        while not (is_finished or _is_over(snapshots, time.monotonic() - started, seconds)):
            is_finished = job.wait(STEP_SECONDS)
            snapshots.append(Snapshot.from_native(job.snapshot()))
            processors.append(busy_seconds())
            on_progress("fetching", before + snapshots[-1].seconds, snapshots[-1])
            last = snapshots[-1]
            if not last.settled and last.seconds > SILENT_SHARE * seconds:
                raise TemporaryError(_why_silent(options, last, before))
        if is_finished:
            job.report()
    if last.listing_done:
        _must_list(options, last.listed - last.skipped, is_complete=True)
    if not last.fetched:
        reason = _why_nothing(options, dest, last) if last.settled else _why_silent(options, last, before)
        raise TemporaryError(reason)
    return Fetching(snapshots, processors, is_finished)


def _is_over(snapshots: Sequence[Snapshot], elapsed: float, seconds: float) -> bool:
    """Whether enough was seen."""
    if elapsed < seconds:
        return False
    since = snapshots[max(found_since(snapshots), looked_until(snapshots))].seconds
    is_found = snapshots[-1].seconds - since >= min(FOUND_SECONDS, FOUND_SHARE * seconds)
    return is_found or elapsed >= LONGER_MAX * seconds


def _drained(job: Job) -> bool:
    """Lets what is in flight come and ends it; whether it has ended so that what it stored can be read."""
    job.stop()
    deadline = time.monotonic() + SAMPLE_DRAIN_SECONDS
    while not job.wait(STEP_SECONDS):
        if time.monotonic() > deadline or job.snapshot()["bytes"] > SAMPLE_DRAIN_BYTES:
            return False
    return True


def _must_list(options: PlanOptions, targets: int, *, is_complete: bool) -> None:
    if is_complete and not targets:
        raise ListingError(f"{options.source} lists no objects, so there is nothing to plan; check the source")


def _why_silent(options: PlanOptions, last: Snapshot, before: float) -> str:
    """Nothing has come at all."""
    waited = format_seconds(before + last.seconds)
    if last.waits:
        return f"{options.source}: nothing was fetched within {waited}: {last.waits[0].what}"
    if not last.listed:
        return f"{options.source}: nothing was listed within {waited}; try a longer probe (--probe-seconds)"
    return f"{options.source}: no reply within {waited}; try a longer probe (--probe-seconds)"


def _why_nothing(options: PlanOptions, dest: Path, last: Snapshot) -> str:
    """All that was asked for is absent or failed: the first failure says why."""
    many = format_count(last.settled - last.skipped)
    first = next(iter(failures(dest)), None)
    reason = "" if first is None else f"; the first: {first.name}: {_why_failed(first)}"
    return f"{options.source}: none of the first {many} targets could be fetched{reason}"


def _why_failed(failure: Failure) -> str:
    """Its kind, with the status and what is known besides."""
    if failure.kind == "private-address":
        return f"{failure.kind} (private addresses are refused for lists; --allow-private allows them)"
    status = "" if failure.status is None else f" {failure.status}"
    return f"{failure.kind}{status}" + (f" ({failure.detail})" if failure.detail else "")
