"""How a contender is started: its command, its environment, and where it runs."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fetchmill.bench.measuring import Bounds
from fetchmill.bench.places import Place
from fetchmill.bench.plan import Run
from fetchmill.bench.scenarios import SITE_TIMEOUT
from fetchmill.bench.task import Task

FETCHMILL = (sys.executable, "-m", "fetchmill")
# Where a run keeps what it stores and what it has found, in its folder.
STORED, ANSWERS, ROWS = "stored", "answers.tsv", "rows.jsonl"
# Reads the addresses of a scenario's hosts in every Python process. uvloop has look-ups of its own, so it is as good as
# not installed there.
_SITE_CUSTOMIZE = """\
import sys

from fetchmill.bench.names import answer_from

answer_from({hosts!r})
sys.modules["uvloop"] = None
"""


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is started.

    Args:
        arguments: the program and its arguments.
        folder: where it runs.
        environment: its environment.
        bounds: how long it may run.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    bounds: Bounds


def command_of(run: Run, place: Place, folder: Path) -> Command:
    """What is started for a run.

    Args:
        run: the run.
        place: where its requests go.
        folder: an empty folder of its own.
    """
    arguments, bounds, where = _own(run, place), Bounds(seconds=run.seconds), Path.cwd()
    if run.contestant.kind == "contender":
        arguments, where = _contender(run, place, folder), folder
        bounds = Bounds(seconds=run.seconds, asks=False)
    elif run.contestant.kind == "program":
        arguments, where = _s5cmd(run, place, folder), folder
    elif run.contestant.kind != "own":
        arguments, where = (_check if run.contestant.kind == "check" else _get)(run, place), folder
        bounds = Bounds(seconds=run.seconds, from_first_line=True)
    return Command(arguments=arguments, folder=where, environment=_environment(run, place, folder), bounds=bounds)


def _contender(run: Run, place: Place, folder: Path) -> tuple[str, ...]:
    is_sites = run.sites is not None
    stored = folder / STORED
    if run.format == "files":
        stored.mkdir()
    task = Task(
        scenario=run.scenario.name,
        url=place.url,
        urls=place.urls,
        count=place.count,
        limit=run.limit,
        seconds=run.seconds,
        folder=str(stored) if run.format == "files" else None,
        answers=str(folder / ANSWERS) if is_sites else None,
        timeout=SITE_TIMEOUT if is_sites else None,
        ca_file=place.ca_file,
        hosts=place.hosts,
        bucket=place.bucket,
    )
    return (sys.executable, "-m", "fetchmill.bench.contend", run.contestant.name, task.to_json())


def _get(run: Run, place: Place) -> tuple[str, ...]:
    """An engine. Of the user's own server it gets the same URLs as the others, which are as many as were asked for."""
    name, options = run.contestant.name, ["--format", run.format, "--durability", "process", "--json"]
    source = place.urls or place.url
    if place.bucket is not None:
        source, options = f"s3://{place.bucket}", [*options, "--endpoint-url", place.url]
    if name != "native":
        options += ["--engine", name]
    if run.contestant.fixed is None:
        options += ["--limit", str(run.limit)]
    if place.urls:
        options += ["--allow-private", "--limit-per-host", "0", "--rate-per-host", "0", "--redirects", "0"]
    if run.sites is not None:
        options += ["--attempts", "1", "--allow-eof-bodies", *_trust(run, place)]
        for phase in ("connect", "head", "idle", "total"):
            options += [f"--{phase}-timeout", f"{SITE_TIMEOUT:g}"]
    return (*FETCHMILL, "get", source, STORED, *options)


def _check(run: Run, place: Place) -> tuple[str, ...]:
    options = ("--timeout", f"{SITE_TIMEOUT:g}", "--no-redirects", "--allow-private", "--durability", "process")
    limits = ("--limit", str(run.limit), "--limit-per-host", "0", "--rate-per-host", "0")
    return (*FETCHMILL, "check", place.urls, ROWS, *options, *limits, "--json", *_trust(run, place))


def _s5cmd(run: Run, place: Place, folder: Path) -> tuple[str, ...]:
    """All objects of the bucket, each into a file: `cat` reads one at a time, and `run` costs twice the CPU."""
    (folder / STORED).mkdir()
    beside = Path(sys.executable).with_name("s5cmd")
    program = str(beside) if beside.exists() else "s5cmd"
    options = ("--endpoint-url", place.url, "--numworkers", str(run.limit), "--log", "error")
    return (program, *options, "cp", f"s3://{place.bucket}/*", f"{STORED}/")


def _trust(run: Run, place: Place) -> tuple[str, ...]:
    """Certificates; and the name server, of those that ask one."""
    certificates = ("--ca-file", place.ca_file) if place.ca_file else ()
    asks = run.contestant.name in ("native", "check") and place.dns is not None
    return (*certificates, *(("--resolver", str(place.dns)) if asks else ()))


def _own(run: Run, place: Place) -> tuple[str, ...]:
    """The user's command, with what it asks for filled in; other braces are its own."""
    if run.contestant.kind != "own":
        return ()
    values = {"{count}": str(place.count), "{url}": place.url, "{urls}": place.urls, "{limit}": str(run.limit)}
    values["{bucket}"] = place.bucket or ""
    arguments = shlex.split(run.contestant.name)
    for name, value in values.items():
        arguments = [argument.replace(name, value) for argument in arguments]
    return tuple(arguments)


def _environment(run: Run, place: Place, folder: Path) -> dict[str, str]:
    """This process's without its proxies, and of a store with its credentials instead of the person's.

    Names that only a file knows are told to each Python process at its start.
    """
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    if place.bucket is not None:
        environment = {name: value for name, value in environment.items() if not name.startswith("AWS_")}
    environment |= place.environment
    if place.hosts is not None and run.contestant.kind in ("engine", "own"):
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE_CUSTOMIZE.format(hosts=place.hosts), encoding="utf-8")
        paths = (str(site), environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment
