"""Contains all code that relies on private parts of aiohttp. It is used only with tested aiohttp versions.

aiohttp hides the connection of a reply, retries requests on its own, and changes request lines. Only this module uses
`ResponseHandler` and its buffers, the pool of `TCPConnector`, the steps of `ClientRequest`, and the exceptions of the
parser. The transport imports this module only when it starts, because the module requires aiohttp.
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

# A value that parts of aiohttp exchange, and that this module only forwards.
LibraryValue: TypeAlias = Any


class KeptConnections(HeldConnections):
    """An event loop's connections, which aiohttp keeps for later requests."""

    def session(self, judging: TransportOptions | None) -> aiohttp.ClientSession:
        """Return a session without automatic retries.

        Args:
            judging: options that determine which lookups must return only public addresses; None to allow any address.
        """
        made = open_session(_Connector(self, judging), self.requests_max, request_class=_VerbatimRequest)
        # Otherwise, aiohttp would retry on any connection, even on a new one.
        made._retry_connection = False  # noqa: SLF001
        return made

    def head_kind(self, error: BaseException | None) -> str:
        """Return the failure kind of a head that could not be parsed, found in one of the error's causes."""
        while error is not None:
            if isinstance(error, http_exceptions.BadStatusLine):
                return "not-http"
            if isinstance(error, http_exceptions.LineTooLong):
                return "head-too-large"
            error = error.__cause__
        return "framing"


class _Connector(aiohttp.TCPConnector):
    """A connector for connections that hold answers. It owns and closes its resolver."""

    def __init__(self, connections: HeldConnections, judging: TransportOptions | None) -> None:
        self._own_resolver = Resolver(judging)
        options: dict[str, LibraryValue] = {"resolver": self._own_resolver, "ttl_dns_cache": DNS_CACHE_SECONDS}
        if judging is not None:
            # aiohttp caches addresses by host, and an address cached for the other scheme would bypass the resolver.
            options["socket_factory"] = partial(judged_socket, judging)
        super().__init__(limit=connections.requests_max, **options)
        self._connections = connections
        # aiohttp only calls the factory.
        self._factory = lambda: HoldingConnection(self._loop, connections)  # type: ignore[assignment]

    def set_aside(self, connection: "HoldingConnection") -> None:
        """Stop counting a connection that is resting."""
        self._release_acquired(connection.key, connection)

    def put_back(self, connection: "HoldingConnection") -> None:
        """Make a connection available to later requests."""
        super()._release(connection.key, connection)

    def drop(self, connection: "HoldingConnection") -> None:
        """Close a connection."""
        super()._release(connection.key, connection, should_close=True)

    async def _get(self, key: LibraryValue, traces: LibraryValue) -> LibraryValue:
        """Return a connection for the next request, or None."""
        if CURRENT_ATTEMPT.get().is_fresh:
            return None
        while (found := await super()._get(key, traces)) is not None:
            connection: LibraryValue = found.protocol
            # If the next reply counts as certain, bytes that have already arrived would be mistaken for it.
            if not connection.held.is_next_certain or not connection.is_readable():
                return found
            found._protocol = None  # noqa: SLF001 - `found` would close the connection
            self._connections.look_again(connection)
        return None

    def _release(self, key: LibraryValue, protocol: LibraryValue, *, should_close: bool = False) -> None:
        """Handle the end of a request, with or without a complete reply."""
        protocol.end_reply(self, key)
        if should_close:
            self._connections.give_up(protocol)

    async def close(self, **options: LibraryValue) -> None:
        await super().close(**options)
        await self._own_resolver.close()


class HoldingConnection(ResponseHandler):
    """A connection, in the form of aiohttp's protocol, that tracks its request in flight and its held answers.

    Args:
        loop: the event loop.
        connections: the loop's connections, which are notified of bytes that arrive without a request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: HeldConnections) -> None:
        super().__init__(loop)
        self._connections = connections
        self.held = connections.new_held()
        # The connector, which is set when the connection is released for the first time.
        self.connector: ConnectionOwner | None = None
        self.key: ConnectionKey = None
        self.is_used = False
        # Whether a request is in flight. The first request may be the request to a proxy.
        self._is_awaited = True
        # Whether the connection is unused, resting or ending: no request is in flight and the last reply was checked.
        self.is_kept = False
        # Whether the current request asks the server to close the connection.
        self.is_last = False
        # Whether the server was asked to close but did not announce it. If so, the connection's end proves nothing.
        self.is_unannounced = False
        self.has_surplus = False
        # Whether the connection ended with an error instead of being closed by the server.
        self.is_broken = False
        # Whether the targets of the held answers have been requested again.
        self.is_lost = False
        # Whether the connection is resting without counting as a request in flight.
        self.is_aside = False
        self.is_ending = False
        # Monotonic time at which the connection started to rest.
        self.rest_began = 0.0
        self.rest_seconds = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.rested: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used again after a complete reply."""
        transport = self.transport
        return transport is not None and not self._should_close and not transport.is_closing()

    def begin_request(self) -> None:
        """Prepare to send a request."""
        self._connections.unused.pop(self, None)
        self._connections.awaited[self] = time.monotonic()
        self.is_used = True
        self.is_kept = False
        self._is_awaited = True
        self.is_last = self.held.is_ending

    def end_reply(self, connector: ConnectionOwner, key: ConnectionKey) -> None:
        """Record that the reply is complete. From now on, all bytes are unsolicited."""
        self.connector, self.key = connector, key
        self._connections.awaited.pop(self, None)
        self._is_awaited = False
        if self._buffer or self._tail:
            self.has_surplus = True

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the reply to the current request, or unsolicited bytes."""
        if data and not self._is_awaited:
            self._note_surplus()
            return
        super().data_received(data)
        # The request ends when the last bytes of its body are parsed. The same call may have parsed later bytes.
        if not self._is_awaited and (self._buffer or isinstance(self.exception(), http_exceptions.HttpProcessingError)):
            self._note_surplus()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Handle the end of the connection, with or without an error."""
        is_whole = self._payload is not None and self._payload.is_eof()
        if is_whole and self.has_partial_reply():
            self.has_surplus = True
        super().connection_lost(exc)
        self.is_broken = exc is not None
        self._connections.on_lost(self)

    def is_readable(self) -> bool:
        """Return whether bytes are unread, or the connection has ended but the loop has not noticed yet.

        Timers can run before the loop reads bytes that arrived while it was busy.
        """
        socket = None if self.transport is None else self.transport.get_extra_info("socket")
        if socket is None or (number := socket.fileno()) < 0:
            return False
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(0))

    def has_partial_reply(self) -> bool:
        """Return whether the last reply was followed by the start of another reply, which only the parser can tell."""
        if self._parser is None:
            return False
        try:
            return self._parser.feed_eof() is not None
        except Exception:  # noqa: BLE001 - a partial reply can cause any error
            return True

    def _note_surplus(self) -> None:
        if not self.has_surplus:
            self.has_surplus = True
            if self.is_kept:
                self._connections.on_surplus(self)


class _VerbatimRequest(aiohttp.ClientRequest):
    """A request whose request line aiohttp does not change."""

    def update_auto_headers(self, skip_auto_headers: LibraryValue) -> None:
        """Add no fields, because aiohttp's default fields would otherwise have to be suppressed one by one."""

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
    """A URL that is sent verbatim. aiohttp's own URL class removes parts that it considers redundant."""

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
