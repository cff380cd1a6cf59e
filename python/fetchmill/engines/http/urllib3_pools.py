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

from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.blocking_attempt import BlockingAttempt
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.framing import UNTIL_CLOSE, BodyEnd, body_end
from fetchmill.engines.http.proxies import proxy_error

# A server that closes does so within this, or it is not known whether it has sent all that it will.
_CLOSE_SECONDS = 1.0
# Names of fields that urllib3 adds on its own unless it is told not to.
_AUTOMATIC_FIELDS = ("Accept-Encoding", "User-Agent")
# Lines of a head that are no fields. Other defects are of bodies, which `http.client` never shows to the parser.
_DEFECTS = (
    email.errors.FirstHeaderLineIsContinuationDefect,
    email.errors.InvalidHeaderDefect,
    email.errors.MisplacedEnvelopeHeaderDefect,
    email.errors.MissingHeaderBodySeparatorDefect,
)
# What they pass to one another, and we pass on.
LibraryValue: TypeAlias = Any


class StaleConnectionError(Exception):
    """A connection that was used before has given no reply."""


class Session(requests.Session):
    """One connection, no redirects, no cookies, nothing from the environment."""

    def __init__(self, attempt: BlockingAttempt) -> None:
        super().__init__()
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._attempt = attempt
        adapter = _Adapter(attempt)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Nowhere: even a redirect that is not to be followed would be read to its end and parsed."""

    def ask(self, fields: list[tuple[str, str]]) -> tuple[requests.Response, BodyEnd]:
        """Sends the attempt's request, and reads the head, which tells how the body ends.

        Raises:
            Failure: there is none.
        """
        request = requests.PreparedRequest()
        request.method = "GET"
        request.url = self._attempt.address.url
        headers = urllib3.HTTPHeaderDict(fields)
        for name in _AUTOMATIC_FIELDS:
            headers.setdefault(name, urllib3.util.SKIP_HEADER)
        request.headers = headers  # type: ignore[assignment] # the one that keeps a field that comes twice
        proxy = self._attempt.proxy_of_attempt
        proxies = {} if proxy is None else {self._attempt.address.scheme: proxy.url}
        reply = self.send(request, stream=True, allow_redirects=False, proxies=proxies)
        return reply, self._attempt.reply.end or UNTIL_CLOSE


class _Adapter(HTTPAdapter):
    """Makes the pools. Each has one connection, and there is one pool at a time."""

    def __init__(self, attempt: BlockingAttempt) -> None:
        self._attempt = attempt
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *arguments: LibraryValue, **options: LibraryValue) -> None:
        super().init_poolmanager(*arguments, **options)
        self._use_own_pools(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: LibraryValue) -> LibraryValue:
        manager = super().proxy_manager_for(proxy, **options)
        self._use_own_pools(manager)
        return manager

    def proxy_headers(self, proxy: str) -> dict[str, str]:  # noqa: ARG002
        return dict(self._attempt.proxy_of_attempt.fields) if self._attempt.proxy_of_attempt else {}

    def build_connection_pool_key_attributes(self, *_: LibraryValue, **__: LibraryValue) -> LibraryValue:
        """Which connection can be used: one to the same place, with the same trust."""
        address = self._attempt.address
        where = {"scheme": address.scheme, "host": address.host, "port": address.port}
        return where, {"ssl_context": self._attempt.context} if self._attempt.context else {}

    def cert_verify(self, *_: LibraryValue, **__: LibraryValue) -> None:
        """The context does that."""

    def request_url(self, *_: LibraryValue, **__: LibraryValue) -> str:
        """What the request line asks for."""
        return self._attempt.address.url if self._is_forwarded() else self._attempt.address.target

    def _is_forwarded(self) -> bool:
        return self._attempt.proxy_of_attempt is not None and self._attempt.address.scheme == "http"

    def _use_own_pools(self, manager: LibraryValue) -> None:
        manager.pool_classes_by_scheme = {
            "http": functools.partial(_HttpPool, attempt=self._attempt),
            "https": functools.partial(_HttpsPool, attempt=self._attempt),
        }


class _Pool(HTTPConnectionPool):
    """Asks for what it is told to, byte for byte, and once more when a kept connection was no good."""

    def __init__(self, *arguments: LibraryValue, attempt: BlockingAttempt, **options: LibraryValue) -> None:
        super().__init__(*arguments, **options)
        self._attempt = attempt
        self.conn_kw["attempt"] = attempt
        self._line = ""

    def urlopen(self, method: str, url: str, *arguments: LibraryValue, **options: LibraryValue) -> LibraryValue:
        self._line = url
        # What urllib3 reads in it and would write otherwise: whether it is in absolute form.
        stand_in = "/" if url.startswith("/") else "http://stand-in/"
        try:
            return super().urlopen(method, stand_in, *arguments, **options)
        except StaleConnectionError:
            return super().urlopen(method, stand_in, *arguments, **options)

    def _get_conn(self, timeout: float | None = None) -> LibraryValue:
        connection = super()._get_conn(timeout)
        self._attempt.is_reused = not connection.is_closed
        self._attempt.connection = connection
        return connection

    def _make_request(self, conn: LibraryValue, method: str, url: str, **options: LibraryValue) -> LibraryValue:  # type: ignore[override] # noqa: ARG002
        try:
            return super()._make_request(conn, method, self._line, **options)
        except (AttemptError, http.client.HTTPException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            failure = _head_error(error)
            if self._attempt.is_reused and failure.kind in failure_kinds.STALE_KINDS:
                raise StaleConnectionError from failure
            raise failure from None


class _Connection(HTTPConnection):
    """Made to an address that the policy allows, and read with deadlines."""

    def __init__(self, *arguments: LibraryValue, attempt: BlockingAttempt, **options: LibraryValue) -> None:
        super().__init__(*arguments, **options)
        self._attempt = attempt
        # It is called, and nothing else is done with it.
        self.response_class = functools.partial(_Response, attempt=attempt)  # type: ignore[assignment]

    def _new_conn(self) -> socket.socket:
        return self._attempt.connect(self._dns_host, self.port, is_to_proxy=self.proxy is not None)

    def _tunnel(self) -> None:
        try:
            super()._tunnel()
        except http.client.RemoteDisconnected as error:
            raise AttemptError("reset", "the proxy closed the connection") from error
        except (http.client.HTTPException, ValueError) as error:
            raise AttemptError("proxy-refused", "the proxy's answer is no HTTP") from error
        except OSError as error:
            raise _tunnel_error(error) from error


class _HttpsConnection(_Connection, HTTPSConnection):
    """The same inside TLS."""

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as error:
            is_late = isinstance(error, TimeoutError) and error.errno is None
            kind = "tls-timeout" if is_late else failure_kinds.handshake_kind(error)
            raise AttemptError(kind, failure_kinds.error_text(error)) from None
        # An end that TLS does not tell is none: whoever is between could have cut the body there.
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.suppress_ragged_eofs = False  # type: ignore[attr-defined] # typeshed leaves it out


class _HttpPool(_Pool):
    ConnectionCls = _Connection


class _HttpsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection

    def _validate_conn(self, conn: LibraryValue) -> None:
        """Connects. It would warn of each connection to a host that somebody has named as insecure."""
        if conn.is_closed:
            conn.connect()


class _Response(http.client.HTTPResponse):
    """Reads with deadlines, skips interim replies, and knows how its body ends."""

    def __init__(
        self, sock: socket.socket, *arguments: LibraryValue, attempt: BlockingAttempt, **options: LibraryValue
    ) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self._reader = _DeadlineReader(sock, attempt)
        self.fp = io.BufferedReader(self._reader)
        self._attempt = attempt

    def begin(self) -> None:
        self._attempt.on_request_sent()
        super().begin()
        if any(isinstance(defect, _DEFECTS) for defect in self.headers.defects):
            raise AttemptError("framing", "a line of the head is no field")
        version = divmod(self.version, 10)
        self._attempt.on_head(body_end(self.status, version, self.headers.items()))

    def _close_conn(self) -> None:
        """Called behind the body: looks for bytes that nobody asked for, when the server closes until it has."""
        is_open: bool = self.fp is not None
        if is_open and (self.length == 0 or self.chunked):
            reply = self._attempt.reply
            reply.has_surplus, reply.is_ended = self._reader.end(self.fp, until_closed=self.will_close)
        super()._close_conn()  # type: ignore[misc] # typeshed leaves it out

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc] # typeshed leaves it out
        while http.client.SWITCHING_PROTOCOLS < status < http.client.OK:
            http.client.parse_headers(self.fp)
            version, status, reason = super()._read_status()  # type: ignore[misc]
        return version, status, reason


class _DeadlineReader(io.RawIOBase):
    """What comes on a connection during one reply: each read has what is left of the attempt's deadlines."""

    def __init__(self, connection: socket.socket, attempt: BlockingAttempt) -> None:
        self._connection = connection
        self._raw = connection.makefile("rb", buffering=0)
        self._attempt = attempt
        self._is_over = False

    def end(self, buffered: io.BufferedReader, *, until_closed: bool) -> tuple[bool, bool]:
        """Behind the reply: whether something more came, and whether the connection has ended without."""
        self._is_over = True
        if buffered.peek(1):
            return True, False
        if not until_closed:
            return False, False
        try:
            self._connection.settimeout(_CLOSE_SECONDS)
            found = self._raw.read(1)
        except OSError:
            return False, False
        return bool(found), found == b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: LibraryValue) -> int | None:
        if self._is_over:
            return None
        seconds, kind = self._attempt.deadlines.remaining()
        if seconds <= 0:
            raise AttemptError(kind)
        try:
            self._connection.settimeout(seconds)
            count = self._raw.readinto(buffer) or 0
        except TimeoutError as error:
            raise AttemptError(kind if error.errno is None else self._attempt.read_failure_kind(error)) from None
        except OSError as error:
            raise AttemptError(self._attempt.read_failure_kind(error), failure_kinds.error_text(error)) from None
        self._attempt.on_bytes(count)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _head_error(error: Exception) -> AttemptError:  # noqa: PLR0911 - a table
    """What it means that no head was read."""
    match error:
        case AttemptError():
            return error
        case http.client.RemoteDisconnected():
            return AttemptError("reset")
        case http.client.BadStatusLine() | http.client.UnknownProtocol():
            return AttemptError("not-http")
        case TimeoutError(errno=None):
            return AttemptError("head-timeout")
        case OSError():
            return AttemptError(failure_kinds.connection_kind(error), failure_kinds.error_text(error))
        case http.client.HTTPException() if type(error) in (http.client.HTTPException, http.client.LineTooLong):
            return AttemptError("head-too-large", failure_kinds.error_text(error))
    return AttemptError("framing", failure_kinds.error_text(error))


def _tunnel_error(error: OSError) -> AttemptError:
    """What it means that a proxy made no tunnel. Only the text has the status: "Tunnel connection failed: 502 Bad"."""
    status = str(error).partition("failed: ")[2][:3]
    return (
        proxy_error(int(status))
        if status.isdecimal()
        else AttemptError(failure_kinds.connection_kind(error), failure_kinds.error_text(error))
    )
