"""`check`: records the answer of each site in a list, in one blocking call."""

import contextlib
import json
import tempfile
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any, Self, Unpack, cast

from fetchmill._job.async_input import InputItem, close_iterator, from_async
from fetchmill._job.progress import ProgressChoice, shown
from fetchmill._job.readable_report import ReadableReport
from fetchmill._job.run import run_to_end
from fetchmill._job.tables import ArrowTable, take_table
from fetchmill._job.with_dashboard import JobDashboard
from fetchmill._native import Job, answer_matches
from fetchmill._options.check import CheckOptions
from fetchmill._options.keywords import CheckKeywords


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckReport(ReadableReport):
    """The summary of a check.

    Args:
        source: the source of the targets.
        results: the file with the rows; None if rows were only counted.
        rows: number of rows, one for each finished target.
        counts: number of rows by answer, which is a status as text or a failure kind. Empty while the check is
            unfinished.
        suspect: number of rows whose failure may have been caused by this machine rather than by the site.
        failed: the first 20 failed rows (no complete reply, a 4xx or a 5xx), with all columns except kept columns.
        skipped: number of targets that were left out on purpose.
        seconds: duration of this run in seconds.
        attempts: number of requests in this run, including redirects.
        already_finished: whether an earlier run had already finished the check. This run then made no requests.
        interrupted: whether the run was stopped before the check ended. Repeat the call to resume the check.
        stopped_by: the rule that stopped the run: `max_duration`, `max_bytes` or `first`; None if no rule did.
        resumed: whether an earlier run began the check.
        doubtful: names of targets whose rows may contain another target's answer, because an unsolicited response was
            detected too late (docs/reference/http-support.md). Contains at most the first 10,000 names.
        doubtful_count: number of doubtful targets.
        notices: human-readable messages, one line each.
        found_nothing: whether the list is empty, or all listed targets were skipped although no option requested this.
        skipped_by: number of skipped targets by reason, as in `Report.skipped_by`. `opted-out` targets still get rows.
        opted_out_by: number of `opted-out` targets by rule, as in `Report.opted_out_by`.
        forbidding_hosts: the hosts whose robots.txt forbids the most targets, as in `Report.forbidding_hosts`.
        forbidding_host_count: number of hosts that forbid targets; 4,097 means 4,097 or more.
    """

    source: str
    results: str | None
    rows: int
    counts: Mapping[str, int] = field(hash=False)
    suspect: int
    failed: tuple[Mapping[str, Any], ...] = field(hash=False)
    skipped: int
    seconds: float
    attempts: int
    already_finished: bool
    interrupted: bool
    stopped_by: str | None
    resumed: bool
    doubtful: tuple[str, ...]
    doubtful_count: int
    notices: tuple[str, ...]
    found_nothing: bool = False
    skipped_by: Mapping[str, int] = field(default_factory=dict, hash=False)
    opted_out_by: Mapping[str, int] = field(default_factory=dict, hash=False)
    forbidding_hosts: Mapping[str, int] = field(default_factory=dict, hash=False)
    forbidding_host_count: int = 0

    def count(self, pattern: str) -> int:
        """Return the number of rows with an answer matching a pattern.

        Args:
            pattern: a failure kind, a status (`404`), a class of statuses (`5xx`), a glob of kinds (`dns*`), or `any`
                for all failed rows: no complete reply, a 4xx or a 5xx.

        Raises:
            UsageError: the pattern matches no possible answer.
        """
        check_pattern(pattern)
        return sum(count for answer, count in self.counts.items() if _matches(pattern, answer))

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        values = asdict(self)
        return values | {"counts": dict(self.counts), "failed": [dict(row) for row in self.failed]}

    @classmethod
    def from_native(cls, values: Mapping[str, Any], results: str | None) -> Self:
        """Create an instance from the native module's result."""
        found = values.get("check")
        rows = values["fetched"] + values["absent"] + values["failed"]
        return cls(
            source=values["source"],
            results=results,
            rows=found["rows"] if found else rows,
            counts=found["counts"] if found else {},
            suspect=found["suspect"] if found else 0,
            failed=tuple(json.loads(row) for row in found["failed"]) if found else (),
            skipped=values["skipped"],
            skipped_by=dict(values["skipped_by"]),
            opted_out_by=dict(values["opted_out_by"]),
            forbidding_hosts=dict(values["forbidding_hosts"]),
            forbidding_host_count=values["forbidding_host_count"],
            seconds=values["seconds"],
            attempts=values["attempts"],
            already_finished=values["already_finished"],
            interrupted=values["interrupted"],
            stopped_by=values["stopped_by"],
            resumed=values["resumed"],
            doubtful=tuple(values["doubtful"]),
            doubtful_count=values["doubtful_count"],
            notices=tuple(values["notices"]),
            found_nothing=values["found_nothing"],
        )


