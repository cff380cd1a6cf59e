"""What a thread knows of the attempt that it makes: shared by the layers of the library that make it."""

import socket
from dataclasses import dataclass
from typing import Any

from fetchmill.engines.http import address_policy, connection, failure_kinds
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.framing import BodyEnd
from fetchmill.engines.http.proxies import Proxies, Proxy, no_way_to_proxy
from fetchmill.engines.http.request_url import RequestUrl
from fetchmill.engines.http.tls_contexts import TlsContexts
from fetchmill.engines.transports import TransportOptions

# A head with this much before its end is refused; as much more may have been read with it.
_HEAD_BYTES_MAX = 1 << 16
# Bytes on the wire for each byte of a body: chunks of one byte have six.
_OVERHEAD = 6


@dataclass
class ReplyProgress:
    """What came of a reply.

    Args:
        end: how its body ends, once the head is there.
        is_cut: whether the connection has ended.
        bytes: so many came.
        bytes_max: and so many may come.
        has_surplus: whether bytes came behind it that nobody asked for.
        is_ended: whether the server has closed the connection behind it, and nothing came before that.
    """

    end: BodyEnd | None = None
    is_cut: bool = False
    bytes: int = 0
    bytes_max: int = 2 * _HEAD_BYTES_MAX
    has_surplus: bool = False
    is_ended: bool = False


class BlockingAttempt:
    """One thread's.

    Args:
        options: of the job.
    """

    def __init__(self, options: TransportOptions) -> None:
        self.proxy_of_attempt: Proxy | None = None
        self._proxies = Proxies.of(options)
        self.is_reused = False
        # The one that was used last; None before the first.
        self.connection: Any = None
        self._options = options
        self._tls = TlsContexts(options)
        self._must_be_public = options.public_only

    def begin(self, address: RequestUrl) -> None:
        """Another attempt.

        Raises:
            Failure: `private-address`.
            UsageError: the file of certificates cannot be used.
        """
        self._must_be_public = address_policy.must_be_public(self._options, address)
        if self._must_be_public:
            address_policy.check_host(address.host)
        self.address = address
        self.proxy_of_attempt = self._proxies.proxy_of(address)
        self.context = self._tls.context_for(address.host) if address.scheme == "https" else None
        self.deadlines = Deadlines(self._options)
        self.reply = ReplyProgress()

    def connect(self, host: str, port: int, *, is_to_proxy: bool) -> socket.socket:
        """A connection to a host or to the proxy, which looks the target up itself.

        Raises:
            Failure: there is none.
        """
        self.deadlines.on_connect()
        self.reply = ReplyProgress()
        if is_to_proxy:
            with no_way_to_proxy():
                return connection.connect(connection.look_up(host, port), self.deadlines)
        addresses = connection.look_up(host, port)
        if self._must_be_public:
            address_policy.check_addresses(str(address.sockaddr[0]) for address in addresses)
        return connection.connect(addresses, self.deadlines)

    def on_request_sent(self) -> None:
        """The request is sent."""
        self.deadlines.on_request_sent()
        self.reply = ReplyProgress()

    def on_head(self, end: BodyEnd) -> None:
        """The head is read, and tells how the body ends."""
        self.reply.end = end
        self.reply.bytes_max = _OVERHEAD * self._options.max_size + 2 * _HEAD_BYTES_MAX
        self.deadlines.on_head()

    def on_bytes(self, count: int) -> None:
        """Bytes came; 0 is the end of the connection.

        Raises:
            Failure: they are more than any reply may have, with whatever a server puts between those of the body.
        """
        reply = self.reply
        reply.is_cut = reply.is_cut or count == 0
        reply.bytes += count
        if reply.bytes > reply.bytes_max:
            raise AttemptError("body-too-large" if reply.end else "head-too-large")
        if reply.end:
            self.deadlines.on_bytes(count)

    def read_failure_kind(self, error: OSError) -> str:
        """The failure kind of a connection that broke while it was read."""
        return "truncated" if self.reply.end else failure_kinds.connection_kind(error)
