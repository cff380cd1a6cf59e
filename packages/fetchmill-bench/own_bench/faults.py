"""`make bench-faults`: measures the cost of occasional server faults, compared with the same server without faults.

In one kind of round, one object in 2,000 has more bytes than its Content-Length. In another, 0.4 % of the objects are
answered with 503, 0.3 % are reset and 0.2 % are truncated, but only on the first request. Jobs use `null`, 64 requests
in flight, and one core for each side. Rounds alternate, and every object must be fetched. The bench prints medians. A
job must last about fifteen seconds, because a target that gets a 503 waits for up to a second. During such a wait, a
job near its end has no other work.
"""

import argparse
import contextlib
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import fetchmill
from fetchmill.testing import Fault, serve
from own_bench.processes import FETCHMILL, Cores, Process, cpu_seconds, measure

LIMIT = 64
KINDS: dict[str, list[Fault]] = {
    "no faults": [],
    "0.05 % too long": [Fault("wrong-length", delta=-1, rate=0.0005, times=1)],
    "0.4 % 503, 0.3 % reset, 0.2 % cut": [
        Fault("status", status=503, rate=0.004, times=1),
        Fault("reset", rate=0.003, times=1),
        Fault("truncate", rate=0.002, times=1),
    ],
}
# Minimum rates, as fractions of the rate without faults.
BARS = {"0.05 % too long": 0.60, "0.4 % 503, 0.3 % reset, 0.2 % cut": 0.75}


@dataclass(frozen=True)
class Run:
    """A job's rate in objects/s, and the CPU time of client and server in microseconds per object."""

    rate: float
    client: float
    server: float


def serve_faults(kind: str, count: int) -> None:
    """Runs a server with one kind of fault in its own process. It prints its URL and ends when its input ends."""
    with serve(synthetic=count, faults=KINDS[kind]) as server:
        print(server.url, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def faulty_server(kind: str, count: int, core: int | None) -> Iterator[tuple[int, str]]:
    """Returns the server's process id and URL."""
    command = (sys.executable, "-m", "own_bench.faults", "--count", str(count), "--serve", kind)
    process = Process(command, core, stdin=PIPE, stdout=PIPE)
    try:
        yield process.pid, process.popen.stdout.readline().strip()  # type: ignore[union-attr] # stdout is a pipe
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.popen.wait()


def run(kind: str, count: int, cores: Cores) -> Run:
    """Runs a job with its own server, because every fault occurs only once per server."""
    with (
        tempfile.TemporaryDirectory(prefix="fetchmill-faults-") as folder,
        faulty_server(kind, count, cores.server) as (server, url),
    ):
        dest = Path(folder) / "out"
        before = cpu_seconds(server)
        used = measure(
            (*FETCHMILL, "get", url, dest, "--format", "null", "--concurrency", str(LIMIT), "--quiet"), cores.client
        )
        after = cpu_seconds(server)
        fetched = fetchmill.status(dest).fetched
        if fetched != count:
            sys.exit(f"{kind}: {fetched} of {count} objects were fetched")
    return Run(count / used.seconds, used.cpu / count * 1e6, (after - before) / count * 1e6)


def main() -> int:
    """Runs the rounds and prints a line for each kind. Returns 1 if a kind is slower than allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2_400_000, help="objects per job (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default: %(default)s)")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve_faults(arguments.serve, arguments.count)
        return 0
    cores = Cores.pick()
    rounds = [{kind: run(kind, arguments.count, cores) for kind in KINDS} for _ in range(arguments.rounds)]
    is_short = False
    print("| faults | objects/s | of the rate without | client us | server us |\n|---|---|---|---|---|")
    for kind in KINDS:
        ratio = statistics.median(one[kind].rate / one["no faults"].rate for one in rounds)
        rate, client, server = (
            statistics.median(getattr(one[kind], name) for one in rounds) for name in ("rate", "client", "server")
        )
        print(f"| {kind} | {rate:,.0f} | {ratio:.2f} | {client:.2f} | {server:.2f} |")
        is_short |= ratio < BARS.get(kind, 0.0)
    return int(is_short)


if __name__ == "__main__":
    sys.exit(main())
