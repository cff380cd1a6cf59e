"""Reads and writes the contents of files in a job directory: the job, added lists, and commit records.

Another release or user may have written the directory, so all content is checked when it is read.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Self

from fetchmill._native import __version__
from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.ranges import GROUPS, HostPart, InventoryFile, ListFile, Range
from fetchmill.errors import JournalError, UsageError

# Format version of the files in the job directory. It is incremented when older releases would misread them.
FORMAT = 1
# Names of the counts in a ledger.
COUNTS = ("listed", "fetched", "absent", "failed", "skipped", "bytes", "attempts")
# The counts above that are outcomes.
OUTCOMES = ("fetched", "absent", "failed", "skipped")
# Counts that are split by name: failed targets by kind and by status, and skipped targets by reason.
NAMED_COUNTS = ("failures", "failed_statuses", "skipped_by")


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """The definition of a shared job. Its file never changes.

    Args:
        id: random ID of the job. The workers' local folders are named after the ID.
        options: options of `fetchmill.get`, without secrets.
        secrets: names of options whose values each worker must provide.
        source: the list, as the user wrote it.
        files: the files of the list and of added lists.
        list_format: format of these files.
        ranges: the first ranges of these files.
        lease: seconds without a heartbeat after which a worker's claims are free.
        listing: options for listing the source, without secrets; None if the source is a list.
        added: lists added by users, as the users wrote them.
        lists: number of all added lists, including parts of the source's list.
        totals: totals of the listing, once it is complete.
        is_by_host: whether the list and all added lists are divided by host. Only one worker at a time then makes
            requests to a host.
        divided: paths of the files whose rows are in these parts.
        divided_for: number of requests in flight for which each part contains enough hosts.
    """

    id: str
    options: Mapping[str, Any]
    secrets: tuple[str, ...]
    source: str
    files: tuple[ListFile, ...]
    list_format: str
    ranges: tuple[Range, ...]
    lease: float
    listing: Mapping[str, Any] | None = None
    added: tuple[str, ...] = ()
    lists: int = 0
    totals: "ListingTotals | None" = None
    is_by_host: bool = False
    divided: tuple[str, ...] = ()
    divided_for: int = 0

    @property
    def is_listed(self) -> bool:
        """Whether the job's list is complete."""
        return self.listing is None or self.totals is not None

    def with_lists(self, records: Sequence["AddedList"]) -> "JobRecord":
        """Return the job with these added lists."""
        return replace(
            self,
            files=(*self.files, *(file for record in records for file in record.files)),
            ranges=(*self.ranges, *(each for record in records for each in record.ranges)),
            added=tuple(record.source for record in records if record.source is not None),
            lists=len(records),
            divided=(*self.divided, *(path for record in records for path in record.divided)),
            totals=records[-1].totals if records else None,
        )

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        values = {
            "format": FORMAT,
            "release": __version__,
            "id": self.id,
            "source": self.source,
            "options": dict(self.options),
            "secrets": list(self.secrets),
            "list_format": self.list_format,
            "lease": self.lease,
            "listing": None if self.listing is None else dict(self.listing),
            "is_by_host": self.is_by_host,
            "divided": list(self.divided),
            "divided_for": self.divided_for,
            "inventory": _head_of(self.files),
            "files": _files_to_json(self.files, self.ranges, 0),
        }
        return _to_bytes(values)

    @classmethod
    def from_bytes(cls, content: bytes, path: str) -> Self:
        """Make the record from the contents of its file.

        Raises:
            UsageError: the file was written by another release.
            JournalError: the file is damaged.
        """
        values = _from_bytes(content, path)
        if values.get("format") != FORMAT or values.get("release") != __version__:
            raise UsageError(
                f"{path} was written by fetchmill {values.get('release')}, but this is "
                f"{__version__}; all workers of a job need the same release"
            )
        try:
            files, ranges = _files_from_json(values["files"], 0, values["inventory"])
            names = ("id", "source", "options", "list_format", "lease", "listing", "is_by_host", "divided_for")
            own = {name: values[name] for name in names}
            has_options = isinstance(own["options"], dict) and isinstance(own["listing"], (dict, type(None)))
            if not (has_options and float(own["lease"]) > 0):
                raise TypeError("options or lease are missing")  # noqa: TRY301 - handled below like other damage
            secrets, divided = _texts(values["secrets"]), _texts(values["divided"])
            return cls(**own, secrets=secrets, divided=divided, files=files, ranges=ranges)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise JournalError(f"{path} is damaged ({error}); create the job again in another directory") from error


