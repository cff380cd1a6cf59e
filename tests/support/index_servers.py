"""Real servers that list the folders of a tree: nginx in JSON and HTML, lighttpd, and `python -m http.server`."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nginx import Site, serving, wait_for_port
from ports import free_ports

SERVERS = ("nginx-json", "nginx-html", "lighttpd", "http.server")
LOG_SECONDS = 60.0
# Files without a type get neither an ETag nor a time from it.
LIGHTTPD = """
mimetype.assign = ("" => "text/plain")
# A file that becomes a folder within a second would still be a file to it.
server.stat-cache-engine = "disable"
server.modules = ("mod_dirlisting", "mod_accesslog")
server.document-root = "{root}"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{folder}/error.log"
accesslog.filename = "{folder}/access.log"
dir-listing.activate = "enable"
server.max-keep-alive-requests = 1000000
server.max-fds = 16384
"""
LINE = re.compile(r'"GET (\S+) HTTP/1\.[01]" (\d{3})')
# A request for this path marks the end when the log is read.
MARK = "/no-such-file-"


@dataclass(frozen=True)
class Asked:
    """A server's requests: listed folders, sent files, and files with a 304."""

    folders: Counter[str]
    sent: Counter[str]
    same: Counter[str]


class IndexServer:
    """A running server.

    Args:
        url: URL of its root.
        requests: all requests so far, each with its path and its status.
    """

    def __init__(self, url: str, requests: Callable[[], list[tuple[str, str]]]) -> None:
        self.url = url
        self._requests = requests
        self._looked_at = 0

    def asked(self) -> Asked:
        """Returns the requests since the last call."""
        seen = self._requests()
        new, self._looked_at = seen[self._looked_at :], len(seen)
        paths = [(path.removeprefix("/"), status) for path, status in new if path != "/robots.txt"]
        folders = Counter(path for path, status in paths if status == "200" and (path.endswith("/") or not path))
        files = [(path, status) for path, status in paths if path and not path.endswith("/")]
        return Asked(
            folders,
            Counter(path for path, status in files if status == "200"),
            Counter(path for path, status in files if status == "304"),
        )


@contextlib.contextmanager
def index_server(name: str, root: Path, folder: Path) -> Iterator[IndexServer]:
    """Runs one of `SERVERS` over a folder; its own files are in another one."""
    if name.startswith("nginx"):
        with serving(root, folder, {"files": Site(autoindex=name.removeprefix("nginx-"))}) as nginx:
            url = nginx.url("files", "127.0.0.1") + "/"
            yield IndexServer(url, lambda: [(each.path, each.status) for each in nginx.seen("files")])
        return
    folder.mkdir()
    (port,) = free_ports(1)
    log = folder / "access.log"
    if name == "lighttpd":
        (folder / "lighttpd.conf").write_text(LIGHTTPD.format(root=root, port=port, folder=folder))
        command = [_lighttpd(), "-D", "-f", str(folder / "lighttpd.conf")]
    else:
        command = [
            sys.executable,
            "-u",
            "-m",
            "http.server",
            str(port),
            "--bind",
            "127.0.0.1",
            "--directory",
            str(root),
        ]
    with (folder / "output").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_for_port(port, process)
            path = log if name == "lighttpd" else folder / "output"
            yield IndexServer(f"http://127.0.0.1:{port}/", lambda: _logged(path, port, process))
        finally:
            process.terminate()


def _logged(log: Path, port: int, process: subprocess.Popen[bytes]) -> list[tuple[str, str]]:
    """Returns all requests of a log, whose server writes some lines late."""
    mark = f"{MARK}{time.monotonic_ns()}"
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, LOG_SECONDS)) as connection:
        connection.request("GET", mark)
        connection.getresponse().read()
    deadline = time.monotonic() + LOG_SECONDS
    while mark not in (text := log.read_text(errors="replace") if log.exists() else ""):
        assert time.monotonic() < deadline, f"{log} does not tell of {mark}"
        if log.name == "access.log":
            # lighttpd writes its buffer, and opens the file again.
            process.send_signal(signal.SIGHUP)
        time.sleep(0.05)
    return [(path, status) for path, status in LINE.findall(text) if not path.startswith(MARK)]


def _lighttpd() -> str:
    found = shutil.which("lighttpd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, "lighttpd is missing: make servers"
    return found
