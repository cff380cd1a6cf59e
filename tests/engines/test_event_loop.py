"""The tasks of an event loop: at most one per allowed request, and at least one while targets wait."""

import asyncio
import time
from typing import Self
from unittest.mock import Mock

from fetchmill.engines.body_memory import BodyMemory
from fetchmill.engines.event_loop import _EventLoop
from fetchmill.engines.http.held_answers import OriginReplies
from fetchmill.engines.transports import AnswerReceiver, Target

PATIENCE = 10.0
BEFORE, AFTER, TARGETS = 12, 4, 30


class RoundsOfReplies:
    """A transport whose replies all come in the same round of the loop and are already certain."""

    origin_replies = OriginReplies()
    notices = ()

    def __init__(self) -> None:
        self.asked = 0
        self.out = 0
        self._loop: asyncio.AbstractEventLoop
        self._gate = asyncio.Event()

    async def start(self, _receiver: AnswerReceiver) -> Self:
        """Returns itself as the state."""
        self._loop = asyncio.get_running_loop()
        return self

    async def fetch(self, _target: Target, _state: Self) -> None:
        """Waits for the round."""
        self.asked, self.out = self.asked + 1, self.out + 1
        await self._gate.wait()
        self.out -= 1

    async def done(self, _state: Self) -> None:
        """Does nothing."""

    def reply(self) -> None:
        """Answers all requests in flight, from another thread."""
        self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        self._gate.set()
        self._gate = asyncio.Event()


def wait_until_asked(transport: RoundsOfReplies, count: int) -> None:
    """Waits until the given number of requests has been made in total."""
    deadline = time.monotonic() + PATIENCE
    while transport.asked < count:
        assert time.monotonic() < deadline, f"{transport.asked} requests were made, {transport.out} are out"
        time.sleep(0.005)


def test_targets_continue_when_lower_limit_ends_all_tasks() -> None:
    """No answer is pending that could start a task later, so the loop starts tasks itself."""
    transport = RoundsOfReplies()
    loop = _EventLoop(transport, BEFORE, BodyMemory())
    loop.thread.start()
    try:
        loop.add_targets([Mock()] * TARGETS)
        wait_until_asked(transport, BEFORE)
        loop.resize(AFTER)
        for asked in range(BEFORE, TARGETS, AFTER):
            transport.reply()
            wait_until_asked(transport, min(asked + AFTER, TARGETS))
            assert transport.out <= AFTER
    finally:
        loop.end()
