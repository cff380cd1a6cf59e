"""Makes attempts with aiohttp in one event loop.

The transport imports this module only when it starts, because the module requires aiohttp. aiohttp uses most of the CPU
time, so this module does little per request.
"""

import re
import socket
import ssl
from typing import Protocol

import aiohttp
from yarl import URL

from fetchmill.engines.answers import Answer, FailureAnswer, ReplyAnswer, checksum_fields
from fetchmill.engines.body_memory import BodyRoom
from fetchmill.engines.http import address_policy, failure_kinds, request_url
from fetchmill.engines.http.aiohttp_attempt import CURRENT_ATTEMPT, AsyncAttempt, HandshakeContext
from fetchmill.engines.http.failure_kinds import AttemptError, UncertainError
from fetchmill.engines.http.framing import BodyEnd, body_end
from fetchmill.engines.http.proxies import Proxies, Proxy, proxy_error
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.http.tls_contexts import TlsContexts
from fetchmill.engines.transports import AnswerReceiver, Target, TransportOptions


class Connections(Protocol):
    """Assigns connections to requests, and decides when a reply is certain to belong to its request."""

    def session(self, judging: TransportOptions | None) -> aiohttp.ClientSession:
        """Return a session. `judging` determines which lookups must return only public addresses; None allows any."""

    def url_of(self, address: RequestUrl) -> URL:
        """Return the URL that is passed to the session."""

    def fields(self) -> list[tuple[str, str]]:
        """Return header fields to add to the target's own header fields."""

    def head_kind(self, error: BaseException) -> str:
        """Return the failure kind of a head that could not be parsed."""

    def check_end(self, attempt: AsyncAttempt, end: BodyEnd) -> None:
        """Check a complete reply.

        Raises:
            AttemptError: it is uncertain which request the reply belongs to.
        """

    async def settle(self, target: Target, answer: ReplyAnswer, attempt: AsyncAttempt) -> ReplyAnswer | None:
        """Accept a reply that passed `check_end`. Return it if it is certain, otherwise hold it."""

    def abandon(self, attempt: AsyncAttempt) -> None:
        """Handle an attempt without a reply."""

    async def close(self) -> None:
        """Clean up at the end of the job."""


