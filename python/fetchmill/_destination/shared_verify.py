"""Verifies that a shared job's ranges cover each byte of the list exactly once, and that final ranges are complete."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from fetchmill._shared.folders import AttemptFolders
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.ranges import Range
from fetchmill._shared.records import JobRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from fetchmill._destination.verify import Finding, VerifyReport

# Fields of a report that describe the whole job and must not be summed.
_OF_THE_JOB = ("source", "dest", "format", "interrupted", "repaired", "mended")


def verify_shared(
    dest: str | os.PathLike[str],
    verify_folder: "Callable[[str], VerifyReport]",
    on_finding: "Callable[[Finding], object]",
    reach: Mapping[str, Any],
) -> "VerifyReport":
    """Verify each final range, and check that the ranges together cover the whole list.

    Args:
        dest: the job directory.
        verify_folder: called to verify the destination of one range.
        on_finding: called with each finding about the ranges themselves.
        reach: connection options for the bucket of the job directory.

    Returns:
        The sum of the reports of all ranges.

    Raises:
        UsageError: no range is final.
    """
    from fetchmill.errors import UsageError

    directory = JobDirectory.at(dest, reach)
    job = directory.job()
    total: VerifyReport | None = None
    final = []
    for record in directory.commits():
        final.append(record.range)
        if record.folder is not None:
            with AttemptFolders(directory) as folders:
                found = verify_folder(folders.whole(record.folder))
            total = found if total is None else _sum(total, found)
    if total is None:
        raise UsageError(f"{os.fspath(dest)} has no final range yet, so nothing can be verified; try again later")
    findings = list(_gaps(job, final, directory.open_ranges(job)))
    for finding in findings:
        on_finding(finding)
    doubled = sum(finding.what == "doubled" for finding in findings)
    return replace(
        total,
        source=job.source,
        dest=os.fspath(dest),
        findings=total.findings + len(findings),
        doubled=total.doubled + doubled,
        missing=total.missing + len(findings) - doubled,
    )


def _sum(one: "VerifyReport", other: "VerifyReport") -> "VerifyReport":
    added = {
        field.name: getattr(one, field.name) + getattr(other, field.name)
        for field in fields(one)
        if field.name not in _OF_THE_JOB
    }
    return replace(one, **added, interrupted=one.interrupted or other.interrupted)


def _gaps(job: JobRecord, final: list[Range], still_open: list[Range]) -> "list[Finding]":
    """Return findings for bytes of the list that are in no range or in two ranges."""
    from fetchmill._destination.verify import Finding

    found = []
    for number, file in enumerate(job.files):
        position = file.header
        ranges = sorted((each for each in [*final, *still_open] if each.file == number), key=lambda each: each.start)
        for each in [*ranges, Range(file=number, start=file.end, end=file.end)]:
            if each.start != position:
                what = "missing" if each.start > position else "doubled"
                ends = sorted((position, each.start))
                where = "no range" if what == "missing" else "two ranges"
                unit = "bytes" if file.rows is None else "rows"
                detail = f"{unit} {ends[0]:,} to {ends[1]:,} of {file.path} are in {where}"
                found.append(Finding(what=what, name=each.id, sequence=None, shard=None, objects=0, detail=detail))
            position = max(position, each.end)
    return found
