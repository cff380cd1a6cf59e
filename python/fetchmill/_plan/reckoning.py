"""Computes a plan from the probe's results, purely by arithmetic. docs/guide/plan.md describes the method."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fetchmill._job.report import LimitedBy, Snapshot
from fetchmill._options.plan import OBJECTS_DEFAULT, PlanOptions
from fetchmill._options.sources import is_bucket
from fetchmill._options.units import format_count
from fetchmill._plan import processors
from fetchmill._plan.probe import Fetching, ListingPart, SamplePart
from fetchmill._plan.result import Fits, FormatPlan, ObjectsFrom
from fetchmill._plan.room import Room, journal_bytes, state_inodes
from fetchmill._plan.sample import SampleReplies, StoredSample, StoringTimes, times_of_storing
from fetchmill._plan.windows import UNSEEN, Estimate, SteadyRate, relative_error

FORMATS = ("files", "parquet", "tar", "jsonl", "warc", "null")
# Bytes per object in addition to its body, and stored bytes per body byte. These are used if there is no sample.
_WITHOUT_SAMPLE = {
    "files": (13, 1.0),
    "parquet": (40, 1.0),
    "tar": (800, 1.0),
    "jsonl": (180, 1.33),
    "warc": (750, 1.0),
}
# Uncertainty of the bytes in each format, because compression depends on objects that are not in the sample.
_UNCERTAINTY = {"files": 0.03, "tar": 0.03, "jsonl": 0.08, "parquet": 0.2, "warc": 0.15}
_UNCERTAINTY_WITHOUT_SAMPLE = 0.6
# From this number of sampled objects on, per-shard overhead and chance matter no more than the other uncertainties.
_SAMPLE_OF_MANY = 1000
# Default shard sizes, and the maximum number of objects per shard.
_SHARD_BYTES, _PARQUET_SHARD_BYTES, _SHARD_OBJECTS = 1 << 30, 128 << 20, 1_000_000
# Maximum number of unmerged small Parquet shards: up to fifteen of each of two sizes per worker.
_UNMERGED = 30
# Syncing files takes at least as long as creating them (docs/reference/performance.md), so storing files may take up to
# this many times as long.
_SYNCS_OF_FILES = 2.5
# The time to create a file depends on the number of files, and varies by this factor in either direction.
_MAKING_FILES = 2.0
# Time in seconds to index an object, and to index a byte of its body. One thread writes the index at the end of a job
# (docs/reference/formats.md). The speed of processors varies by this factor in either direction.
_INDEX_SECONDS, _INDEX_BYTE_SECONDS, _INDEX_FACTOR = 4.6e-6, 1.7e-9, 2.0
# Bytes of a request's head, of a reply's head, and of an index line. These are used if there is no sample.
_REPLIES = SampleReplies(150.0, 200.0, 250.0)
# Bytes of a request's signature, which no sample contains, and bytes per object in a listing page, excluding the name.
_SIGNATURE_BYTES = 350
_LISTING_BYTES = {"s3": 350, "server": 30, "list": 0}
_HEADS_UNCERTAINTY = 0.15
# The listing pauses when it is ahead of fetching by slightly more targets than this. From then on, the measured rate is
# no longer the listing's own.
_AHEAD = 32 * 1024
# Minimum duration of a listing, in seconds, for measuring its rate.
_LISTING_SECONDS_MIN = 0.3
_PAGES_UNCERTAINTY = 0.1
# Uncertainty factor for the requests per outcome. Some replies are held back, so their outcomes come later.
_HELD_MAX = 1.25
# Units of prices.
_THOUSAND, _GIGABYTE = 1000, 1e9
_ENDS = ("value", "low", "high")


@dataclass(frozen=True)
class ProbeResults:
    """The results of the probe.

    Args:
        listing: the result of the listing-only part; None if the listing would have revealed nothing.
        sample: the result of fetching the sample.
        fetching: the result of the fetching part.
        rate: the rate during the steady part of the probe.
        stored: the stored sample, by format; empty if there was no sample.
        replies: mean sizes of the sample's replies without their bodies.
    """

    listing: ListingPart | None
    sample: SamplePart
    fetching: Fetching
    rate: SteadyRate
    stored: Mapping[str, StoredSample]
    replies: SampleReplies | None

    @property
    def last(self) -> Snapshot:
        """The counters at the end."""
        return self.fetching.last

    @property
    def asked_for(self) -> int:
        """Number of targets with an outcome, at least 1."""
        return max(self.last.asked_for, 1)

    @property
    def fetched_share(self) -> float:
        """Share of targets with an outcome that were fetched."""
        return self.last.fetched / self.asked_for


def count_objects(options: PlanOptions, found: ProbeResults) -> tuple[int, ObjectsFrom]:
    """Return the planned number of objects, and how it was determined."""
    last = found.last
    if options.objects is not None:
        return options.objects, "given"
    if last.listing_done:
        return last.listed - last.skipped, "listed"
    if found.listing is not None and found.listing.is_complete:
        return found.listing.targets, "listed"
    if found.listing is not None and found.listing.estimate is not None:
        return found.listing.estimate, "estimated"
    if last.total is not None and last.total >= last.listed > 0:
        # The server's total includes objects that filters leave out.
        return round(last.total * (last.listed - last.skipped) / last.listed), "told"
    return OBJECTS_DEFAULT, "assumed"


def seconds_to_fetch(found: ProbeResults, objects: int) -> Estimate:
    """Estimate the duration of a job that stores nothing."""
    if found.fetching.is_finished and objects == found.last.asked_for:
        # The whole job was measured, but another run may differ.
        return Estimate.within(found.last.seconds, 2 * UNSEEN)
    return found.rate.seconds_for(objects)


def mean_body(found: ProbeResults) -> Estimate:
    """Estimate the mean body size from the listed sizes if all are known, otherwise from the fetched bodies."""
    listing = found.listing
    if listing is not None and listing.sizes and listing.sizes == listing.targets:
        mean = listing.bytes / listing.sizes
        return Estimate.exactly(mean) if listing.is_complete else Estimate.within(mean, UNSEEN)
    return found.rate.body_bytes or Estimate.exactly(0)


def requests(options: PlanOptions, found: ProbeResults, objects: int) -> tuple[Estimate, Estimate]:
    """Estimate the number of requests for objects, and for the listing."""
    last = found.last
    first = found.fetching.snapshots[found.rate.first]
    # Requests that are in flight or held at the start of the steady part offset those at its end.
    steady = max((last.attempts - first.attempts) / max(last.asked_for - first.asked_for, 1), 1.0)
    # All replies of the sample have arrived, but the sample was fetched too slowly to reveal throttling.
    each = steady if found.sample.attempts is None else max(found.sample.attempts, 1.0)
    spread = 2 * math.sqrt((each - 1) / found.asked_for)
    high = max(each + spread, min(steady, _HELD_MAX * each))
    asked = Estimate(value=objects * each, low=objects * max(each - spread, 1.0), high=objects * high)
    listed = last.listed - last.skipped
    if options.source_kind == "list" or not listed:
        return asked, Estimate.exactly(0)
    pages = last.pages / listed * objects
    is_exact = last.listing_done and objects == listed
    return asked, Estimate.exactly(pages) if is_exact else Estimate.within(pages, _PAGES_UNCERTAINTY)


def network_bytes(
    options: PlanOptions, found: ProbeResults, asked: Estimate, bodies: Estimate, objects: int
) -> Estimate:
    """Return the total size of bodies, heads and the listing, in bytes."""
    replies = found.replies or _REPLIES
    is_signed = options.source_kind == "s3" and not options.no_sign_request
    of_request = replies.request + replies.reply + (_SIGNATURE_BYTES if is_signed else 0)
    share = _HEADS_UNCERTAINTY if found.replies else _UNCERTAINTY_WITHOUT_SAMPLE
    of_heads = Estimate.within(asked.value * of_request, share)
    return bodies.plus(of_heads).plus(Estimate.within(_LISTING_BYTES[options.source_kind] * objects, 2 * UNSEEN))


def names_rate(options: PlanOptions, found: ProbeResults) -> Estimate | None:
    """Estimate the names per second of a listing that never waits for fetching; None if too few names were listed."""
    if options.source_kind == "list":
        return None
    alone = found.listing
    if alone is not None and alone.targets and alone.seconds >= _LISTING_SECONDS_MIN:
        return Estimate.within(alone.targets / alone.seconds, 2 * UNSEEN)
    part: list[Snapshot] = []
    for snapshot in found.fetching.snapshots:
        if snapshot.listed:
            part.append(snapshot)
        if snapshot.listing_done or snapshot.listed - snapshot.settled > _AHEAD:
            break
    if len(part) < 2 or part[-1].seconds - part[0].seconds < _LISTING_SECONDS_MIN:  # noqa: PLR2004 - first and last
        return None
    rates = [
        (after.listed - before.listed) / (after.seconds - before.seconds)
        for before, after in pairwise(part)
        if after.seconds > before.seconds
    ]
    mean = (part[-1].listed - part[0].listed) / (part[-1].seconds - part[0].seconds)
    return Estimate.within(mean, math.hypot(relative_error(rates), UNSEEN)) if mean else None


def limit_of(found: ProbeResults) -> LimitedBy | None:
    """Return the bottleneck that limited the steady part for the longest time."""
    since = [each.limited_by for each in found.fetching.snapshots[found.rate.first :] if each.limited_by]
    # Ignore `last-targets`, which only occurs at the end of a small source.
    steady = [each for each in since if each.kind != "last-targets"]
    if not steady:
        return None
    kind, _ = Counter(each.kind for each in steady).most_common(1)[0]
    return next(each for each in reversed(steady) if each.kind == kind)


def cost(options: PlanOptions, asked: Estimate, listed: Estimate, bodies: Estimate) -> Estimate | None:
    """Estimate the cost at the given prices."""
    prices = (options.price_list, options.price_get, options.price_gb)
    if all(price is None for price in prices):
        return None
    parts = (listed.times(1 / _THOUSAND), asked.times(1 / _THOUSAND), bodies.times(1 / _GIGABYTE))
    total = Estimate.exactly(0.0)
    for price, part in zip(prices, parts, strict=True):
        total = total.plus(part.times(price or 0.0))
    return total


def formats(options: PlanOptions, found: ProbeResults, objects: int, room: Room | None) -> tuple[FormatPlan, ...]:
    """Return the estimates for each format."""
    times, body = times_of_storing(found.stored), mean_body(found)
    planned = []
    for name in FORMATS:
        disk = _disk_bytes(name, options, found, objects, body)
        seconds = _seconds(name, options, found, objects, times.get(name, StoringTimes(0.0, 0.0)))
        if _has_indexes(name, options):
            seconds = seconds.plus(_seconds_to_index(found, objects, body))
        inodes = _inodes(name, options, found, objects, disk, seconds)
        fits = None if room is None else _fits(room, disk, inodes)
        planned.append(FormatPlan(format=name, seconds=seconds, disk_bytes=disk, inodes=inodes, fits=fits))
    return tuple(planned)


def _disk_bytes(name: str, options: PlanOptions, found: ProbeResults, objects: int, body: Estimate) -> Estimate:
    """Estimate the bytes on disk from the sample's mean, scaled to the mean body size of all objects."""
    stored = objects * found.fetched_share
    if name == "null":
        return Estimate.within(journal_bytes(objects), 1.0)
    sample = found.stored.get(name)
    if sample is None or not sample.objects:
        besides, factor = _WITHOUT_SAMPLE[name]
        mean, share = besides + factor * body.value, _UNCERTAINTY_WITHOUT_SAMPLE
    else:
        mean = sample.disk_bytes / sample.objects
        of_sample = sample.body_bytes / sample.objects
        # Each additional body byte adds no more disk bytes than the sample's mean per body byte. It also adds no more
        # than the body alone would, because the heads stay the same size.
        mean += (body.value - of_sample) * min(mean / of_sample if of_sample else 1.0, _WITHOUT_SAMPLE[name][1])
        share = _UNCERTAINTY[name] * math.sqrt(1 + _SAMPLE_OF_MANY / sample.objects)
    spread = body.high / body.value - 1 if body.value else 0.0
    besides_bodies = max(mean - body.value, 0.0) / mean if mean else 0.0
    share = math.hypot(share, spread * (1 - besides_bodies))
    if _has_indexes(name, options):
        mean += (found.replies or _REPLIES).index_line
    return Estimate.within(stored * max(mean, 1.0), share).plus(journal_bytes(objects))


