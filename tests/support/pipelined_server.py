"""A scripted server for pipelined requests: it answers the requests of one read with one write.

It shares no code with the project. A seed determines its faults, and how it frames its replies.
"""

import json
import random
import socket
import struct
import time
from collections import Counter

from connection_server import ConnectionServer

READ_BYTES = 1 << 16
STALL_SECONDS = 30.0
# Faults in the middle of a batch.
WRONG = ("one too many", "one too few", "close", "reset", "stall", "malformed", "twice")
LARGE = b"x" * 70_000


def body_of(name: str) -> bytes:
    """Returns the contents of an object."""
    return f"{name};".encode() * (1 + len(name) % 7)


class PipelinedServer(ConnectionServer):
    """Lists names on one page and answers requests for them, whole batches at a time.

    Args:
        names: names of the objects.
        seed: seed of all random choices.
        wrong: number of batches with a fault, one of `WRONG` each; 0 for none.
        kinds: possible faults.
        share: share of the batches with a fault, until there are enough.
        replies_max: number of replies after which a connection is closed, as the last one says; 0 for never.
        large: name of an object that is larger than a reply of a batch may be.
    """

    def __init__(
        self,
        names: list[str],
        seed: str = "",
        *,
        wrong: int = 0,
        kinds: tuple[str, ...] = WRONG,
        share: float = 0.03,
        replies_max: int = 0,
        large: str = "",
    ) -> None:
        self.names = names
        self.batches = 0
        self.largest = 0
        self.singles = 0
        self.happened: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._wrong, self._kinds, self._share = wrong, kinds, share
        self._replies_max, self._large = replies_max, large
        super().__init__()

    @property
    def url(self) -> str:
        """Returns the SOURCE of a job."""
        return f"http://127.0.0.1:{self.port}"

    def _serve(self, connection: socket.socket) -> None:
        replies, input_bytes = 0, b""
        while read := connection.recv(READ_BYTES):
            *heads, input_bytes = (input_bytes + read).split(b"\r\n\r\n")
            with self._lock:
                names = [self._name_of(head) for head in heads]
                # A client that asks for the end gets it after the last reply (RFC 9112 9.6).
                last = len(names) - 1 if any(b"\r\nconnection: close" in head.lower() for head in heads) else None
                wrong = self._draw(names)
                wrong_at = self._random.randrange(len(names)) if names else 0
                if replies < self._replies_max <= replies + len(names):
                    last = self._replies_max - replies - 1
                written, is_ended = self._replies(names, last, wrong, wrong_at)
            replies += len(names)
            self._write(connection, written)
            if wrong == "stall":
                time.sleep(0.01)
                connection.settimeout(STALL_SECONDS)
                connection.recv(1)
                return
            if wrong == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if is_ended or wrong == "close":
                return

    def _name_of(self, head: bytes) -> str:
        path = head.split(b" ", 2)[1].decode()
        return "" if path.startswith("/list") else path.removeprefix("/get/")

    def _draw(self, names: list[str]) -> str:
        """Chooses the fault for these requests."""
        if len(names) > 1:
            self.batches += 1
            self.largest = max(self.largest, len(names))
        else:
            self.singles += len(names)
        self.asked.update(name for name in names if name)
        if len(names) < 2 or not self._wrong or self._random.random() > self._share:
            return ""
        self._wrong -= 1
        wrong = self._random.choice(self._kinds)
        self.happened[wrong] += 1
        return wrong

    def _replies(self, names: list[str], last: int | None, wrong: str, wrong_at: int) -> tuple[list[bytes], bool]:
        """Returns the replies, one of them with a fault, and whether the connection ends after them."""
        written: list[bytes] = []
        for place, name in enumerate(names):
            if place == wrong_at and wrong in ("close", "reset", "stall", "one too few"):
                if wrong == "one too few":
                    continue
                # At most a part of it is sent: a small one has fewer than 60 bytes.
                reply = self._reply(name)
                written.append(reply[: min(self._random.choice((0, 10, 60)), len(reply) - 1)])
                return written, False
            if place == wrong_at and wrong == "malformed":
                written.append(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!")
                continue
            if place == wrong_at and wrong == "one too many":
                written.append(self._framed(b"nobody asked for this"))
            written.append(self._reply(name, "Connection: close\r\n" if place == last else ""))
            if place == wrong_at and wrong == "twice":
                written.append(written[-1])
            if place == last:
                return written, True
        return written, False

    def _reply(self, name: str, field: str = "") -> bytes:
        if not name:
            page = json.dumps({"FileNames": self.names}).encode()
            return f"HTTP/1.1 200 OK\r\n{field}Content-Length: {len(page)}\r\n\r\n".encode() + page
        return self._framed(LARGE if name == self._large else body_of(name), field)

    def _framed(self, body: bytes, field: str = "") -> bytes:
        """Returns a reply with a length or in chunks, sometimes after a 100."""
        kind = self._random.randrange(4)
        before = b"HTTP/1.1 100 Continue\r\n\r\n" if kind == 0 else b""
        if kind > 1:
            return before + f"HTTP/1.1 200 OK\r\n{field}Content-Length: {len(body)}\r\n\r\n".encode() + body
        cut = self._random.randrange(1, len(body))
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:cut], body[cut:], b""))
        return before + f"HTTP/1.1 200 OK\r\n{field}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks

    def _write(self, connection: socket.socket, replies: list[bytes]) -> None:
        """Writes in one piece, or divided somewhere."""
        written = b"".join(replies)
        cut = self._random.randrange(len(written)) if written and self._random.random() < 0.3 else 0
        if cut:
            connection.sendall(written[:cut])
            time.sleep(0.001)
        connection.sendall(written[cut:])
