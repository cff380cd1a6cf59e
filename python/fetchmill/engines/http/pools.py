"""What `requests` and the libraries below it do otherwise for us, one class for each of their layers.

They re-quote paths, follow redirects, keep cookies, retry, read heads without a deadline and forgive ambiguous framing.
Imported by the transport when it starts, for it needs the libraries. All of it belongs to one thread.
"""

import email.errors
import functools
import http.client
import io
import socket
import ssl
from http.cookiejar import DefaultCookiePolicy
from typing import Any, TypeAlias

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from fetchmill.engines.http import kinds
from fetchmill.engines.http.framing import UNTOLD, End, end_of
from fetchmill.engines.http.kinds import Failure
from fetchmill.engines.http.proxies import of_proxy
from fetchmill.engines.http.wire import Wire

# Names of fields that urllib3 adds on its own unless it is told not to.
_ADDED = ("Accept-Encoding", "User-Agent")
# Lines of a head that are no fields. Other defects are of bodies, which `http.client` never shows to the parser.
_DEFECTS = (
    email.errors.FirstHeaderLineIsContinuationDefect,
    email.errors.InvalidHeaderDefect,
    email.errors.MisplacedEnvelopeHeaderDefect,
    email.errors.MissingHeaderBodySeparatorDefect,
)
# What they pass to one another, and we pass on.
Theirs: TypeAlias = Any


class StaleError(Exception):
    """A connection that was used before has given no reply."""


class Session(requests.Session):
    """One connection, no redirects, no cookies, nothing from the environment."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._wire = wire
        adapter = _Adapter(wire)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Nowhere: even a redirect that is not to be followed would be read to its end and parsed."""

    def ask(self, fields: list[tuple[str, str]]) -> tuple[requests.Response, End]:
        """Sends the request that the wire has, and reads the head, which tells how the body ends.

        Raises:
            Failure: there is none.
        """
        request = requests.PreparedRequest()
        request.method = "GET"
        request.url = self._wire.address.url
        headers = urllib3.HTTPHeaderDict(fields)
        for name in _ADDED:
            headers.setdefault(name, urllib3.util.SKIP_HEADER)
        request.headers = headers  # type: ignore[assignment] # the one that keeps a field that comes twice
        proxy = self._wire.proxy_of_attempt
        proxies = {} if proxy is None else {self._wire.address.scheme: proxy.url}
        reply = self.send(request, stream=True, allow_redirects=False, proxies=proxies)
        return reply, self._wire.reply.end or UNTOLD


