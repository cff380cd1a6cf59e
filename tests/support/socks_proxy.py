"""A SOCKS5 proxy for tests: it leads to one server, and keeps its requests. It shares no code with the project."""

import socket

from connection_server import ConnectionServer
from forward_proxy import relay

_ADDRESS_BYTES = {1: 4, 4: 16}


class SocksProxy(ConnectionServer):
    """Leads all names and addresses to one port.

    Args:
        to: the port of 127.0.0.1 to which all names and addresses lead.
        user: the permitted user, as `name:password`; anyone if not given.
    """

    def __init__(self, to: int, user: str = "") -> None:
        self.asked: list[tuple[str, int]] = []
        self.users: list[str] = []
        self._to = to
        self._user = user
        super().__init__()

    def url(self, scheme: str, user: str | None = None) -> str:
        """Returns the value of `--proxy`, with the user."""
        user = self._user if user is None else user
        return f"{scheme}://{user}{'@' if user else ''}127.0.0.1:{self.port}"

    def _serve(self, connection: socket.socket) -> None:
        if not self._greet(connection):
            return
        version, command, _, kind = _read(connection, 4)
        assert (version, command) == (5, 1)
        host = _host(connection, kind)
        port = int.from_bytes(_read(connection, 2))
        with self._lock:
            self.asked.append((host, port))
        if host == "refused.test":
            connection.sendall(b"\x05\x02\x00\x01" + bytes(6))
            return
        with self._kept(socket.create_connection(("127.0.0.1", self._to))) as server:
            connection.sendall(b"\x05\x00\x00\x03\x06a.test\x00\x50")
            relay(connection, server)

    def _greet(self, client: socket.socket) -> bool:
        version, count = _read(client, 2)
        assert version == 5
        wanted = 2 if self._user else 0
        if wanted not in _read(client, count):
            client.sendall(b"\x05\xff")
            return False
        client.sendall(bytes([5, wanted]))
        if not self._user:
            return True
        assert _read(client, 1) == b"\x01"
        name, password = (_read(client, _read(client, 1)[0]).decode() for _ in range(2))
        with self._lock:
            self.users.append(f"{name}:{password}")
        is_right = self.users[-1] == self._user
        client.sendall(bytes([1, 0 if is_right else 1]))
        return is_right


def _host(client: socket.socket, kind: int) -> str:
    if kind in _ADDRESS_BYTES:
        family = socket.AF_INET if kind == 1 else socket.AF_INET6
        return socket.inet_ntop(family, _read(client, _ADDRESS_BYTES[kind]))
    assert kind == 3
    return _read(client, _read(client, 1)[0]).decode("ascii")


def _read(client: socket.socket, count: int) -> bytes:
    """Reads exactly this number of bytes."""
    read = b""
    while len(read) < count:
        part = client.recv(count - len(read))
        if not part:
            raise ConnectionResetError
        read += part
    return read
