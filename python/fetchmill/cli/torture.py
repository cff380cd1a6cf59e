"""`fetchmill torture`: disturbs and resumes jobs, and checks their results."""

import os
import shlex
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.units import format_count, format_count_of, format_objects
from fetchmill._torture.readers import FORMATS, missing_package
from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.parameter_types import COUNT, SECONDS, Choice
from fetchmill.cli.streams import escape, say, write_event
from fetchmill.cli.termination import exit_on_sigterm
from fetchmill.errors import StorageError, UsageError

if TYPE_CHECKING:
    from fetchmill._torture.rounds import Round
    from fetchmill._torture.torture import Verdict

# Exit code for damaged output, as in `verify`.
_DAMAGED = 10

_EXAMPLES = """
fetchmill torture                            run for two minutes
fetchmill torture --seed 7 --round 12        repeat that round
fetchmill torture --format parquet --seconds 10
fetchmill torture urls.txt -- --column url   test your own objects
"""
_HELP = """Disturb and resume jobs, then check that every object is stored exactly once, with the right bytes.

Each round is a job of 2,000 small objects. The seed selects some of the system calls that make data durable. Before a
selected call, the run is killed, loses its network connection, or runs out of disk space. The job is then resumed until
it is finished.

The server sends faulty replies for 5 of every 100 objects: truncated, reset, status 503, or followed by an unsolicited
reply.

The stored objects are read by independent software: Python's standard library, pyarrow for Parquet and warcio for WARC.
Formats without an installed reader are skipped.

With SOURCE, the first 2,000 objects of your source are used. An undisturbed job fetches them once for each format, and
each round fetches them again. Write options of `fetchmill get` after `--`. Server faults are not injected.

The same seed repeats the same disturbances. `torture` requires Linux 5.6 or later, but no privileges.
"""
_EPILOG = (
    "Exit codes: 0 if no object is lost, duplicated or wrong; 10 if at least one is. For other codes, see "
    "fetchmill --help."
)


@click.command(
    "torture",
    cls=CliCommand,
    examples=_EXAMPLES,
    help=_HELP,
    epilog=_EPILOG,
    short_help="Disturb and resume jobs, and check their results.",
)
@click.argument("source", metavar="[SOURCE]", required=False)
@click.argument("arguments", metavar="[-- OPTIONS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--seconds", type=SECONDS, default="120s", show_default=True, help="Start no new round after this time.")
@click.option("--seed", type=COUNT, help="Seed to repeat. Default: random.")
@click.option("--round", "only", type=click.IntRange(min=1), metavar="N", help="Run only this round of the seed.")
@click.option("--format", type=Choice(FORMATS), help="Test only this format. Default: all formats in turn.")
@click.option(
    "--folder", type=click.Path(), help="Folder for the destinations. Default: the folder for temporary files."
)
@click.option("--json", "as_json", is_flag=True, help="Write events as JSON lines to standard output.")
def command(
    source: str | None,
    arguments: tuple[str, ...],
    seed: int | None,
    folder: str | None,
    format: str | None,
    as_json: bool,
    **when: Any,  # noqa: ANN401
) -> int:
    """Run the rounds. The help text is `_HELP`."""
    from fetchmill._torture.supervisor import can_cut
    from fetchmill._torture.torture import TorturePlan, torture

    exit_on_sigterm()
    chosen = _readable(format)
    drawn = seed if seed is not None else int.from_bytes(os.urandom(4), "big")
    say(f"seed {drawn}, formats {', '.join(chosen)}")
    cuts = can_cut()
    if not cuts:
        say("skipping network cuts: the kernel refuses pidfd_getfd (container, ptrace_scope or Linux before 5.6)")
    kept = _make_folder(folder)
    plan = TorturePlan(kept, chosen, drawn, when["seconds"], when["only"], source, arguments, cuts)
    try:
        verdict = torture(plan, lambda ended: _show_round(ended, _again(ended, drawn, source), as_json=as_json))
    finally:
        _tidy(kept)
    if as_json:
        write_event("report", vars(verdict) | {"seed": drawn, "formats": chosen})
    else:
        for line in _summary(verdict):
            say(line)
    return 0 if verdict.is_clean else _DAMAGED


def _make_folder(folder: str | None) -> Path:
    try:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="fetchmill-torture-", dir=folder)).resolve()
    except OSError as error:
        raise StorageError(f"cannot create a folder for the destinations: {error}; choose one with --folder") from error


def _tidy(folder: Path) -> None:
    """Remove everything except faulty destinations."""
    for undisturbed in folder.glob("undisturbed-*"):
        shutil.rmtree(undisturbed, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _readable(format: str | None) -> list[str]:
    """Return the formats for which a reader is installed."""
    chosen = []
    for each in FORMATS if format is None else [format]:
        package = missing_package(each)
        if package is None:
            chosen.append(each)
        elif format is not None:
            raise UsageError(f"--format {each}: {package} is not installed", hint=f"pip install {package}")
        else:
            say(f"skipping {each}: {package} is not installed (pip install {package})")
    return chosen


def _again(ended: "Round", seed: int, source: str | None) -> str:
    """Return the command that repeats a round. Options of `get` are left out, because they may be secrets."""
    how = ["--seed", str(seed), "--round", str(ended.number), "--format", ended.format]
    return shlex.join(["fetchmill", "torture", *how, *([] if source is None else [source])])


def _show_round(ended: "Round", again: str, *, as_json: bool) -> None:
    if as_json:
        write_event("round", _to_dict(ended) | ({} if ended.found.is_clean else {"again": again}))
        return
    found = ended.found
    verdict = "ok" if found.is_clean else f"lost {found.lost}, duplicated {found.doubled}, wrong {found.wrong}"
    done = "; ".join(map(str, ended.disturbances)) or "no disturbance (each run ended before the selected call)"
    say(f"round {ended.number}, {ended.format}: {done}: {verdict}")
    if found.is_clean:
        return
    for line in [*found.problems, *found.examples, f"kept: {ended.dest}", f"again: {again}"]:
        say(f"  {escape(line)}")


def _to_dict(ended: "Round") -> dict[str, object]:
    return {
        "number": ended.number,
        "format": ended.format,
        "disturbances": [vars(disturbance) for disturbance in ended.disturbances],
        "objects": ended.objects,
        "server_faults": ended.server_faults,
        "fetched_again": ended.fetched_again,
        "dest": None if ended.found.is_clean else str(ended.dest),
        **vars(ended.found),
    }


def _summary(verdict: "Verdict") -> list[str]:
    counts = verdict.disturbances
    disturbed = [
        format_count_of(counts["kill"], "kill"),
        format_count_of(counts["full-disk"], "full disk"),
        format_count_of(counts["cut"], "network cut"),
        *([] if verdict.fetched_again is None else [format_count_of(verdict.server_faults, "server fault")]),
    ]
    wrong = (("lost", verdict.lost), ("duplicated", verdict.doubled), ("wrong", verdict.wrong))
    lines = [
        f"{format_count_of(verdict.rounds, 'round')}, {format_objects(verdict.objects)}: {', '.join(disturbed)}",
        ", ".join(f"{what} {format_count(count)}" for what, count in wrong),
    ]
    if verdict.other_problems:
        lines.append(f"other problems: {format_count(verdict.other_problems)}")
    if verdict.fetched_again is not None:
        lines.append(f"fetched again {format_count(verdict.fetched_again)}")
    return lines
