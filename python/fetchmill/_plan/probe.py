"""Probes a source for a few seconds to measure its listing and its delivery rate. Discards the fetched objects.

The probe runs three jobs one after another, in the same way as `get` and `list`:

- Listing without fetching, if the listing shows sizes or the number of targets.
- Storing a sample in a temporary folder, to measure each format.
- Fetching without storing, for most of the time.
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
# Callback for progress: the phase, the seconds elapsed, and the counters of the current job.
OnProgress = Callable[[Phase, float, Snapshot | None], object]

STEP_SECONDS = 0.1
# Shares of the probe's time for the listing-only part and for the sample. The sample's requests are spread over its
# share.
LISTING_SHARE, SAMPLE_SHARE = 0.2, 0.15
# Time limit for counting a local list. Counting runs alongside the probe and makes no requests. The limit is
# generous: on a busy machine, counting may get only a tenth of a processor, and a wrong total makes all figures wrong.
COUNTING_SECONDS = 30.0
# The sample ends when the first of these limits is reached.
SAMPLE_OBJECTS, SAMPLE_BYTES = 3000, 32 << 20
# If the sample has fewer objects than this, it continues up to this share of the probe's time.
SAMPLE_OBJECTS_MIN, SAMPLE_SHARE_MAX = 20, 0.4
# Minimum share of the probe's time for fetching, however long the earlier parts took.
FETCHING_SHARE_MIN = 0.5
# Limits for draining the sample's requests in flight. Draining waits for small objects whose replies are slow.
SAMPLE_DRAIN_SECONDS, SAMPLE_DRAIN_BYTES = 3.5, 64 << 20
# If `auto` is still searching for the concurrency at the end, the probe continues. It ends `FOUND_SECONDS` after the
# concurrency was found, or after `FOUND_SHARE` of the probe's time if that is less. Fetching takes at most `LONGER_MAX`
# times as long as planned. On a network with 50 ms latency and 10 Mbit/s, the concurrency is found within 20 s.
FOUND_SECONDS, FOUND_SHARE, LONGER_MAX = 4.0, 0.5, 3.0
# The plan fails if the source delivers nothing for this share of the probe.
SILENT_SHARE = 0.6
_SIZE = re.compile(rb'"size":(\d+)')


@dataclass(frozen=True)
class ListingPart:
    """The result of the listing-only part.

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
        is_stored: whether the stored sample is readable.
        attempts: mean number of requests per target; None if requests were still in flight at the end.
    """

    seconds: float
    is_stored: bool
    attempts: float | None


@dataclass(frozen=True)
class Fetching:
    """The result of fetching and discarding objects.

    Args:
        snapshots: the counters, ten times a second.
        processors: CPU time used by this machine up to each snapshot, in seconds.
        is_finished: whether the whole source was fetched.
    """

    snapshots: Sequence[Snapshot]
    processors: Sequence[Processors]
    is_finished: bool

    @property
    def last(self) -> Snapshot:
        """The counters at the end of fetching."""
        return self.snapshots[-1]


def list_alone(options: PlanOptions, state: Path, on_progress: OnProgress) -> ListingPart | None:
    """Run the listing without fetching, for part of the probe's time. Return None if the listing would reveal nothing.

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
    """Return the estimated number of targets in a list, and the share of the list read for the estimate."""
    share = snapshot["list_share"]
    listed = snapshot["listed"] - snapshot["skipped"]
    return (round(listed / share), share) if share and listed else (None, 0.0)


def fetch_sample(options: PlanOptions, dest: Path, before: float, on_progress: OnProgress) -> SamplePart:
    """Store some objects as WARC, because WARC keeps the replies as received.

    Args:
        options: the options of the plan.
        dest: a folder for the objects.
        before: seconds since the start of the probe.
        on_progress: the callback for progress.

    Raises:
        TemporaryError: none of the first targets could be fetched.
        FetchmillError: the source cannot be listed.
    """
    total = options.probe_seconds
    # Without this rate limit, a fast server would deliver far too many objects before the first check.
    rate = min(SAMPLE_OBJECTS / (SAMPLE_SHARE * total), options.rate or math.inf)
    # WARC stores bodies as sent, so the server must not compress them: other formats store the decompressed bytes. A
    # rate limit cannot be combined with pipelining.
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
    """Fetch and discard objects until the end of the probe.

    Raises:
        TemporaryError: nothing was fetched.
        FetchmillError: the source cannot be listed.
    """
    # Fetching always gets a minimum share of the probe, even after a slow sample.
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
    """Return whether the probe has measured enough."""
    if elapsed < seconds:
        return False
    since = snapshots[max(found_since(snapshots), looked_until(snapshots))].seconds
    is_found = snapshots[-1].seconds - since >= min(FOUND_SECONDS, FOUND_SHARE * seconds)
    return is_found or elapsed >= LONGER_MAX * seconds


def _drained(job: Job) -> bool:
    """Stop the job and wait for the requests in flight.

    Return whether the job has ended and its stored objects are readable.
    """
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
    """Return the reason why nothing was received."""
    waited = format_seconds(before + last.seconds)
    if last.waits:
        return f"{options.source}: nothing was fetched within {waited}: {last.waits[0].what}"
    if not last.listed:
        return f"{options.source}: nothing was listed within {waited}; try a longer probe (--probe-seconds)"
    return f"{options.source}: no reply within {waited}; try a longer probe (--probe-seconds)"


def _why_nothing(options: PlanOptions, dest: Path, last: Snapshot) -> str:
    """Return the reason why nothing was fetched, as reported for the first failed or absent target."""
    many = format_count(last.settled - last.skipped)
    first = next(iter(failures(dest)), None)
    reason = "" if first is None else f"; the first: {first.name}: {_why_failed(first)}"
    return f"{options.source}: none of the first {many} targets could be fetched{reason}"


def _why_failed(failure: Failure) -> str:
    """Return the failure kind, with the status and any known details."""
    if failure.kind == "private-address":
        return f"{failure.kind} (private addresses are refused for lists; --allow-private allows them)"
    status = "" if failure.status is None else f" {failure.status}"
    return f"{failure.kind}{status}" + (f" ({failure.detail})" if failure.detail else "")
