"""Maps exceptions of the standard library to failure kinds, according to the tables in docs/reference/http-support.md.

As in the native engine, error numbers are compared, never messages. Here, local problems (no free descriptor or port)
count as `unreachable`, and the target is retried.
"""

import errno
import socket
import ssl
from collections.abc import Iterable

# OpenSSL's X509_V_ERR_* codes, for which the ssl module does not define names.
_CERTIFICATE_KINDS = {
    9: "tls-expired",  # not yet valid
    10: "tls-expired",
    18: "tls-self-signed",
    19: "tls-self-signed",  # issued by an authority that is in the chain but not trusted
    2: "tls-unknown-ca",
    20: "tls-unknown-ca",
    21: "tls-unknown-ca",
    62: "tls-wrong-name",
    64: "tls-wrong-name",  # the same for an address
}
_NO_ROUTE = {
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENETDOWN,
    errno.EHOSTDOWN,
    errno.ENONET,
    errno.EACCES,
    errno.EPERM,
    errno.ENOPROTOOPT,
    errno.EPROTO,
}
_LOOKUP_KINDS = {socket.EAI_NONAME: "dns-not-found", socket.EAI_NODATA: "dns-empty"}
# If the connections to several addresses fail, the most specific failure is reported.
_MOST_SPECIFIC_FIRST = ("refused", "reset", "connect-timeout", "unreachable")
# Failures of a reused connection that earlier requests may have caused: the server had closed the connection, or the
# connection still contained the end of an earlier reply. The request is repeated on a new connection.
STALE_KINDS = ("reset", "not-http", "framing")


class AttemptError(Exception):
    """The failure of an attempt that did not get a complete reply.

    Libraries pass this exception on unchanged, because they do not handle its class.

    Args:
        kind: the failure kind.
        detail: additional human-readable information, on one line.
    """

    def __init__(self, kind: str, detail: str | None = None) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


class UncertainError(AttemptError):
    """A failure that earlier requests on the connection may have caused. Only a new connection can rule this out."""


def connect_kind(error: OSError) -> str:
    """Return the failure kind of an error that occurred while connecting to an address."""
    match error:
        case ConnectionRefusedError():
            return "refused"
        case ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
            return "reset"
        case TimeoutError():
            return "connect-timeout"
    return "unreachable"


def most_specific(kinds: Iterable[str]) -> str:
    """Return the failure kind to report, given the failure kinds of all addresses."""
    return min(kinds, key=_MOST_SPECIFIC_FIRST.index, default="unreachable")


def connection_kind(error: OSError) -> str:
    """Return the failure kind of a connection that failed before the head. After the head, it is always `truncated`."""
    return "unreachable" if error.errno in _NO_ROUTE else "reset"


def handshake_kind(error: OSError) -> str:
    """Return the failure kind of a failed TLS handshake. Both `ssl.SSLError` and a broken connection are OSErrors."""
    match error:
        case ssl.SSLCertVerificationError():
            return _CERTIFICATE_KINDS.get(error.verify_code, "tls-certificate")
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
            return "reset"
        case ssl.SSLError():
            return "tls"
    return connection_kind(error)


def lookup_kind(error: OSError) -> str:
    """Return the failure kind of a failed lookup. The system does not distinguish timeouts from server failures."""
    return _LOOKUP_KINDS.get(error.errno or 0, "dns")


def error_text(error: BaseException) -> str:
    """Return the text of an exception on one line."""
    return " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split())
