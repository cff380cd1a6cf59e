"""Proves a destination: the ledger and every checksum, and on demand some objects against their origin.

The native module reads on its own threads; this thread takes what they find, one finding after the other, so that no
list of them grows.
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
from fetchmill._shared import is_shared_job
from fetchmill.errors import UsageError

# A signal is answered within this.
STEP_SECONDS = 0.05
# Findings taken at once.
BATCH = 1000
SAMPLE_DEFAULT = 100
SAMPLE_MAX = 100_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is not as it should be.

    Args:
        what: `missing`, `damaged`, `doubled` or `unknown`; compared with the origin also `differs` or `absent-now`.
        name: the object's name, or a file of the job; empty when it is not known.
        sequence: the target's sequence number, or the first of `objects` of them; None for a file.
        shard: the number of the shard; None when it is in none.
        objects: how many objects it is about; 0 for a file of the job.
        detail: a line for people.
    """

    what: str
    name: str
    sequence: int | None
    shard: int | None
    objects: int
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a verification is.

    Args:
        bytes: bytes that were read.
        bytes_total: bytes that are to be read.
        objects: objects that were compared with their checksums.
        findings: findings so far.
    """

    bytes: int
    bytes_total: int
    objects: int
    findings: int


@dataclass(frozen=True, kw_only=True, repr=False)
class VerifyReport(ReadableReport):
    """What was proved.

    Args:
        source: where the targets came from.
        dest: the destination.
        format: how objects are stored.
        listed: targets that the source handed over, as the journal has it.
        fetched: those of which an object is stored.
        absent: 404 and 410.
        failed: failed for good.
        skipped: left out on purpose.
        pending: targets without an outcome: the job is not finished, which is no fault.
        bytes: bytes of the objects.
        checked: objects that were read and compared with their checksums.
        findings: how many findings there were.
        missing: objects and files that should be there and are not.
        damaged: objects and files that are not what was written.
        doubled: targets that have more than one outcome.
        unknown: files that no job knows.
        compared: objects that were compared with the origin.
        differs: objects that the origin has otherwise now.
        absent_now: objects that the origin has no more.
        interrupted: whether it was ended early: then it proves nothing.
        repaired: whether it was a repair.
        mended: whether it has mended all that was found.
        planned: objects that the same `fetchmill get` will fetch again.
        dropped: second copies that a repair has left out.
        shards_replaced: shards that a repair has written again or forgotten.
        unnamed: objects that a repair could not put back, because nothing tells which they are.
        without_url: objects of a list that a repair could not put back, because nothing tells their URLs.
        seconds: how long it took.
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
        """Whether all is proved: nothing is missing, damaged, doubled or unknown, and nothing differs."""
        return not (self.findings or self.differs or self.absent_now or self.interrupted)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"ok": self.ok}

    @classmethod
    def from_native(cls, values: Mapping[str, Any]) -> Self:
        """From what the native module returns: it may say more, never less."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


OnFinding = Callable[[Finding], object]
OnProgress = Callable[[Progress], object]


def verify(  # noqa: PLR0913 - each has its default
    dest: str | os.PathLike[str],
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
    """Proves that a destination holds every object of its job exactly once and as it was fetched.

    Blocks until the end and releases the GIL meanwhile. No job can run on the destination while it is read.

    Args:
        dest: the destination.
        state: folder of the journal, when the job was given one.
        against: an origin to compare some objects with, `http://host:port[/path]`.
        sample: how many objects to compare with the origin; without `against` that is the job's own source, of a list
            the URL of each.
        seed: which objects: the same seed draws the same ones.
        repair: plans again what is damaged or missing; the same `fetchmill.get` fetches it then.
        threads: threads that read; one for each processor if not given.
        on_finding: is called with each `Finding`, in this thread.
        on_progress: is called with a `Progress` some times a second.

    Returns:
        What was found, as numbers. Findings raise nothing.

    Raises:
        UsageError: there is no job, or an option cannot be used.
        BusyError: a process runs the job.
        JournalError: the journal cannot be read.
        StorageError: the destination cannot be read, or not be written by a repair.
        TemporaryError: the origin does not answer.

    Example:
        >>> report = fetchmill.verify("out/", on_finding=print)  # doctest: +SKIP
        >>> report.ok  # doctest: +SKIP
        True
    """
    if against is not None and sample is None:
        sample = SAMPLE_DEFAULT
    for name, value in (("sample", sample), ("threads", threads)):
        if value is not None and not 1 <= value <= SAMPLE_MAX:
            raise UsageError(f"{name} must be a whole number from 1 to {SAMPLE_MAX}, not {value!r}", options=[name])
    tell = on_finding or (lambda _: None)
    if state is None and is_shared_job(os.fspath(dest)):
        if repair:
            raise UsageError(
                f"{os.fspath(dest)} is a shared job, which cannot be repaired: create it again in another directory"
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

        return verify_shared(dest, verify_folder, tell)
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
    """Takes findings until the end, and those that are left then."""
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
    """Asks the origin for each object that was drawn."""
    with contextlib.closing(client):
        while (drawn := running.next_sampled()) is not None:
            if "url" not in drawn:
                continue  # it was told to be damaged or missing
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