@dataclass(frozen=True, kw_only=True)
class ListingTotals:
    """The totals of a complete listing.

    Args:
        skipped: number of skipped objects by reason. Skipped objects are in no part of the list.
        failed_folders: number of folders of a web server that could not be listed.
    """

    skipped: Mapping[str, int]
    failed_folders: int


@dataclass(frozen=True, kw_only=True)
class AddedList:
    """A list that was added to a job. It is a user's list, a part of the source's list, or the end of that list.

    Its file never changes.

    Args:
        job: the id of the job.
        source: the list, as the user wrote it; None for a part or the end of the source's list.
        first_file: number of the list's first file in the job, after the job's own files and those of earlier lists.
        files: the files of the list.
        ranges: the first ranges of these files.
        totals: the totals of the source's listing; only in its list's final record, which has no files.
        divided: paths of the files whose rows are in `files`, if the list is divided by host.
    """

    job: str
    source: str | None
    first_file: int
    files: tuple[ListFile, ...] = ()
    ranges: tuple[Range, ...] = ()
    totals: ListingTotals | None = None
    divided: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return _to_bytes(
            {
                "job": self.job,
                "source": self.source,
                "first_file": self.first_file,
                "inventory": _head_of(self.files),
                "files": _files_to_json(self.files, self.ranges, self.first_file),
                "totals": None if self.totals is None else asdict(self.totals),
                "divided": list(self.divided),
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes, path: str) -> Self:
        """Make the record from the contents of its file.

        Raises:
            JournalError: the file is damaged.
        """
        values = _from_bytes(content, path)
        try:
            first = int(values["first_file"])
            files, ranges = _files_from_json(values["files"], first, values["inventory"])
            source, totals = values["source"], values["totals"]
            return cls(
                job=str(values["job"]),
                source=None if source is None else str(source),
                first_file=first,
                files=files,
                ranges=ranges,
                totals=None if totals is None else _totals_from_json(totals),
                divided=_texts(values["divided"]),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise JournalError(f"{path} is damaged ({error}); restore it from a backup") from error


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _totals_from_json(values: Mapping[str, Any]) -> ListingTotals:
    skipped = {str(reason): int(count) for reason, count in dict(values["skipped"]).items()}
    return ListingTotals(skipped=skipped, failed_folders=int(values["failed_folders"]))


def _files_to_json(files: Sequence[ListFile], ranges: Iterable[Range], first: int) -> list[dict[str, Any]]:
    """Return files with their ranges, for JSON. `first` is the number of the first file."""
    by_file: list[list[list[int]]] = [[] for _ in files]
    for each in ranges:
        by_file[each.file - first].append([each.start, each.end])
    return [
        {"path": file.path, "size": file.size, "modified": file.modified, "has_lines": file.has_lines}
        | {"header": file.header, "rows": file.rows, "part": _part_to_json(file.part)}
        | {"md5": file.inventory.md5 if file.inventory else None, "ranges": of_file}
        for file, of_file in zip(files, by_file, strict=True)
    ]


def _head_of(files: Sequence[ListFile]) -> str | None:
    """Return the head of the inventory that these files belong to, so that it is not repeated for each file."""
    return next((file.inventory.head for file in files if file.inventory), None)


def _files_from_json(
    values: Sequence[Mapping[str, Any]], first: int, head: str | None
) -> tuple[tuple[ListFile, ...], tuple[Range, ...]]:
    names = ("path", "size", "modified", "has_lines", "header", "rows")
    files = tuple(
        ListFile(
            **{name: file[name] for name in names},
            part=_part_from_json(file["part"]),
            inventory=None if head is None else InventoryFile(head=head, md5=str(file["md5"])),
        )
        for file in values
    )
    ranges = (Range.from_json(ends, first + number) for number, file in enumerate(values) for ends in file["ranges"])
    return files, tuple(ranges)


def _part_to_json(part: HostPart | None) -> list[int] | None:
    return None if part is None else [part.number, part.count]


def _part_from_json(values: Sequence[object] | None) -> HostPart | None:
    if values is None:
        return None
    number, count = values
    if not (isinstance(number, int) and isinstance(count, int)) or not 0 <= number < count <= GROUPS:
        raise ValueError(f"{values!r} is not a part of a list")
    return HostPart(number=number, count=count)


@dataclass(frozen=True, kw_only=True)
class CommitRecord:
    """A commit record, which makes a range final. The first worker creates its file. The file never changes.

    Args:
        job: the id of the job.
        range: the final range; shorter than the claimed range if the worker stopped early.
        rest: the remaining, unfetched ranges.
        attempt: the attempt with the data; empty for a range that was set aside.
        worker: name of the worker that wrote the record.
        ledger: counts of the attempt: `listed`, `fetched`, `absent`, `failed`, `skipped`, `bytes`, `attempts`.
        named: failed targets by kind and by status, and skipped targets by reason.
        seconds: duration of the attempt in seconds.
        set_aside: reason why the range was set aside; None if the range was fetched.
    """

    job: str
    range: Range
    rest: tuple[Range, ...] = ()
    attempt: str
    worker: str
    ledger: Mapping[str, int]
    named: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seconds: float = 0.0
    set_aside: str | None = None

    @property
    def folder(self) -> str | None:
        """Name of the folder in `data` with the range's objects; None for a range that was set aside."""
        return None if self.set_aside else f"{self.range.id}-{self.attempt}"

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return _to_bytes(
            {
                "job": self.job,
                "file": self.range.file,
                "range": [self.range.start, self.range.end],
                "rest": [[each.start, each.end] for each in self.rest],
                "attempt": self.attempt,
                "worker": self.worker,
                "ledger": dict(self.ledger),
                "named": {name: dict(counts) for name, counts in self.named.items()},
                "seconds": round(self.seconds, 3),
                "set_aside": self.set_aside,
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes, path: str) -> Self:
        """Make the record from the contents of its file.

        Raises:
            JournalError: the file is damaged.
        """
        values = _from_bytes(content, path)
        try:
            file = int(values["file"])
            ledger = {name: int(values["ledger"][name]) for name in COUNTS}
            named = {name: dict(values["named"][name]) for name in NAMED_COUNTS}
            return cls(
                job=str(values["job"]),
                range=Range.from_json(values["range"], file),
                rest=tuple(Range.from_json(ends, file) for ends in values["rest"]),
                attempt=_attempt_of(values),
                worker=str(values["worker"]),
                ledger=ledger,
                named=named,
                seconds=float(values["seconds"]),
                set_aside=values["set_aside"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(
                f"{path} is damaged ({error}); restore it, or create the job again in another directory"
            ) from error


def _attempt_of(values: Mapping[str, Any]) -> str:
    """Return the attempt, which must be alphanumeric because it is part of a folder's name."""
    attempt = values["attempt"]
    if not (isinstance(attempt, str) and (attempt.isalnum() or values["set_aside"])):
        raise ValueError(f"{attempt!r} is not an attempt")
    return attempt


def empty_ledger() -> dict[str, int]:
    """Return a ledger in which all counts are 0."""
    return dict.fromkeys(COUNTS, 0)


def _to_bytes(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _from_bytes(content: bytes, path: str) -> dict[str, Any]:
    try:
        values = json.loads(content)
    except ValueError as error:
        raise JournalError(f"{path} is damaged ({error})") from error
    if not isinstance(values, dict):
        raise JournalError(f"{path} is damaged: it is not a JSON object")
    return values
