"""The interfaces between engines and transports, and the options of a transport."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fetchmill.engines.answers import Answer

if TYPE_CHECKING:
    from fetchmill._native import OriginReplies
    from fetchmill.engines.body_memory import BodyMemory

# Number of connections that make requests for each additional connection that can rest.
_RESTING_SHARE = 2


class Target(Protocol):
    """An object to fetch, as handed out by the native module.

    Args:
        sequence: sequence number in the job.
        name: name under which the object is stored.
        url: the complete URL, which is sent unchanged.
        attempt: number of the attempt, counted from 1.
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
        """Return the header fields of the request except Host, including User-Agent and Accept-Encoding."""


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """The options of a job's transports, which are the same in every process.

    Args:
        connections: maximum number of requests in flight of this worker.
        connect_timeout: seconds to establish a connection, including TLS.
        head_timeout: seconds from a request to the end of the reply's head.
        idle_timeout: seconds without receiving a byte of the body.
        total_timeout: seconds for an attempt, plus one second per 64 KiB of its body.
        max_size: maximum size of a body in bytes.
        ca_file: PEM file with certificates to trust instead of the system's.
        insecure_hosts: hosts whose certificates are not checked.
        proxy: proxy for all requests, http://[USER:PASSWORD@]HOST:PORT; or a mapping from `http` and `https` to a proxy
            or None, and from `without` to the hosts that are requested without a proxy, as in no_proxy.
        public_only: whether only connections to public addresses are allowed.
        named_origin: the origin that the user named, scheme://host[:port]. Its address does not have to be public.
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
    """Return the number of additional connections that can rest: half of `requests_max`, but at least one."""
    return max(1, requests_max // _RESTING_SHARE)


class BlockingTransport(Protocol):
    """Makes requests in threads and processes. Threads share the transport, but each thread has its own state."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Human-readable messages about the transport's libraries, one line each."""

    @property
    def origin_replies(self) -> "OriginReplies":
        """Statistics about the origin's replies. Each reply is counted on arrival, because its answer may be held."""

    def held(self) -> int:
        """Return the number of held replies across all threads. Called by the dispatcher's thread."""

    def start(self) -> Any:  # noqa: ANN401 - the transport's own type
        """Return the state for the other methods. Called once by each thread or process before its first target."""

    def fetch(self, target: Target, state: Any) -> list[Answer]:  # noqa: ANN401
        """Make one attempt at a target. Failures of the server are answers, not exceptions.

        Return the answers that are now certain, if any, which can also belong to earlier targets.
        """

    def rest(self, state: Any, *, is_idle: bool) -> list[Answer]:  # noqa: ANN401
        """Wait if the connection is resting or nothing else is left to do. Called after `fetch`.

        Return the answers that are now certain. With `is_idle`, these are all held answers.
        """

    def done(self, state: Any) -> None:  # noqa: ANN401
        """Clean up. Called once by each thread or process after its last target."""


class AnswerReceiver(Protocol):
    """The event loop, as seen by a transport that holds answers until they are certain.

    Args:
        body_memory: admits a body that arrives in pieces before it is read.
        limit: current maximum number of requests in flight.
    """

    body_memory: "BodyMemory"
    limit: int

    def hold(self, answer: Answer) -> None:
        """Record that an answer has arrived and is held from now on."""

    def give(self, answers: list[Answer]) -> None:
        """Deliver held answers that have become certain."""

    def ask_again(self, targets: list[Target], held_bytes: int) -> None:
        """Request the targets of held answers again, because the answers will never be certain.

        `held_bytes` is the total size of the answers' bodies.
        """


class AsyncTransport(Protocol):
    """Makes requests in an event loop."""

    @property
    def notices(self) -> tuple[str, ...]:
        """See `BlockingTransport`."""

    @property
    def origin_replies(self) -> "OriginReplies":
        """See `BlockingTransport`."""

    async def start(self, receiver: AnswerReceiver) -> Any:  # noqa: ANN401
        """Return the state for the other methods. Called once by each loop before its first target."""

    def fetch(self, target: Target, state: Any) -> Awaitable[Answer | None]:  # noqa: ANN401
        """Make one attempt at a target. Failures of the server are answers, not exceptions.

        Return None if the answer is held. The transport later reports the answer to the receiver.
        """

    async def done(self, state: Any) -> None:  # noqa: ANN401
        """Clean up. Called once by each loop after its last target."""