def _has_indexes(name: str, options: PlanOptions) -> bool:
    """Return whether each shard has an index, as WARC shards in a folder do by default."""
    return name == "warc" and options.cdxj is not False and not (options.dest and is_bucket(str(options.dest)))


def _inodes(
    name: str, options: PlanOptions, found: ProbeResults, objects: int, disk: Estimate, seconds: Estimate
) -> Estimate:
    """Return the number of files and folders."""
    workers = min(options.threads or processors.count(), max(objects, 1))
    stored = objects * found.fetched_share
    own = state_inodes(objects, workers, is_files=name == "files")
    if name == "null":
        return Estimate.exactly(own)
    if name == "files":
        sample = found.stored.get(name)
        if sample is None or not sample.objects:
            return Estimate(value=stored + own, low=stored + own, high=2 * stored + own)
        folders = sample.folders / sample.objects * stored
        least = min(float(sample.folders), folders)
        return Estimate(value=stored + folders + own, low=stored + least + own, high=stored + folders + own)
    size = options.shard_size or (_PARQUET_SHARD_BYTES if name == "parquet" else _SHARD_BYTES)
    # Each shard has a manifest.
    files = 3 if _has_indexes(name, options) else 2
    shards = Estimate(
        **{
            end: files * max(math.ceil(getattr(disk, end) / size), math.ceil(stored / _SHARD_OBJECTS), 1)
            for end in _ENDS
        }
    )
    unmerged = min(_UNMERGED, math.ceil(seconds.high / options.seal_after)) if name == "parquet" else 0
    more = 2 * workers * (1 + unmerged)
    return Estimate(value=shards.value + 2 * workers + own, low=shards.low + own, high=shards.high + more + own)


