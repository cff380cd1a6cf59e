"""One attempt with aiohttp: deadlines, lookups, and the session that makes the request. Uses only the public API.

aiohttp calls back in the attempt's task, so lookups and handshakes find the attempt through a context variable. The
transport imports this module only when it starts, because the module requires aiohttp.
"""

import asyncio
import socket
import ssl
import time
from asyncio import CancelledError
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from fetchmill.engines.http import address_policy, connection
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import TransportOptions

if TYPE_CHECKING:
    from fetchmill.engines.http.aiohttp_internals import HoldingConnection

# Number of threads that resolve names. Each unanswered lookup keeps one thread busy.
_LOOKUPS_MAX = 64
DNS_CACHE_SECONDS = 60
# Maximum size of a line in a head, as in the native engine. aiohttp itself limits a head to 128 fields.
_LINE_BYTES_MAX = 1 << 14
# Maximum number of bytes that all connections of a loop together can receive before their bodies are admitted. Each
# connection gets an equal share. aiohttp stops reading from a connection after twice this share.
_UNREAD_BYTES_MAX = 32 << 20
_UNREAD_SHARE_MIN = 64 << 10
_UNREAD_SHARE_MAX = 256 << 10
# A value that aiohttp and the standard library exchange, and that this module only forwards.
LibraryValue: TypeAlias = Any

# The attempt of the running task. aiohttp's callbacks cannot find their attempt in any other way.
CURRENT_ATTEMPT: ContextVar["AsyncAttempt"] = ContextVar("attempt")


class AsyncAttempt:
    """The state of an attempt, with a timer for its deadlines that runs inside the `with` block.

    Args:
        address: the requested URL.
        context: the TLS context; None for http.
        options: the options of the job.
        is_fresh: whether the attempt needs an unused connection.
    """

    def __init__(
        self, address: RequestUrl, context: ssl.SSLContext | None, options: TransportOptions, *, is_fresh: bool
    ) -> None:
        self.address = address
        self.context = context
        self.is_fresh = is_fresh
        # Set when the request is sent: the time, whether the connection had an earlier request, and whether the next
        # reply must belong to this request.
        self.is_request_sent = False
        self.sent_at = 0.0
        self.is_reused = False
        self.is_certain = True
        self.is_late = False
        # The connection, or None if it is not kept for the next request.
        self.connection: HoldingConnection | None = None
        self._deadlines = Deadlines(options)
        self._loop = asyncio.get_running_loop()

    @property
    def kind(self) -> str:
        """The failure kind of an attempt that the timer ended."""
        return self._deadlines.remaining()[1]

    def on_connect_phase(self, kind: str) -> None:
        """Record the start of a connection phase. `kind` is the failure kind if the attempt times out in this phase."""
        self._deadlines.on_connect_phase(kind)

    @property
    def held_bytes(self) -> int:
        """Bytes of earlier bodies that the connection holds until this reply is complete."""
        return 0 if self.connection is None else self.connection.held.bytes

    def on_request_sent(self, connection: "HoldingConnection | None" = None) -> None:
        """Record that the request is about to be sent. `connection` is None if it is used only once."""
        self.is_request_sent = True
        if connection is not None:
            self.connection = connection
            self.is_reused = connection.is_used
            self.is_certain = connection.held.is_next_certain
        self.sent_at = time.monotonic()
        self._deadlines.on_request_sent()
        self._advance_timer()

    def on_head(self) -> None:
        """Record that the head has arrived."""
        self._deadlines.on_head()
        self._advance_timer()

    def on_bytes(self, count: int) -> None:
        """Record that bytes of the body have arrived."""
        self._deadlines.on_bytes(count)
        self._advance_timer()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the deadlines inside the block, where the body waits for this process."""
        self._timer.cancel()
        began = time.monotonic()
        try:
            yield
        finally:
            self._deadlines.on_waited(time.monotonic() - began)
            self._start_timer()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._start_timer()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        task = self._task
        # The contexts of the timer and the task refer to this attempt. Without `del`, only the garbage collector could
        # free the cycle.
        del self._timer, self._task
        # If other code has cancelled the task, the task stays cancelled, as with `asyncio.Timeout`.
        if self.is_late and task and task.uncancel() <= self._cancelling and error is CancelledError:
            raise TimeoutError

    def _start_timer(self) -> None:
        self._fires_at = self._deadlines.until
        self._timer = self._loop.call_later(max(0, self._deadlines.remaining()[0]), self._on_timer)

    def _advance_timer(self) -> None:
        """Restart the timer if it would fire too late, which is rare. If it fires too early, it restarts itself."""
        if self._deadlines.until < self._fires_at:
            self._timer.cancel()
            self._start_timer()

    def _on_timer(self) -> None:
        if self._deadlines.remaining()[0] > 0:
            self._start_timer()
        elif self._task:
            self.is_late = True
            self._task.cancel()


def open_session(connector: aiohttp.BaseConnector, requests_max: int, **options: LibraryValue) -> aiohttp.ClientSession:
    """Return a session without cookies and without settings from the environment.

    Args:
        connector: opens the session's connections.
        requests_max: maximum number of requests in flight.
        options: additional arguments for `aiohttp.ClientSession`.
    """
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(),
        max_line_size=_LINE_BYTES_MAX,
        max_field_size=_LINE_BYTES_MAX,
        read_bufsize=min(max(_UNREAD_BYTES_MAX // requests_max, _UNREAD_SHARE_MIN), _UNREAD_SHARE_MAX),
        **options,
    )


class HandshakeContext(ssl.SSLContext):
    """Records the start of a handshake. From then on, a late connection fails with `tls-timeout`."""

    def wrap_bio(self, *arguments: LibraryValue, **options: LibraryValue) -> ssl.SSLObject:
        """Record the start of a handshake. Called by asyncio."""
        if (attempt := CURRENT_ATTEMPT.get(None)) is not None:
            attempt.on_connect_phase("tls-timeout")
        return super().wrap_bio(*arguments, **options)


class Resolver(AbstractResolver):
    """Resolves names with the system's resolver, in its own threads because aiohttp's resolver has too few.

    Args:
        judging: options that determine which lookups must return only public addresses; None to allow any address.
    """

    def __init__(self, judging: TransportOptions | None) -> None:
        self._judging = judging
        self._threads = ThreadPoolExecutor(_LOOKUPS_MAX, thread_name_prefix="fetchmill-lookup")

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:  # noqa: ARG002
        """Return the addresses of a name."""
        attempt = CURRENT_ATTEMPT.get()
        attempt.on_connect_phase("dns")
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._threads, connection.look_up, host, port)
        attempt.on_connect_phase("connect-timeout")
        if self._judging and address_policy.must_be_public(self._judging, attempt.address):
            address_policy.check_addresses(str(address.sockaddr[0]) for address in addresses)
        return [_result(host, port, address) for address in addresses]

    async def close(self) -> None:
        """End the threads, without waiting for unanswered lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def judged_socket(judging: TransportOptions, address: tuple[LibraryValue, ...]) -> socket.socket:
    """Return a socket for a connection to an address in the form of `getaddrinfo`.

    Raises:
        AttemptError: `private-address`.
    """
    family, kind, protocol, _, sockaddr = address
    if address_policy.must_be_public(judging, CURRENT_ATTEMPT.get().address):
        address_policy.check_addresses([str(sockaddr[0])])
    return socket.socket(family, kind, protocol)


def _result(host: str, port: int, address: connection.SocketAddress) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=str(address.sockaddr[0]),
        port=port,
        family=address.family,
        proto=address.protocol,
        flags=socket.AI_NUMERICHOST,
    )
