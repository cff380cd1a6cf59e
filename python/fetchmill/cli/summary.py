"""Human-readable lines with the ledger, failures and advice, for the end of `get` and for `status`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fetchmill._job.progress_texts import describe_failures, describe_limit, describe_wait
from fetchmill._job.report import FIRST, FORBIDDING_HOSTS_MAX, OPTED_OUT, JobProgress, Report, Status
from fetchmill._options.units import format_bytes, format_count, format_objects, format_seconds
from fetchmill.cli.streams import escape

if TYPE_CHECKING:
    from fetchmill._sync.report import SyncReport

_OF_PRIVATE = "private addresses are refused for lists; --allow-private allows them"
_REFUSED_BEFORE = (
    "an earlier run without --allow-private refused these targets, and this run did not request them again"
)
# For each failure kind, the reason why a retry with the same options would fail again, and an option that helps.
_REMEDIES: dict[str, tuple[str, str]] = {
    "private-address": (_OF_PRIVATE, "--allow-private"),
    "body-too-large": ("larger than --max-size", "--max-size BYTES"),
    "unverified-length": ("the replies do not show where their bodies end", "--allow-eof-bodies"),
    "unexpected-type": ("the bodies' types do not match --accept", "--accept TYPE"),
    "redirect": ("redirects are not followed", "--redirects N"),
    "redirect-limit": ("more redirects than --redirects allows", "--redirects N"),
    "url": (
        "these lines do not contain a URL; fix them or use --template 'https://{}', and choose another destination",
        "",
    ),
    "range-ignored": ("the server sends whole objects instead of parts", ""),
    "range-unsatisfied": (
        "these parts start after the end of their objects; fix the list and use another destination",
        "",
    ),
    "name": ("these names cannot be file names; use --format parquet or tar, and another destination", ""),
    "name-taken": ("another object has the same file name; use --format parquet or tar, and another destination", ""),
}
# Statuses that have their own failure kind.
_THROTTLED = (429, 503)
_TRANSIENT = (408, 425)
# Minimum duration in seconds of a run whose summary says what limited it.
LIMIT_SHOWN_SECONDS = 5.0
# Rules that apply to whole hosts, and the maximum number of hosts per line.
_RULES_OF_HOSTS = ("robots.txt", "robots.txt error")
_FORBIDDING_HOSTS_SHOWN = 3
# Maximum number of names per line.
DOUBTFUL_SHOWN = 5


def ledger_line(report: Report) -> str:
    """Return the balance: listed = fetched + absent + failed + skipped, plus pending targets."""
    parts = [f"{format_count(getattr(report, name))} {name}" for name in ("fetched", "absent", "failed", "skipped")]
    if report.pending:
        parts.append(f"{format_count(report.pending)} pending")
    return f"{format_count(report.listed)} listed = " + " + ".join(parts)


def skipped_lines(report: Report, state: str | None) -> list[str]:
    """Return lines with the reasons for skipping targets, and the command that lists skipped targets."""
    if not report.skipped_by:
        return []
    reasons = describe_failures(report.skipped_by, None)
    listing = f"fetchmill status {destination_arguments(report.dest, state)} --skipped"
    return [f"skipped: {reasons}; list them: {listing}", *opt_out_lines(report.to_dict())]


def opt_out_lines(report: Mapping[str, Any]) -> list[str]:
    """Return lines with opt-outs by rule, and the hosts with the most robots.txt refusals, from a report as a dict."""
    count, rules = report["skipped_by"].get(OPTED_OUT, 0), dict(report["opted_out_by"])
    if not count:
        return []
    unknown = count - sum(rules.values())
    if unknown > 0:
        rules["without a known rule"] = unknown
    lines = [f"opted out: {format_count(count)}: {describe_failures(rules, None)}"]
    if report["forbidding_hosts"]:
        lines.append(_forbidding_hosts_line(report))
    return lines


def _forbidding_hosts_line(report: Mapping[str, Any]) -> str:
    forbidden = sum(report["opted_out_by"].get(rule, 0) for rule in _RULES_OF_HOSTS)
    count = report["forbidding_host_count"]
    hosts = "1 host" if count == 1 else f"{format_count(count)} hosts"
    if count > FORBIDDING_HOSTS_MAX:
        hosts = f"more than {format_count(FORBIDDING_HOSTS_MAX)} hosts"
    largest = dict(list(report["forbidding_hosts"].items())[:_FORBIDDING_HOSTS_SHOWN])
    return f"robots.txt: {format_count(forbidden)} on {hosts}: {describe_failures(largest, None)}"


def failure_lines(report: Report, state: str | None, *, is_private_allowed: bool = False) -> list[str]:
    """Return lines with the failures, and the commands that list and retry failed targets.

    Args:
        report: the report of a run.
        state: the journal folder, if the user named one.
        is_private_allowed: whether --allow-private was given.
    """
    if not report.failed and not report.absent:
        return []
    where = destination_arguments(report.dest, state)
    lines = failed_lines(report)
    lines.append(f"list them: fetchmill status {where} --failures")
    for kind in report.failures:
        if kind in _REMEDIES:
            why, option = _REMEDIES[kind]
            if kind == "private-address" and is_private_allowed:
                why = _REFUSED_BEFORE
            how = f"fetch them: {_retry(report, where, kind)} {option}"
            lines.append(f"{kind}: {why}; {how}" if option else f"{kind}: {why}")
    others = [kind for kind in report.failures if kind not in _REMEDIES]
    if len(others) < len(report.failures):
        others += ["404", "410"] if report.absent else []
        if others:
            lines.append(f"fetch the others again: {_retry(report, where, ','.join(others))}")
    else:
        lines.append(f"fetch them again: {_retry(report, where, '')}")
    return lines


def _retry(report: Report, where: str, answers: str) -> str:
    """Return the command that retries targets. A list from standard input must be piped in again."""
    if report.source == "standard input":
        return f"the same command with --retry-failed{'=' if answers else ''}{answers}"
    return f"fetchmill retry {where} {answers}".rstrip()


def failed_lines(report: "Report | SyncReport") -> list[str]:
    """Return lines that count failures by status and kind, and say whether refused requests contained credentials."""
    if not report.failures:
        return []
    return [f"failed: {describe_failures(_by_status(report), None)}", *_credential_lines(report)]


def _by_status(report: "Report | SyncReport") -> dict[str, int]:
    """Return failures by status if a status caused them, otherwise by kind: `{"401 Unauthorized": 3, "dns": 1}`."""
    found = dict(report.failures)
    for text, count in report.failed_statuses.items():
        kind = _kind_of(int(text.removeprefix("status ")[:3]))
        # An older release may have retried targets without correcting the counts of their statuses.
        if count <= found.get(kind, 0):
            found[kind] -= count
            found[text] = count
    return {name: count for name, count in found.items() if count}


def _kind_of(status: int) -> str:
    """Return the failure kind of a complete reply."""
    if status in _THROTTLED:
        return "throttled"
    if status in _TRANSIENT or status // 100 == 5:  # noqa: PLR2004 - the class of the status
        return "server-error"
    return "redirect" if status // 100 == 3 else "status"  # noqa: PLR2004 - the class of the status


def _credential_lines(report: "Report | SyncReport") -> list[str]:
    """Return lines about the credentials of refused requests."""
    if report.credentials is None:
        return []
    why = "credentials were refused" if report.credentials else "no credentials were given, see --bearer"
    refused = [text for text in report.failed_statuses if text.startswith(("401", "403"))]
    return [f"{text}: {format_count(report.failed_statuses[text])}; {why}" for text in refused]


def doubtful_lines(report: Report, state: str | None) -> list[str]:
    """Return lines about objects that may contain another object's bytes."""
    if not report.doubtful_count:
        return []
    where = destination_arguments(report.dest, state)
    return [
        doubtful_line(report.doubtful, report.doubtful_count, "object", "contain another object's bytes"),
        f"list them: fetchmill status {where} --json, field `doubtful`; fetch them again into another destination",
    ]


