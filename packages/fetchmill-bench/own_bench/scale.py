"""`make hundred-million` and `make billion`: run one job of that size, with a journal, and kill and resume it twice.

`FORMAT=parquet` stores the objects. At the end, DuckDB counts the rows, and pyarrow is used to verify each name and
body. Without `FORMAT`, `null` discards the objects. `PIPELINE=32` sends 32 requests together on a connection.

The client is killed with SIGKILL after one third and again after two thirds of the objects, and resumes each time. All
sums are stored in the job's folder, so after Ctrl-C, which stops client and server, the same command continues.
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import fetchmill
from fetchmill._options.units import parse_count
from own_bench import machine
from own_bench.machine import ROOT, free_port
from own_bench.packs import disk_bytes
from own_bench.parquet_rows import SIZE, check_rows
from own_bench.processes import FETCHMILL, Cores, Process, cpu_seconds, fetchmill_server, peak_mib
from own_bench.report import RESULTS
from own_bench.sums import ClientRun, Sums

# The same as in `own_bench.pipelined`.
PIPELINED_CONNECTIONS = 16
MICRO = 1e6
MIB = 1 << 20


class Stopped(Exception):  # noqa: N818 - not an error
    """Raised when a signal asks the measurement to end."""


class Scale:
    """A measured job and its server."""

    def __init__(self, folder: Path, sums: Sums, cores: Cores, look: float) -> None:
        self._sums = sums
        self._path = folder / "sums.json"
        self._dest = folder / "out"
        self._cores = cores
        self._look = look
        self._url = f"http://127.0.0.1:{sums.port}"

    def run(self) -> None:
        """Runs the client until all objects are done. Kills it at each third that earlier runs have not reached."""
        sums = self._sums
        content = ("--synthetic", str(sums.count), "--size", str(sums.size), "--page-size", str(sums.page_size))
        with fetchmill_server(self._cores.server, *content, "--port", str(sums.port)) as (server, _):
            sums.gets.append(0)
            for third in (1, 2):
                if sums.kills < third:
                    self._client(server, kill_at=sums.count * third // 3)
            self._client(server, kill_at=None)

    def _client(self, server: Process, kill_at: int | None) -> None:
        """Runs the client once."""
        run = ClientRun()
        self._sums.runs.append(run)
        server_before = cpu_seconds(server.pid)
        client = Process(self._command(), self._cores.client)
        try:
            run.ended = self._watch(client, run, kill_at, lambda: cpu_seconds(server.pid) - server_before)
        except Stopped:
            run.ended = "stopped"
            client.popen.send_signal(signal.SIGINT)
            raise
        finally:
            usage = client.wait()
            run.seconds, run.cpu, run.peak_mib = usage.seconds, usage.cpu, usage.peak_mib
            run.server_cpu = cpu_seconds(server.pid) - server_before
            if run.ended == "done" and usage.code:
                run.ended = "failed"
            self._note()
        if run.ended == "failed":
            raise SystemExit(f"the client failed with exit code {usage.code}")

    def _command(self) -> tuple[str, ...]:
        pipeline = self._sums.pipeline
        in_flight = ("-j", "64") if pipeline == 1 else ("-j", str(PIPELINED_CONNECTIONS), "--pipeline", str(pipeline))
        return (*FETCHMILL, "get", self._url, str(self._dest), "--format", self._sums.format, "--quiet", *in_flight)

    def _watch(self, client: Process, run: ClientRun, kill_at: int | None, server_cpu: Callable[[], float]) -> str:
        """Polls the client until it ends or must be killed. Returns how it ended."""
        started = time.monotonic()
        while client.runs():
            settled = self._settled()
            if kill_at is not None and settled >= kill_at:
                client.popen.kill()
                run.settled = settled
                print(f"killed with SIGKILL at {settled:,} objects", flush=True)
                return "killed"
            with contextlib.suppress(OSError, ValueError):  # the client may end at this very moment
                run.seconds, run.cpu = time.monotonic() - started, cpu_seconds(client.pid)
                run.peak_mib, run.server_cpu = peak_mib(client.pid), server_cpu()
            self._note()
            self._show(settled, run)
            time.sleep(self._look)
        return "done"

    def _settled(self) -> int:
        """Returns the number of finished objects in the journal."""
        try:
            return fetchmill.status(self._dest).settled
        except fetchmill.FetchmillError:
            return 0  # there is no journal yet

    def _note(self) -> None:
        """Stores the current sums."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self._url}/stats") as reply:  # noqa: S310 - http
            self._sums.gets[-1] = json.load(reply)["get"]
        self._sums.journal_peak = max(self._sums.journal_peak, self.journal_bytes())
        self._sums.save(self._path)

    def _show(self, settled: int, run: ClientRun) -> None:
        each = f"{MICRO * self._sums.seconds / settled:.2f} us per object" if settled else "no object yet"
        journal = self.journal_bytes() / MIB
        print(f"{settled:>15,} objects, {each}, peak {run.peak_mib:.0f} MiB, journal {journal:.1f} MiB", flush=True)

    def journal_bytes(self) -> int:
        """Returns the size of the journal on disk."""
        taken = 0
        for path in (self._dest / ".fetchmill").glob("job.sqlite*"):
            with contextlib.suppress(FileNotFoundError):
                taken += 512 * path.lstat().st_blocks
        return taken

    def stored(self) -> dict[str, Any]:
        """Returns the size on disk and, for Parquet, DuckDB's results."""
        if self._sums.format == "null":
            return {}
        found: dict[str, Any] = {"disk": disk_bytes(self._dest, self._sums.count)}
        if self._sums.format == "parquet":
            found["duckdb"] = _count_rows(self._dest)
            found["pyarrow"] = check_rows(self._dest, self._sums.count)
        return found

    def ledger(self) -> dict[str, object]:
        """Returns the ledger as shown by the command."""
        command = (*FETCHMILL, "status", str(self._dest), "--json")
        ended = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, object] = json.loads(ended.stdout)
        return found


