"""Compares `files` with a bare loop on a fresh file system, to measure the additional cost of storing."""

import contextlib
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from own_bench.clients import run_get, run_null
from own_bench.machine import ROOT
from own_bench.measured import Bar, Measured, summary
from own_bench.mount import fresh_ext4
from own_bench.processes import Process, fetchmill_server, measure
from own_bench.settings import SIZE, Settings

# Tests of the bench itself use the loop from the tests' build, so their figures are meaningless.
LOOP = ROOT / "target" / os.environ.get("FETCHMILL_PROFILE", "release") / "examples" / "bare_files"
LOOP_FACTOR = 1.2
CPU_AT_MOST = 1.0
RATE_AT_LEAST = 0.9
CLIENTS = ("null", "loop", "loop, syncs", "files", "files, no syncs")
# Number of stored copies per round. The warm-up is one additional round.
STORING = 4


def files(settings: Settings) -> dict[str, Any]:
    """Measures `files`.

    There are two bars. CPU time per object is compared with that of `null` plus 1.2 times that of the loop. The rate is
    compared with that of a loop that syncs.
    """
    if not LOOP.exists():
        raise SystemExit("build the loop first with cargo build --release -p fetchmill-engine --example bare_files")
    server_arguments = settings.synthetic(settings.files)
    with _file_system(settings) as folder, fetchmill_server(settings.cores.server, *server_arguments) as (server, url):
        # Each run has its own folder, so that nothing is deleted in between. The first round is a warm-up.
        rounds = [_round(settings, server, url, folder / str(number)) for number in range(settings.rounds + 1)][1:]
    return {
        "objects": settings.files,
        "connections": settings.connections,
        "mounted": settings.mounts,
        "clients": {name: summary(found[name] for found in rounds) for name in CLIENTS},
        "bars": [_bar(rounds, "files").to_dict(), _rate_bar(rounds).to_dict()],
        "without_syncs": _bar(rounds, "files, no syncs").ratio,
        "rounds": [{name: run.to_dict() for name, run in found.items()} for found in rounds],
        "commands": [
            f"fetchmill serve {' '.join(server_arguments)}",
            f"fetchmill get URL DEST --concurrency {settings.connections} --format null --json",
            f"bare_files DEST {settings.files} {SIZE}",
            f"bare_files DEST {settings.files} {SIZE} --sync",
            f"fetchmill get URL DEST --concurrency {settings.connections} --format files --json",
            f"fetchmill get URL DEST --concurrency {settings.connections} --format files --durability process --json",
        ],
    }


def _bar(rounds: list[dict[str, Measured]], name: str) -> Bar:
    ratios = [found[name].cpu_us / (found["null"].cpu_us + LOOP_FACTOR * found["loop"].cpu_us) for found in rounds]
    return Bar("CPU per object / (null's + 1.2 x loop's)", statistics.median(ratios), at_most=CPU_AT_MOST)


def _rate_bar(rounds: list[dict[str, Measured]]) -> Bar:
    ratios = [found["files"].rate / found["loop, syncs"].rate for found in rounds]
    return Bar("rate / that of the loop that syncs", statistics.median(ratios), at_least=RATE_AT_LEAST)


def _round(settings: Settings, server: Process, url: str, folder: Path) -> dict[str, Measured]:
    """Runs each client once, in turn."""
    core, connections = settings.cores.client, settings.connections

    def stored(name: str, *options: str) -> Measured:
        dest = folder / name.replace(", ", "-").replace(" ", "-")
        return run_get(server, url, dest, *options, name=name, connections=connections, core=core)

    folder.mkdir()
    return {
        "null": run_null(server, url, settings.folder, connections=connections, core=core),
        "loop": _run_loop("loop", folder / "loop", settings),
        "loop, syncs": _run_loop("loop, syncs", folder / "loop-syncs", settings, "--sync"),
        "files": stored("files"),
        "files, no syncs": stored("files, no syncs", "--durability", "process"),
    }


def _run_loop(name: str, folder: Path, settings: Settings, *options: str) -> Measured:
    usage = measure((LOOP, folder, str(settings.files), str(SIZE), *options), settings.cores.client)
    return Measured(
        client=name,
        objects=settings.files,
        seconds=float(usage.output),
        wall=usage.seconds,
        user=usage.user,
        system=usage.system,
        server=0.0,
        peak_mib=usage.peak_mib,
    )


@contextlib.contextmanager
def _file_system(settings: Settings) -> Iterator[Path]:
    if settings.mounts:
        with fresh_ext4(settings.folder, STORING * settings.files * (settings.rounds + 1)) as point:
            yield point
    else:
        folder = settings.folder / "files"
        folder.mkdir()
        yield folder
