"""What exceptions of the standard library mean as failure kinds: the tables of docs/reference/http-support.md.

As in the native engine: numbers are compared, never texts. What is wrong with this machine (no descriptor, no port) is
`unreachable` here, and the target is tried again.
"""

import errno
import socket
import ssl
from collections.abc import Iterable

# OpenSSL's X509_V_ERR_*: the ssl module has no names for them.
_CERTIFICATE_KINDS = {
    9: "tls-expired",  # not yet valid
    10: "tls-expired",
    18: "tls-self-signed",
    19: "tls-self-signed",  # an authority's that is in the chain and not trusted
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
# Of several addresses that gave no connection the failure that says most is told.
_MOST_SPECIFIC_FIRST = ("refused", "reset", "connect-timeout", "unreachable")
# On a connection that was used before, these may be the fault of what came before: the server had closed it, or the
# rest of an earlier reply was in it. The request is made again on a fresh one.
STALE_KINDS = ("reset", "not-http", "framing")


class AttemptError(Exception):
    """No complete reply, with its failure kind.

    No library knows this class, so it comes through all of them as it is.

    Args:
        kind: the failure kind.
        detail: what a person should know besides, in one line.
    """

    def __init__(self, kind: str, detail: str | None = None) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


class UncertainError(AttemptError):
    """It may be the fault of what came before on the connection: only a fresh one shows it."""


def connect_kind(error: OSError) -> str:
    """What it means that no connection was made to an address."""
    match error:
        case ConnectionRefusedError():
            return "refused"
        case ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
            return "reset"
        case TimeoutError():
            return "connect-timeout"
    return "unreachable"


def most_specific(kinds: Iterable[str]) -> str:
    """Of the kinds of all addresses, the one that is told."""
    return min(kinds, key=_MOST_SPECIFIC_FIRST.index, default="unreachable")


def connection_kind(error: OSError) -> str:
    """What it means that an open connection failed before a head; behind the head it is always `truncated`."""
    return "unreachable" if error.errno in _NO_ROUTE else "reset"


def handshake_kind(error: OSError) -> str:
    """What it means that no TLS came about: `ssl.SSLError` is an OSError, and so is a broken connection."""
    match error:
        case ssl.SSLCertVerificationError():
            return _CERTIFICATE_KINDS.get(error.verify_code, "tls-certificate")
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
            return "reset"
        case ssl.SSLError():
            return "tls"
    return connection_kind(error)


def lookup_kind(error: OSError) -> str:
    """What it means that a name was not looked up. The system tells no timeout from a server that failed."""
    return _LOOKUP_KINDS.get(error.errno or 0, "dns")


def error_text(error: BaseException) -> str:
    """An exception as one line."""
    return " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split())
