"""An HTTP proxy for tests: it tunnels, forwards, and keeps its requests. It shares no code with the project."""

import base64
import select
import socket
import sys
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from connection_server import ConnectionServer

HEAD_BYTES_MAX = 1 << 16
WAIT_SECONDS_MAX = 30.0
# Fields between a client and its proxy, which are not forwarded.
OWN_FIELDS = ("proxy-authorization", "proxy-connection", "connection", "keep-alive")


@dataclass(frozen=True)
class Asked:
    """The head of a request to the proxy; field names are in lower case."""

    method: str
    target: str
    fields: dict[str, str]

    @classmethod
    def parse(cls, head: bytes) -> Self:
        """Parses the bytes before the empty line."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        return cls(method, target, {name.lower(): value.strip() for name, _, value in pairs})


class ForwardProxy(ConnectionServer):
    """Tunnels and forwards requests.

    Args:
        user: the permitted user, as `name:password`; anyone if not given.
        address: its address; port 0 is a free one.
    """

    def __init__(self, user: str = "", address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.user = user
        self.asked: list[Asked] = []
        self._expected = f"Basic {base64.b64encode(user.encode()).decode()}" if user else None
        super().__init__(address)

    def url(self, user: str | None = None) -> str:
        """Returns the value of `--proxy`, with the user."""
        user = self.user if user is None else user
        return f"http://{user}{'@' if user else ''}127.0.0.1:{self.port}"

    def _serve(self, connection: socket.socket) -> None:
        head, behind = read_head(connection)
        if not head:
            return
        asked = Asked.parse(head)
        with self._lock:
            self.asked.append(asked)
        if self._expected not in (None, asked.fields.get("proxy-authorization")):
            connection.sendall(b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif asked.method == "CONNECT":
            self._tunnel(connection, asked, behind)
        else:
            self._forward(connection, asked)

    def _tunnel(self, client: socket.socket, asked: Asked, behind: bytes) -> None:
        host, _, port = asked.target.rpartition(":")
        with self._kept(socket.create_connection((host, int(port)))) as server:
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            server.sendall(behind)
            relay(client, server)

    def _forward(self, client: socket.socket, asked: Asked) -> None:
        """Handles one request per connection, whose end is the end of the reply."""
        url = urlsplit(asked.target)
        path = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
        kept = [f"{name}: {value}" for name, value in asked.fields.items() if name not in OWN_FIELDS]
        head = "\r\n".join([f"{asked.method} {path} HTTP/1.1", *kept, "Connection: close", "", ""])
        with self._kept(socket.create_connection((url.hostname or "", url.port or 80))) as server:
            server.sendall(head.encode("latin-1"))
            while part := server.recv(1 << 16):
                client.sendall(part)


def read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Returns a head, and the bytes after its end; nothing if the client has gone."""
    read = b""
    while b"\r\n\r\n" not in read and len(read) < HEAD_BYTES_MAX:
        part = client.recv(1 << 14)
        if not part:
            return b"", b""
        read += part
    head, _, behind = read.partition(b"\r\n\r\n")
    return head, behind


def relay(one: socket.socket, other: socket.socket) -> None:
    """Copies bytes both ways until either side ends."""
    ways = {one: other, other: one}
    while ready := select.select([one, other], [], [], WAIT_SECONDS_MAX)[0]:
        for each in ready:
            part = each.recv(1 << 16)
            if not part:
                return
            ways[each].sendall(part)


def main() -> None:
    """Serves at the given address and port until it is killed; prints a line for each request."""
    with ForwardProxy(address=(sys.argv[1], int(sys.argv[2]))) as proxy:
        print("ready", flush=True)
        shown = 0
        while True:
            time.sleep(0.02)
            for asked in proxy.asked[shown:]:
                print(asked.method, asked.target, flush=True)
                shown += 1


if __name__ == "__main__":
    main()
