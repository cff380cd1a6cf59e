"""`fetchmill torture`: a proof that a stranger can run."""

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
from fetchmill.cli.parameter_types import COUNT, SECONDS
from fetchmill.cli.streams import escape, say, write_event
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fetchmill._torture.rounds import Round
    from fetchmill._torture.torture import TorturePlan, Verdict

# That of a destination that `verify` finds damaged.
_DAMAGED = 10

_EXAMPLES = """
fetchmill torture                            two minutes, against its own server
fetchmill torture --seed 7 --round 12        that round again
fetchmill torture --format parquet --seconds 10
fetchmill torture urls.txt -- --column url   with objects of your own
"""
_HELP = """Disturb jobs on purpose, resume them, and compare what they stored with what they must have.

Each round is a job of 2,000 small objects. Its runs are killed with SIGKILL, lose their network or find the disk full,
each before a system call that makes something durable: the seed draws which one. Then the job is resumed to its end.
Its server lies: of five objects in 100 the end is missing, the connection is reset, the status is 503, or another reply
follows that nobody asked for.

What the job stored is read by programs that others wrote: Python's standard library, pyarrow for Parquet and warcio for
WARC. A format whose reader is not installed is left out.

With SOURCE the objects are those of a source of yours: its first 2,000. An undisturbed job fetches them once for each
format, and every round again. Options of `fetchmill get` come after `--`. Lies are not tried then.

The same seed does the same again, at the same call and not at the same millisecond. It needs Linux and no privilege.
"""
_EPILOG = "Exit codes: 0 nothing is lost, doubled or wrong; 10 something is (fetchmill --help)."


@click.command(
    "torture",
    cls=CliCommand,
    examples=_EXAMPLES,
    help=_HELP,
    epilog=_EPILOG,
    short_help="Kill, cut and resume jobs, and prove their results.",
)
@click.argument("source", metavar="[SOURCE]", required=False)
@click.argument("arguments", metavar="[-- OPTIONS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--seconds", type=SECONDS, default="120s", show_default=True, help="Time after which no round begins.")
@click.option("--seed", type=COUNT, help="Seed of everything that is drawn. Default: random.")
@click.option("--round", "only", type=click.IntRange(min=1), metavar="N", help="Run only this round of the seed.")
@click.option("--format", type=click.Choice(FORMATS), help="Only this format. Default: all, in turn.")
@click.option("--folder", type=click.Path(), help="Folder for the destinations. Default: that for temporary files.")
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
    """Runs the rounds; the help is `_HELP`."""
    from fetchmill._torture.torture import TorturePlan, torture

    chosen = _readable(format)
    drawn = seed if seed is not None else int.from_bytes(os.urandom(4), "big")
    say(f"seed {drawn}, formats {', '.join(chosen)}")
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    kept = Path(tempfile.mkdtemp(prefix="fetchmill-torture-", dir=folder)).resolve()
    plan = TorturePlan(kept, chosen, drawn, when["seconds"], when["only"], source, arguments)
    try:
        verdict = torture(plan, lambda ended: _show_round(ended, lambda: _again(plan, format, ended), as_json=as_json))
    finally:
        _tidy(kept)
    if as_json:
        write_event("report", vars(verdict) | {"seed": drawn, "formats": list(chosen)})
    else:
        for line in _summary(verdict):
            say(line)
    return 0 if verdict.is_clean else _DAMAGED


def _tidy(folder: Path) -> None:
    """Destinations with a fault stay."""
    for undisturbed in folder.glob("undisturbed-*"):
        shutil.rmtree(undisturbed, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _readable(format: str | None) -> list[str]:
    """The formats that can be read here; what is asked for by name must be one."""
    chosen = []
    for each in FORMATS if format is None else [format]:
        package = missing_package(each)
        if package is None:
            chosen.append(each)
        elif format is not None:
            raise UsageError(f"--format {each} needs a reader that is not fetchmill's", hint=f"pip install {package}")
        else:
            say(f"{each} is left out: pip install {package}")
    return chosen


def _again(plan: "TorturePlan", format: str | None, ended: "Round") -> str:
    """The command that repeats a round. Its format depends on whether one was chosen."""
    named = [] if format is None else ["--format", format]
    of_source = [] if plan.source is None else [plan.source, *(["--", *plan.arguments] if plan.arguments else [])]
    return shlex.join(
        ["fetchmill", "torture", "--seed", str(plan.seed), "--round", str(ended.number), *named, *of_source]
    )


def _show_round(ended: "Round", again: "Callable[[], str]", *, as_json: bool) -> None:
    if as_json:
        write_event("round", _to_dict(ended))
        return
    found = ended.found
    verdict = "ok" if found.is_clean else f"lost {found.lost}, doubled {found.doubled}, wrong {found.wrong}"
    done = "; ".join(map(str, ended.disturbances)) or "nothing: each run ended before its call"
    say(f"round {ended.number}, {ended.format}: {done}: {verdict}")
    if found.is_clean:
        return
    for line in [*found.problems, *found.examples]:
        say(f"  {escape(line)}")
    say(f"  kept: {ended.dest}; again: {escape(again())}")


def _to_dict(ended: "Round") -> dict[str, object]:
    return {
        "number": ended.number,
        "format": ended.format,
        "disturbances": [vars(disturbance) for disturbance in ended.disturbances],
        "objects": ended.objects,
        "lies": ended.lies,
        "fetched_again": ended.fetched_again,
        **vars(ended.found),
    }


def _summary(verdict: "Verdict") -> list[str]:
    counts = verdict.disturbances
    disturbed = [
        format_count_of(counts["kill"], "kill"),
        format_count_of(counts["full-disk"], "full disk"),
        format_count_of(counts["cut"], "network cut"),
        *([] if verdict.fetched_again is None else [format_count_of(verdict.lies, "server fault")]),
    ]
    lines = [
        f"{format_count_of(verdict.rounds, 'round')}, {format_objects(verdict.objects)}: {', '.join(disturbed)}",
        ", ".join(f"{what} {format_count(getattr(verdict, what))}" for what in ("lost", "doubled", "wrong")),
    ]
    if verdict.problems:
        lines.append(f"other problems: {format_count(verdict.problems)}")
    if verdict.fetched_again is not None:
        lines.append(f"fetched again {format_count(verdict.fetched_again)}")
    return lines
