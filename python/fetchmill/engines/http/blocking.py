"""Requests one at a time, with the library requests: for threads and processes."""

from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple

from fetchmill.engines.answers import Answer, Broken, Replied
from fetchmill.engines.http import addresses
from fetchmill.engines.http.framing import End
from fetchmill.engines.http.kinds import Failure
from fetchmill.engines.http.libraries import load
from fetchmill.engines.http.wire import Wire
from fetchmill.engines.transports import Target, TransportOptions

if TYPE_CHECKING:
    import requests

    from fetchmill.engines.http.pools import Session

_PIECE_BYTES = 1 << 16


class _State(NamedTuple):
    """What one thread has for itself."""

    session: "Session"
    wire: Wire


class Requests:
    """Implements `BlockingTransport`; may be sent to another process.

    Args:
        options: of the job.

    Raises:
        UsageError: the library is not installed.
    """

    def __init__(self, options: TransportOptions) -> None:
        load("requests")
        self._options = options

    def start(self) -> _State:
        """A session with one connection."""
        from fetchmill.engines.http.pools import Session

        wire = Wire(self._options)
        return _State(Session(wire), wire)

    def fetch(self, target: Target, state: _State) -> Answer:
        """One attempt at a target."""
        try:
            state.wire.begin(addresses.parse(target.url))
            reply, end = state.session.ask(target.headers())
            try:
                body = self._read(reply, end, state.wire)
            except BaseException:
                reply.close()
                raise
            reply.raw.release_conn()
        except Failure as failure:
            return Broken(target.sequence, failure.kind, failure.detail)
        return _replied(target, reply, body, end)

    def done(self, state: _State) -> None:
        """Closes the connection."""
        state.session.close()

    def _read(self, reply: "requests.Response", end: End, wire: Wire) -> bytes:
        """The body as it was sent.

        Raises:
            Failure: it is too large, or broken.
        """
        from urllib3.exceptions import HTTPError

        if end.length is not None and end.length > self._options.max_size:
            raise Failure("body-too-large")
        body = bytearray()
        try:
            for piece in reply.raw.stream(_PIECE_BYTES, decode_content=False):
                body += piece
                if len(body) > self._options.max_size:
                    raise Failure("body-too-large")
        except (HTTPError, HTTPException, OSError, ValueError):
            raise Failure("truncated" if wire.reply.is_cut else "framing") from None
        if end.is_told and wire.reply.is_cut:
            raise Failure("truncated")
        return bytes(body)


def _replied(target: Target, reply: "requests.Response", body: bytes, end: End) -> Replied:
    fields = reply.headers
    return Replied(
        target.sequence,
        reply.status_code,
        body,
        end.is_told,
        fields.get("Content-Type"),
        fields.get("ETag"),
        fields.get("Last-Modified"),
        fields.get("Retry-After"),
    )