def _seconds(name: str, options: PlanOptions, found: ProbeResults, objects: int, storing: StoringTimes) -> Estimate:
    """Estimate the duration of fetching or of storing (CPU time or file creation), whichever is longer."""
    fetching = seconds_to_fetch(found, objects)
    busy = _busy_of_object(found)
    stored = objects * found.fetched_share
    count = processors.count()
    least = (objects * busy + stored * storing.cpu) / count
    if name == "files":
        least = max(least, stored * storing.clock / (options.threads or count))
    if least <= fetching.value:
        return fetching
    more = fetching.times(least / fetching.value)
    if name != "files":
        return Estimate(value=more.value, low=(fetching.low + more.low) / 2, high=more.high)
    syncs = _SYNCS_OF_FILES if options.durability == "power" else 1.0
    low = max(fetching.low, more.low / _MAKING_FILES)
    return Estimate(value=more.value, low=low, high=more.high * max(syncs, _MAKING_FILES))


def _seconds_to_index(found: ProbeResults, objects: int, body: Estimate) -> Estimate:
    """Estimate the time to index the shards after all objects are fetched."""
    each = _INDEX_SECONDS + _INDEX_BYTE_SECONDS * body.value
    return Estimate.within(objects * found.fetched_share * each, _INDEX_FACTOR - 1)


