"""`fetchmill verify`: checks that a destination is complete, reports problems, and can repair them."""

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.units import format_bytes, format_count, format_count_of, format_objects, format_seconds
from fetchmill._shared import is_shared_job
from fetchmill.cli.parameter_types import COUNT
from fetchmill.cli.reach_command import ReachCommand, given_reach
from fetchmill.cli.streams import escape, say, write_event, write_line
from fetchmill.cli.summary import destination_arguments
from fetchmill.cli.termination import exit_on_sigterm

if TYPE_CHECKING:
    from fetchmill._destination.verify import Finding, Progress, VerifyReport

# Options of the verification itself. All others are bucket access options.
_OWN = ("state", "against", "sample", "repair", "threads")
DIFFERENCES = 3
DAMAGED = 10
FINDINGS_SHOWN = 20
PLAIN_SECONDS = 10.0
LIVE_SECONDS = 0.2

_EXAMPLES = """
fetchmill verify out/
fetchmill verify out/ --all | cut -f2                  names only
fetchmill verify out/ --sample 1000                    compare with the source
fetchmill verify out/ --against http://127.0.0.1:8080  or another source
fetchmill verify out/ --repair && fetchmill get SOURCE out/
"""
_EPILOG = """Exit codes: 0 if DEST is complete or --repair has fixed all problems; 3 if objects differ from the
source; 10 if objects are missing, damaged, duplicated or unknown. For other codes, see fetchmill --help."""


@click.command(
    "verify",
    cls=ReachCommand,
    examples=_EXAMPLES,
    epilog=_EPILOG,
    short_help="Verify that a destination is complete, or repair it.",
)
@click.argument("dest", metavar="DEST", type=click.Path())
@click.option("--against", metavar="SOURCE", help="Compare objects with this source.")
@click.option("--sample", type=COUNT, help="Compare N random objects with the source. Default: the job's source.")
@click.option("--seed", type=COUNT, help="Seed for --sample. Default: random.")
@click.option("--repair", is_flag=True, help="Let the next `get` fetch missing and damaged objects again.")
@click.option("--all", "show_all", is_flag=True, help=f"Show all findings, not just {FINDINGS_SHOWN}.")
@click.option("--threads", type=COUNT, help="Number of reading threads. Default: one per processor.")
@click.option("--state", type=click.Path(), help="Journal folder, if the job was started with --state.")
@click.option("--json", "as_json", is_flag=True, help="Write events as JSON lines to standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Show only findings and errors.")
def command(dest: str, show_all: bool, as_json: bool, quiet: bool, seed: int | None, **options: Any) -> int:  # noqa: ANN401
    """Verify that DEST contains every target of its job exactly once, and that no object has changed.

    `verify` uses all processors to check the ledger (listed = fetched + absent + failed + skipped), every shard, and
    the checksum of every object. It lists missing, damaged, duplicated and unknown objects on standard output, one per
    line, as tab-separated fields: problem, name, sequence number, shard and detail. For an unfinished job, the objects
    stored so far are verified. The job cannot run during verification.
    """
    from fetchmill._destination.verify import verify_reached

    exit_on_sigterm()
    own = {name: options.pop(name) for name in _OWN}
    drawn = seed if seed is not None else int.from_bytes(os.urandom(4), "big")
    if (own["sample"] or own["against"]) and not quiet:
        say(f"sampling objects with --seed {drawn}")
    findings = _Findings(show_all=show_all, as_json=as_json)
    progress_line = _ProgressLine(as_json=as_json, quiet=quiet)
    try:
        report = verify_reached(
            dest,
            given_reach(options),
            **own,
            seed=drawn,
            on_finding=findings.show,
            on_progress=progress_line.show,
        )
    finally:
        progress_line.close()
    if as_json:
        write_event("report", report.to_dict())
    elif not quiet:
        findings.conclude()
        for line in _summary(report, own["state"]):
            say(line)
    return _exit_code(report)


def _exit_code(report: "VerifyReport") -> int:
    if report.findings and not report.mended:
        return DAMAGED
    return DIFFERENCES if report.differs or report.absent_now else 0


