"""A server that lists its objects for clients with a token, and the command that prints tokens."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

SECRET = "canary-5ecret"  # noqa: S105 - looked for where it must not be


class TokenServer:
    """Serves from its creation until the end of a `with` block.

    Args:
        objects: objects by name.
        folder: folder in which the command keeps its count.
        lasts: number of requests for which a token is valid.
        locked: names that are refused with any token.
        takes_none: whether every token is refused.
    """

    def __init__(
        self,
        objects: dict[str, bytes],
        folder: Path,
        *,
        lasts: int = 1 << 30,
        locked: frozenset[str] = frozenset(),
        takes_none: bool = False,
    ) -> None:
        self.objects, self.locked, self.takes_none = objects, locked, takes_none
        self.lasts = lasts
        self.answered: Counter[str] = Counter()
        self.refused = 0
        self.used: Counter[str] = Counter()
        self.runs = folder / "runs"
        self.runs.write_text("")
        self.command = f"echo x >> {self.runs}; echo {SECRET}-$(wc -l < {self.runs})"
        self._lock = threading.Lock()
        handler = type("OwnHandler", (Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def count_runs(self) -> int:
        """Returns how often the command was run."""
        return len(self.runs.read_text().splitlines())

    def lets_in(self, shown: str | None) -> bool:
        """Returns whether a token is the last one that was printed, and was not used too often."""
        with self._lock:
            if self.takes_none or shown != f"Bearer {SECRET}-{self.count_runs()}":
                return False
            self.used[shown] += 1
            return self.used[shown] <= self.lasts

    def answer(self, path: str, shown: str | None) -> tuple[int, bytes]:
        """Returns status and body."""
        name = urlsplit(path).path.removeprefix("/get/")
        if not self.lets_in(shown) or name in self.locked:
            self.refused += 1
            return 401, b"who are you?"
        if name == "/list":
            return 200, json.dumps({"FileNames": sorted(self.objects), "NextMarker": None}).encode()
        self.answered[name] += 1
        return 200, self.objects[name]


class Handler(BaseHTTPRequestHandler):
    """Handles consecutive requests on a persistent connection."""

    owner: TokenServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answers a request for a page or an object."""
        status, body = self.owner.answer(self.path, self.headers["Authorization"])
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing."""
