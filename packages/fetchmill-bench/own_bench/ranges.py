"""Compares `--coalesce` with one request per part, for a million parts of one file on nginx.

Usage: python -m own_bench.ranges [--parts N] [--rounds N] [--folder FOLDER]
"""

import argparse
import json
import shutil
from pathlib import Path

from own_bench.clients import run_get
from own_bench.machine import ROOT
from own_bench.measured import Measured, summary
from own_bench.processes import Cores
from own_bench.servers import nginx

LENGTH = 500
GAP = 12
CONNECTIONS = 32
COLUMNS = ("--offset-column", "offset", "--length-column", "length")
OPTIONS: dict[str, tuple[str, ...]] = {"each by itself": (), "--coalesce 1k": ("--coalesce", "1k")}


def main() -> None:
    """Runs the measurement and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "bench-ranges", help="working folder, on a real disk"
    )
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    try:
        rounds = _measure(arguments.folder, arguments.parts, arguments.rounds)
    finally:
        shutil.rmtree(arguments.folder, ignore_errors=True)
    print(json.dumps({name: summary(found[name] for found in rounds) for name in OPTIONS}, indent=1))


def _measure(folder: Path, parts: int, rounds: int) -> list[dict[str, Measured]]:
    """Runs each way once per round. Stored objects are removed afterwards."""
    root = folder / "served"
    root.mkdir()
    (root / "file").write_bytes(bytes(parts * (LENGTH + GAP)))
    cores, found = Cores.pick(), []
    with nginx(folder / "nginx", root, cores.server, cache="open_file_cache max=10;") as (server, url):
        listed = folder / "list.csv"
        with listed.open("w") as file:
            file.write("url,offset,length\n")
            file.writelines(f"{url}/file,{number * (LENGTH + GAP)},{LENGTH}\n" for number in range(parts))
        for _ in range(rounds):
            of_round = {}
            for name, options in OPTIONS.items():
                dest = folder / "out"
                more = ("--allow-private", "--format", "parquet", *COLUMNS, *options)
                of_round[name] = run_get(
                    server, str(listed), dest, *more, name=name, connections=CONNECTIONS, core=cores.client
                )
                shutil.rmtree(dest)
            found.append(of_round)
    return found


if __name__ == "__main__":
    main()
