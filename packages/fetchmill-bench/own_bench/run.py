"""`make bench`: runs measurements, shows the tables and writes the figures as JSON."""

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from own_bench import machine, report
from own_bench.files import files
from own_bench.https import https
from own_bench.keepalive import in_flight, null
from own_bench.packs import packs
from own_bench.pipelined import pipelined
from own_bench.processes import Cores
from own_bench.servers import servers
from own_bench.settings import SIZE, Settings
from own_bench.stream import stream

SCENARIOS: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "null": null,
    "in_flight": in_flight,
    "files": files,
    "packs": packs,
    "pipelined": pipelined,
    "servers": servers,
    "stream": stream,
    "https": https,
}
SCHEMA = 1


def main() -> int:
    """Runs the requested scenarios."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # exits normally, to remove mounts
    settings = _settings(arguments)
    shutil.rmtree(settings.folder, ignore_errors=True)
    settings.folder.mkdir(parents=True)
    results = _header(settings)
    try:
        for name in arguments.scenario or SCENARIOS:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            results["scenarios"][name] = SCENARIOS[name](settings)
            print(report.render(name, results), flush=True)
            _write(arguments.output, results)
    finally:
        shutil.rmtree(settings.folder, ignore_errors=True)
    print(f"written: {os.path.relpath(arguments.output)}", file=sys.stderr)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m own_bench.run", description=__doc__)
    parser.add_argument("scenario", nargs="*", choices=[[], *SCENARIOS], help="scenarios to run (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="approximate duration of a run")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument(
        "--replies", type=float, default=1e6, help="number of replies in a run that streams them into Python"
    )
    parser.add_argument("--files", type=int, default=100_000, help="number of objects in a run that stores files")
    parser.add_argument("--no-mount", action="store_true", help="store files in a folder, not on a fresh file system")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, default=machine.ROOT / "build" / "bench", help="working folder, on a real disk"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results") / "latest.json")
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> Settings:
    return Settings(
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        connections=arguments.connections,
        levels=tuple(arguments.levels),
        replies=round(arguments.replies),
        files=arguments.files,
        mounts=not arguments.no_mount,
        folder=arguments.folder,
        cores=Cores.pick(),
        seed=arguments.seed,
    )


def _header(settings: Settings) -> dict[str, Any]:
    """Returns the header that precedes the figures."""
    return {
        "schema": SCHEMA,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine.commit(),
        "machine": machine.facts(),
        "settings": {
            "rounds": settings.rounds,
            "seconds": settings.seconds,
            "size": SIZE,
            "seed": settings.seed,
            "client_core": settings.cores.client,
            "server_core": settings.cores.server,
        },
        "scenarios": {},
    }


def _write(output: Path, results: dict[str, Any]) -> None:
    """Writes the figures. Called after each scenario, so that no results are lost if the measurement is stopped."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
