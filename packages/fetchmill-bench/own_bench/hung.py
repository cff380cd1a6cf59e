"""`make bench-hung`: measures the cost of hung requests, compared with the same server without them.

In one kind of round, the last byte of some replies is missing. In the other, some requests get no reply. Each object
hangs at most once. Jobs use `null`, with 64 requests in flight and with `auto`, and client and server share all
processors. Rounds alternate, and every object must be fetched. The bench prints medians: the rate as a fraction of the
rate without hung requests, the requests per object, and the CPU time of both sides.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from own_bench.processes import FETCHMILL, cpu_seconds, fetchmill_server, measure

# The share of hung requests, and the number of objects.
SHARES = ((0.0005, 1_200_000), (0.005, 240_000), (0.01, 240_000))
FAULTS = {"last byte missing": "--wrong-length-rate", "no reply": "--stall-rate"}
LIMITS = ("64", "auto")
# Minimum rates as fractions of the rate without hung requests, and maximum numbers of requests per object.
BARS = {0.0005: (0.8, 1.05), 0.005: (0.6, 1.10), 0.01: (0.5, 1.15)}


@dataclass(frozen=True)
class Run:
    """A job's rate in objects/s, its requests per object, and the CPU time of client and server in us per object."""

    rate: float
    requests: float
    client: float
    server: float


def run(count: int, limit: str, faults: Sequence[str] = ()) -> Run:
    """Runs a job with its own server, because an object hangs only once per server."""
    with (
        tempfile.TemporaryDirectory(prefix="fetchmill-hung-") as folder,
        fetchmill_server(None, "--synthetic", str(count), *faults) as (server, url),
    ):
        command = (*FETCHMILL, "get", url, Path(folder) / "out", "--format", "null", "--concurrency", limit, "--json")
        used = measure(command, None)
        served = cpu_seconds(server.pid)
    report = json.loads(used.output.splitlines()[-1])
    if report["fetched"] != count:
        sys.exit(f"{' '.join(faults)}: {report['fetched']} of {count} objects were fetched")
    seconds, requests = report["seconds"], report["attempts"] / count
    return Run(count / seconds, requests, used.cpu / count * 1e6, served / count * 1e6)


def main() -> int:
    """Runs the rounds and prints a line for each case. Returns 1 if a case is outside its limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    parser.add_argument("--divide", type=int, default=1, help="divide the numbers of objects by this factor")
    arguments = parser.parse_args()
    misses = False
    print("| hung | kind | in flight | rate | requests | client us | server us |\n|---|---|---|---|---|---|---|")
    for (share, objects), limit in itertools.product(SHARES, LIMITS):
        count = objects // arguments.divide
        kinds = {kind: (option, str(share), "--fault-times", "1") for kind, option in FAULTS.items()}
        rounds = [
            (run(count, limit), {kind: run(count, limit, faults) for kind, faults in kinds.items()})
            for _ in range(arguments.rounds)
        ]
        for kind in kinds:
            rate = statistics.median(hung[kind].rate / clean.rate for clean, hung in rounds)
            requests, client, server = (
                statistics.median(getattr(hung[kind], name) for _, hung in rounds)
                for name in ("requests", "client", "server")
            )
            print(
                f"| {share:.2%} | {kind} | {limit} | {rate:.2f} | {requests:.3f} | {client:.2f} | {server:.2f} |",
                flush=True,
            )
            least, most = BARS[share]
            misses |= rate < least or requests > most
    return int(misses)


if __name__ == "__main__":
    sys.exit(main())
