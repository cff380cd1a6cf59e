"""Runs small jobs with an installed wheel, on any platform: fetch over http and https, resume after SIGKILL, verify.

Usage: PYTHON scripts/smoke_wheel.py FOLDER PYTHON...

PYTHON is the command of this interpreter, which may begin with an emulator.
"""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import fetchmill
from fetchmill.testing import serve, synthetic_body

COUNT = 2_000
SIZE = 100
# An emulated processor is much slower than this machine's.
SECONDS_MAX = 120


def main(folder: Path, python: Sequence[str]) -> None:
    """Fetches synthetic objects in several formats. The job of files is killed half-way and resumed."""
    check(Path(fetchmill.__file__).is_relative_to(os.environ["PYTHONPATH"]), f"another package: {fetchmill.__file__}")
    for name in ("jsonl", "parquet", "tar", "warc"):
        with serve(synthetic=COUNT, size=SIZE, tls=True) as server:
            authority = folder / "authority.pem"
            authority.write_text(server.ca_pem or "")
            report = fetchmill.get(server.url, folder / name, format=name, ca_file=authority)
        check(report.fetched == COUNT, f"{name}: {report.fetched} of {COUNT} objects")
    files = folder / "files"
    with serve(synthetic=COUNT, size=SIZE, delay=(0.01, 0.01)) as server:
        kill_half_way(
            [*python, "-m", "fetchmill", "get", server.url, str(files), "--concurrency", "4", "--quiet"], files
        )
        report = fetchmill.get(server.url, files)
    check(report.fetched == COUNT, f"files: {report.fetched} of {COUNT} objects")
    check(fetchmill.verify(files).findings == 0, "verify found a difference")
    names = [path.name for path in files.iterdir() if not path.name.startswith(".")]
    check(len(names) == COUNT, f"{len(names)} files")
    for name in names:
        check((files / name).read_bytes() == synthetic_body(name, SIZE), f"{name} has other bytes")
    library = " ".join(platform.libc_ver()) or "another C library"
    print(f"fetchmill {fetchmill.__version__}, {platform.machine()}, {library}: passed")


def kill_half_way(command: Sequence[str], dest: Path) -> None:
    """Starts a job, and kills it when it has stored half of its objects."""
    job = subprocess.Popen(command)
    until = time.monotonic() + SECONDS_MAX
    while not dest.is_dir() or len(list(dest.iterdir())) < COUNT / 2:
        check(job.poll() is None, f"the job ended with {job.returncode}")
        check(time.monotonic() < until, "the job took too long")
        time.sleep(0.01)
    job.kill()
    check(job.wait() == -signal.SIGKILL, "the job ended before it was killed")


def check(holds: bool, otherwise: str) -> None:
    """Ends the process with a message if something does not hold."""
    if not holds:
        sys.exit(f"smoke_wheel: {otherwise}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
