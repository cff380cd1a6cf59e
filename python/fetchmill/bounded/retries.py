"""Attempts: a function that failed is called again, after a wait that doubles each time."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from fetchmill.bounded.failures import check_count

RetryOn = type[Exception] | tuple[type[Exception], ...]
# Seconds that no wait exceeds.
WAIT_MAX = 30.0


class RetryOptions(TypedDict, total=False):
    """Keywords of `each` and `map`: those of RetryPolicy that are for all workers."""

    attempts: int
    retry_on: RetryOn
    retry_wait: float


class CallOptions(RetryOptions, total=False):
    """The same where a call can be ended."""

    item_timeout: float | None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an item is tried, after which errors, and how long each time may be.

    Args:
        attempts: calls of an item, at most.
        retry_on: errors after which there is another one.
        retry_wait: seconds before the second; each further wait is twice as long, 30 s at most. Each is shortened by
            up to a half at random, so that items that failed together are not tried together.
        item_timeout: seconds of a call; None for any number.

    Raises:
        ValueError: a number makes no sense.
    """

    attempts: int = 1
    retry_on: RetryOn = Exception
    retry_wait: float = 0.5
    item_timeout: float | None = None

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts)
        if self.retry_wait < 0:
            raise ValueError(f"retry_wait is {self.retry_wait!r}: give seconds, or 0")
        if self.item_timeout is not None and self.item_timeout <= 0:
            raise ValueError(f"item_timeout is {self.item_timeout!r}: give seconds above 0, or None")

    def wait_after(self, attempt: int) -> float:
        """Seconds after the attempt of this number, from 1."""
        # A power of two that no float has is an error: 64 doublings are more than enough.
        wait: float = min(self.retry_wait * 2.0 ** min(attempt - 1, 64), WAIT_MAX)
        return wait * random.uniform(0.5, 1)  # noqa: S311 - no secret

    def of_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A plain function with these attempts; its time is not limited here."""
        return function if self.attempts == 1 else Retrying(function, self)

    def of_coroutines(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """A coroutine function with these attempts, each with its time."""
        return function if self.attempts == 1 and self.item_timeout is None else RetryingCoroutines(function, self)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A function that is called again after some errors; another process can have it if it can have the function."""

    function: Callable[..., Any]
    policy: RetryPolicy

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - as the function
        """Calls it."""
        for attempt in range(1, self.policy.attempts):
            try:
                return self.function(*arguments)
            except self.policy.retry_on:
                time.sleep(self.policy.wait_after(attempt))
        return self.function(*arguments)


@dataclass(frozen=True, slots=True)
class RetryingCoroutines:
    """The same for coroutines, each of which has only so much time."""

    function: Callable[..., Awaitable[Any]]
    policy: RetryPolicy

    async def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - as the function
        """Awaits it."""
        for attempt in range(1, self.policy.attempts):
            try:
                return await self._call(arguments)
            except self.policy.retry_on:
                await asyncio.sleep(self.policy.wait_after(attempt))
        return await self._call(arguments)

    async def _call(self, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as the function
        async with asyncio.timeout(self.policy.item_timeout):
            return await self.function(*arguments)