def doubtful_line(names: Sequence[str], count: int, noun: str, what: str) -> str:
    """Return a line about doubtful objects or rows.

    Args:
        names: names of the first objects or rows.
        count: total number of objects or rows.
        noun: `object` or `row`.
        what: the possible problem, which follows "may" in the line.
    """
    shown = ", ".join(escape(name) for name in names[:DOUBTFUL_SHOWN]) + (", ..." if count > DOUBTFUL_SHOWN else "")
    many = f"1 {noun}" if count == 1 else f"{format_count(count)} {noun}s"
    return f"doubtful: {many} may {what}, because an unsolicited response arrived too late: {shown}"


def private_address_lines(failures: Mapping[str, int]) -> list[str]:
    """Return a line that explains how to allow private addresses, if any was refused."""
    if not failures.get("private-address"):
        return []
    return [f"private-address: {_OF_PRIVATE}"]


def run_line(report: Report, settled_before: int) -> str:
    """Return a line with the number of objects in this run, the duration and the speed."""
    objects = report.settled - settled_before
    line = f"{format_objects(objects)} in {format_seconds(report.seconds)}"
    if objects and report.fetched and report.seconds > 0:
        line += (
            f": {format_count(objects / report.seconds)} objects/s, {_duration(report.seconds / objects)} per object"
        )
    return f"{line}; {format_bytes(report.bytes)} in all"