def check(
    source: str | PathLike[str] | Iterable[InputItem | None] | AsyncIterable[InputItem | None] | ArrowTable,
    results: str | PathLike[str] | None = None,
    *,
    progress: ProgressChoice = None,
    **options: Unpack[CheckKeywords],
) -> CheckReport:
    """Check each site in a list and record its answer as a row. Resume a check that an earlier call began.

    The call blocks until there is a row for every target, and releases the GIL while it waits. On KeyboardInterrupt (or
    any other exception that a signal handler raises), requests in flight are drained for up to 5 s. Then a checkpoint
    is written and the exception is raised. A second interrupt ends the check immediately. In both cases, repeating the
    call resumes the check if `results` or `state` is set.

    Args:
        source: the path of a list of URLs, or an iterable or async iterable of URLs or of (URL, key) pairs. An iterable
            is read ahead on a separate thread, up to a limit. To resume a check, it must yield the same items in the
            same order.
        results: the file for the rows. It appears only when it is complete. If None, the rows are only counted.
        progress: as for `get`.
        **options: the fields of `CheckOptions`, which documents their units and defaults.

    Returns:
        The summary, which includes failed sites. A failed site has a row and does not raise an exception.

    Raises:
        UsageError: an option is invalid, or `results` already contains something else; nothing was changed.
        ListingError: the list cannot be read to its end.
        Exception: any exception that the iterable raises, after a checkpoint.
        StorageError: the local storage failed.
        BusyError: another process is running this check.
        JournalError: the journal and the rows contradict each other.

    Example:
        >>> report = fetchmill.check("top-1m.csv", "results.parquet", column="2", template="https://www.{}")
        ... # doctest: +SKIP
        >>> report.rows, report.counts["200"], report.count("dns*")  # doctest: +SKIP
        (1000000, 812345, 40231)
    """
    if isinstance(source, (str, PathLike)):
        checked = CheckOptions(source=source, results=results, **options)
        return _run(checked, None, progress)
    rows, given = take_table(source, options)
    checked = CheckOptions(source="an iterable", results=results, **cast("CheckKeywords", given))
    iterator: Iterator[InputItem] = from_async(rows) if isinstance(rows, AsyncIterable) else iter(rows)
    try:
        return _run(checked, iterator, progress)
    finally:
        close_iterator(iterator)


def _run(options: CheckOptions, iterator: Iterator[InputItem] | None, progress: ProgressChoice) -> CheckReport:
    """Run the check until it ends, with a dashboard if one was requested."""
    with (
        JobDashboard("check", options) as dashboard,
        state_folder(options) as temporary,
        shown(progress) as show,
    ):
        as_json = options.to_json(temporary, is_iterable=iterator is not None)
        ended = run_to_end(lambda: dashboard.show_in_program(Job(as_json, iterator)), show)
        return CheckReport.from_native(ended, _text(options.results))


@contextlib.contextmanager
def state_folder(options: CheckOptions) -> Iterator[str | None]:
    """Yield a temporary folder for the state of a check that cannot be resumed; None for any other check."""
    if options.is_temporary:
        with tempfile.TemporaryDirectory(prefix="fetchmill-check-") as folder:
            yield folder
    else:
        yield None


def check_pattern(pattern: str) -> None:
    """Check that a pattern can match answers.

    Raises:
        UsageError: no answer can match the pattern.
    """
    answer_matches(pattern, None, None)


def matching_counts(report: CheckReport, patterns: Sequence[str]) -> dict[str, int]:
    """Return the answers that match any of the patterns, with their counts."""
    return {
        answer: count
        for answer, count in report.counts.items()
        if any(_matches(pattern, answer) for pattern in patterns)
    }


def _matches(pattern: str, answer: str) -> bool:
    """Return whether an answer matches. Decimal text is a status; any other text is a failure kind."""
    status = int(answer) if answer.isdecimal() else None
    return answer_matches(pattern, None if answer.isdecimal() else answer, status)


def _text(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else str(path)
