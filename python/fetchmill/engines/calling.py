"""Transports that are the user's own function: what it gives, or raises, as an answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from fetchmill.engines.answers import Answer, Broken, Replied
from fetchmill.engines.transports import Target

# Where replies of usual libraries have what is needed.
_STATUS = ("status", "status_code")
_BODY = ("body", "content")
OK = 200


@dataclass(frozen=True)
class Function:
    """A function that blocks, as a `BlockingTransport`.

    Args:
        fetch: `fetch(target)`, or `fetch(target, state)` with an `on_start`; gives bytes or a reply.
        on_start: gives the state, once a worker.
        on_done: takes it, once a worker; `None` without an `on_start`.
    """

    fetch_one: Callable[..., Any]
    on_start: Callable[[], Any] | None = None
    on_done: Callable[[Any], object] | None = None

    def start(self) -> tuple[Any, ...]:
        """What the function gets beside its target."""
        return () if self.on_start is None else (self.on_start(),)

    def fetch(self, target: Target, state: tuple[Any, ...]) -> Answer:
        """One call."""
        try:
            return answer_of(target, self.fetch_one(target, *state))
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            return failure_of(target, error)

    def done(self, state: tuple[Any, ...]) -> None:
        """The worker ends."""
        if self.on_done is not None:
            self.on_done(*state or (None,))


@dataclass(frozen=True)
class Coroutine:
    """A coroutine function, as an `AwaitingTransport`; the fields are those of `Function`, and may be coroutines."""

    fetch_one: Callable[..., Awaitable[Any]]
    on_start: Callable[[], Any] | None = None
    on_done: Callable[[Any], object] | None = None

    async def start(self) -> tuple[Any, ...]:
        """What the function gets beside its target."""
        return () if self.on_start is None else (await _value(self.on_start()),)

    async def fetch(self, target: Target, state: tuple[Any, ...]) -> Answer:
        """One call."""
        try:
            return answer_of(target, await self.fetch_one(target, *state))
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            return failure_of(target, error)

    async def done(self, state: tuple[Any, ...]) -> None:
        """The loop ends."""
        if self.on_done is not None:
            await _value(self.on_done(*state or (None,)))


async def _value(given: Any) -> Any:  # noqa: ANN401 - the user's
    return await given if isawaitable(given) else given


def answer_of(target: Target, given: Any) -> Answer:  # noqa: ANN401 - checked here
    """What a function gives, as an answer: bytes are a complete reply; a reply has a status, a body and perhaps fields.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(given, (bytes, bytearray, memoryview)):
        return Replied(target.sequence, OK, bytes(given))
    status, body = _first(given, _STATUS), _first(given, _BODY)
    if not isinstance(status, int) or not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"fetch gave {type(given).__name__}: it must give bytes, or a reply with status (or status_code) and body "
            "(or content)"
        )
    fields = {str(name).lower(): str(value) for name, value in _items(getattr(given, "headers", None))}
    return Replied(
        target.sequence,
        status,
        bytes(body),
        is_verified=True,
        content_type=fields.get("content-type"),
        etag=fields.get("etag"),
        last_modified=fields.get("last-modified"),
        retry_after=fields.get("retry-after"),
    )


def failure_of(target: Target, error: Exception) -> Broken:
    """An exception of a function: its type and text are the detail, in one line."""
    text = " ".join(str(error).split())
    return Broken(target.sequence, "function", f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _first(given: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401
    return next((getattr(given, name) for name in names if hasattr(given, name)), None)


def _items(headers: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Fields of a mapping, or pairs."""
    if headers is None:
        return []
    return list(headers.items()) if hasattr(headers, "items") else [tuple(pair) for pair in headers]
