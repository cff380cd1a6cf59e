"""Fetches objects again from their origins and compares them with a destination."""

import contextlib
import http.client
from urllib.parse import quote, urljoin, urlsplit

from fetchmill.errors import TemporaryError, UsageError

# Timeout for a request to the origin.
TIMEOUT_SECONDS = 30.0
# Maximum number of attempts per request. A retry opens a new connection, because the server may have closed the old
# one.
ATTEMPTS = 3
# Maximum number of redirects to follow, the same as in a job.
REDIRECTS_MAX = 20

_OK = 200
_GONE = (404, 410)
_REDIRECTS = (301, 302, 303, 307, 308)
# Characters to leave unchanged, because the URL is already percent-encoded.
_ASCII = "".join(map(chr, range(0x21, 0x7F)))


def difference(status: int, body: bytes, stored: bytes) -> tuple[str, str] | None:
    """Return the kind and description of the difference; None if the origin has the same bytes."""
    if status in _GONE:
        return "absent-now", f"the origin returned status {status}"
    if status != _OK:
        return "differs", f"the origin returned status {status}"
    if body == stored:
        return None
    if len(body) > len(stored):
        return "differs", f"the origin's object has more than the {len(stored)} stored bytes"
    if len(body) < len(stored):
        return "differs", f"the origin's object has {len(body)} bytes, but {len(stored)} are stored"
    first = next(at for at, (one, other) in enumerate(zip(body, stored, strict=True)) if one != other)
    return "differs", f"the bytes differ from the origin's, starting at offset {first}"


class OriginClient:
    """A client that fetches URLs one after another. Consecutive URLs of the same origin share a connection."""

    def __init__(self, *, follows: bool) -> None:
        self._redirects_max = REDIRECTS_MAX if follows else 0
        self._origin = ""
        self._connection: http.client.HTTPConnection | None = None

    def fetch(self, url: str, most: int) -> tuple[int, bytes]:
        """Return the status and body after following redirects. A body is truncated to `most` + 1 bytes."""
        for _ in range(self._redirects_max + 1):
            status, body, location = self._exchange(url, most)
            next_url = _redirect_target(url, location) if status in _REDIRECTS and self._redirects_max else None
            if next_url is None:
                break
            url = next_url
        return status, body

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _exchange(self, url: str, most: int) -> tuple[int, bytes, str | None]:
        """Return the status, the body and the Location field."""
        parts = urlsplit(url)
        if parts.scheme != "http":
            raise UsageError(
                f"cannot compare {url}, because verify can only fetch http:// URLs; run verify without comparing"
            )
        if self._connection is None or self._origin != parts.netloc:
            self.close()
            self._origin = parts.netloc
            self._connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT_SECONDS)
        path = (parts.path or "/") + (f"?{parts.query}" if "?" in url else "")
        return _fetch(self._connection, path, most)


def _redirect_target(url: str, location: str | None) -> str | None:
    """Return the target URL of a redirect; None if that URL cannot be requested."""
    if location is None:
        return None
    with contextlib.suppress(ValueError):
        joined = quote(urljoin(url, location), safe=_ASCII)
        parts = urlsplit(joined)
        # Reading `port` raises ValueError if it is not valid.
        if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0:
            return parts._replace(fragment="").geturl()
    return None


def _fetch(connection: http.client.HTTPConnection, path: str, most: int) -> tuple[int, bytes, str | None]:
    """Return the status of a reply, up to `most` + 1 bytes of its body, and its Location."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            connection.request("GET", path, headers={"Accept-Encoding": "identity"})
            reply = connection.getresponse()
            body = reply.read(most + 1)
            if not reply.isclosed():
                # The body is longer than `most`. Do not read the rest of it.
                connection.close()
            return reply.status, body, reply.headers.get("Location")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if attempt == ATTEMPTS:
                where = f"{connection.host}:{connection.port}"
                raise TemporaryError(f"{where} does not respond: {error}; compare with the origin later") from error
    raise AssertionError
