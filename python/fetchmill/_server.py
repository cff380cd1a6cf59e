"""A file server with the list/get API. It serves a folder's files, a job's objects, or synthetic objects.

The server is meant for tests and benchmarks, and can delay replies and inject scripted faults. It is started by
`fetchmill serve` and `fetchmill.testing.serve`.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from fetchmill._native import Server as NativeServer
from fetchmill.errors import UsageError

Action = Literal[
    "status",
    "reset",
    "truncate",
    "wrong-length",
    "stall",
    "trickle",
    "repeat-marker",
    "unsolicited",
    "close",
    "chunked",
    "eof",
    "stray",
]


@dataclass(frozen=True)
class Fault:
    """A scripted fault and the requests that it affects. The first fault that applies to a request is used.

    Args:
        action: the kind of fault:

            - `status` answers with a different status.
            - `reset` resets the connection.
            - `truncate` announces the full length and closes the connection in the middle of the body.
            - `wrong-length` announces a wrong length.
            - `stall` stops sending.
            - `trickle` sends one byte at a time.
            - `repeat-marker` makes the listing repeat its pages in a cycle.
            - `unsolicited` sends a second, unsolicited response.
            - `close` announces that the connection will be closed, and closes it after the reply.
            - `chunked` sends the body in chunks.
            - `eof` omits the length and ends the body by closing the connection.
            - `stray` applies to connections instead of requests: it sends an unsolicited response some time after one
              of the connection's replies, whether or not requests are in flight.
        rate: share of affected names, from 0 to 1. The same name is either always or never affected. For `stray`, the
            share of affected connections.
        times: number of affected requests per name, starting with the first; for `stray`, the number of affected
            connections. None for no limit.
        match: a name, or a name prefix followed by `*`; for the listing, a marker or a marker prefix followed by `*`.
        on: `get`, `list` or `any`. The default is `get`, unless the action only makes sense for `list`.
        status: for `status`: the status to send.
        retry_after: for `status`: the Retry-After value in whole seconds, or a range of values.
        above: for `status`: affect only requests beyond this rate per second, regardless of their names.
        after_bytes: for `reset`, `truncate`, `stall` and `trickle`: number of reply bytes to send before the fault.
        delta: for `wrong-length`: number to add to the announced length.
        seconds: for `stall`, `trickle` and `unsolicited`: the duration in seconds. For `stray`: the maximum delay of
            the unsolicited response; default 0.05.
        requests: for `stray`: the response follows one of the connection's first `requests` replies; default 100.
        period: for `repeat-marker`: number of pages in the cycle.
    """

    action: Action
    rate: float = 1.0
    times: int | None = None
    match: str | None = None
    on: Literal["get", "list", "any"] | None = None
    status: int | None = None
    retry_after: int | tuple[int, int] | None = None
    above: float | None = None
    after_bytes: int | None = None
    delta: int | None = None
    seconds: float | None = None
    requests: int | None = None
    period: int | None = None


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of a server.

    Args:
        folder: the folder to serve. If it is the destination of a job, the job's objects are served, whatever its
            format. Give either `folder` or `synthetic`.
        synthetic: number of synthetic objects to serve.
        state: the job's journal folder, if the job was started with `state`.
        size: size of a synthetic object in bytes.
        host: address to listen on.
        port: port to listen on; 0 picks a free port.
        threads: number of server threads.
        page_size: number of names per listing page.
        delay: minimum and maximum delay of a /get request in seconds. Delays are uniformly distributed between them.
        delay_steps: whether delays are whole numbers of seconds.
        slow_rate: share of /get requests that are delayed by `slow_delay` instead of `delay`, from 0 to 1.
        slow_delay: minimum and maximum delay of these slow requests in seconds.
        list_delay: minimum and maximum delay of a /list request in seconds.
        tls: whether to serve https, with a certificate for localhost and the loopback addresses. Clients must trust
            `ca_pem`.
        seed: seed for all random decisions.
        faults: scripted faults.
        hidden: whether to serve files and folders whose names start with a dot. A job's state is never served.
        allow_hosts: host names that requests can use when the server listens on loopback, in addition to localhost,
            127.0.0.0/8 and [::1]; `*` for all.
        client_timeout: maximum seconds for a client to send its next request, or to read more of a reply.
    """

    folder: str | os.PathLike[str] | None = None
    synthetic: int | None = None
    state: str | os.PathLike[str] | None = None
    size: int = 100
    host: str = "127.0.0.1"
    port: int = 0
    threads: int = 1
    page_size: int = 1000
    delay: tuple[float, float] | None = None
    delay_steps: bool = False
    slow_rate: float = 0.0
    slow_delay: tuple[float, float] = (2.0, 2.0)
    list_delay: tuple[float, float] | None = None
    tls: bool = False
    seed: int = 0
    faults: Sequence[Fault] = ()
    hidden: bool = False
    allow_hosts: Sequence[str] = ()
    client_timeout: float = 60.0

    def __post_init__(self) -> None:
        if (self.folder is None) == (self.synthetic is None):
            raise UsageError("give either folder or synthetic")

    @property
    def dest(self) -> str | None:
        """The folder if it is the destination of a job, otherwise None."""
        if self.folder is None:
            return None
        hidden = Path(self.folder) / ".fetchmill"
        is_job = self.state is not None or (hidden / "job.sqlite").exists() or (hidden / "state").exists()
        return os.fspath(self.folder) if is_job else None

    def to_json(self) -> str:
        """Return the options for the native module."""
        values = _without_none(vars(self))
        if self.dest is not None:
            values["content"] = None
        elif self.folder is not None:
            values["content"] = {"folder": os.path.abspath(self.folder)}  # noqa: PTH100 - does not resolve a final link
        else:
            values["content"] = {"synthetic": {"count": self.synthetic, "size": self.size}}
        values["allow_hosts"] = list(self.allow_hosts)
        values["faults"] = [_without_none(asdict(fault)) for fault in self.faults]
        for key in ("folder", "synthetic", "state", "size"):
            values.pop(key, None)
        return json.dumps(values)


class Server:
    """A running server. It starts when it is created, and runs until `stop` is called or a `with` block ends.

    Raises:
        UsageError: an option is invalid, the folder cannot be read, or the address is in use.
        JournalError: the folder is the destination of a job whose journal cannot be read.
    """

    def __init__(self, options: ServeOptions) -> None:
        state = None if options.state is None else os.fspath(options.state)
        self._native = NativeServer(options.to_json(), options.dest, state)

    @property
    def url(self) -> str:
        """The server's URL, such as `http://127.0.0.1:8080`, which can be used as the SOURCE of a job."""
        scheme = "http" if self._native.ca_pem is None else "https"
        return f"{scheme}://{self._native.address}"

    @property
    def ca_pem(self) -> str | None:
        """With `tls`, the PEM certificate that clients must trust, for example by passing it in a `--ca-file`."""
        return self._native.ca_pem

    def stats(self) -> dict[str, Any]:
        """Return counters since the start: connections, requests and replies by kind, faults by action, and bytes."""
        return self._native.stats()

    def stop(self) -> None:
        """Close all connections and end the threads. A second call does nothing."""
        self._native.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<fetchmill._server.Server {self.url}>"


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
