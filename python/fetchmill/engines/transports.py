"""What an engine asks of a transport, and what a transport must know."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fetchmill.engines.answers import Answer

if TYPE_CHECKING:
    from fetchmill._native import OriginReplies
    from fetchmill.engines.body_memory import BodyMemory

# Of connections that make requests, one in so many more may be open and rest.
_RESTING_SHARE = 2


class Target(Protocol):
    """One object to fetch, as the native module hands it out.

    Args:
        sequence: its number in the job.
        name: what it is stored as.
        url: where it is asked for, in full; every byte is sent as it stands there.
        attempt: 1 for the first attempt, and so on.
    """

    @property
    def sequence(self) -> int: ...  # noqa: D102 - see the class
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def url(self) -> str: ...  # noqa: D102
    @property
    def attempt(self) -> int: ...  # noqa: D102

    def headers(self) -> list[tuple[str, str]]:
        """The fields that its request carries besides Host, User-Agent and Accept-Encoding included."""


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """What the transports of a job have in common; the same in every process of it.

    Args:
        connections: requests in flight of this worker at most, at any time.
        connect_timeout: seconds for a connection, TLS included.
        head_timeout: seconds from a request to the end of the reply's head.
        idle_timeout: seconds without a byte of a body.
        total_timeout: seconds for an attempt, plus one for each 64 KiB of its body.
        max_size: bytes of the largest body.
        ca_file: certificates to trust instead of the system's, in PEM.
        insecure_hosts: hosts whose certificate is not checked.
        proxy: proxy for all requests, http://[USER:PASSWORD@]HOST:PORT; or `http` and `https`, one for each scheme or
            None, and `without`, the hosts that are reached without one, as in no_proxy.
        public_only: whether no connection may be made to an address that is not public.
        named_origin: the origin that the user has named, scheme://host[:port]: it may be anywhere all the same.
    """

    connections: int = 1
    connect_timeout: float = 5.0
    head_timeout: float = 15.0
    idle_timeout: float = 15.0
    total_timeout: float = 60.0
    max_size: int = 64 << 20
    ca_file: str | None = None
    insecure_hosts: tuple[str, ...] = ()
    proxy: str | Mapping[str, Any] | None = None
    public_only: bool = False
    named_origin: str | None = None


def resting_connections(requests_max: int) -> int:
    """Connections that may rest beside those that make so many requests: half as many, and at least one."""
    return max(1, requests_max // _RESTING_SHARE)


class BlockingTransport(Protocol):
    """Makes requests in threads and processes. Threads share it; what is a thread's own is its state."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of its libraries, a line each."""

    @property
    def origin_replies(self) -> "OriginReplies":
        """What replies say of the origin as they come: their answers may be held."""

    def held(self) -> int:
        """Replies that have come and are held, of all threads. Called by the thread that has the dispatcher."""

    def start(self) -> Any:  # noqa: ANN401 - the transport's own
        """Called once by each thread or process, before its first target; what it gives is passed to the others."""

    def fetch(self, target: Target, state: Any) -> list[Answer]:  # noqa: ANN401
        """One attempt at a target. It raises nothing for what a server does.

        Gives the answers that are certain now: perhaps none, perhaps those of earlier targets.
        """

    def rest(self, state: Any, *, is_idle: bool) -> list[Answer]:  # noqa: ANN401
        """Called behind `fetch`: waits if the connection must rest, or if nothing else is to be done.

        Gives the answers that are certain now. With `is_idle` these are all that were held.
        """

    def done(self, state: Any) -> None:  # noqa: ANN401
        """Called once by each, after its last target."""


class AnswerReceiver(Protocol):
    """What an event loop is told of answers that its transport holds until it is certain whose they are.

    Args:
        body_memory: where a body that comes in pieces has its room before it is read.
        limit: requests that may be out at a time, now.
    """

    body_memory: "BodyMemory"
    limit: int

    def hold(self, answer: Answer) -> None:
        """One has come and is held from now on."""

    def give(self, answers: list[Answer]) -> None:
        """These were held, and are certain."""

    def ask_again(self, targets: list[Target], held_bytes: int) -> None:
        """What was held for these will never be certain; bytes of its bodies."""


class AsyncTransport(Protocol):
    """Makes requests in an event loop."""

    @property
    def notices(self) -> tuple[str, ...]:
        """As of a `BlockingTransport`."""

    @property
    def origin_replies(self) -> "OriginReplies":
        """As of a `BlockingTransport`."""

    async def start(self, receiver: AnswerReceiver) -> Any:  # noqa: ANN401
        """Called once by each loop, before its first target."""

    def fetch(self, target: Target, state: Any) -> Awaitable[Answer | None]:  # noqa: ANN401
        """One attempt at a target. It raises nothing for what a server does.

        Gives None when the answer is held; then the receiver is told what becomes of it.
        """

    async def done(self, state: Any) -> None:  # noqa: ANN401
        """Called once by each loop, after its last target."""