def _duration(seconds: float) -> str:
    """Format a short duration as `15.2 us`, `6.7 ms` or `1.2 s`."""
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def limit_lines(report: Report) -> list[str]:
    """Return a line with a run's bottleneck, or no line if the run took only a few seconds."""
    if report.limited_by is None or report.seconds < LIMIT_SHOWN_SECONDS:
        return []
    return [describe_limit(report.limited_by)]


def stop_lines(rule: str | None, is_interrupted: bool) -> list[str]:
    """Return a line for a stopped run, which names the reason and explains how to resume."""
    if not is_interrupted:
        return []
    if rule is None:
        return ["stopped after a checkpoint; run the same command again to resume"]
    if rule == FIRST:
        return ["the first targets are done; run the same command with a larger --first, or without it, to continue"]
    option = f"--{rule.replace('_', '-')}"
    how = f"with a larger {option}, or with --retry-failed," if rule == "max_failed" else "again"
    return [f"stopped by {option} after a checkpoint; run the same command {how} to resume"]


def finished_lines(report: Report) -> list[str]:
    """Return lines for a job that was already finished before this run."""
    lines = [
        f"already complete; the source was listed at {listed_at(report)}",
        "use a new destination to fetch objects added since then",
    ]
    if report.failed or report.absent:
        lines.append("failed and absent targets were not requested again")
    return lines


def listed_at(report: Report) -> str:
    """Return the completion time of the listing."""
    if report.listed_at is None:
        return "an unknown time"
    return report.listed_at.strftime("%Y-%m-%d %H:%M:%S UTC")


def status_lines(status: Status, state: str | None) -> list[str]:
    """Return the status of a job as a small table."""
    if status.running:
        condition = "running"
        if status.progress and status.age is not None:
            condition += f", started {format_seconds(status.age)} ago"
    elif status.finished:
        condition = "finished"
    else:
        condition = f"not running; the same `fetchmill {'check' if status.format == 'check' else 'get'}` resumes it"
    listing = f"completed at {listed_at(status)}" if status.listed_at else "not complete yet"
    rows = [
        ("source", status.source),
        ("destination", f"{status.dest} ({status.format})"),
        ("job", condition),
        ("listing", listing),
        ("listed", format_count(status.listed)),
        ("fetched", format_count(status.fetched)),
        ("absent", format_count(status.absent)),
        ("failed", format_count(status.failed) + _in_brackets(describe_failures(_by_status(status), None))),
        ("skipped", format_count(status.skipped)),
        ("pending", format_count(status.pending)),
        ("bytes", format_bytes(status.bytes)),
    ]
    if status.progress:
        rows += _progress_rows(status, status.progress)
    waits = [describe_wait(wait, with_dates=True) for wait in status.waits]
    notes = [*waits, *doubtful_lines(status, state), *status.notices]
    return [f"{name:<12} {value}" for name, value in rows] + notes


def _progress_rows(status: Status, progress: JobProgress) -> list[tuple[str, str]]:
    """Return rows with the speed of a running job."""
    rate = f"{format_count(progress.objects_per_second)} objects/s, {format_bytes(progress.bytes_per_second)}/s"
    rows = [
        ("rate", rate),
        ("in flight", f"{format_count(progress.in_flight)} of at most {format_count(progress.concurrency)}"),
        ("ETA", _eta(status, progress)),
    ]
    if progress.latency:
        percentiles = [(name, getattr(progress.latency, name)) for name in ("p50", "p90", "p99", "max")]
        rows.append(("latency", ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in percentiles)))
    if progress.limited_by:
        rows.append(("limited by", progress.limited_by.text))
    return rows


def _eta(status: Status, progress: JobProgress) -> str:
    """Return the remaining time, which is a lower bound while the listing is incomplete."""
    if status.remaining_seconds is not None:
        return format_seconds(status.remaining_seconds)
    if progress.objects_per_second <= 0:
        return "unknown, because no objects are arriving"
    return f"at least {format_seconds(status.pending / progress.objects_per_second)}; the listing is not complete"


def destination_arguments(dest: str, state: str | None) -> str:
    """Return DEST and --state as shell arguments."""
    import shlex

    return shlex.quote(dest) + (f" --state {shlex.quote(state)}" if state else "")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""
