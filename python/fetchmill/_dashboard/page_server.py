"""An HTTP/1.1 server that runs on one thread, answers one request per connection, and limits each client's resources.

It uses only the standard library. docs/internals/decisions explains why the dashboard does not use `http.server` or a
server written in Rust.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from fetchmill._dashboard.request_head import HeadError, RequestHead, parse_head

# Maximum size of a request's head. Browsers send a few hundred bytes.
HEAD_BYTES_MAX = 8192
# Time limits in seconds: from accepting a connection to the complete request, and from there to the end of the reply.
HEAD_SECONDS_MAX = 5.0
REPLY_SECONDS_MAX = 10.0
# Maximum number of connections. Beyond this, the oldest connection is closed so that idle clients cannot block other
# clients.
CONNECTIONS_MAX = 32
# Time limit for the thread to end. Normally the thread ends almost immediately, because it never waits for long.
_JOIN_SECONDS = 5.0

# Header fields that keep other sites from reading this page, and keep this page from contacting other servers.
_FIELDS = (
    ("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
)


@dataclass(frozen=True)
class PageReply:
    """The reply to a request.

    Args:
        status: the HTTP status.
        content_type: the type of the body.
        body: the body, which is not sent in reply to HEAD.
        fields: additional header fields.
    """

    status: HTTPStatus
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    fields: tuple[tuple[str, str], ...] = field(default=())

    @classmethod
    def of_text(cls, status: HTTPStatus, text: str, *fields: tuple[str, str]) -> "PageReply":
        """Return a reply whose body is one line of text."""
        return cls(status, body=f"{text}\n".encode(), fields=fields)

    def to_bytes(self, *, has_body: bool) -> bytes:
        """Return the bytes to send."""
        fields = (
            *_FIELDS,
            ("Content-Type", self.content_type),
            ("Content-Length", str(len(self.body))),
            *self.fields,
        )
        head = f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
        return head.encode() + (self.body if has_body else b"")


# Function that answers a request. The string is the local address of the connection.
Answer = Callable[[RequestHead, str], PageReply]


class PageServer:
    """A server that answers requests on its own thread from `start` to `close`.

    Args:
        listener: the listening socket, which is closed with the server.
        answer: function that is called on the server's thread for each request; it must not block.
    """

    def __init__(self, listener: socket.socket, answer: Answer) -> None:
        self._listener = listener
        self._answer = answer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        # Connections, oldest first.
        self._connections: dict[asyncio.StreamWriter, None] = {}
        self._thread = threading.Thread(target=self._run, name="fetchmill-dashboard", daemon=True)

    def start(self) -> None:
        """Start answering."""
        # Do not use the program's event loop policy, which may create a different kind of loop.
        self._loop = asyncio.SelectorEventLoop()
        # Ignore clients that disconnect. This is normal, and nothing waits for them.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._thread.start()

    def close(self) -> None:
        """Close all connections and end the thread, if it was started."""
        if self._loop is None:
            self._listener.close()
            return
        with contextlib.suppress(RuntimeError):  # the loop has already ended
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        assert self._loop is not None  # noqa: S101 - `start` created it
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._listener.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._take, sock=self._listener, limit=HEAD_BYTES_MAX)
        await self._stopped.wait()
        server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        # The tasks end once their connections are closed.
        waiting = asyncio.all_tasks() - {task for task in (asyncio.current_task(),) if task}
        if waiting:
            await asyncio.wait(waiting, timeout=1.0)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection from start to end."""
        while len(self._connections) >= CONNECTIONS_MAX:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.transport.abort()
        self._connections[writer] = None
        try:
            async with asyncio.timeout(HEAD_SECONDS_MAX):
                reply = await self._reply_to(reader, writer)
            async with asyncio.timeout(REPLY_SECONDS_MAX):
                writer.write(reply)
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.pop(writer, None)
            writer.transport.abort()

    async def _reply_to(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            head = parse_head((await reader.readuntil(b"\r\n\r\n"))[:-4])
        except asyncio.LimitOverrunError:
            return _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's header section is too long")
        except HeadError:
            return _refusal(HTTPStatus.BAD_REQUEST, "the request must be HTTP/1.1 with exactly one Host field")
        try:
            reply = self._answer(head, writer.get_extra_info("sockname")[0])
        except Exception:  # noqa: BLE001 - the page must survive errors in the job
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "cannot read the progress of the job")
        return reply.to_bytes(has_body=head.method != "HEAD")


def _refusal(status: HTTPStatus, text: str) -> bytes:
    return PageReply.of_text(status, text).to_bytes(has_body=True)
