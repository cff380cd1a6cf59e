"""Verifies the ledger and every checksum of a destination and, on request, compares a sample with the origin.

The native module reads on its own threads. The calling thread fetches findings in small batches, so they never pile up
in memory.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from fetchmill._destination.origin import OriginClient, difference
from fetchmill._job.readable_report import ReadableReport
from fetchmill._native import Verify
from fetchmill._shared import is_shared_job, reach_named
from fetchmill.errors import UsageError

# Signals are handled within this time.
STEP_SECONDS = 0.05
# Number of findings fetched at a time.
BATCH = 1000
SAMPLE_DEFAULT = 100
SAMPLE_MAX = 100_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A problem found by a verification.

    Args:
        what: `missing`, `damaged`, `doubled` or `unknown`; in a comparison with the origin also `differs` or
            `absent-now`.
        name: name of the object or of a file of the job; empty if unknown.
        sequence: sequence number of the target, or of the first of `objects` targets; None for a file.
        shard: number of the shard; None if the object is not in a shard.
        objects: number of affected objects; 0 for a file of the job.
        detail: a human-readable line.
    """

    what: str
    name: str
    sequence: int | None
    shard: int | None
    objects: int
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a verification.

    Args:
        bytes: number of bytes read.
        bytes_total: number of bytes to read.
        objects: number of objects compared with their checksums.
        findings: number of findings so far.
    """

    bytes: int
    bytes_total: int
    objects: int
    findings: int


@dataclass(frozen=True, kw_only=True, repr=False)
class VerifyReport(ReadableReport):
    """The result of a verification.

    Args:
        source: the source of the targets.
        dest: the destination.
        format: the format in which objects are stored.
        listed: number of targets that the source has listed, according to the journal.
        fetched: number of targets with a stored object.
        absent: number of targets with status 404 or 410.
        failed: number of targets that failed permanently.
        skipped: number of targets that were left out on purpose.
        pending: number of targets without an outcome. If this is not 0, the job is unfinished, which is not a fault.
        bytes: total size of the objects in bytes.
        checked: number of objects read and compared with their checksums.
        findings: number of findings.
        missing: number of missing objects and files.
        damaged: number of objects and files whose contents have changed since they were written.
        doubled: number of targets with more than one outcome.
        unknown: number of files that belong to no job.
        compared: number of objects compared with the origin.
        differs: number of objects that now differ at the origin.
        absent_now: number of objects no longer at the origin.
        interrupted: whether the verification ended early and therefore proves nothing.
        repaired: whether this run was a repair.
        mended: whether the repair fixed every problem.
        planned: number of objects that will be fetched again when the same `fetchmill get` command runs.
        dropped: number of duplicates removed by a repair.
        shards_replaced: number of shards rewritten or removed by a repair.
        unnamed: number of objects that a repair could not schedule again, because their identity is unknown.
        without_url: number of objects of a list that a repair could not schedule again, because their URLs are unknown.
        seconds: duration in seconds.
    """

    source: str
    dest: str
    format: str
    listed: int
    fetched: int
    absent: int
    failed: int
    skipped: int
    pending: int
    bytes: int
    checked: int
    findings: int
    missing: int
    damaged: int
    doubled: int
    unknown: int
    compared: int
    differs: int
    absent_now: int
    interrupted: bool
    repaired: bool
    mended: bool
    planned: int
    dropped: int
    shards_replaced: int
    unnamed: int
    without_url: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the verification succeeded: nothing is missing, damaged, doubled or unknown, and nothing differs."""
        return not (self.findings or self.differs or self.absent_now or self.interrupted)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self) | {"ok": self.ok}

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from the native module's result. Ignore additional values."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


OnFinding = Callable[[Finding], object]
OnProgress = Callable[[Progress], object]


