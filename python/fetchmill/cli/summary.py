"""The ledger as lines for people, at the end of `get` and in `status`."""

import shlex
from collections.abc import Mapping

from fetchmill.progress import describe_failures
from fetchmill.report import Report, Status
from fetchmill.units import format_bytes, format_count, format_seconds

_MICRO = 1e6


def ledger_line(report: Report) -> str:
    """The balance: listed = fetched + absent + failed + skipped, and what is pending."""
    parts = [f"{format_count(getattr(report, name))} {name}" for name in ("fetched", "absent", "failed", "skipped")]
    if report.pending:
        parts.append(f"{format_count(report.pending)} pending")
    return f"{format_count(report.listed)} listed = " + " + ".join(parts)


def failure_lines(report: Report, state: str | None) -> list[str]:
    """What went wrong, and the commands that go on from there."""
    if not report.failed and not report.absent:
        return []
    where = destination_arguments(report.dest, state)
    lines = [f"failed: {describe_failures(report.failures, None)}"] if report.failures else []
    lines += private_lines(report.failures)
    lines.append(f"list them: fetchmill status {where} --failures")
    lines.append("fetch them again: the same command with --retry-failed")
    return lines


def private_lines(failures: Mapping[str, int]) -> list[str]:
    """How targets at private addresses are allowed, when some were refused."""
    if not failures.get("private-address"):
        return []
    return ["private-address: a list leads to public addresses only; --allow-private lets it lead to all others too"]


def run_line(report: Report, settled_before: int) -> str:
    """What this run did, and how fast."""
    objects = report.settled - settled_before
    line = f"{format_count(objects)} objects in {format_seconds(report.seconds)}"
    if objects and report.seconds > 0:
        line += (
            f": {format_count(objects / report.seconds)} objects/s, "
            f"{_MICRO * report.seconds / objects:.1f} us an object"
        )
    return f"{line}; {format_bytes(report.bytes)} in all"


def finished_lines(report: Report) -> list[str]:
    """For a job that was finished before this run."""
    return [
        f"all done already: the listing was taken at {listed_at(report)}",
        "objects that are new since then need a new destination",
    ]


def listed_at(report: Report) -> str:
    """When the listing was completed."""
    if report.listed_at is None:
        return "an unknown time"
    return report.listed_at.strftime("%Y-%m-%d %H:%M:%S UTC")


def status_lines(status: Status) -> list[str]:
    """A job as a small table."""
    if status.running:
        condition = "running"
    elif status.finished:
        condition = "finished"
    else:
        condition = f"not running; the same `fetchmill {'check' if status.format == 'check' else 'get'}` resumes it"
    listing = f"complete, taken at {listed_at(status)}" if status.listed_at else "not complete yet"
    rows = [
        ("source", status.source),
        ("destination", f"{status.dest} ({status.format})"),
        ("job", condition),
        ("listing", listing),
        ("listed", format_count(status.listed)),
        ("fetched", format_count(status.fetched)),
        ("absent", format_count(status.absent)),
        ("failed", format_count(status.failed) + _in_brackets(describe_failures(status.failures, None))),
        ("skipped", format_count(status.skipped)),
        ("pending", format_count(status.pending)),
        ("bytes", format_bytes(status.bytes)),
    ]
    return [f"{name:<12} {value}" for name, value in rows] + list(status.notices)


def destination_arguments(dest: str, state: str | None) -> str:
    """DEST, and its --state, as one would type them."""
    return shlex.quote(dest) + (f" --state {shlex.quote(state)}" if state else "")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""