def main() -> int:
    """Starts or continues the job, then shows the sums."""
    arguments = _arguments()
    pipeline = f"-pipeline-{arguments.pipeline}" if arguments.pipeline > 1 else ""
    name = f"scale-{arguments.count}-{arguments.format}{pipeline}"
    folder: Path = arguments.folder or ROOT / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    sums = _sums(folder, arguments)
    cores = Cores(client=None, server=None) if arguments.no_pin else Cores.pick()
    scale = Scale(folder, sums, cores, arguments.look)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        if not any(run.ended == "done" for run in sums.runs):
            scale.run()
    except Stopped:
        print("stopped; run the same command again to continue", file=sys.stderr)
        return 130
    result = _conclude(scale, sums)
    _print(result)
    output: Path = folder / "result.json" if arguments.folder else RESULTS / f"{name}.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["balances"] else 1


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m own_bench.scale", description=__doc__)
    parser.add_argument("--count", type=parse_count, required=True, help="number of objects, such as 1e8")
    parser.add_argument("--size", type=int, default=100, help="size of an object in bytes")
    parser.add_argument(
        "--page-size", type=int, default=5000, help="number of names per page; README.md explains the default"
    )
    parser.add_argument("--format", default="null", help="format of stored objects")
    parser.add_argument("--pipeline", type=int, default=1, help="number of requests sent together on a connection")
    parser.add_argument("--folder", type=Path, help="folder of the journal and the sums (default: build/scale-COUNT)")
    parser.add_argument("--look", type=float, default=5.0, help="poll interval for the client in seconds")
    parser.add_argument("--no-pin", action="store_true", help="let client and server run on all processors")
    arguments = parser.parse_args()
    if arguments.format == "parquet" and arguments.size != SIZE:
        parser.error(f"Parquet rows are checked at the end, which requires bodies of {SIZE} bytes")
    return arguments


def _sums(folder: Path, arguments: argparse.Namespace) -> Sums:
    path = folder / "sums.json"
    if not path.exists():
        return Sums(
            count=arguments.count,
            size=arguments.size,
            page_size=arguments.page_size,
            port=free_port(),
            format=arguments.format,
            pipeline=arguments.pipeline,
            is_pinned=not arguments.no_pin,
        )
    sums = Sums.load(path)
    wanted = (arguments.count, arguments.size, arguments.format, arguments.pipeline, not arguments.no_pin)
    if (sums.count, sums.size, sums.format, sums.pipeline, sums.is_pinned) != wanted:
        raise SystemExit(f"{folder.name}/ belongs to another measurement; choose another --folder")
    return sums


