"""`plan`: estimates the time and resources that a job needs, in one blocking call."""

import tempfile
from os import PathLike
from pathlib import Path
from typing import Unpack

from fetchmill._options.get import has_images
from fetchmill._options.keywords import PlanKeywords
from fetchmill._options.plan import PlanOptions
from fetchmill._options.sources import is_bucket
from fetchmill._options.units import format_count, format_seconds
from fetchmill._plan import reckoning
from fetchmill._plan.probe import ListingPart, OnProgress, fetch_sample, fetch_to_nowhere, list_alone
from fetchmill._plan.reckoning import ProbeResults
from fetchmill._plan.result import ObjectsFrom, Plan
from fetchmill._plan.room import BLOCK_MAX, Room, room_at
from fetchmill._plan.sample import measure_replies, store_in_each_format
from fetchmill._plan.windows import steady_rate
from fetchmill.errors import TemporaryError


def plan(source: str | PathLike[str], dest: str | PathLike[str] | None = None, **options: Unpack[PlanKeywords]) -> Plan:
    """Estimate the time, requests, bytes, disk space and inodes (by format) that a job needs, and its bottleneck.

    List the source and fetch from it for ten seconds, as `fetchmill.get` with these options would. Nothing is written
    to the destination. A sample of about 3,000 objects is stored in a temporary folder. The call blocks until the plan
    is complete, and releases the GIL while it waits. Any exception, including KeyboardInterrupt, ends the plan
    immediately.

    Args:
        source: the source of the targets, as for `fetchmill.get`: a server, a bucket, or the path of a list or
            manifest.
        dest: the planned job's destination, whose free space is checked.
        **options: the fields of `PlanOptions`: those of `GetOptions`, and those of the probe.

    Returns:
        All figures with their uncertainty. If the job does not fit on disk, `plan.formats` says so, and no exception is
        raised.

    Raises:
        UsageError: an option is invalid.
        ListingError: the source cannot be listed, or is empty.
        TemporaryError: nothing could be fetched during the probe.
        StorageError: the temporary folder cannot be written to.

    Example:
        >>> planned = fetchmill.plan("http://127.0.0.1:8080", "out/", format="parquet")  # doctest: +SKIP
        >>> planned.seconds.low, planned.seconds.high, planned.limited_by.text  # doctest: +SKIP
        (92.1, 118.4, 'the listing: it delivers 9,800 names/s, but about 61,000/s could be fetched')
    """
    return make_plan(PlanOptions(source=source, dest=dest, **options), _ignore)


def make_plan(options: PlanOptions, on_progress: OnProgress) -> Plan:
    """Make a plan from checked options, and report its progress."""
    room = None if options.dest is None or is_bucket(str(options.dest)) else room_at(str(options.dest))
    with tempfile.TemporaryDirectory(prefix="fetchmill-plan-", ignore_cleanup_errors=True) as name:
        found = _probe(options, Path(name), room.block if room else BLOCK_MAX, on_progress)
    return _reckon(options, found, room)


def _probe(options: PlanOptions, folder: Path, block: int, on_progress: OnProgress) -> ProbeResults:
    """Run the three parts of the probe, then store the sample in each format."""
    listing = list_alone(options, folder / "listing", on_progress)
    is_of_server = listing is not None and options.source_kind != "list"
    spent = listing.seconds if listing is not None and is_of_server else 0.0
    sample = fetch_sample(options, folder / "sample", spent, on_progress)
    fetching = fetch_to_nowhere(options, folder / "null", spent + sample.seconds, on_progress)
    rate = steady_rate(fetching.snapshots)
    if rate is None:
        raise TemporaryError(f"{options.source}: too few replies for a plan; try a longer probe (--probe-seconds)")
    on_progress("formats", options.probe_seconds, None)
    stored = store_in_each_format(folder / "sample", folder, block) if sample.is_stored else {}
    replies = measure_replies(folder / "sample") if sample.is_stored else None
    return ProbeResults(listing, sample, fetching, rate, stored, replies)


def _reckon(options: PlanOptions, found: ProbeResults, room: Room | None) -> Plan:
    objects, objects_from = reckoning.count_objects(options, found)
    asked, listed = reckoning.requests(options, found, objects)
    bodies = reckoning.mean_body(found).times(objects * found.fetched_share)
    formats = reckoning.formats(options, found, objects, room)
    (of_format,) = (each for each in formats if each.format == options.format)
    return Plan(
        source=str(options.source),
        dest=None if options.dest is None else str(options.dest),
        format=options.format,
        objects=objects,
        objects_from=objects_from,
        probe_seconds=found.last.seconds,
        probed=found.last.asked_for,
        objects_per_second=found.rate.objects,
        names_per_second=reckoning.names_rate(options, found),
        seconds=of_format.seconds,
        object_requests=asked,
        listing_requests=listed,
        body_bytes=bodies,
        network_bytes=reckoning.network_bytes(options, found, asked, bodies, objects),
        absent_share=found.last.absent / found.asked_for,
        failed_share=found.last.failed / found.asked_for,
        limited_by=reckoning.limit_of(found),
        formats=formats,
        room=room,
        cost=reckoning.cost(options, asked, listed, bodies),
        notices=tuple(_notices(options, found, objects_from)),
    )


def _notices(options: PlanOptions, found: ProbeResults, objects_from: ObjectsFrom) -> list[str]:
    """Return the notices of a plan."""
    lines = list(reckoning.share_notices(found))
    if found.rate.is_growing:
        lines.append(
            "the rate was still growing when the probe ended; a longer probe "
            "may predict a shorter time (--probe-seconds 30)"
        )
    if objects_from == "estimated" and found.listing is not None:
        lines.append(_estimate_notice(found.listing))
    if not found.stored:
        lines.append("no sample could be stored during the probe; bytes on disk are estimated from the bodies alone")
    of_files = found.stored.get("files")
    if of_files is not None and of_files.refused and options.format == "files":
        many = format_count(of_files.objects + of_files.refused)
        lines.append(
            f"{format_count(of_files.refused)} of {many} names cannot be file names; use --format parquet or tar"
        )
    if options.transform is not None or has_images(options):
        lines.append("the plan does not include the time of the transform or the size of its results")
    return lines


def _estimate_notice(listing: ListingPart) -> str:
    """Return a notice that the number of targets was estimated from a part of the list."""
    counted = format_count(listing.targets)
    return (
        f"the number of objects is an estimate: {counted} targets were counted in {format_seconds(listing.seconds)}, "
        f"{100 * listing.share:.3g} % of the list; use --objects N if you know the number"
    )


def _ignore(*_state: object) -> None:
    """Ignore progress."""
