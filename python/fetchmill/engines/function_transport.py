"""Transports that are the user's own function: what it gives, or raises, as an answer."""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isawaitable
from typing import Any

from fetchmill._native import OriginReplies
from fetchmill.engines.answers import Answer, FailureAnswer, ReplyAnswer
from fetchmill.engines.transports import AnswerReceiver, Target
from fetchmill.errors import UsageError

# Where replies of usual libraries have what is needed.
_STATUS = ("status", "status_code")
_BODY = ("body", "content", "data")
OK = 200
# What a mistake in a program raises, and a server or a network hardly ever.
_MISTAKES = (TypeError, AttributeError, NameError, ImportError, NotImplementedError, SyntaxError)
# So many targets must meet the same mistake before the job ends: one or two may be odd.
MISTAKES_MAX = 3


class FirstCalls:
    """What a function's first calls came to: one that has a mistake fails for every target in the same way."""

    def __init__(self) -> None:
        self._has_given = False
        self._place = ""
        self._targets: set[int] = set()

    def on_answer(self) -> None:
        """The function has given something that can be used: what it raises from here on is its targets' business."""
        self._has_given = True

    def on_error(self, target: Target, error: Exception) -> None:
        """A call has failed.

        Raises:
            UsageError: so have others, before any could be used, all at the same place with the same mistake.
        """
        if self._has_given or not isinstance(error, _MISTAKES):
            return
        place = f"{type(error).__name__} in {_place(error)}"
        if place != self._place:
            self._place, self._targets = place, set()
        self._targets.add(target.sequence)
        if len(self._targets) >= MISTAKES_MAX:
            raise UsageError(
                f"fetch fails for each of the first targets: {_error_line(error)} ({_place(error)}); mend the function "
                "and run the job again"
            ) from error


@dataclass(frozen=True)
class UserFunction:
    """What a program gives instead of a transport.

    Args:
        function: `function(target)`, or `function(target, state)` with an `on_start`; gives bytes or a reply. For
            `asyncio` and `combo` it is a coroutine function, and the others may be some.
        on_start: gives the state, once a worker.
        on_done: takes it, once a worker, at its end; `None` without an `on_start`.
    """

    function: Callable[..., Any]
    on_start: Callable[[], Any] | None = None
    on_done: Callable[[Any], object] | None = None
    first_calls: FirstCalls = field(default_factory=FirstCalls, compare=False)

    def answer(self, target: Target, value: Any) -> Answer:  # noqa: ANN401 - checked here
        """What a call has given.

        Raises:
            TypeError: it can't be used.
        """
        answer = answer_of(target, value)
        self.first_calls.on_answer()
        return answer

    @property
    def notices(self) -> tuple[str, ...]:
        """None: of its libraries nothing is known."""
        return ()

    @cached_property
    def origin_replies(self) -> OriginReplies:
        """What its replies say of the origin; no answer is held."""
        return OriginReplies()

    def timed_answer(self, target: Target, value: Any, started: float) -> Answer:  # noqa: ANN401 - checked here
        """The same for a call that began then."""
        answer = self.answer(target, value)
        if isinstance(answer, ReplyAnswer):
            ended = time.monotonic()
            self.origin_replies.note_reply(started, ended, answer.status, answer.retry_after, len(answer.body))
        return answer

    def failure(self, target: Target, error: Exception) -> FailureAnswer:
        """What a call has raised.

        Raises:
            UsageError: it is a mistake in the function, which ends the job.
        """
        self.first_calls.on_error(target, error)
        return FailureAnswer(target.sequence, "function", _error_line(error))


class FunctionTransport(UserFunction):
    """A function that blocks, as a `BlockingTransport`."""

    def held(self) -> int:
        """None."""
        return 0

    def start(self) -> tuple[Any, ...]:
        """What the function gets beside its target."""
        return () if self.on_start is None else (self.on_start(),)

    def fetch(self, target: Target, state: tuple[Any, ...]) -> list[Answer]:
        """One call."""
        try:
            started = time.monotonic()
            return [self.timed_answer(target, self.function(target, *state), started)]
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            return [self.failure(target, error)]

    def rest(self, state: tuple[Any, ...], *, is_idle: bool) -> list[Answer]:  # noqa: ARG002
        """Of connections that a function makes nothing is known."""
        return []

    def done(self, state: tuple[Any, ...]) -> None:
        """The worker ends."""
        if self.on_done is not None:
            self.on_done(*state or (None,))


class CoroutineTransport(UserFunction):
    """A coroutine function, as an `AsyncTransport`."""

    async def start(self, receiver: AnswerReceiver) -> tuple[Any, ...]:  # noqa: ARG002 - nothing is held
        """What the function gets beside its target."""
        return () if self.on_start is None else (await _await_if_needed(self.on_start()),)

    async def fetch(self, target: Target, state: tuple[Any, ...]) -> Answer:
        """One call."""
        try:
            started = time.monotonic()
            return self.timed_answer(target, await self.function(target, *state), started)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            return self.failure(target, error)

    async def done(self, state: tuple[Any, ...]) -> None:
        """The loop ends."""
        if self.on_done is not None:
            await _await_if_needed(self.on_done(*state or (None,)))


async def _await_if_needed(value: Any) -> Any:  # noqa: ANN401 - the user's
    return await value if isawaitable(value) else value


def answer_of(target: Target, value: Any) -> Answer:  # noqa: ANN401 - checked here
    """What a function gives, as an answer: bytes are a complete reply; a reply has a status, a body and perhaps fields.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ReplyAnswer(target.sequence, OK, bytes(value))
    status, body = _first_attribute(value, _STATUS), _first_attribute(value, _BODY)
    if not isinstance(status, int) or not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"fetch gave {type(value).__name__}: it must give bytes, or a reply with status (or status_code) and body "
            "(or content, or data)"
        )
    fields = {str(name).lower(): str(value) for name, value in _items(getattr(value, "headers", None))}
    # A library may have given another form of the bytes.
    return ReplyAnswer.of(target.sequence, status, bytes(body), fields, checksums=None)


def _error_line(error: Exception) -> str:
    """The last line of its traceback: its type and text, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: Exception) -> str:
    """Where the function is at fault: the last line of its own file that the error has passed through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    if not frames:
        return "what it gives"
    own = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f"{own.filename}, line {own.lineno}, in {own.name}"


def _first_attribute(value: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401
    return next((getattr(value, name) for name in names if hasattr(value, name)), None)


def _items(headers: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Fields of a mapping, or pairs."""
    if headers is None:
        return []
    return list(headers.items()) if hasattr(headers, "items") else [tuple(pair) for pair in headers]
