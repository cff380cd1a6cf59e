"""Many requests at a time in one event loop, with the library aiohttp."""

import asyncio
import re
import ssl
from typing import TYPE_CHECKING, NamedTuple

from fetchmill.engines.answers import Answer, Broken, Replied
from fetchmill.engines.http import addresses, kinds, reaching
from fetchmill.engines.http.addresses import Address
from fetchmill.engines.http.framing import End, end_of
from fetchmill.engines.http.kinds import Failure
from fetchmill.engines.http.libraries import load
from fetchmill.engines.http.proxies import Proxy, of_proxy
from fetchmill.engines.http.trust import Trust
from fetchmill.engines.transports import Target, TransportOptions

if TYPE_CHECKING:
    import aiohttp

    from fetchmill.engines.http.connector import Attempt


class _Stale(Failure):
    """A connection that was used before has given no reply."""


class _State(NamedTuple):
    """What one event loop has for itself.

    Args:
        direct: for what is asked without a proxy.
        proxied: for the proxy, whose own address nobody judges.
        trust: whose certificates are believed.
    """

    direct: "aiohttp.ClientSession"
    proxied: "aiohttp.ClientSession | None"
    trust: Trust


class Aiohttp:
    """Implements `AwaitingTransport`; may be sent to another process.

    Args:
        options: of the job.

    Raises:
        UsageError: the library is not installed.
    """

    def __init__(self, options: TransportOptions) -> None:
        load("aiohttp")
        self._options = options
        self._proxy = Proxy.of(options)

    async def start(self) -> _State:
        """Sessions, whose connections are made when they are needed."""
        from fetchmill.engines.http.connector import Context, session

        direct = session(self._options, is_judged=self._options.public_only)
        proxied = session(self._options, is_judged=False) if self._proxy else None
        return _State(direct, proxied, Trust(self._options, Context))

    async def fetch(self, target: Target, state: _State) -> Answer:
        """One attempt at a target."""
        try:
            address = addresses.parse(target.url)
            if self._options.public_only:
                reaching.check_host(address.host)
            try:
                return await self._ask(target, address, state)
            except _Stale:
                return await self._ask(target, address, state)
        except Failure as failure:
            return Broken(target.sequence, failure.kind, failure.detail)

    async def done(self, state: _State) -> None:
        """Closes the connections."""
        await state.direct.close()
        if state.proxied is not None:
            await state.proxied.close()

    async def _ask(self, target: Target, address: Address, state: _State) -> Replied:
        """One request.

        Raises:
            Failure: there is no complete reply.
        """
        import aiohttp

        from fetchmill.engines.http.connector import CURRENT, Attempt

        proxy = self._proxy if self._proxy and self._proxy.is_for(address.host) else None
        # Made before time counts: the first one reads all authorities of the system.
        context = state.trust.context_for(address.host) if address.scheme == "https" else None
        limit = asyncio.timeout(None)
        try:
            async with limit:
                attempt = Attempt(address, context, self._options, limit)
                CURRENT.set(attempt)
                return await self._exchange(target, attempt, proxy, state)
        except (aiohttp.ClientError, OSError) as error:
            failure = Failure(attempt.kind) if limit.expired() else _of(error, attempt)
            is_stale = attempt.is_reused and failure.kind in kinds.OF_OLD_CONNECTIONS
            raise (_Stale(failure.kind, failure.detail) if is_stale else failure) from None

    async def _exchange(self, target: Target, attempt: "Attempt", proxy: Proxy | None, state: _State) -> Replied:
        session = state.proxied if proxy and state.proxied else state.direct
        # What is inside of a tunnel the proxy does not see.
        to_proxy = list(proxy.fields.items()) if proxy and not attempt.context else []
        reply = await session.get(
            attempt.url,
            headers=target.headers() + to_proxy,
            allow_redirects=False,
            ssl=attempt.context or True,
            proxy=proxy.url if proxy else None,
            proxy_headers=proxy.fields if proxy else None,
        )
        try:
            end = _end(reply)
            attempt.has_head()
            body = await self._read(reply, end, attempt)
        except BaseException:
            reply.close()
            raise
        return _replied(target, reply, body, end)

    async def _read(self, reply: "aiohttp.ClientResponse", end: End, attempt: "Attempt") -> bytes:
        """The body as it was sent.

        Raises:
            Failure: it is too large, or broken.
        """
        from aiohttp import ClientError, ClientResponseError

        if end.length is not None and end.length > self._options.max_size:
            raise Failure("body-too-large")
        body = bytearray()
        try:
            async for piece in reply.content.iter_any():
                body += piece
                attempt.received(len(piece))
                if len(body) > self._options.max_size:
                    raise Failure("body-too-large")
        except (ClientError, ConnectionError) as error:
            raise Failure("framing" if isinstance(error, ClientResponseError) else "truncated") from None
        if end.length not in (None, len(body)):
            raise Failure("truncated")
        return bytes(body)


def _end(reply: "aiohttp.ClientResponse") -> End:
    fields = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in reply.raw_headers)
    return end_of(reply.status, reply.version or (1, 0), fields)


def _replied(target: Target, reply: "aiohttp.ClientResponse", body: bytes, end: End) -> Replied:
    fields = reply.headers
    return Replied(
        target.sequence,
        reply.status,
        body,
        end.is_told,
        fields.get("Content-Type"),
        fields.get("ETag"),
        fields.get("Last-Modified"),
        fields.get("Retry-After"),
    )


def _of(error: Exception, attempt: "Attempt") -> Failure:  # noqa: PLR0911 - a table
    """What it means that there is no head."""
    import aiohttp

    text = kinds.text_of(error)
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLError() as reason):
            return Failure(kinds.of_handshake(reason), kinds.text_of(reason))
        case aiohttp.ClientConnectorError():
            return Failure(_of_connecting(error.os_error), text)
        case aiohttp.ClientHttpProxyError():
            return of_proxy(error.status)
        case aiohttp.ClientResponseError() if not attempt.is_asked:
            return Failure("proxy-refused", "the proxy's answer is no HTTP")
        case aiohttp.ClientResponseError():
            return Failure(_of_parsing(error))
        case aiohttp.InvalidURL():
            return Failure("url", text)
        case OSError():
            return Failure(kinds.of_open(error), text)
        case aiohttp.ClientConnectionError():
            return Failure("reset", text)
    return Failure("framing", text)


def _of_connecting(error: OSError) -> str:
    """Of one address, or of several: then the numbers of their errors are in the text."""
    if isinstance(error, ssl.SSLError):
        return kinds.of_handshake(error)
    numbers = re.findall(r"\[Errno (\d+)\]", str(error)) if type(error) is OSError and error.errno is None else []
    return kinds.most_telling(kinds.of_connecting(each) for each in [OSError(int(n), "") for n in numbers] or [error])


def _of_parsing(error: BaseException | None) -> str:
    """What it means that a head could not be parsed: one of the causes says why."""
    from aiohttp import http_exceptions

    while error is not None:
        if isinstance(error, http_exceptions.BadStatusLine):
            return "not-http"
        if isinstance(error, http_exceptions.LineTooLong):
            return "head-too-large"
        error = error.__cause__
    return "framing"