class AiohttpClient:
    """The client of one event loop. Connections are opened on demand.

    Args:
        options: the options of the job.
        proxies: the proxies of the job.
        receiver: the event loop, which manages the memory for bodies.
        connections: the event loop's connections.
    """

    def __init__(
        self, options: TransportOptions, proxies: Proxies, receiver: AnswerReceiver, connections: Connections
    ) -> None:
        self._options = options
        self._proxies = proxies
        self._memory = receiver.body_memory
        self._connections = connections
        self._direct = connections.session(options)
        # The session for requests through a proxy, whose address can be private.
        self._proxied = connections.session(None) if proxies.of_scheme else None
        self._tls = TlsContexts(options, HandshakeContext)

    async def fetch(self, target: Target) -> Answer | None:
        """Make one attempt at a target. Return None if the answer is held."""
        try:
            address = request_url.parse(target.url)
            if address_policy.must_be_public(self._options, address):
                address_policy.check_host(address.host)
            try:
                return await self._ask(target, address)
            except UncertainError:
                return await self._ask(target, address, is_fresh=True)
        except AttemptError as failure:
            return FailureAnswer(target.sequence, failure.kind, failure.detail)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()
        await self._direct.close()
        if self._proxied is not None:
            await self._proxied.close()

    async def _ask(self, target: Target, address: RequestUrl, *, is_fresh: bool = False) -> ReplyAnswer | None:
        """Make one request.

        Raises:
            AttemptError: no complete reply was received.
        """
        proxy = self._proxies.proxy_of(address)
        # Create the context before the deadlines start, because the first context reads all of the system's
        # certificates.
        context = self._tls.context_for(address.host) if address.scheme == "https" else None
        attempt = AsyncAttempt(address, context, self._options, is_fresh=is_fresh)
        try:
            with attempt:
                CURRENT_ATTEMPT.set(attempt)
                answer = await self._exchange(target, attempt, proxy)
        except BaseException as error:
            self._connections.abandon(attempt)
            if isinstance(error, (aiohttp.ClientError, OSError, AttemptError)):
                raise self._failure(error, attempt) from None
            raise
        return await self._connections.settle(target, answer, attempt)

    async def _exchange(self, target: Target, attempt: AsyncAttempt, proxy: Proxy | None) -> ReplyAnswer:
        session = self._proxied if proxy and self._proxied else self._direct
        # The proxy does not see requests inside a tunnel.
        to_proxy = list(proxy.fields.items()) if proxy and not attempt.context else []
        reply = await session.get(
            self._connections.url_of(attempt.address),
            headers=[*target.headers(), *self._connections.fields(), *to_proxy],
            allow_redirects=False,
            ssl=attempt.context or True,
            proxy=proxy.url if proxy else None,
            proxy_headers=proxy.fields if proxy else None,
        )
        try:
            fields = reply.headers
            end = body_end(reply.status, reply.version or (1, 0), fields.items())
            self._check_size(end.length or 0)
            content = reply.content
            # Most small bodies arrive together with their head, so waiting is unnecessary.
            is_whole = content.is_eof() and content.exception() is None
            body = content.read_nowait() if is_whole else await self._read(reply, attempt, end.length)
            self._check_size(len(body))
            _check_length(body, end)
            self._connections.check_end(attempt, end)
        except BaseException:
            reply.close()
            raise
        return ReplyAnswer.of(
            target.sequence, reply.status, body, fields, is_verified=end.is_delimited, checksums=checksum_fields(fields)
        )

    async def _read(self, reply: aiohttp.ClientResponse, attempt: AsyncAttempt, length: int | None) -> bytes:
        """Read the body without decoding it. While memory is insufficient, aiohttp stops reading and the server waits.

        Raises:
            AttemptError: the body is too large or broken.
        """
        attempt.on_head()
        pieces: list[bytes] = []
        size = 0
        with self._memory.begin_body(attempt.held_bytes) as room:
            if length is not None:
                await self._admit(attempt, room, length)
            try:
                async for piece in reply.content.iter_any():
                    pieces.append(piece)
                    size += len(piece)
                    attempt.on_bytes(len(piece))
                    self._check_size(size)
                    if length is None:
                        await self._admit(attempt, room, len(piece))
            except (aiohttp.ClientError, ConnectionError) as error:
                is_framing = isinstance(error, aiohttp.ClientResponseError)
                raise AttemptError("framing" if is_framing else "truncated") from None
        return b"".join(pieces)

    async def _admit(self, attempt: AsyncAttempt, room: BodyRoom, count: int) -> None:
        """Wait until memory is available for `count` more bytes."""
        if not self._memory.take(room, count):
            with attempt.paused():
                await self._memory.wait(room, count)

    def _check_size(self, size: int) -> None:
        if size > self._options.max_size:
            raise AttemptError("body-too-large")

    def _failure(self, error: Exception, attempt: AsyncAttempt) -> AttemptError:
        """Return the failure of an attempt without a complete reply."""
        if isinstance(error, AttemptError):
            failure = error
        else:
            failure = AttemptError(attempt.kind) if attempt.is_late else self._head_error(error, attempt)
        if attempt.is_reused and failure.kind in failure_kinds.STALE_KINDS:
            return UncertainError(failure.kind, failure.detail)
        if not attempt.is_certain and failure.kind == "body-too-large":
            return UncertainError(failure.kind, failure.detail)
        return failure

    def _head_error(self, error: Exception, attempt: AsyncAttempt) -> AttemptError:  # noqa: PLR0911 - a table
        """Return the failure of an attempt without a head."""
        text = failure_kinds.error_text(error)
        match error:
            case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLError() as reason):
                return AttemptError(failure_kinds.handshake_kind(reason), failure_kinds.error_text(reason))
            case aiohttp.ClientProxyConnectionError():
                return AttemptError("proxy", f"cannot reach the proxy ({_connect_kind(error.os_error)})")
            case aiohttp.ClientConnectorError():
                return AttemptError(_connect_kind(error.os_error), text)
            case aiohttp.ClientHttpProxyError():
                return proxy_error(error.status)
            case aiohttp.ClientResponseError() if not attempt.is_request_sent:
                return AttemptError("proxy-refused", "the proxy's reply is not HTTP")
            case aiohttp.ClientResponseError():
                return AttemptError(self._connections.head_kind(error))
            case aiohttp.InvalidURL():
                return AttemptError("url", text)
            case OSError():
                return AttemptError(failure_kinds.connection_kind(error), text)
            case aiohttp.ClientConnectionError():
                return AttemptError("reset", text)
        return AttemptError("framing", text)


def _check_length(body: bytes, end: BodyEnd) -> None:
    if end.length not in (None, len(body)):
        raise AttemptError("truncated")


def _connect_kind(error: OSError) -> str:
    """Return the failure kind of a connection error, whose text contains error numbers if several addresses failed."""
    if isinstance(error, ssl.SSLError):
        return failure_kinds.handshake_kind(error)
    if isinstance(error, socket.gaierror):
        # A host that aiohttp considers an address bypasses the resolver, but some aiohttp releases still look it up.
        return failure_kinds.lookup_kind(error)
    numbers = re.findall(r"\[Errno (\d+)\]", str(error)) if type(error) is OSError and error.errno is None else []
    return failure_kinds.most_specific(
        failure_kinds.connect_kind(each) for each in [OSError(int(n), "") for n in numbers] or [error]
    )