def _conclude(scale: Scale, sums: Sums) -> dict[str, Any]:
    """Shows the resources used in total, and checks the ledger."""
    ledger = scale.ledger()
    stored = scale.stored()
    wanted = {"listed": sums.count, "fetched": sums.count, "absent": 0, "failed": 0, "skipped": 0, "pending": 0}
    return {
        **machine.commit(),
        "machine": machine.facts(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "objects": sums.count,
        "format": sums.format,
        "pipeline": sums.pipeline,
        "is_pinned": sums.is_pinned,
        "size": sums.size,
        "page_size": sums.page_size,
        "runs": [asdict(run) for run in sums.runs],
        "seconds": sums.seconds,
        "us": MICRO * sums.seconds / sums.count,
        "cpu_us": MICRO * sums.cpu / sums.count,
        "server_us": MICRO * sums.server_cpu / sums.count,
        "peak_mib": sums.peak_mib,
        "journal_mib": scale.journal_bytes() / MIB,
        "journal_peak_mib": sums.journal_peak / MIB,
        "kills": sums.kills,
        "requests": sum(sums.gets),
        "made_again": sum(sums.gets) - sums.count,
        "ledger": {name: ledger[name] for name in wanted},
        **stored,
        "balances": all(ledger[name] == number for name, number in wanted.items())
        and all(found == sums.count for reader in ("duckdb", "pyarrow") for found in stored.get(reader, {}).values()),
    }


def _count_rows(dest: Path) -> dict[str, int]:
    """Counts the rows with DuckDB, without using fetchmill's code."""
    import duckdb

    query = "SELECT count(*), max(sequence) - min(sequence) + 1 FROM read_parquet(?)"
    with duckdb.connect() as db:
        row = db.execute(query, [str(dest / "shard-*.parquet")]).fetchone()
    rows, sequences = row or (0, 0)
    return {"rows": rows, "sequences": sequences}


def _print(result: dict[str, Any]) -> None:
    ledger = dict(result["ledger"])
    listed = ledger.pop("listed")
    settled = " + ".join(f"{number:,} {name}" for name, number in ledger.items())
    rows = {
        "objects": f"{result['objects']:,} of {result['size']} B, {result['page_size']:,} names per page",
        "client's time": f"{result['seconds']:,.1f} s in {len(result['runs'])} runs",
        "per object": f"{result['us']:.2f} us",
        "CPU per object": f"client {result['cpu_us']:.2f} us, server {result['server_us']:.2f} us",
        "peak memory": f"{result['peak_mib']:.1f} MiB",
        "journal on disk": f"{result['journal_mib']:.2f} MiB at the end, {result['journal_peak_mib']:.2f} at its peak",
        **_stored_rows(result),
        "kills": f"{result['kills']} with SIGKILL{_kills(result)}",
        "requests": f"{result['requests']:,}: {result['made_again']:,} made again",
        "ledger": f"{listed:,} listed = {settled}",
    }
    print("\n".join(f"{name:<16} {text}" for name, text in rows.items()))
    print("the ledger balances" if result["balances"] else "THE LEDGER DOES NOT BALANCE")


def _kills(result: dict[str, Any]) -> str:
    at = [f"{run['settled']:,}" for run in result["runs"] if run["ended"] == "killed"]
    return f" at {' and '.join(at)} objects" if at else ""


def _stored_rows(result: dict[str, Any]) -> dict[str, str]:
    rows = {}
    if "disk" in result:
        disk = result["disk"]
        rows["bytes per object"] = f"{disk['shards']:.0f} in shards, {disk['manifests']:.0f} in manifests"
    if "duckdb" in result:
        found = result["duckdb"]
        rows["DuckDB"] = f"{found['rows']:,} rows, {found['sequences']:,} sequence numbers"
        found = result["pyarrow"]
        rows["pyarrow"] = f"{found['rows']:,} rows, {found['right']:,} of them right, {found['names']:,} names"
    return rows


if __name__ == "__main__":
    sys.exit(main())
