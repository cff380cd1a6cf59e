"""The base of servers for tests: a listener and a thread for each connection. It shares no code with the project."""

import contextlib
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self

STOP_SECONDS_MAX = 10.0


class ConnectionServer(ABC):
    """Serves from its creation until the end of a `with` block, which raises the first error of a connection.

    A subclass defines `_serve`, and calls `__init__` last, because connections are accepted from then on. An `OSError`
    means that the client has gone, which is not an error.

    Args:
        address: its address; port 0 is a free one.
    """

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._errors: list[BaseException] = []
        self._listener = socket.create_server(address, backlog=256)
        self._threads = [threading.Thread(target=self._accept, name=type(self).__name__, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        """Returns its port."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(STOP_SECONDS_MAX)
        if self._errors:
            raise self._errors[0]

    @abstractmethod
    def _serve(self, connection: socket.socket) -> None:
        """Serves one connection, which is closed afterwards."""

    def _accepted(self) -> None:  # noqa: B027 - most servers count nothing
        """Counts a connection that was just added to the open ones; the lock is held."""

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._run, args=(connection,), name="connection", daemon=True)
            with self._lock:
                self._open.add(connection)
                self._threads.append(thread)
                self._accepted()
            thread.start()

    def _run(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        except OSError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised when the block ends
            self._errors.append(error)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    @contextlib.contextmanager
    def _kept(self, connection: socket.socket) -> Iterator[socket.socket]:
        """Registers a further connection, which is closed after use, at the latest at the end of the server."""
        with self._lock:
            self._open.add(connection)
        try:
            with connection:
                yield connection
        finally:
            with self._lock:
                self._open.discard(connection)

    @contextlib.contextmanager
    def _secured(self, context: ssl.SSLContext, connection: socket.socket) -> Iterator[ssl.SSLSocket]:
        """Replaces a connection by its TLS connection, after the handshake."""
        with self._lock:
            self._open.discard(connection)
        secured = context.wrap_socket(connection, server_side=True)
        with self._kept(secured):
            yield secured
