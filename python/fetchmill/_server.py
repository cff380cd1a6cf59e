"""A file server over the list/get API: the files of a folder, what a job has stored, or computed objects.

For tests and measurements: it can wait, and it can fail in scripted ways. `fetchmill serve` and
`fetchmill.testing.serve` are the two ways to it.
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
    """A scripted fault: which requests are hit, and what happens to them. The first that applies decides.

    Args:
        action: `status` answers with another status; `reset` resets the connection; `truncate` announces the whole
            body and closes in the middle; `wrong-length` announces another length; `stall` stops sending; `trickle`
            sends byte by byte; `repeat-marker` lets the listing go round in a circle; `unsolicited` sends a second
            reply that nobody asked for; `close` closes after the reply and says so; `chunked` sends the body in
            chunks; `eof` sends no length and ends the body by closing; `stray` hits connections: some time after one of
            their replies one more is sent that nobody asked for, whatever requests are out by then.
        rate: share of the names that are hit, 0 to 1. A name is always hit or never. For `stray`, share of the
            connections.
        times: only the first so many requests of a name are hit; for `stray`, only so many connections.
        match: a name, or the start of names followed by `*`; for the listing, of markers.
        on: `get`, `list` or `any`; `get` unless the action only makes sense for `list`.
        status: for `status`.
        retry_after: for `status`: whole seconds of Retry-After, or a range of them.
        above: for `status`: only requests above so many a second are hit, whatever their names.
        after_bytes: for `reset`, `truncate`, `stall` and `trickle`: bytes of the reply that are sent before.
        delta: for `wrong-length`: added to the announced length.
        seconds: for `stall`, `trickle` and `unsolicited`; for `stray`, the most by which it comes later: 0.05.
        requests: for `stray`: it follows the reply to one of the first so many requests of its connection: 100.
        period: for `repeat-marker`: pages in the circle.
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
    """What a server is asked to do.

    Args:
        folder: the folder to serve; of the destination of a job, what the job has stored, in any format; or else
        synthetic: how many objects to compute.
        state: folder of that job's journal, when the job was given one.
        size: bytes of a synthetic object.
        host: address to listen on.
        port: port to listen on; 0 is any that is free.
        threads: threads that serve.
        page_size: names in a page.
        delay: seconds that each /get waits: uniform between the two.
        delay_steps: whether that is in whole seconds.
        slow_rate: share of the /get requests that wait slow_delay in place of delay, 0 to 1.
        slow_delay: seconds that these wait: uniform between the two.
        list_delay: seconds that each /list waits.
        tls: serve https, with a certificate for localhost and the loopback addresses that `ca_pem` proves.
        seed: start of all that is random.
        faults: scripted faults.
        hidden: whether files and folders whose names start with a dot are served; the state of a job never is.
        allow_hosts: hosts that requests may be for besides localhost, 127.0.0.0/8 and [::1], when it listens at
            loopback; `*` for all.
        client_timeout: seconds that a client may take for its next request, or for taking some of a reply.
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
            raise UsageError("one of folder and synthetic must be given")

    @property
    def dest(self) -> str | None:
        """The folder, when it is the destination of a job."""
        if self.folder is None:
            return None
        hidden = Path(self.folder) / ".fetchmill"
        is_job = self.state is not None or (hidden / "job.sqlite").exists() or (hidden / "state").exists()
        return os.fspath(self.folder) if is_job else None

    def to_json(self) -> str:
        """For the native module."""
        values = _without_none(vars(self))
        if self.dest is not None:
            values["content"] = None
        elif self.folder is not None:
            values["content"] = {"folder": os.path.abspath(self.folder)}  # noqa: PTH100 - keeps a final link
        else:
            values["content"] = {"synthetic": {"count": self.synthetic, "size": self.size}}
        values["allow_hosts"] = list(self.allow_hosts)
        values["faults"] = [_without_none(asdict(fault)) for fault in self.faults]
        for key in ("folder", "synthetic", "state", "size"):
            values.pop(key, None)
        return json.dumps(values)


class Server:
    """A running server: serves from the moment it is made until `stop`, or the end of a `with` block.

    Raises:
        UsageError: an option cannot be used, the folder cannot be read, or the address is taken.
        JournalError: the folder is the destination of a job whose journal cannot be read.
    """

    def __init__(self, options: ServeOptions) -> None:
        state = None if options.state is None else os.fspath(options.state)
        self._native = NativeServer(options.to_json(), options.dest, state)

    @property
    def url(self) -> str:
        """Its URL, such as `http://127.0.0.1:8080`: the SOURCE of a job."""
        scheme = "http" if self._native.ca_pem is None else "https"
        return f"{scheme}://{self._native.address}"

    @property
    def ca_pem(self) -> str | None:
        """With `tls`, the certificate that clients must trust, in PEM: what belongs into `--ca-file`."""
        return self._native.ca_pem

    def stats(self) -> dict[str, Any]:
        """Counts since the start: connections, requests by kind, replies by kind, faults by action, bytes."""
        return self._native.stats()

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""
        self._native.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<fetchmill._server.Server {self.url}>"


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