def verify(  # noqa: PLR0913 - every option has a default
    dest: str | os.PathLike[str],
    *,
    state: str | os.PathLike[str] | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    against: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    repair: bool = False,
    threads: int | None = None,
    on_finding: OnFinding | None = None,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Verify that a destination contains every object of its job exactly once, and that no object has changed.

    The call blocks until the verification ends, and releases the GIL while it waits. No job can run on the destination
    in the meantime.

    Args:
        dest: the destination.
        state: journal folder, if the job was started with `state`.
        endpoint_url: URL of the store, if `dest` is a shared job in a bucket. None uses the environment's value.
        region: the region of the bucket.
        profile: the profile that provides the bucket's credentials.
        against: an origin to compare a sample of objects with, `http://host:port[/path]`.
        sample: number of objects to compare with the origin. Without `against`, the origin is the job's own source; for
            a list, each object is fetched from its own URL.
        seed: seed for choosing the sample. The same seed selects the same objects.
        repair: whether to schedule damaged and missing objects for another download. Calling `fetchmill.get` again with
            the same arguments then fetches them.
        threads: number of reading threads; None for one per processor.
        on_finding: called with each `Finding`, on the calling thread.
        on_progress: called with a `Progress` several times a second.

    Returns:
        The counts of all findings. A finding does not raise an exception.

    Raises:
        UsageError: there is no job, or an option is invalid.
        BusyError: a process is running the job.
        JournalError: the journal cannot be read.
        StorageError: the destination cannot be read, or a repair cannot write to it.
        TemporaryError: the origin does not answer.

    Example:
        >>> report = fetchmill.verify("out/", on_finding=print)  # doctest: +SKIP
        >>> report.ok  # doctest: +SKIP
        True
    """
    return verify_reached(
        dest,
        reach_named(endpoint_url, region, profile),
        state=state,
        against=against,
        sample=sample,
        seed=seed,
        repair=repair,
        threads=threads,
        on_finding=on_finding,
        on_progress=on_progress,
    )


def verify_reached(  # noqa: PLR0913 - same options as `verify`
    dest: str | os.PathLike[str],
    reach: Mapping[str, Any],
    *,
    state: str | os.PathLike[str] | None = None,
    against: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    repair: bool = False,
    threads: int | None = None,
    on_finding: OnFinding | None = None,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Verify a destination; see `verify`. `reach` contains connection options for the bucket of a shared job."""
    if against is not None and sample is None:
        sample = SAMPLE_DEFAULT
    for name, value in (("sample", sample), ("threads", threads)):
        if value is not None and not 1 <= value <= SAMPLE_MAX:
            raise UsageError(f"{name} must be a whole number from 1 to {SAMPLE_MAX}, not {value!r}", options=[name])
    tell = on_finding or (lambda _: None)
    if state is None and is_shared_job(os.fspath(dest), reach):
        if repair:
            raise UsageError(
                f"{os.fspath(dest)} is a shared job and cannot be repaired; create the job again in another directory"
            )

        from fetchmill._destination.shared_verify import verify_shared

        def verify_folder(folder: str) -> VerifyReport:
            return verify(
                folder,
                against=against,
                sample=sample,
                seed=seed,
                threads=threads,
                on_finding=tell,
                on_progress=on_progress,
            )

        return verify_shared(dest, verify_folder, tell, reach)
    options = {
        "dest": os.fspath(dest),
        "state": None if state is None else os.fspath(state),
        "threads": threads,
        "repair": repair,
        "sample": sample,
        "seed": seed,
        "against": against,
    }
    running = Verify(json.dumps({name: value for name, value in options.items() if value is not None}))
    try:
        _watch(running, tell, on_progress)
    except BaseException:
        running.abort()
        raise
    values = running.report()
    counts = {"compared": 0, "differs": 0, "absent_now": 0}
    if "follows" in values and not values["interrupted"]:
        _compare(running, OriginClient(follows=values["follows"]), tell, counts)
    return VerifyReport.from_native(values | counts | {"dest": os.fspath(dest)})


def _watch(running: Verify, tell: OnFinding, on_progress: OnProgress | None) -> None:
    """Report findings until the verification ends and none are left."""
    has_ended = False
    while not has_ended:
        has_ended = running.wait(0.0 if _take(running, tell) else STEP_SECONDS)
        if on_progress is not None:
            on_progress(Progress(**running.progress()))
    while _take(running, tell):
        pass


def _take(running: Verify, tell: OnFinding) -> bool:
    batch = running.findings(BATCH)
    for values in batch:
        tell(Finding(**values))
    return bool(batch)


def _compare(running: Verify, client: OriginClient, tell: OnFinding, counts: dict[str, int]) -> None:
    """Compare each sampled object with the origin."""
    with contextlib.closing(client):
        while (drawn := running.next_sampled()) is not None:
            if "url" not in drawn:
                continue  # already reported as damaged or missing
            status, body = client.fetch(drawn["url"], len(drawn["body"]))
            counts["compared"] += 1
            found = difference(status, body, drawn["body"])
            if found is None:
                continue
            what, detail = found
            counts["absent_now" if what == "absent-now" else "differs"] += 1
            tell(
                Finding(what=what, name=drawn["name"], sequence=drawn["sequence"], shard=None, objects=1, detail=detail)
            )