class _Adapter(HTTPAdapter):
    """Makes the pools. Each has one connection, and there is one pool at a time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *arguments: Theirs, **options: Theirs) -> None:
        super().init_poolmanager(*arguments, **options)
        self._use_own_pools(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: Theirs) -> Theirs:
        manager = super().proxy_manager_for(proxy, **options)
        self._use_own_pools(manager)
        return manager

    def proxy_headers(self, proxy: str) -> dict[str, str]:  # noqa: ARG002
        return dict(self._wire.proxy.fields) if self._wire.proxy else {}

    def build_connection_pool_key_attributes(self, *_: Theirs, **__: Theirs) -> Theirs:
        """Which connection can be used: one to the same place, with the same trust."""
        address = self._wire.address
        where = {"scheme": address.scheme, "host": address.host, "port": address.port}
        return where, {"ssl_context": self._wire.context} if self._wire.context else {}

    def cert_verify(self, *_: Theirs, **__: Theirs) -> None:
        """The context does that."""

    def request_url(self, *_: Theirs, **__: Theirs) -> str:
        """What the request line asks for."""
        return self._wire.address.url if self._is_forwarded() else self._wire.address.target

    def _is_forwarded(self) -> bool:
        return self._wire.proxy_of_attempt is not None and self._wire.address.scheme == "http"

    def _use_own_pools(self, manager: Theirs) -> None:
        manager.pool_classes_by_scheme = {
            "http": functools.partial(_HttpPool, wire=self._wire),
            "https": functools.partial(_HttpsPool, wire=self._wire),
        }


class _Pool(HTTPConnectionPool):
    """Asks for what it is told to, byte for byte, and once more when a kept connection was no good."""

    def __init__(self, *arguments: Theirs, wire: Wire, **options: Theirs) -> None:
        super().__init__(*arguments, **options)
        self._wire = wire
        self.conn_kw["wire"] = wire
        self._line = ""

    def urlopen(self, method: str, url: str, *arguments: Theirs, **options: Theirs) -> Theirs:
        self._line = url
        # What urllib3 reads in it and would write otherwise: whether it is in absolute form.
        stand_in = "/" if url.startswith("/") else "http://stand-in/"
        try:
            return super().urlopen(method, stand_in, *arguments, **options)
        except StaleError:
            return super().urlopen(method, stand_in, *arguments, **options)

    def _get_conn(self, timeout: float | None = None) -> Theirs:
        connection = super()._get_conn(timeout)
        self._wire.is_reused = not connection.is_closed
        return connection

    def _make_request(self, conn: Theirs, method: str, url: str, **options: Theirs) -> Theirs:  # type: ignore[override] # noqa: ARG002
        try:
            return super()._make_request(conn, method, self._line, **options)
        except (Failure, http.client.HTTPException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            failure = _of_head(error)
            if self._wire.is_reused and failure.kind in kinds.OF_OLD_CONNECTIONS:
                raise StaleError from failure
            raise failure from None


class _Connection(HTTPConnection):
    """Made to an address that was judged, and read with deadlines."""

    def __init__(self, *arguments: Theirs, wire: Wire, **options: Theirs) -> None:
        super().__init__(*arguments, **options)
        self._wire = wire
        # It is called, and nothing else is done with it.
        self.response_class = functools.partial(_Response, wire=wire)  # type: ignore[assignment]

    def _new_conn(self) -> socket.socket:
        return self._wire.connect(self._dns_host, self.port, is_to_proxy=self.proxy is not None)

    def _tunnel(self) -> None:
        try:
            super()._tunnel()
        except http.client.RemoteDisconnected as error:
            raise Failure("reset", "the proxy closed the connection") from error
        except (http.client.HTTPException, ValueError) as error:
            raise Failure("proxy-refused", "the proxy's answer is no HTTP") from error
        except OSError as error:
            raise _of_tunnel(error) from error


class _HttpsConnection(_Connection, HTTPSConnection):
    """The same inside TLS."""

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as error:
            is_late = isinstance(error, TimeoutError) and error.errno is None
            kind = "tls-timeout" if is_late else kinds.of_handshake(error)
            raise Failure(kind, kinds.text_of(error)) from None
        # An end that TLS does not tell is none: whoever is between could have cut the body there.
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.suppress_ragged_eofs = False  # type: ignore[attr-defined] # typeshed leaves it out


class _HttpPool(_Pool):
    ConnectionCls = _Connection


class _HttpsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection

    def _validate_conn(self, conn: Theirs) -> None:
        """Connects. It would warn of each connection to a host that somebody has named as insecure."""
        if conn.is_closed:
            conn.connect()


class _Response(http.client.HTTPResponse):
    """Reads with deadlines, skips interim replies, and knows how its body ends."""

    def __init__(self, sock: socket.socket, *arguments: Theirs, wire: Wire, **options: Theirs) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Incoming(sock, wire))
        self._wire = wire

    def begin(self) -> None:
        self._wire.asked()
        super().begin()
        if any(isinstance(defect, _DEFECTS) for defect in self.headers.defects):
            raise Failure("framing", "a line of the head is no field")
        version = divmod(self.version, 10)
        self._wire.has_head(end_of(self.status, version, self.headers.items()))

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc] # typeshed leaves it out
        while http.client.SWITCHING_PROTOCOLS < status < http.client.OK:
            http.client.parse_headers(self.fp)
            version, status, reason = super()._read_status()  # type: ignore[misc]
        return version, status, reason


class _Incoming(io.RawIOBase):
    """What comes on a connection during one reply: each read has what is left of the attempt's deadlines."""

    def __init__(self, connection: socket.socket, wire: Wire) -> None:
        self._connection = connection
        self._raw = connection.makefile("rb", buffering=0)
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Theirs) -> int:
        seconds, kind = self._wire.deadlines.left()
        if seconds <= 0:
            raise Failure(kind)
        try:
            self._connection.settimeout(seconds)
            count = self._raw.readinto(buffer) or 0
        except TimeoutError as error:
            raise Failure(kind if error.errno is None else self._wire.broken(error)) from None
        except OSError as error:
            raise Failure(self._wire.broken(error), kinds.text_of(error)) from None
        self._wire.received(count)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _of_head(error: Exception) -> Failure:  # noqa: PLR0911 - a table
    """What it means that no head was read."""
    match error:
        case Failure():
            return error
        case http.client.RemoteDisconnected():
            return Failure("reset")
        case http.client.BadStatusLine() | http.client.UnknownProtocol():
            return Failure("not-http")
        case TimeoutError(errno=None):
            return Failure("head-timeout")
        case OSError():
            return Failure(kinds.of_open(error), kinds.text_of(error))
        case http.client.HTTPException() if type(error) in (http.client.HTTPException, http.client.LineTooLong):
            return Failure("head-too-large", kinds.text_of(error))
    return Failure("framing", kinds.text_of(error))


def _of_tunnel(error: OSError) -> Failure:
    """What it means that a proxy made no tunnel. Only the text has the status: "Tunnel connection failed: 502 Bad"."""
    told = str(error).partition("failed: ")[2][:3]
    return of_proxy(int(told)) if told.isdecimal() else Failure(kinds.of_open(error), kinds.text_of(error))
