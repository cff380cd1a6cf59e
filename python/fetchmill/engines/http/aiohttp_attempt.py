"""One attempt with aiohttp: its deadlines, its look-ups, and the session that makes its request. Public API only.

aiohttp calls back in the task of the attempt, which is how look-ups and handshakes find it. Imported by the transport
when it starts, for it needs the library.
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

# Threads that look names up; a name without an answer keeps one of them busy.
_LOOKUPS_MAX = 64
DNS_CACHE_SECONDS = 60
# A line of a head, as the native engine limits it. At most 128 fields are aiohttp's own limit.
_LINE_BYTES_MAX = 1 << 14
# Bytes that all connections of a loop may receive before their bodies are admitted, shared among them: the library
# reads no further when twice a share has come.
_UNREAD_BYTES_MAX = 32 << 20
_UNREAD_SHARE_MIN = 64 << 10
_UNREAD_SHARE_MAX = 256 << 10
# What aiohttp and the standard library pass to one another, and we pass on.
LibraryValue: TypeAlias = Any

# The attempt of the task that runs: where aiohttp calls back, nothing else tells whose call it is.
CURRENT_ATTEMPT: ContextVar["AsyncAttempt"] = ContextVar("attempt")


class AsyncAttempt:
    """What is known of an attempt, and the one timer that ends it in time; time counts inside of its `with` block.

    Args:
        address: what is asked for.
        context: for TLS, if that is asked for.
        options: of the job.
        is_fresh: whether it must have a connection that nobody has used.
    """

    def __init__(
        self, address: RequestUrl, context: ssl.SSLContext | None, options: TransportOptions, *, is_fresh: bool
    ) -> None:
        self.address = address
        self.context = context
        self.is_fresh = is_fresh
        # Known when the request is sent: when that was, whether another request was on its connection before, and
        # whether the reply can only be the one to this request.
        self.is_request_sent = False
        self.sent_at = 0.0
        self.is_reused = False
        self.is_certain = True
        self.is_late = False
        # The connection, where it is kept for the next request.
        self.connection: HoldingConnection | None = None
        self._deadlines = Deadlines(options)
        self._loop = asyncio.get_running_loop()

    @property
    def kind(self) -> str:
        """The failure kind, now that the timer has ended it."""
        return self._deadlines.remaining()[1]

    def on_connect_phase(self, kind: str) -> None:
        """Connecting has come to a part with a failure kind of its own."""
        self._deadlines.on_connect_phase(kind)

    @property
    def held_bytes(self) -> int:
        """Bytes that its connection holds until its reply is complete."""
        return 0 if self.connection is None else self.connection.held.bytes

    def on_request_sent(self, connection: "HoldingConnection | None" = None) -> None:
        """The request is about to be sent, on a connection that is kept or on one of its own."""
        self.is_request_sent = True
        if connection is not None:
            self.connection = connection
            self.is_reused = connection.is_used
            self.is_certain = connection.held.is_next_certain
        self.sent_at = time.monotonic()
        self._deadlines.on_request_sent()
        self._advance_timer()

    def on_head(self) -> None:
        """The head is there."""
        self._deadlines.on_head()
        self._advance_timer()

    def on_bytes(self, count: int) -> None:
        """Bytes of the body came."""
        self._deadlines.on_bytes(count)
        self._advance_timer()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time does not count inside of the block: the body waits for us."""
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
        # Both lead back here by their contexts, and what leads in a circle only the garbage collector sets free.
        del self._timer, self._task
        # As `asyncio.Timeout` does: what somebody else has cancelled stays so.
        if self.is_late and task and task.uncancel() <= self._cancelling and error is CancelledError:
            raise TimeoutError

    def _start_timer(self) -> None:
        self._fires_at = self._deadlines.until
        self._timer = self._loop.call_later(max(0, self._deadlines.remaining()[0]), self._on_timer)

    def _advance_timer(self) -> None:
        """A timer that fires too early looks again. One that would fire too late is made anew: this is rare."""
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
    """A session with no cookies and nothing from the environment.

    Args:
        connector: makes its connections.
        requests_max: requests in flight at most, at any time.
        options: what else `aiohttp.ClientSession` is made with.
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
    """Knows when a handshake begins: a connection that is late from then on is so because of TLS."""

    def wrap_bio(self, *arguments: LibraryValue, **options: LibraryValue) -> ssl.SSLObject:
        """The beginning of a handshake."""
        if (attempt := CURRENT_ATTEMPT.get(None)) is not None:
            attempt.on_connect_phase("tls-timeout")
        return super().wrap_bio(*arguments, **options)


class Resolver(AbstractResolver):
    """Asks the system, on threads of its own: aiohttp's has few.

    Args:
        judging: what says which look-ups must give public addresses and nothing else; None: none must.
    """

    def __init__(self, judging: TransportOptions | None) -> None:
        self._judging = judging
        self._threads = ThreadPoolExecutor(_LOOKUPS_MAX, thread_name_prefix="fetchmill-lookup")

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:  # noqa: ARG002
        """The addresses of a name."""
        attempt = CURRENT_ATTEMPT.get()
        attempt.on_connect_phase("dns")
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._threads, connection.look_up, host, port)
        attempt.on_connect_phase("connect-timeout")
        if self._judging and address_policy.must_be_public(self._judging, attempt.address):
            address_policy.check_addresses(str(address.sockaddr[0]) for address in addresses)
        return [_result(host, port, address) for address in addresses]

    async def close(self) -> None:
        """Waits for no name that has no answer."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def judged_socket(judging: TransportOptions, address: tuple[LibraryValue, ...]) -> socket.socket:
    """A socket for a connection to an address, as `getaddrinfo` gives it.

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
