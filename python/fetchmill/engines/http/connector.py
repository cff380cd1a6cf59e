"""What aiohttp does otherwise for us, one class for each of its parts that knows.

It re-quotes request lines, looks names up on few threads, and tells one timeout from another by no means.
Imported by the transport when it starts, for it needs the library.
"""

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from fetchmill.engines.http import connecting, kinds, reaching
from fetchmill.engines.http.addresses import Address
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.kinds import Failure
from fetchmill.engines.transports import TransportOptions

# Threads that look names up; a name without an answer keeps one of them busy.
_LOOKUPS_MAX = 64
_KNOWN_SECONDS = 60
# A line of a head, as the native engine limits it. At most 128 fields are aiohttp's own limit.
_LINE_BYTES_MAX = 1 << 14
# The fields that aiohttp adds on its own.
_ADDED = ("User-Agent", "Accept", "Accept-Encoding")
# What aiohttp and the standard library pass to one another, and we pass on.
Theirs: TypeAlias = Any

# The attempt of the task that runs: where aiohttp calls back, nothing else tells whose call it is.
CURRENT: ContextVar["Attempt"] = ContextVar("attempt")


class Attempt:
    """What is known of an attempt, and the one timer that ends it in time.

    Args:
        address: what is asked for.
        context: for TLS, if that is asked for.
        options: of the job.
        limit: the timer.
    """

    def __init__(
        self, address: Address, context: ssl.SSLContext | None, options: TransportOptions, limit: asyncio.Timeout
    ) -> None:
        self.address = address
        self.context = context
        self.is_reused = False
        self.is_asked = False
        self.url = _url(address)
        self._deadlines = Deadlines(options)
        self._limit = limit
        self._reschedule()

    @property
    def kind(self) -> str:
        """The failure kind, now that the timer has ended it."""
        return self._deadlines.left()[1]

    def connecting_by(self, kind: str) -> None:
        """Connecting has come to a part with a failure kind of its own."""
        self._deadlines.connecting_by(kind)

    def asked(self, *, is_reused: bool) -> None:
        """The request is about to be sent."""
        self.is_reused = is_reused
        self.is_asked = True
        self._deadlines.asked()
        self._reschedule()

    def has_head(self) -> None:
        """The head is there."""
        self._deadlines.has_head()
        self._reschedule()

    def received(self, count: int) -> None:
        """Bytes of the body came."""
        self._deadlines.received(count)
        self._reschedule()

    def _reschedule(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time() + self._deadlines.left()[0])


def session(options: TransportOptions, *, is_judged: bool) -> aiohttp.ClientSession:
    """A session of its own connections: no cookies, nothing from the environment, and no retries of its own.

    Args:
        options: of the job.
        is_judged: whether its look-ups give public addresses and nothing else.
    """
    made = aiohttp.ClientSession(
        connector=_Connector(options.connections, _Resolver(is_judged=is_judged)),
        request_class=_Request,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_ADDED,
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(),
        max_line_size=_LINE_BYTES_MAX,
        max_field_size=_LINE_BYTES_MAX,
    )
    # It would ask again on any connection, also on one that was never used before.
    made._retry_connection = False  # noqa: SLF001
    return made


class Context(ssl.SSLContext):
    """Knows when a handshake begins: a connection that is late from then on is so because of TLS."""

    def wrap_bio(self, *arguments: Theirs, **options: Theirs) -> ssl.SSLObject:
        """The beginning of a handshake."""
        if (attempt := CURRENT.get(None)) is not None:
            attempt.connecting_by("tls-timeout")
        return super().wrap_bio(*arguments, **options)


class _Connector(aiohttp.TCPConnector):
    """Has a look-up of its own, and ends with it."""

    def __init__(self, limit: int, resolver: "_Resolver") -> None:
        super().__init__(limit=limit, resolver=resolver, ttl_dns_cache=_KNOWN_SECONDS)
        self._own_resolver = resolver

    async def close(self, **options: Theirs) -> None:
        await super().close(**options)
        await self._own_resolver.close()


class _Resolver(AbstractResolver):
    """Asks the system, on threads of its own."""

    def __init__(self, *, is_judged: bool) -> None:
        self._is_judged = is_judged
        self._threads = ThreadPoolExecutor(_LOOKUPS_MAX, thread_name_prefix="fetchmill-lookup")

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:  # noqa: ARG002
        """The addresses of a name."""
        attempt = CURRENT.get()
        attempt.connecting_by("dns")
        loop = asyncio.get_running_loop()
        places = await loop.run_in_executor(self._threads, connecting.look_up, host, port)
        attempt.connecting_by("connect-timeout")
        if self._is_judged:
            reaching.check_addresses(str(place.sockaddr[0]) for place in places)
        return [_result(host, port, place) for place in places]

    async def close(self) -> None:
        """Waits for no name that has no answer."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Request(aiohttp.ClientRequest):
    """Asks for what it is told to, byte for byte."""

    _used: ClassVar[WeakSet[Any]] = WeakSet()

    async def send(self, conn: Theirs) -> aiohttp.ClientResponse:
        attempt = CURRENT.get()
        attempt.asked(is_reused=conn.protocol in self._used)
        self._used.add(conn.protocol)
        url, self.url = self.url, _Exact(self.url, attempt.address)  # type: ignore[assignment] # it has all of a URL
        try:
            return await super().send(conn)
        finally:
            self.url = url


class _Exact:
    """A URL whose request line is as it came; aiohttp's own leaves out what it thinks means nothing."""

    def __init__(self, url: URL, address: Address) -> None:
        self._url = url
        self._address = address

    @property
    def raw_path_qs(self) -> str:
        return self._address.target

    def __str__(self) -> str:
        return self._address.url

    def __getattr__(self, name: str) -> Theirs:
        return getattr(self._url, name)


def _url(address: Address) -> URL:
    try:
        return URL(address.url, encoded=True)
    except ValueError as error:
        raise Failure("url", kinds.text_of(error)) from None


def _result(host: str, port: int, place: connecting.Place) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=str(place.sockaddr[0]),
        port=port,
        family=place.family,
        proto=place.protocol,
        flags=socket.AI_NUMERICHOST,
    )
