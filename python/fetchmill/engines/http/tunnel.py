"""Tunnels through a proxy on blocking connections."""

import re
import socket

from fetchmill.engines.http import failure_kinds
from fetchmill.engines.http.failure_kinds import AttemptError
from fetchmill.engines.http.proxies import Proxy, proxy_error
from fetchmill.engines.http.reply_file import ReplyFile
from fetchmill.engines.http.request_url import RequestUrl

# Maximum size of a line in the proxy's head, and maximum number of lines, both as in `http.client`.
_LINE_BYTES_MAX = 1 << 16
_LINES_MAX = 100
_STATUS_LINE = re.compile(rb"HTTP/1\.[0-9] ([0-9]{3})(?: [^\r\n]*)?\r?\n")
_OK = 200


def open_tunnel(connection: socket.socket, address: RequestUrl, proxy: Proxy, answer: ReplyFile) -> None:
    """Open a tunnel to an origin through a proxy.

    Args:
        connection: the connection to the proxy.
        address: the address of the origin.
        proxy: the proxy.
        answer: the file from which the proxy's answer is read.

    Raises:
        AttemptError: the proxy did not open a tunnel.
    """
    place = f"{address.bracketed_host}:{address.port}"
    fields = {"Host": place, **proxy.fields}
    head = "".join(
        f"{line}\r\n" for line in (f"CONNECT {place} HTTP/1.1", *(f"{n}: {v}" for n, v in fields.items()), "")
    )
    try:
        connection.sendall(head.encode("latin-1"))
    except OSError as error:
        raise AttemptError(failure_kinds.connection_kind(error), failure_kinds.error_text(error)) from None
    status_line = answer.readline(_LINE_BYTES_MAX)
    if not status_line:
        raise AttemptError("reset", "the proxy closed the connection")
    status = _STATUS_LINE.fullmatch(status_line)
    if status is None:
        raise AttemptError("proxy-refused", "the proxy's reply is not HTTP")
    if int(status[1]) != _OK:
        raise proxy_error(int(status[1]))
    for _ in range(_LINES_MAX):
        if answer.readline(_LINE_BYTES_MAX) in (b"\r\n", b"\n"):
            return
    raise AttemptError("proxy-refused", "the header section of the proxy's reply does not end")
