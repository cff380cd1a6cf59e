"""What aiohttp does otherwise for us, one class for each of its parts that knows.

It re-quotes request lines, looks names up on few threads, and tells one timeout from another by no means.
Imported by the transport when it starts, for it needs the library.
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
from functools import lru_cache
from typing import Any, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from fetchmill.engines.http import address_policy, connection, failure_kinds
from fetchmill.engines.http.aiohttp_connections import HeldConnections, HoldingConnection
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import TransportOptions

# Threads that look names up; a name without an answer keeps one of them busy.
_LOOKUPS_MAX = 64
_DNS_CACHE_SECONDS = 60
_ORIGINS_KEPT = 1024
# A line of a head, as the native engine limits it. At most 128 fields are aiohttp's own limit.
_LINE_BYTES_MAX = 1 << 14
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
        # Known when the request is sent: the connection and when that was, whether another request was on it before,
        # and whether the reply can only be the one to this request.
        self.connection: HoldingConnection | None = None
        self.sent_at = 0.0
        self.is_reused = False
        self.is_certain = True
        self.is_late = False
        self.origin = _origin(address.scheme, address.authority)
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
    def is_request_sent(self) -> bool:
        """Whether there is a connection, and the request was sent on it."""
        return self.connection is not None

    @property
    def held_bytes(self) -> int:
        """Bytes that its connection holds until its reply is complete."""
        return 0 if self.connection is None else self.connection.held.bytes

    def on_request_sent(self, connection: HoldingConnection) -> None:
        """The request is about to be sent."""
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


def session(connections: HeldConnections, judging: TransportOptions | None) -> aiohttp.ClientSession:
    """A session of its own: no cookies, nothing from the environment, and no retries of its own.

    Args:
        connections: those of the loop.
        judging: what says which look-ups must give public addresses and nothing else; None: none must.
    """
    made = aiohttp.ClientSession(
        connector=_Connector(connections, _Resolver(judging)),
        request_class=_VerbatimRequest,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(),
        max_line_size=_LINE_BYTES_MAX,
        max_field_size=_LINE_BYTES_MAX,
        read_bufsize=connections.unread_bytes,
    )
    # It would ask again on any connection, also on one that was never used before.
    made._retry_connection = False  # noqa: SLF001
    return made


class HandshakeContext(ssl.SSLContext):
    """Knows when a handshake begins: a connection that is late from then on is so because of TLS."""

    def wrap_bio(self, *arguments: LibraryValue, **options: LibraryValue) -> ssl.SSLObject:
        """The beginning of a handshake."""
        if (attempt := CURRENT_ATTEMPT.get(None)) is not None:
            attempt.on_connect_phase("tls-timeout")
        return super().wrap_bio(*arguments, **options)


class _Connector(aiohttp.TCPConnector):
    """Has connections that hold what they have brought, and a look-up of its own, which ends with it."""

    def __init__(self, connections: HeldConnections, resolver: "_Resolver") -> None:
        super().__init__(limit=connections.requests_max, resolver=resolver, ttl_dns_cache=_DNS_CACHE_SECONDS)
        self._own_resolver = resolver
        self._connections = connections
        self._factory = connections.new_connection  # type: ignore[assignment] # it is called, and nothing else

    def set_aside(self, connection: HoldingConnection) -> None:
        """It rests, and is no longer counted."""
        self._release_acquired(connection.key, connection)

    def put_back(self, connection: HoldingConnection) -> None:
        """The next request may have it."""
        super()._release(connection.key, connection)

    def drop(self, connection: HoldingConnection) -> None:
        """Closes it."""
        super()._release(connection.key, connection, should_close=True)

    async def _get(self, key: LibraryValue, traces: LibraryValue) -> LibraryValue:
        """A connection for the next request, or None."""
        if CURRENT_ATTEMPT.get().is_fresh:
            return None
        while (found := await super()._get(key, traces)) is not None:
            connection: LibraryValue = found.protocol
            # Whatever has come on one that was silent so far would be taken for a certain reply.
            if not connection.held.is_next_certain or not connection.is_readable():
                return found
            found._protocol = None  # noqa: SLF001 - it would close it
            self._connections.look_again(connection)
        return None

    def _release(self, key: LibraryValue, protocol: LibraryValue, *, should_close: bool = False) -> None:
        """A reply is complete, or there will be none."""
        protocol.end_reply(self, key)
        if should_close:
            self._connections.give_up(protocol)

    async def close(self, **options: LibraryValue) -> None:
        await super().close(**options)
        await self._own_resolver.close()


class _Resolver(AbstractResolver):
    """Asks the system, on threads of its own."""

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


class _VerbatimRequest(aiohttp.ClientRequest):
    """Asks for what it is told to, byte for byte."""

    def update_auto_headers(self, skip_auto_headers: LibraryValue) -> None:
        """Adds none. aiohttp would look for each field whether it is to be left out."""

    async def send(self, conn: LibraryValue) -> aiohttp.ClientResponse:
        attempt = CURRENT_ATTEMPT.get()
        connection = conn.protocol
        attempt.on_request_sent(connection)
        connection.begin_request()
        if connection.is_last:
            self.headers["Connection"] = "close"
        url, self.url = self.url, _VerbatimUrl(self.url, attempt.address)  # type: ignore[assignment] # it has all of a URL
        try:
            return await super().send(conn)
        finally:
            self.url = url


class _VerbatimUrl:
    """A URL whose request line is as it came; aiohttp's own leaves out what it thinks means nothing."""

    def __init__(self, url: URL, address: RequestUrl) -> None:
        self._url = url
        self._address = address

    @property
    def raw_path_qs(self) -> str:
        return self._address.target

    def __str__(self) -> str:
        return self._address.url

    def __getattr__(self, name: str) -> LibraryValue:
        return getattr(self._url, name)


@lru_cache(maxsize=_ORIGINS_KEPT)
def _origin(scheme: str, authority: str) -> URL:
    """Where a connection leads: for each request the library would take its whole URL apart, which costs much."""
    try:
        return URL(f"{scheme}://{authority}/", encoded=True)
    except ValueError as error:
        raise AttemptError("url", failure_kinds.error_text(error)) from None


def _result(host: str, port: int, address: connection.SocketAddress) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=str(address.sockaddr[0]),
        port=port,
        family=address.family,
        proto=address.protocol,
        flags=socket.AI_NUMERICHOST,
    )
