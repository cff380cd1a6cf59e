"""Transports that call the user's function and convert its result or exception to an answer."""

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

# Names of reply attributes in common libraries.
_STATUS = ("status", "status_code")
_BODY = ("body", "content", "data")
OK = 200
# Errors that indicate a bug in the function, because servers and networks hardly ever cause them.
_MISTAKES = (TypeError, AttributeError, NameError, ImportError, NotImplementedError, SyntaxError)
# Number of targets that must fail with the same bug before the job ends. One or two targets may just be unusual.
MISTAKES_MAX = 3


class FirstCalls:
    """Checks the first calls of a function for a bug that would make every target fail in the same way."""

    def __init__(self) -> None:
        self._has_given = False
        self._place = ""
        self._targets: set[int] = set()

    def on_answer(self) -> None:
        """Record that a call returned a valid result. From now on, an error affects only its target."""
        self._has_given = True

    def on_error(self, target: Target, error: Exception) -> None:
        """Record a failed call.

        Raises:
            UsageError: several calls have failed in the same place with the same bug, and no call has succeeded.
        """
        if self._has_given or not isinstance(error, _MISTAKES):
            return
        place = f"{type(error).__name__} in {_place(error)}"
        if place != self._place:
            self._place, self._targets = place, set()
        self._targets.add(target.sequence)
        if len(self._targets) >= MISTAKES_MAX:
            raise UsageError(
                f"fetch failed for the first {MISTAKES_MAX} targets: {_error_line(error)} ({_place(error)}); fix the "
                "function and run the job again"
            ) from error


@dataclass(frozen=True)
class UserFunction:
    """The user's functions, which take the place of a transport.

    Args:
        function: called as `function(target)`, or as `function(target, state)` if `on_start` is given; returns bytes or
            a reply. For `asyncio` and `combo`, it must be a coroutine function; `on_start` and `on_done` can be one.
        on_start: called once per worker; returns the state.
        on_done: called with the state when a worker ends, or with `None` if `on_start` is not given.
    """

    function: Callable[..., Any]
    on_start: Callable[[], Any] | None = None
    on_done: Callable[[Any], object] | None = None
    first_calls: FirstCalls = field(default_factory=FirstCalls, compare=False)

    def answer(self, target: Target, value: Any) -> Answer:  # noqa: ANN401 - checked here
        """Convert the result of a call to an answer.

        Raises:
            TypeError: the result is invalid.
        """
        answer = answer_of(target, value)
        self.first_calls.on_answer()
        return answer

    @property
    def notices(self) -> tuple[str, ...]:
        """Always empty, because the libraries that the function uses are unknown."""
        return ()

    @cached_property
    def origin_replies(self) -> OriginReplies:
        """Statistics about the origin's replies. No answers are held."""
        return OriginReplies()

    def timed_answer(self, target: Target, value: Any, started: float) -> Answer:  # noqa: ANN401 - checked here
        """Convert the result of a call that started at `started` to an answer, and record its times."""
        answer = self.answer(target, value)
        if isinstance(answer, ReplyAnswer):
            ended = time.monotonic()
            self.origin_replies.note_reply(started, ended, answer.status, answer.retry_after, len(answer.body))
        return answer

    def failure(self, target: Target, error: Exception) -> FailureAnswer:
        """Convert the exception of a call to an answer.

        Raises:
            UsageError: the exception indicates a bug in the function, which ends the job.
        """
        self.first_calls.on_error(target, error)
        return FailureAnswer(target.sequence, "function", _error_line(error))


class FunctionTransport(UserFunction):
    """A blocking function as a `BlockingTransport`."""

    def held(self) -> int:
        """Return 0, because no answers are held."""
        return 0

    def start(self) -> tuple[Any, ...]:
        """Return the arguments of the function after the target."""
        return () if self.on_start is None else (self.on_start(),)

    def fetch(self, target: Target, state: tuple[Any, ...]) -> list[Answer]:
        """Make one call."""
        try:
            started = time.monotonic()
            return [self.timed_answer(target, self.function(target, *state), started)]
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            return [self.failure(target, error)]

    def rest(self, state: tuple[Any, ...], *, is_idle: bool) -> list[Answer]:  # noqa: ARG002
        """Do nothing, because the function's connections are unknown."""
        return []

    def done(self, state: tuple[Any, ...]) -> None:
        """Clean up when the worker ends."""
        if self.on_done is not None:
            self.on_done(*state or (None,))


class CoroutineTransport(UserFunction):
    """A coroutine function as an `AsyncTransport`."""

    async def start(self, receiver: AnswerReceiver) -> tuple[Any, ...]:  # noqa: ARG002 - no answers are held
        """Return the arguments of the function after the target."""
        return () if self.on_start is None else (await _await_if_needed(self.on_start()),)

    async def fetch(self, target: Target, state: tuple[Any, ...]) -> Answer:
        """Make one call."""
        try:
            started = time.monotonic()
            return self.timed_answer(target, await self.function(target, *state), started)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            return self.failure(target, error)

    async def done(self, state: tuple[Any, ...]) -> None:
        """Clean up when the loop ends."""
        if self.on_done is not None:
            await _await_if_needed(self.on_done(*state or (None,)))


async def _await_if_needed(value: Any) -> Any:  # noqa: ANN401 - the user's type
    return await value if isawaitable(value) else value


def answer_of(target: Target, value: Any) -> Answer:  # noqa: ANN401 - checked here
    """Convert a function's result to an answer.

    The result is either the body of a complete reply as bytes, or a reply with a status, a body and optional headers.

    Raises:
        TypeError: the result is neither bytes nor a reply.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ReplyAnswer(target.sequence, OK, bytes(value))
    status, body = _first_attribute(value, _STATUS), _first_attribute(value, _BODY)
    if not isinstance(status, int) or not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError(
            "fetch must return bytes, or a reply with status (or status_code) and body "
            f"(or content, or data), not {type(value).__name__}"
        )
    fields = {str(name).lower(): str(value) for name, value in _items(getattr(value, "headers", None))}
    # The user's library may have decoded the body.
    return ReplyAnswer.of(target.sequence, status, bytes(body), fields, checksums=None)


def _error_line(error: Exception) -> str:
    """Return an error's type and message on one line, like the last line of its traceback."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: Exception) -> str:
    """Return the location of a bug: the last line of the function's own file in the traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    if not frames:
        return "its result"
    own = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f"{own.filename}, line {own.lineno}, in {own.name}"


def _first_attribute(value: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401
    return next((getattr(value, name) for name in names if hasattr(value, name)), None)


def _items(headers: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Return header fields as pairs, from a mapping or from pairs."""
    if headers is None:
        return []
    return list(headers.items()) if hasattr(headers, "items") else [tuple(pair) for pair in headers]
