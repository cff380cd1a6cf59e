"""The state of an attempt in a thread, which the layers of the library share."""

import socket
import ssl
from dataclasses import dataclass
from typing import Any

from fetchmill.engines.http import address_policy, connection, failure_kinds
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.framing import BodyEnd
from fetchmill.engines.http.proxies import Proxies, Proxy, no_way_to_proxy
from fetchmill.engines.http.reply_file import ReplyFile
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.http.tls_contexts import TlsContexts
from fetchmill.engines.http.tunnel import open_tunnel
from fetchmill.engines.transports import TransportOptions

# Maximum size of a head. Up to the same number of additional bytes may have been read along with it.
_HEAD_BYTES_MAX = 1 << 16
# Maximum number of bytes on the wire per byte of a body. A one-byte chunk takes six bytes.
_OVERHEAD = 6


@dataclass
class ReplyProgress:
    """The progress of a reply.

    Args:
        end: how the body ends; None before the head has arrived.
        is_last: whether the server closes the connection after the reply.
        is_cut: whether the connection has ended.
        bytes: number of bytes received.
        bytes_max: maximum number of bytes to receive.
        has_surplus: whether unsolicited bytes arrived after the reply.
        is_ended: whether the server has closed the connection after the reply, without sending unsolicited bytes.
    """

    end: BodyEnd | None = None
    is_last: bool = False
    is_cut: bool = False
    bytes: int = 0
    bytes_max: int = 2 * _HEAD_BYTES_MAX
    has_surplus: bool = False
    is_ended: bool = False


class BlockingAttempt:
    """The attempts that one thread makes one after another.

    Args:
        options: the options of the job.
        keeps_connections: whether connections can be reused.
    """

    def __init__(self, options: TransportOptions, *, keeps_connections: bool = True) -> None:
        self.keeps_connections = keeps_connections
        self._proxy: Proxy | None = None
        self._proxies = Proxies.of(options)
        self.is_reused = False
        # The connection that was used last, or None before the first request.
        self.connection: Any = None
        self._options = options
        self._tls = TlsContexts(options)
        self._must_be_public = options.public_only
        self._file: ReplyFile | None = None

    def begin(self, address: RequestUrl) -> None:
        """Start another attempt.

        Raises:
            AttemptError: `private-address`.
            UsageError: the certificate file is unusable.
        """
        self._must_be_public = address_policy.must_be_public(self._options, address)
        if self._must_be_public:
            address_policy.check_host(address.host)
        self.address = address
        self._proxy = self._proxies.proxy_of(address)
        self.context = self._tls.context_for(address.host) if address.scheme == "https" else None
        self.deadlines = Deadlines(self._options)
        self.reply = ReplyProgress()
        self.is_reused = False

    @property
    def place(self) -> tuple[object, ...]:
        """A connection's destination and TLS context. Attempts in which both are the same can reuse the connection."""
        address = self.address
        return address.scheme, address.host, address.port, self.context, self._proxy

    @property
    def request_line_target(self) -> str:
        """The target in the request line, which is the whole URL for a proxy without a tunnel."""
        return self.address.url if self._is_forwarded else self.address.target

    def proxy_fields(self) -> list[tuple[str, str]]:
        """Return header fields for a proxy, or none inside a tunnel, whose contents the proxy cannot see."""
        return list(self._proxy.fields.items()) if self._proxy and self._is_forwarded else []

    @property
    def _is_forwarded(self) -> bool:
        return self._proxy is not None and self.context is None

    def connect(self) -> socket.socket:
        """Connect to the origin, or to a proxy that resolves the origin. Use TLS for https.

        Raises:
            AttemptError: the connection failed.
        """
        self.deadlines.on_connect()
        self.reply = ReplyProgress()
        opened = self._connect_to_proxy(self._proxy) if self._proxy else self._connect_to_origin()
        try:
            if self._proxy and not self._is_forwarded:
                self._open_tunnel(opened, self._proxy)
            return opened if self.context is None else self._begin_tls(opened, self.context)
        except BaseException:
            opened.close()
            raise

    def _connect_to_proxy(self, proxy: Proxy) -> socket.socket:
        with no_way_to_proxy():
            return connection.connect(connection.look_up(proxy.host, proxy.port), self.deadlines)

    def _connect_to_origin(self) -> socket.socket:
        addresses = connection.look_up(self.address.host, self.address.port)
        if self._must_be_public:
            address_policy.check_addresses(str(address.sockaddr[0]) for address in addresses)
        return connection.connect(addresses, self.deadlines)

    def _open_tunnel(self, opened: socket.socket, proxy: Proxy) -> None:
        answer = ReplyFile(opened, self)
        try:
            open_tunnel(opened, self.address, proxy, answer)
        finally:
            answer.finish()

    def _begin_tls(self, opened: socket.socket, context: ssl.SSLContext) -> socket.socket:
        opened.settimeout(max(self.deadlines.remaining()[0], connection.SECONDS_MIN))
        try:
            # Require TLS's own close message. Otherwise, an attacker on the network path could truncate the body.
            return context.wrap_socket(
                opened, server_hostname=self.address.host.rstrip("."), suppress_ragged_eofs=False
            )
        except OSError as error:
            is_late = isinstance(error, TimeoutError) and error.errno is None
            kind = "tls-timeout" if is_late else failure_kinds.handshake_kind(error)
            raise AttemptError(kind, failure_kinds.error_text(error)) from None
        except ValueError as error:
            # No certificate can have this name.
            raise AttemptError("url", failure_kinds.error_text(error)) from None

    def on_connection(self, used: Any, *, is_reused: bool) -> None:  # noqa: ANN401 - the library's type
        """Record the connection for the next request."""
        self.connection = used
        self.is_reused = is_reused

    def begin_reply(self, file: ReplyFile) -> ReplyFile:
        """Record that the request was sent, and that its reply will be read from `file`."""
        self.close_reply()
        self._file = file
        self.deadlines.on_request_sent()
        self.reply = ReplyProgress()
        return file

    def end_reply(self) -> None:
        """Check for unsolicited bytes after a complete body. If the server closes the connection, read until the end.

        If the connection is not kept, nothing else needs to be read, because its only reply is certain.
        """
        reply = self.reply
        if self._file and reply.end and reply.end.is_delimited:
            until_closed = reply.is_last and self.keeps_connections
            reply.has_surplus, reply.is_ended = self._file.look(until_closed=until_closed)

    def close_reply(self) -> None:
        """Stop reading the reply."""
        if self._file is not None:
            self._file.finish()
            self._file = None

    def on_head(self, end: BodyEnd, *, is_last: bool) -> None:
        """Record that the head was read, and how the body and the connection will end."""
        self.reply.end = end
        self.reply.is_last = is_last
        self.reply.bytes_max = _OVERHEAD * self._options.max_size + 2 * _HEAD_BYTES_MAX
        self.deadlines.on_head()

    def on_bytes(self, count: int) -> None:
        """Record that a number of bytes has arrived. 0 means the end of the connection.

        Raises:
            AttemptError: more bytes arrived than a reply can have, even with framing around each byte of its body.
        """
        reply = self.reply
        reply.is_cut = reply.is_cut or count == 0
        reply.bytes += count
        if reply.bytes > reply.bytes_max:
            raise AttemptError("body-too-large" if reply.end else "head-too-large")
        if reply.end:
            self.deadlines.on_bytes(count)

    def read_failure_kind(self, error: OSError) -> str:
        """Return the failure kind of a connection that broke while a reply was being read."""
        return "truncated" if self.reply.end else failure_kinds.connection_kind(error)