class _Findings:
    """Shows findings, one per line. Without --all or --json, only the first findings are shown."""

    def __init__(self, *, show_all: bool, as_json: bool) -> None:
        self._shown_max = None if show_all or as_json else FINDINGS_SHOWN
        self._as_json = as_json
        self._count = 0

    def show(self, finding: "Finding") -> None:
        """Show a finding."""
        self._count += 1
        if self._shown_max is not None and self._count > self._shown_max:
            return
        if self._as_json:
            write_event("finding", finding.to_dict())
            return
        number = "-" if finding.sequence is None else str(finding.sequence)
        shard = "-" if finding.shard is None else str(finding.shard)
        columns = (finding.what, finding.name or "-", number, shard, finding.detail)
        write_line(sys.stdout, "\t".join(escape(column) for column in columns))

    def conclude(self) -> None:
        """Report how many findings were not shown."""
        if self._shown_max is not None and self._count > self._shown_max:
            say(f"... and {format_count(self._count - self._shown_max)} more: --all shows them")


class _ProgressLine:
    """Shows progress on standard error: one rewritten line on a terminal, otherwise a new line every ten seconds."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not as_json and not quiet
        self._is_quiet = quiet and not as_json
        self._started = time.monotonic()
        self._next = 0.0 if self._is_live else PLAIN_SECONDS

    def show(self, progress: "Progress") -> None:
        """Show the progress if an update is due."""
        seconds = time.monotonic() - self._started
        if self._is_quiet or seconds < self._next:
            return
        self._next = seconds + (LIVE_SECONDS if self._is_live else PLAIN_SECONDS)
        if self._as_json:
            write_event("progress", vars(progress) | {"seconds": round(seconds, 1)})
            return
        share = 100 * progress.bytes // progress.bytes_total if progress.bytes_total else 100
        line = (
            f"{format_bytes(progress.bytes)} of {format_bytes(progress.bytes_total)} ({min(share, 100)} %), "
            f"{format_objects(progress.objects)}, {format_count_of(progress.findings, 'finding')}"
        )
        if self._is_live:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
        else:
            say(line)

    def close(self) -> None:
        """Remove the line."""
        if self._is_live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _summary(report: "VerifyReport", state: str | None) -> list[str]:
    """Return lines that say what was verified, what is wrong, and how to continue."""
    parts = [f"{format_count(getattr(report, name))} {name}" for name in ("fetched", "absent", "failed", "skipped")]
    if report.pending:
        parts.append(f"{format_count(report.pending)} pending")
    what = (
        "counters only; the format null stores no objects"
        if report.format == "null"
        else (f"{format_objects(report.checked)} read in {format_seconds(report.seconds)}")
    )
    lines = [what, f"{format_count(report.listed)} listed = " + " + ".join(parts)]
    if report.compared:
        lines.append(
            f"{format_count(report.compared)} compared with the origin: {format_count(report.differs)} differ, "
            f"{format_count(report.absent_now)} are absent now"
        )
    if report.interrupted:
        lines.append("stopped early; nothing was verified")
    else:
        lines.append(_conclusion(report))
    return lines + _next_steps(report, state)


def _conclusion(report: "VerifyReport") -> str:
    """Return a line that says what was verified, or what was found."""
    kinds = ("missing", "damaged", "doubled", "unknown")
    counts = [f"{format_count(getattr(report, kind))} {kind}" for kind in kinds if getattr(report, kind)]
    if report.differs or report.absent_now:
        unlike = report.differs + report.absent_now
        counts.append(
            f"{format_count(unlike)} of {format_count(report.compared)} compared objects differ from the origin"
        )
    checksums = "" if report.format == "null" else ", every checksum"
    whole = f"every target exactly once{checksums}"
    if not counts:
        return f"verified: {whole}"
    # The stored objects can be complete even if they differ from the objects at the origin.
    return f"found: {', '.join(counts)}" + ("" if report.findings else f"; the stored objects are complete: {whole}")


def _next_steps(report: "VerifyReport", state: str | None) -> list[str]:
    where = destination_arguments(report.dest, state)
    if not report.repaired:
        repairable = report.missing or report.damaged or report.doubled
        if repairable and state is None and is_shared_job(report.dest):
            return ["a shared job cannot be repaired; create the job again in another directory"]
        return [f"repair: fetchmill verify {where} --repair"] if repairable else []
    lines = []
    if report.dropped:
        lines.append(f"duplicates removed: {format_count(report.dropped)}")
    if report.planned:
        lines.append(f"run the same `fetchmill get` again: it fetches {format_objects(report.planned)}")
    if report.without_url:
        lines.append(
            f"not repaired, because their URLs are unknown: {format_objects(report.without_url)}; "
            "fetch the list again into another destination"
        )
    elif report.findings and not report.mended:
        lines.append(
            "not everything can be repaired: unknown files remain, and objects without a name cannot be fetched again"
        )
    return lines