def _busy_of_object(found: ProbeResults) -> float:
    """Return the CPU seconds per object in the steady part.

    This includes all processes on the machine, because the other processes will also be running during the job.
    """
    snapshots, states = found.fetching.snapshots, found.fetching.processors
    settled = snapshots[-1].asked_for - snapshots[found.rate.first].asked_for
    busy = states[-1].busy - states[found.rate.first].busy
    return busy / settled if settled else 0.0


def _fits(room: Room, disk: Estimate, inodes: Estimate) -> Fits:
    free_inodes = math.inf if room.free_inodes is None else room.free_inodes
    if disk.low > room.free_bytes or inodes.low > free_inodes:
        return "no"
    return "perhaps" if disk.high > room.free_bytes or inodes.high > free_inodes else "yes"


def share_notices(found: ProbeResults) -> Sequence[str]:
    """Return notices about targets that the probe could not fetch, and about repeated requests."""
    last, lines = found.last, []
    if last.absent or last.failed:
        kinds = ", ".join(f"{kind} {format_count(count)}" for kind, count in sorted(last.failures.items()))
        failed = f"failed {format_count(last.failed)} ({kinds})" if last.failed else ""
        absent = f"absent {format_count(last.absent)}" if last.absent else ""
        lines.append(f"of {format_count(found.asked_for)} targets: {', '.join(filter(None, (absent, failed)))}")
    return lines
