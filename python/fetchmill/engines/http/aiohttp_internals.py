"""All that reaches into private parts of aiohttp: it is used with the tested versions and no others.

aiohttp shows nobody the connection of a reply, asks again on its own, and changes request lines. Only this module knows
`ResponseHandler` and its buffers, the pool of `TCPConnector`, the steps of `ClientRequest`, and the exceptions of the
parser. Imported by the transport when it starts, for it needs the library.
"""

import asyncio
import select
import time
from functools import partial
from typing import Any, TypeAlias

import aiohttp
from aiohttp import http_exceptions
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from fetchmill.engines.http.aiohttp_attempt import (
    CURRENT_ATTEMPT,
    DNS_CACHE_SECONDS,
    Resolver,
    judged_socket,
    open_session,
)
from fetchmill.engines.http.held_connections import ConnectionKey, ConnectionOwner, HeldConnections
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.transports import TransportOptions

# A value that parts of aiohttp pass to one another. We only forward it.
LibraryValue: TypeAlias = Any


class KeptConnections(HeldConnections):
    """The connections of an event loop, which aiohttp keeps for the next request."""

    def session(self, judging: TransportOptions | None) -> aiohttp.ClientSession:
        """A session that makes no retries of its own.

        Args:
            judging: what says which look-ups must give public addresses and nothing else; None: none must.
        """
        made = open_session(_Connector(self, judging), self.requests_max, request_class=_VerbatimRequest)
        # It would ask again on any connection, also on one that was never used before.
        made._retry_connection = False  # noqa: SLF001
        return made

    def head_kind(self, error: BaseException | None) -> str:
        """The failure kind of a head that could not be parsed: one of the causes says why."""
        while error is not None:
            if isinstance(error, http_exceptions.BadStatusLine):
                return "not-http"
            if isinstance(error, http_exceptions.LineTooLong):
                return "head-too-large"
            error = error.__cause__
        return "framing"


class _Connector(aiohttp.TCPConnector):
    """Has connections that hold what they have brought, and a look-up of its own, which ends with it."""

    def __init__(self, connections: HeldConnections, judging: TransportOptions | None) -> None:
        self._own_resolver = Resolver(judging)
        options: dict[str, LibraryValue] = {"resolver": self._own_resolver, "ttl_dns_cache": DNS_CACHE_SECONDS}
        if judging is not None:
            # Addresses that are cached for another scheme of the host never come to the resolver.
            options["socket_factory"] = partial(judged_socket, judging)
        super().__init__(limit=connections.requests_max, **options)
        self._connections = connections
        # It is called, and nothing else.
        self._factory = lambda: HoldingConnection(self._loop, connections)  # type: ignore[assignment]

    def set_aside(self, connection: "HoldingConnection") -> None:
        """It rests, and is no longer counted."""
        self._release_acquired(connection.key, connection)

    def put_back(self, connection: "HoldingConnection") -> None:
        """The next request may have it."""
        super()._release(connection.key, connection)

    def drop(self, connection: "HoldingConnection") -> None:
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


class HoldingConnection(ResponseHandler):
    """One connection, as aiohttp's protocol: it knows whether a request is out, and what it has brought.

    Args:
        loop: the loop.
        connections: those of the loop; told of what comes when no request is out.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: HeldConnections) -> None:
        super().__init__(loop)
        self._connections = connections
        self.held = connections.new_held()
        # Set when it is released for the first time.
        self.connector: ConnectionOwner | None = None
        self.key: ConnectionKey = None
        self.is_used = False
        # A request is out; before the first one, what a proxy is asked for.
        self._is_awaited = True
        # No request is out, and its last reply was judged: it is unused, rests, or waits for its end.
        self.is_kept = False
        # The request that is out asks the server to close.
        self.is_last = False
        # Its last reply does not say so: its end proves nothing.
        self.is_unannounced = False
        self.has_surplus = False
        # It has ended otherwise than by the server's closing it.
        self.is_broken = False
        # What it held was asked for again.
        self.is_lost = False
        # While it rests.
        self.is_aside = False
        self.is_ending = False
        # On the monotonic clock.
        self.rest_began = 0.0
        self.rest_seconds = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.rested: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can be used again, now that its reply is complete."""
        transport = self.transport
        return transport is not None and not self._should_close and not transport.is_closing()

    def begin_request(self) -> None:
        """A request is about to be sent."""
        self._connections.unused.pop(self, None)
        self._connections.awaited[self] = time.monotonic()
        self.is_used = True
        self.is_kept = False
        self._is_awaited = True
        self.is_last = self.held.is_ending

    def end_reply(self, connector: ConnectionOwner, key: ConnectionKey) -> None:
        """The reply is complete: nothing more may come."""
        self.connector, self.key = connector, key
        self._connections.awaited.pop(self, None)
        self._is_awaited = False
        if self._buffer or self._tail:
            self.has_surplus = True

    def data_received(self, data: bytes) -> None:
        """Bytes have come: of the reply to the request that is out, or surplus."""
        if data and not self._is_awaited:
            self._note_surplus()
            return
        super().data_received(data)
        # A body's last bytes end the request while they are parsed; what came behind them was parsed, too.
        if not self._is_awaited and (self._buffer or isinstance(self.exception(), http_exceptions.HttpProcessingError)):
            self._note_surplus()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended, with an error or without."""
        is_whole = self._payload is not None and self._payload.is_eof()
        if is_whole and self.has_partial_reply():
            self.has_surplus = True
        super().connection_lost(exc)
        self.is_broken = exc is not None
        self._connections.on_lost(self)

    def is_readable(self) -> bool:
        """Whether something has come, or its end, that the loop has not read yet.

        Timers may run before it reads what came while it was busy.
        """
        socket = None if self.transport is None else self.transport.get_extra_info("socket")
        if socket is None or (number := socket.fileno()) < 0:
            return False
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(0))

    def has_partial_reply(self) -> bool:
        """Whether the beginning of a reply came behind the last one, in one piece with it: only the parser knows."""
        if self._parser is None:
            return False
        try:
            return self._parser.feed_eof() is not None
        except Exception:  # noqa: BLE001 - whatever it says of half a reply
            return True

    def _note_surplus(self) -> None:
        if not self.has_surplus:
            self.has_surplus = True
            if self.is_kept:
                self._connections.on_surplus(self)


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
