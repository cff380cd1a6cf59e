"""Changes the behaviour of `requests` and the libraries that it uses, with one class per layer.

By default, the libraries re-quote paths, follow redirects, keep cookies, retry, read heads without a deadline, and
accept ambiguous framing. fetchmill itself handles connections, tunnels and TLS, and urllib3 treats each as a plain
connection. Only the public API is used. The transport imports this module only when it starts, because the module
requires the libraries. All objects belong to one thread.
"""

import email.errors
import functools
import http.client
import socket
from http.cookiejar import DefaultCookiePolicy
from typing import Any, TypeAlias

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.blocking_attempt import BlockingAttempt
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.framing import UNTIL_CLOSE, BodyEnd, body_end
from fetchmill.engines.http.reply_file import ReplyFile

# Header fields that urllib3 adds by default.
_AUTOMATIC_FIELDS = ("Accept-Encoding", "User-Agent")
# Parser defects which show that a line in the head is not a field. Other defects concern bodies, which are not parsed.
_DEFECTS = (
    email.errors.FirstHeaderLineIsContinuationDefect,
    email.errors.InvalidHeaderDefect,
    email.errors.MisplacedEnvelopeHeaderDefect,
    email.errors.MissingHeaderBodySeparatorDefect,
)
# A value that parts of the libraries exchange, and that this module only forwards.
LibraryValue: TypeAlias = Any


class Session(requests.Session):
    """A session with one connection that ignores redirects, cookies and settings from the environment."""

    def __init__(self, attempt: BlockingAttempt) -> None:
        super().__init__()
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._attempt = attempt
        adapter = _Adapter(attempt)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None, because `requests` would otherwise read and parse redirects that must not be followed."""

    def ask(self, fields: list[tuple[str, str]]) -> tuple[requests.Response, BodyEnd]:
        """Send the attempt's request and read the head. Return the reply and the end of its body.

        Raises:
            AttemptError: no head was received.
        """
        attempt = self._attempt
        request = requests.PreparedRequest()
        request.method = "GET"
        request.url = attempt.address.url
        headers = urllib3.HTTPHeaderDict([("Host", attempt.address.host_field), *fields, *attempt.proxy_fields()])
        for name in _AUTOMATIC_FIELDS:
            headers.setdefault(name, urllib3.util.SKIP_HEADER)
        request.headers = headers  # type: ignore[assignment] # keeps repeated fields
        try:
            reply = self._send(request)
        except AttemptError as failure:
            if not attempt.is_reused or failure.kind not in failure_kinds.STALE_KINDS:
                raise
            # The kept connection was unusable and has been closed. Use a new one for this request.
            reply = self._send(request)
        return reply, attempt.reply.end or UNTIL_CLOSE

    def _send(self, request: requests.PreparedRequest) -> requests.Response:
        return self.send(request, stream=True, allow_redirects=False, proxies={})


class _Adapter(HTTPAdapter):
    """Creates pools of one connection each, of which only one exists at a time."""

    def __init__(self, attempt: BlockingAttempt) -> None:
        super().__init__()
        self._attempt = attempt
        self._pool: _Pool | None = None
        self._place: object = None

    def get_connection_with_tls_context(self, *_: LibraryValue, **__: LibraryValue) -> "_Pool":
        """Return the pool for the attempt. Reuse the last pool if its destination and TLS context are the same."""
        place = self._attempt.place
        if self._pool is None or place != self._place:
            self._close_pool()
            address = self._attempt.address
            self._pool = _Pool(address.host, address.port, attempt=self._attempt)
            self._place = place
        return self._pool

    def get_connection(self, *_: LibraryValue, **__: LibraryValue) -> "_Pool":
        """Like `get_connection_with_tls_context`, for versions of requests before 2.32."""
        return self.get_connection_with_tls_context()

    def cert_verify(self, *_: LibraryValue, **__: LibraryValue) -> None:
        """Do nothing, because the TLS context verifies certificates."""

    def request_url(self, *_: LibraryValue, **__: LibraryValue) -> str:
        """Return a placeholder, because urllib3 would quote the target of the request line."""
        return "/"

    def close(self) -> None:
        """Close the connection."""
        self._close_pool()
        super().close()

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()


class _Connection(HTTPConnection):
    """A connection that reaches only allowed addresses, and sends the request target unchanged."""

    def __init__(self, *arguments: LibraryValue, attempt: BlockingAttempt, **options: LibraryValue) -> None:
        super().__init__(*arguments, **options)
        self._attempt = attempt
        # `http.client` only calls this value, so it does not have to be a class.
        self.response_class = functools.partial(_Response, attempt=attempt)  # type: ignore[assignment]

    def connect(self) -> None:
        self.sock = self._attempt.connect()

    def putrequest(self, method: str, url: str, *arguments: LibraryValue, **options: LibraryValue) -> None:
        del url
        super().putrequest(method, self._attempt.request_line_target, *arguments, **options)

    def request(self, *arguments: LibraryValue, **options: LibraryValue) -> None:
        self._attempt.on_connection(self, is_reused=self.sock is not None)
        try:
            super().request(*arguments, **options)
        except BrokenPipeError:
            # The server may have sent a reply before closing the connection. urllib3 reads this reply.
            raise
        except (http.client.HTTPException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise _head_error(error) from None

    def getresponse(self, *arguments: LibraryValue, **options: LibraryValue) -> LibraryValue:
        try:
            return super().getresponse(*arguments, **options)
        except (http.client.HTTPException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise _head_error(error) from None


class _Pool(urllib3.HTTPConnectionPool):
    """A pool with a single connection, which handles TLS and proxies in place of the pool."""

    ConnectionCls = _Connection


class _Response(http.client.HTTPResponse):
    """A reply that is read with deadlines. It skips interim replies and determines how the body ends."""

    def __init__(
        self, sock: socket.socket, *arguments: LibraryValue, attempt: BlockingAttempt, **options: LibraryValue
    ) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self.fp = attempt.begin_reply(ReplyFile(sock, attempt))
        self._attempt = attempt

    def begin(self) -> None:
        super().begin()
        while http.client.SWITCHING_PROTOCOLS < self.status < http.client.OK:
            self.headers = self.msg = None  # type: ignore[assignment] # as before the first head
            super().begin()
        if any(isinstance(defect, _DEFECTS) for defect in self.headers.defects):
            raise AttemptError("framing", "a line of the header section is not a header field")
        version = divmod(self.version, 10)
        self._attempt.on_head(body_end(self.status, version, self.headers.items()), is_last=self.will_close)


def _head_error(error: Exception) -> AttemptError:
    """Return the failure of an attempt with an unreadable head."""
    match error:
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
