"""Retries a function after an error, with a wait that doubles each time."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from fetchmill.bounded.failures import check_count

RetryOn = type[Exception] | tuple[type[Exception], ...]
# Maximum wait in seconds.
WAIT_MAX = 30.0


class RetryOptions(TypedDict, total=False):
    """The keywords of RetryPolicy that `each` and `map` accept for all kinds of workers."""

    attempts: int
    retry_on: RetryOn
    retry_wait: float


class CallOptions(RetryOptions, total=False):
    """The keywords of RetryPolicy for workers whose calls can be stopped: coroutines and processes."""

    item_timeout: float | None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts per item, the errors after which an item is tried again, and the time limit for each call.

    Args:
        attempts: maximum number of calls per item.
        retry_on: errors after which an item is tried again.
        retry_wait: seconds before the second attempt. Each further wait is twice as long, up to 30 s. Waits are then
            shortened by a random amount of up to half, so that items that failed together are not retried together.
        item_timeout: seconds for a call; None for no limit.

    Raises:
        ValueError: a value is out of range.
    """

    attempts: int = 1
    retry_on: RetryOn = Exception
    retry_wait: float = 0.5
    item_timeout: float | None = None

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts)
        if self.retry_wait < 0:
            raise ValueError(f"retry_wait must be a number of seconds of at least 0, not {self.retry_wait!r}")
        if self.item_timeout is not None and self.item_timeout <= 0:
            raise ValueError(f"item_timeout must be a number of seconds above 0, or None, not {self.item_timeout!r}")

    def wait_after(self, attempt: int) -> float:
        """Return the seconds to wait after this attempt. Attempts are counted from 1."""
        # Limit the exponent to 64, because a power that is too large for a float raises an error.
        wait: float = min(self.retry_wait * 2.0 ** min(attempt - 1, 64), WAIT_MAX)
        return wait * random.uniform(0.5, 1)  # noqa: S311 - not a secret

    def of_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a plain function to be retried. The caller enforces `item_timeout`."""
        return function if self.attempts == 1 else Retrying(function, self)

    def of_coroutines(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Wrap a coroutine function to be retried. `item_timeout` applies to each attempt."""
        return function if self.attempts == 1 and self.item_timeout is None else RetryingCoroutines(function, self)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A function that is called again after certain errors. It can be pickled if the original function can."""

    function: Callable[..., Any]
    policy: RetryPolicy

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - same types as the function
        """Call the function, up to `attempts` times."""
        for attempt in range(1, self.policy.attempts):
            try:
                return self.function(*arguments)
            except self.policy.retry_on:
                time.sleep(self.policy.wait_after(attempt))
        return self.function(*arguments)


@dataclass(frozen=True, slots=True)
class RetryingCoroutines:
    """A coroutine function that is called again after certain errors, with a time limit for each attempt."""

    function: Callable[..., Awaitable[Any]]
    policy: RetryPolicy

    async def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - same types as the function
        """Await the function, up to `attempts` times."""
        for attempt in range(1, self.policy.attempts):
            try:
                return await self._call(arguments)
            except self.policy.retry_on:
                await asyncio.sleep(self.policy.wait_after(attempt))
        return await self._call(arguments)

    async def _call(self, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - same types as the function
        async with asyncio.timeout(self.policy.item_timeout):
            return await self.function(*arguments)
