"""Asks origins for objects once more, and says what they have otherwise than a destination."""

import contextlib
import http.client
from urllib.parse import quote, urljoin, urlsplit

from fetchmill.errors import TemporaryError, UsageError

# Of a request to the origin.
TIMEOUT_SECONDS = 30.0
# A kept-alive connection that the server has closed meanwhile is opened once more.
ATTEMPTS = 3
# As many as a job may follow.
REDIRECTS_MAX = 20

_OK = 200
_GONE = (404, 410)
_REDIRECTS = (301, 302, 303, 307, 308)
# What a URL may have as it is: it was encoded before.
_ASCII = "".join(map(chr, range(0x21, 0x7F)))


def difference(status: int, body: bytes, stored: bytes) -> tuple[str, str] | None:
    """What the origin has otherwise, and how to say it."""
    if status in _GONE:
        return "absent-now", f"the origin answers {status}"
    if status != _OK:
        return "differs", f"the origin answers {status}"
    if body == stored:
        return None
    if len(body) > len(stored):
        return "differs", f"the origin has more than the {len(stored)} bytes that are stored"
    if len(body) < len(stored):
        return "differs", f"the origin has {len(body)} bytes, stored are {len(stored)}"
    first = next(at for at, (one, other) in enumerate(zip(body, stored, strict=True)) if one != other)
    return "differs", f"the origin has other bytes, the first at {first}"


class OriginClient:
    """Asks for one URL after the other; the connection is kept while they are of one origin."""

    def __init__(self, *, follows: bool) -> None:
        self._redirects_max = REDIRECTS_MAX if follows else 0
        self._origin = ""
        self._connection: http.client.HTTPConnection | None = None

    def fetch(self, url: str, most: int) -> tuple[int, bytes]:
        """Status and body, of where redirects lead; of a body only so many bytes, and one more when there are."""
        for _ in range(self._redirects_max + 1):
            status, body, location = self._exchange(url, most)
            next_url = _redirect_target(url, location) if status in _REDIRECTS and self._redirects_max else None
            if next_url is None:
                break
            url = next_url
        return status, body

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()

    def _exchange(self, url: str, most: int) -> tuple[int, bytes, str | None]:
        """Status, body and where else it may be."""
        parts = urlsplit(url)
        if parts.scheme != "http":
            raise UsageError(f"{url} cannot be compared: objects are asked for over http only; verify without it")
        if self._connection is None or self._origin != parts.netloc:
            self.close()
            self._origin = parts.netloc
            self._connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT_SECONDS)
        path = (parts.path or "/") + (f"?{parts.query}" if "?" in url else "")
        return _fetch(self._connection, path, most)


def _redirect_target(url: str, location: str | None) -> str | None:
    """Where a redirect leads; None when that is no place to ask."""
    if location is None:
        return None
    with contextlib.suppress(ValueError):
        joined = quote(urljoin(url, location), safe=_ASCII)
        parts = urlsplit(joined)
        # To look at the port is to check it.
        if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0:
            return parts._replace(fragment="").geturl()
    return None


def _fetch(connection: http.client.HTTPConnection, path: str, most: int) -> tuple[int, bytes, str | None]:
    """A reply's status, its body as far as it counts, and its Location."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            connection.request("GET", path, headers={"Accept-Encoding": "identity"})
            reply = connection.getresponse()
            body = reply.read(most + 1)
            if not reply.isclosed():
                # There is more, however much.
                connection.close()
            return reply.status, body, reply.headers.get("Location")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if attempt == ATTEMPTS:
                where = f"{connection.host}:{connection.port}"
                raise TemporaryError(f"{where} does not answer: {error}; compare with the origin later") from error
    raise AssertionError
