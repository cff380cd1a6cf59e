"""`fetchmill status`: shows the ledger and the failures of a destination."""

import os
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fetchmill._job.report import Failure
from fetchmill._options.units import format_bytes, format_count
from fetchmill.cli.reach_command import ReachCommand, given_reach
from fetchmill.cli.streams import escape, json_line, without_secrets, write_line
from fetchmill.cli.summary import status_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fetchmill._job.report import Skipped
    from fetchmill._sync.status import SyncStatus

# Interval in seconds at which --watch shows the status, and at which a job stores its progress.
WATCH_SECONDS = 1.0

_EXAMPLES = """
fetchmill status out/
fetchmill status out/ --watch                       until the job ends
fetchmill status out/ --failures | cut -f1          names only
fetchmill status out/ --failures --json             JSON lines
fetchmill status out/ --skipped                     skipped targets only
fetchmill status /nfs/run --metrics                 for Prometheus
"""


@click.command(
    "status",
    cls=ReachCommand,
    examples=_EXAMPLES,
    short_help="Show the progress, speed and failures of a job.",
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.option("--failures", is_flag=True, help="List each failed or absent (404, 410) target with the reason.")
@click.option("--skipped", is_flag=True, help="List skipped targets by reason.")
@click.option("--watch", is_flag=True, help="Refresh every second until the job ends.")
@click.option("--metrics", is_flag=True, help="Write the metrics of a shared job in the Prometheus text format.")
@click.option("--state", type=click.Path(), help="Journal folder, if the job was started with --state.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write a JSON object, or with --failures or --skipped one JSON object per line.",
)
def command(
    dest: str,
    failures: bool,
    skipped: bool,
    watch: bool,
    metrics: bool,
    state: str | None,
    as_json: bool,
    **reach: Any,  # noqa: ANN401
) -> int:
    """Show the current progress and speed of the job in DEST, and what limits it. The counts are as of its last commit.
    For the whole job over time, use `fetchmill report`. Only the user who owns the job can see its status.

    To watch a job in the browser, start it with --dashboard, which prints the address of a page. To save charts as an
    HTML file, even while the job runs, use `fetchmill report DEST --html FILE`.

    With --watch, refresh the status every second until the job ends. On a terminal, the status is updated in place;
    with --json, each update is one object on one line.

    With --failures, list the absent and failed targets, one per line, as tab-separated fields: name, outcome, kind,
    HTTP status (or -), attempts, detail, and the URL if it differs from the name. Control characters and backslashes
    are escaped with a backslash. Signatures and tokens in URLs are redacted, but are available in Python through
    fetchmill.failures.

    With --skipped, list skipped targets as tab-separated fields: reason, count and name. Up to 100 names are listed for
    each reason. For targets that opted out, one line per rule follows, and one line for each of the 10 hosts whose
    robots.txt forbids the most targets.

    For a synced folder, show the last finished pass, or the progress of an unfinished one.

    With --metrics, write the metrics of a shared job, for example for node_exporter's textfile collector. For a job on
    a single machine, --dashboard serves the metrics.
    """  # noqa: D205 - the first paragraph is what -h shows
    place = _Place(dest, state, given_reach(reach))
    if metrics:
        _write_metrics(place, alone=not (failures or skipped or watch or as_json or state is not None))
        return 0
    if failures and skipped:
        raise click.UsageError("--failures and --skipped cannot be combined")
    if failures or skipped:
        if watch:
            option = "--failures" if failures else "--skipped"
            raise click.UsageError(f"--watch and {option} cannot be combined; leave out one of them")
        (_write_failures if failures else _write_skipped)(place, as_json)
    elif watch:
        _watch(place, as_json)
    else:
        _show(place, as_json)
    return 0


class _Place(NamedTuple):
    """The location of a job.

    Args:
        dest: the destination, or the job directory of a shared job.
        state: the journal folder, if the user named one.
        reach: the bucket access options of a shared job.
    """

    dest: str
    state: str | None
    reach: "Mapping[str, Any]"

    def is_shared(self) -> bool:
        """Return whether the job is a shared job."""
        from fetchmill._shared import is_shared_job

        return self.state is None and is_shared_job(self.dest, self.reach)

    def is_synced(self) -> bool:
        """Return whether the folder is kept up to date by a sync."""
        from fetchmill._sync.state import is_synced

        return self.state is None and is_synced(self.dest)


def _show(place: _Place, as_json: bool) -> bool:
    """Show the status. Return True if the job is running and the output is still being read."""
    if place.is_shared():
        return _show_shared(place, as_json)
    if place.is_synced():
        return _show_sync(place.dest, as_json)
    from fetchmill._destination.status import status

    found = status(place.dest, state=place.state)
    text = json_line(found.to_dict()) if as_json else without_secrets("\n".join(status_lines(found, place.state)))
    return write_line(sys.stdout, text) and found.running


def _show_shared(place: _Place, as_json: bool) -> bool:
    """Like `_show`, for a shared job."""
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.status import shared_status
    from fetchmill.cli.shared_jobs import status_lines

    found = shared_status(JobDirectory.at(place.dest, place.reach))
    text = json_line(found.to_dict()) if as_json else without_secrets("\n".join(status_lines(found)))
    return write_line(sys.stdout, text) and not found.finished and found.runs


def _write_metrics(place: _Place, *, alone: bool) -> None:
    if not alone:
        raise click.UsageError("--metrics cannot be combined with other options; leave them out")
    if not place.is_shared():
        raise click.UsageError(
            f"{place.dest} is not a shared job; --metrics works only with shared jobs, for other jobs use --dashboard"
        )
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.metrics import metrics_of
    from fetchmill._shared.status import shared_status

    write_line(sys.stdout, metrics_of(shared_status(JobDirectory.at(place.dest, place.reach))).rstrip("\n"))


def _show_sync(dest: str, as_json: bool) -> bool:
    """Like `_show`, for a synced folder."""
    from fetchmill._sync.status import sync_status

    found = sync_status(dest)
    text = json_line(found.to_dict()) if as_json else without_secrets("\n".join(_sync_lines(found)))
    return write_line(sys.stdout, text) and found.running


def _sync_lines(status: "SyncStatus") -> list[str]:
    """Return the last pass as a small table."""
    if status.phase is None:
        condition = f"pass {status.number} is finished"
    else:
        begun = f"started at {status.started_at:%Y-%m-%d %H:%M:%S} UTC"
        state = "running" if status.running else "not running; the same `fetchmill sync` continues this pass"
        condition = f"{state}: {status.phase}, {begun}"
    rows = [
        ("source", status.source),
        ("destination", f"{status.dest} (sync)"),
        ("sync", condition),
        ("objects", format_count(status.objects)),
    ]
    ledger = status.ledger or {}
    names = ("listed", "unchanged", "fetched", "absent", "failed", "skipped", "removed", "not_removed", "kept")
    rows += [(name.replace("_", " "), format_count(ledger[name])) for name in names if name in ledger]
    if "bytes" in ledger:
        rows.append(("bytes", format_bytes(ledger["bytes"])))
    return [f"{name:<12} {value}" for name, value in rows]


def _watch(place: _Place, as_json: bool) -> None:
    """Show the status every second. On a terminal, clear the screen so that the table stays in place."""
    clears = not as_json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    while True:
        if clears:
            click.clear()
        if not _show(place, as_json):
            return
        if not as_json and not clears:
            write_line(sys.stdout, "")
        time.sleep(WATCH_SECONDS)


def _write_failures(place: _Place, as_json: bool) -> None:
    """Write one line per failure as it is read. End early and without an error if the reader closes the output."""
    if place.is_synced():
        _write_sync_failures(place.dest, as_json)
        return
    from fetchmill._destination.status import failures_reached

    for failure in failures_reached(*place):
        url = None if failure.url is None else without_secrets(failure.url)
        hidden = replace(failure, name=without_secrets(failure.name), detail=without_secrets(failure.detail), url=url)
        line = json_line(asdict(hidden)) if as_json else _tab_separated(hidden)
        if not write_line(sys.stdout, line):
            return


def _write_skipped(place: _Place, as_json: bool) -> None:
    """Write one line per known name, and a single line for each reason without names."""
    if place.is_synced():
        raise click.UsageError(
            f"{place.dest} is a folder synced by `fetchmill sync`, which does not record skipped targets"
        )
    from fetchmill._destination.status import skipped_reached

    for found in skipped_reached(*place):
        for name in found.names or [""]:
            shown = without_secrets(name)
            told = {"reason": found.reason, "count": found.count, "name": shown or None}
            line = json_line(told) if as_json else "\t".join((found.reason, str(found.count), escape(shown) or "-"))
            if not write_line(sys.stdout, line):
                return
        for line in _opt_out_lines(found, as_json):
            if not write_line(sys.stdout, line):
                return


def _opt_out_lines(found: "Skipped", as_json: bool) -> "Iterator[str]":
    """Yield lines for the rules through which targets opted out, and for the hosts that forbid the most targets."""
    for kind, counts in (("rule", found.rules), ("host", found.hosts)):
        for text, count in counts.items():
            told = {"reason": found.reason, "count": count, kind: text}
            yield json_line(told) if as_json else "\t".join((f"{found.reason} by {kind}", str(count), escape(text)))


def _write_sync_failures(dest: str, as_json: bool) -> None:
    """Like `_write_failures`, for the last pass of a sync."""
    from fetchmill._sync.status import sync_failures

    for raw, outcome, kind, detail in sync_failures(dest):
        name = without_secrets(raw.decode(errors="backslashreplace"))
        told = {"name": name, "outcome": outcome, "kind": kind, "detail": without_secrets(detail or "")}
        line = json_line(told) if as_json else "\t".join(escape(text or "-") for text in told.values())
        if not write_line(sys.stdout, line):
            return


def _tab_separated(failure: Failure) -> str:
    status = "-" if failure.status is None else str(failure.status)
    columns = (failure.name, failure.outcome, failure.kind, status, str(failure.attempts), failure.detail)
    url = () if failure.url is None else (failure.url,)
    return "\t".join(escape(column) for column in columns + url)
