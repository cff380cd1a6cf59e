"""What a thread knows of the attempt that it makes: shared by the layers of the library that make it."""

import socket
from dataclasses import dataclass

from fetchmill.engines.http import connecting, kinds, reaching
from fetchmill.engines.http.addresses import Address
from fetchmill.engines.http.deadlines import Deadlines
from fetchmill.engines.http.framing import End
from fetchmill.engines.http.kinds import Failure
from fetchmill.engines.http.proxies import Proxy
from fetchmill.engines.http.trust import Trust
from fetchmill.engines.transports import TransportOptions

# A head with this much before its end is refused; as much more may have been read with it.
_HEAD_BYTES_MAX = 1 << 16
# Bytes on the wire for each byte of a body: chunks of one byte have six.
_OVERHEAD = 6


@dataclass
class Reply:
    """What came of a reply.

    Args:
        end: how its body ends, once the head is there.
        is_cut: whether the connection has ended.
        bytes: so many came.
        bytes_max: and so many may come.
    """

    end: End | None = None
    is_cut: bool = False
    bytes: int = 0
    bytes_max: int = 2 * _HEAD_BYTES_MAX


class Wire:
    """One thread's.

    Args:
        options: of the job.
    """

    def __init__(self, options: TransportOptions) -> None:
        self.proxy = Proxy.of(options)
        self.is_reused = False
        self._options = options
        self._trust = Trust(options)

    def begin(self, address: Address) -> None:
        """Another attempt.

        Raises:
            Failure: `private-address`.
            UsageError: the file of certificates cannot be used.
        """
        if self._options.public_only:
            reaching.check_host(address.host)
        self.address = address
        self.proxy_of_attempt = self.proxy if self.proxy and self.proxy.is_for(address.host) else None
        self.context = self._trust.context_for(address.host) if address.scheme == "https" else None
        self.deadlines = Deadlines(self._options)
        self.reply = Reply()

    def connect(self, host: str, port: int, *, is_to_proxy: bool) -> socket.socket:
        """A connection to a host or to the proxy, which looks the target up itself.

        Raises:
            Failure: there is none.
        """
        self.deadlines.connecting()
        self.reply = Reply()
        places = connecting.look_up(host, port)
        if self._options.public_only and not is_to_proxy:
            reaching.check_addresses(str(place.sockaddr[0]) for place in places)
        return connecting.connect(places, self.deadlines)

    def asked(self) -> None:
        """The request is sent."""
        self.deadlines.asked()
        self.reply = Reply()

    def has_head(self, end: End) -> None:
        """The head is read, and tells how the body ends."""
        self.reply.end = end
        self.reply.bytes_max = _OVERHEAD * self._options.max_size + 2 * _HEAD_BYTES_MAX
        self.deadlines.has_head()

    def received(self, count: int) -> None:
        """Bytes came; 0 is the end of the connection.

        Raises:
            Failure: they are more than any reply may have, with whatever a server puts between those of the body.
        """
        reply = self.reply
        reply.is_cut = reply.is_cut or count == 0
        reply.bytes += count
        if reply.bytes > reply.bytes_max:
            raise Failure("body-too-large" if reply.end else "head-too-large")
        if reply.end:
            self.deadlines.received(count)

    def broken(self, error: OSError) -> str:
        """The failure kind of a connection that broke while it was read."""
        return "truncated" if self.reply.end else kinds.of_open(error)
