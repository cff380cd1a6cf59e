"""`make demo`: fetches 100,000 objects, kills the client half-way, resumes it, and checks every byte.

The check is independent of the client. The names come from the server's listing, which is read here with urllib, and
the bodies from their definition. The last line reports the result. The exit code is not 0 if anything was lost or
doubled.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import fetchmill
from fetchmill.testing import synthetic_body

COUNT = 100_000
SIZE = 100
DEST = Path("demo-out")
FETCHMILL = (sys.executable, "-m", "fetchmill")
# Short, so that the script can watch the journal and kill the client in the middle.
COMMIT_WINDOW = "100ms"


@dataclass
class Run:
    """Result of one run of the client."""

    code: int
    peak_mib: float


def main() -> int:
    """Runs the demonstration. Returns the exit code."""
    _remove_old_output()
    server, url = _start_server()
    try:
        started = time.monotonic()
        killed = _get(url, kill_at=COUNT // 2)
        before = fetchmill.status(DEST)
        print(f"killed with SIGKILL: {before.settled:,} of {COUNT:,} targets were done; resuming", flush=True)
        resumed = _get(url)
        seconds = time.monotonic() - started
        lost, doubled = _check(url)
    finally:
        server.terminate()
        server.wait()
    status = fetchmill.status(DEST)
    good = (killed.code, resumed.code, lost, doubled) == (-signal.SIGKILL, 0, 0, 0)
    good = (
        good and status.balanced and status.finished and 0 < before.settled < COUNT == status.fetched == status.listed
    )
    print(
        f"{'demo passed' if good else 'DEMO FAILED'}: {status.fetched:,} objects, {seconds:.2f} s, "
        f"{1e6 * seconds / COUNT:.1f} us an object, peak {max(killed.peak_mib, resumed.peak_mib):.0f} MiB, "
        f"kills {int(killed.code == -signal.SIGKILL)}, lost {lost}, doubled {doubled}"
    )
    return 0 if good else 1


def _remove_old_output() -> None:
    """Removes the output of an earlier demonstration, and nothing else."""
    if DEST.exists():
        if not (DEST / ".fetchmill").is_dir():
            sys.exit(f"{DEST}/ is not an earlier demonstration's: remove it first")
        shutil.rmtree(DEST)


def _start_server() -> tuple[subprocess.Popen[str], str]:
    """Starts the file server as its own process. Returns it with its URL."""
    arguments = ("serve", "--synthetic", str(COUNT), "--size", str(SIZE), "--port", "0")
    server = subprocess.Popen([*FETCHMILL, *arguments], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None  # noqa: S101 - it is a pipe
    line = server.stderr.readline()
    url = next((word.rstrip(",") for word in line.split() if word.startswith("http://")), "")
    if not url:
        sys.exit(f"the server did not start: {line}{server.stderr.read()}")
    return server, url


def _get(url: str, kill_at: int | None = None) -> Run:
    """Runs the client once. Kills it as soon as `kill_at` targets are done."""
    command = [*FETCHMILL, "get", url, f"{DEST}/", "--commit-window", COMMIT_WINDOW]
    print(f"$ fetchmill {' '.join(command[3:])}", flush=True)
    client = subprocess.Popen(command)
    while kill_at is not None and _settled() < kill_at and _runs(client.pid):
        time.sleep(0.01)
    if kill_at is not None:
        os.kill(client.pid, signal.SIGKILL)
    _, status, usage = os.wait4(client.pid, 0)
    client.returncode = os.waitstatus_to_exitcode(status)
    return Run(client.returncode, usage.ru_maxrss / 1024)


def _settled() -> int:
    """Returns the number of finished targets in the journal."""
    try:
        return fetchmill.status(DEST).settled
    except fetchmill.FetchmillError:
        return 0  # there is no journal yet


def _runs(pid: int) -> bool:
    """Returns whether a child still runs, without reaping it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _check(url: str) -> tuple[int, int]:
    """Returns the number of lost targets (no file, or wrong bytes), and of files that are unlisted or doubled."""
    found = {path.relative_to(DEST).as_posix() for path in _files()}
    listed = list(_names(url))
    lost = sum(1 for name in listed if name not in found or _wrong(name))
    doubled = len(listed) - len(set(listed)) + len(found - set(listed))
    return lost, doubled


def _wrong(name: str) -> bool:
    return (DEST / name).read_bytes() != synthetic_body(name, SIZE)


def _files() -> Iterator[Path]:
    """Yields all files of the destination except the job's state."""
    for folder, folders, files in os.walk(DEST):
        if Path(folder) == DEST:
            folders.remove(".fetchmill")
        yield from (Path(folder, file) for file in files)


def _names(url: str) -> Iterator[str]:
    """Yields the names of the server's listing, page by page."""
    marker = ""
    while True:
        with urllib.request.urlopen(f"{url}/list{marker}") as reply:  # noqa: S310 - http, from our own server
            page = json.load(reply)
        yield from page["FileNames"]
        if not page.get("NextMarker"):
            return
        marker = "?next-marker=" + quote(page["NextMarker"], safe="")


if __name__ == "__main__":
    sys.exit(main())
