"""A server that sends long heads, for memory tests: `long_heads.py COUNT HEAD_BYTES`. It prints its port.

Like `fetchmill serve`, it lists COUNT names. Each head consists of eight fields.
"""

import asyncio
import json
import sys
from typing import cast
from urllib.parse import SplitResult, parse_qs, urlsplit

FIELDS = 8
PAGE = 1000


def body_of(name: str) -> bytes:
    """Returns the bytes of an object."""
    return name.encode() * 8


class LongHeads(asyncio.Protocol):
    """A connection."""

    def __init__(self, count: int, head_bytes: int) -> None:
        self.count = count
        self.fields = b"".join(b"X-%d: %s\r\n" % (number, b"v" * (head_bytes // FIELDS)) for number in range(FIELDS))
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport, which is needed for replies."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answers each complete request."""
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, self.received = self.received.split(b"\r\n\r\n", 1)
            self.answer(urlsplit(head.split(b" ")[1].decode()))

    def answer(self, target: SplitResult) -> None:
        """Returns a page of names, or an object."""
        path, query = target.path, parse_qs(target.query)
        fields, body = b"", b""
        if path == "/list":
            start = int(query.get("next-marker", ["0"])[0])
            end = min(start + PAGE, self.count)
            page = {"FileNames": [f"f{number:06}" for number in range(start, end)]}
            body = json.dumps(page | ({"NextMarker": str(end)} if end < self.count else {})).encode()
        else:
            fields, body = self.fields, body_of(path.rsplit("/", 1)[1])
        self.transport.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (fields, len(body), body))


async def serve(count: int, head_bytes: int) -> None:
    """Serves until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: LongHeads(count, head_bytes), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
