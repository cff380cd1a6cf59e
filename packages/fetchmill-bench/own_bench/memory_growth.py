"""The first half of `make memory`: measures the peak memory of jobs with one million and ten million objects.

Usage: python -m own_bench.memory_growth [FORMAT]

The exit code is nonzero if a run exceeds its limits: 256 MiB in total, and 10 MiB more memory for ten times as many
objects.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fetchmill import status
from fetchmill._server import ServeOptions, Server

COUNTS = (1_000_000, 10_000_000)
PEAK_MIB_MAX = 256
GROWTH_MIB_MAX = 10
FETCHMILL = (sys.executable, "-m", "fetchmill")
# Starts each run from a small parent, because a child's peak includes its parent's memory at the start.
SPAWN = """
import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def main() -> int:
    """Runs the jobs one at a time. Returns the exit code."""
    format_name = sys.argv[1] if len(sys.argv) > 1 else "null"
    peaks = [_peak(count, format_name) for count in COUNTS]
    growth = peaks[1] - peaks[0]
    good = max(peaks) < PEAK_MIB_MAX and growth < GROWTH_MIB_MAX
    print(
        f"{'memory passed' if good else 'MEMORY FAILED'}: peak {max(peaks):.1f} MiB, growth {growth:.1f} MiB "
        f"between {COUNTS[0]:,} and {COUNTS[1]:,} objects"
    )
    return 0 if good else 1


def _peak(count: int, format_name: str) -> float:
    """Measures one run. The server runs in this process, so only the client is measured."""
    with tempfile.TemporaryDirectory() as folder, Server(ServeOptions(synthetic=count)) as server:
        dest = Path(folder, "out")
        started = time.monotonic()
        command = [*FETCHMILL, "get", server.url, str(dest), "--format", format_name, "--quiet"]
        client = subprocess.run([sys.executable, "-c", SPAWN, *command], stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - started
        found = status(dest)
        if client.returncode or found.fetched != count or not found.balanced:
            sys.exit(f"the client ended with exit code {client.returncode}: {found}")
        peak = int(client.stdout) / 1024
        print(f"{count:,} objects to {format_name}: {seconds:.1f} s, peak {peak:.1f} MiB", flush=True)
        return peak


if __name__ == "__main__":
    sys.exit(main())
