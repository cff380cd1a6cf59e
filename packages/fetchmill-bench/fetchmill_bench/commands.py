"""Builds the command of a contender, with its environment and folder."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fetchmill_bench.endpoints import Endpoint
from fetchmill_bench.measurement import Bounds
from fetchmill_bench.plan import Run
from fetchmill_bench.scenarios import SITE_TIMEOUT
from fetchmill_bench.task import Task

FETCHMILL = (sys.executable, "-m", "fetchmill")
# Names in a run's folder, for stored objects, answers and rows.
STORED, ANSWERS, ROWS = "stored", "answers.tsv", "rows.jsonl"
# Makes every Python process read the addresses of a scenario's hosts from a file. uvloop looks up names itself, so it
# is treated as not installed.
_SITE_CUSTOMIZE = """\
import sys

from fetchmill_bench.hosts_file import answer_from

answer_from({hosts!r})
sys.modules["uvloop"] = None
"""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to start.

    Args:
        arguments: the program and its arguments.
        folder: the working folder.
        environment: the environment variables.
        bounds: limits on the duration.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    bounds: Bounds


def command_of(run: Run, endpoint: Endpoint, folder: Path) -> Command:
    """Returns the command for a run.

    Args:
        run: the run.
        endpoint: the server or store that the requests go to.
        folder: an empty folder for this run.
    """
    arguments, bounds, where = _user_command(run, endpoint), Bounds(seconds=run.seconds), Path.cwd()
    if run.contender.kind == "module":
        arguments, where = _contender(run, endpoint, folder), folder
        bounds = Bounds(seconds=run.seconds, asks=False)
    elif run.contender.kind == "program":
        arguments, where = _s5cmd(run, endpoint, folder), folder
    elif run.contender.kind != "own":
        arguments, where = (_check if run.contender.kind == "check" else _get)(run, endpoint), folder
        bounds = Bounds(seconds=run.seconds, from_first_line=True)
    return Command(arguments=arguments, folder=where, environment=_environment(run, endpoint, folder), bounds=bounds)


def _contender(run: Run, endpoint: Endpoint, folder: Path) -> tuple[str, ...]:
    is_sites = run.sites is not None
    stored = folder / STORED
    if run.format == "files":
        stored.mkdir()
    task = Task(
        scenario=run.scenario.name,
        url=endpoint.url,
        urls=endpoint.urls,
        count=endpoint.count,
        limit=run.limit,
        seconds=run.seconds,
        folder=str(stored) if run.format == "files" else None,
        answers=str(folder / ANSWERS) if is_sites else None,
        timeout=SITE_TIMEOUT if is_sites else None,
        ca_file=endpoint.ca_file,
        hosts=endpoint.hosts,
        bucket=endpoint.bucket,
    )
    return (sys.executable, "-m", "fetchmill_bench.contender_entry", run.contender.name, task.to_json())


def _get(run: Run, endpoint: Endpoint) -> tuple[str, ...]:
    """Returns an engine's command. With the user's server, the engine gets the same URLs as the other contenders."""
    name, options = run.contender.name, ["--format", run.format, "--durability", "process", "--json"]
    source = endpoint.urls or endpoint.url
    if endpoint.bucket is not None:
        source, options = f"s3://{endpoint.bucket}", [*options, "--endpoint-url", endpoint.url]
    if name != "native":
        options += ["--engine", name]
    if run.contender.fixed is None:
        options += ["--concurrency", str(run.limit)]
    if endpoint.urls:
        options += ["--allow-private", "--limit-per-host", "0", "--rate-per-host", "0", "--redirects", "0"]
    if run.sites is not None:
        options += ["--attempts", "1", "--allow-eof-bodies", *_trust(run, endpoint)]
        for phase in ("connect", "head", "idle", "total"):
            options += [f"--{phase}-timeout", f"{SITE_TIMEOUT:g}"]
    return (*FETCHMILL, "get", source, STORED, *options)


def _check(run: Run, endpoint: Endpoint) -> tuple[str, ...]:
    options = ("--timeout", f"{SITE_TIMEOUT:g}", "--no-redirects", "--allow-private", "--durability", "process")
    limits = ("--concurrency", str(run.limit), "--limit-per-host", "0", "--rate-per-host", "0")
    return (*FETCHMILL, "check", endpoint.urls, ROWS, *options, *limits, "--json", *_trust(run, endpoint))


def _s5cmd(run: Run, endpoint: Endpoint, folder: Path) -> tuple[str, ...]:
    """Copies all objects in the bucket to files. `cat` would read one at a time; `run` would double the CPU time."""
    (folder / STORED).mkdir()
    beside = Path(sys.executable).with_name("s5cmd")
    program = str(beside) if beside.exists() else "s5cmd"
    options = ("--endpoint-url", endpoint.url, "--numworkers", str(run.limit), "--log", "error")
    return (program, *options, "cp", f"s3://{endpoint.bucket}/*", f"{STORED}/")


def _trust(run: Run, endpoint: Endpoint) -> tuple[str, ...]:
    """Returns the options for certificates and, if needed, for the name server."""
    certificates = ("--ca-file", endpoint.ca_file) if endpoint.ca_file else ()
    asks = run.contender.name in ("native", "check") and endpoint.dns is not None
    return (*certificates, *(("--resolver", str(endpoint.dns)) if asks else ()))


def _user_command(run: Run, endpoint: Endpoint) -> tuple[str, ...]:
    """Returns the user's command with its placeholders filled in. Other braces stay unchanged."""
    if run.contender.kind != "own":
        return ()
    values = {"{count}": str(endpoint.count), "{url}": endpoint.url, "{urls}": endpoint.urls, "{limit}": str(run.limit)}
    values["{bucket}"] = endpoint.bucket or ""
    arguments = shlex.split(run.contender.name)
    for name, value in values.items():
        arguments = [argument.replace(name, value) for argument in arguments]
    return tuple(arguments)


def _environment(run: Run, endpoint: Endpoint, folder: Path) -> dict[str, str]:
    """Returns this process's environment without proxies. For a store, the store's credentials replace the user's.

    Each Python process loads the names in the hosts file when it starts.
    """
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    if endpoint.bucket is not None:
        environment = {name: value for name, value in environment.items() if not name.startswith("AWS_")}
    environment |= endpoint.environment
    if endpoint.hosts is not None and run.contender.kind in ("engine", "own"):
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE_CUSTOMIZE.format(hosts=endpoint.hosts), encoding="utf-8")
        paths = (str(site), environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment
