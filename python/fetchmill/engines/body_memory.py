"""Bodies in the memory of an event loop: how many requests may be in flight for them, and which may be read now.

How long a body will be is not known before its head has come, so each request in flight counts as the largest body
lately. That is a guess: of objects that are sorted by size hundreds may be in flight when the large ones begin. So a
body that comes in pieces is admitted before it is read; the rest waits with its server, and nobody's time runs.
"""

import asyncio
import heapq
from collections.abc import Iterable
from typing import Self

from fetchmill.engines.answers import Answer, ReplyAnswer

# Bodies that are received or not yet taken by the dispatcher, of all event loops of a job, and the least that one has.
# A body is there twice for a moment.
BODIES_BYTES_MAX = 32 << 20
_SHARE_BYTES_MIN = 8 << 20
# What a body counts as before some answers have come: 16 requests are in flight until then.
_FIRST_ESTIMATE = 2 << 20
_FIRST_ANSWERS = 4
# How fast a large body is forgotten: its weight is halved after about eleven smaller ones.
_FORGET = 1 / 16


class BodyMemory:
    """The count. All of it is the loop's own.

    Args:
        loops: event loops of the job: this one has its share.
    """

    def __init__(self, loops: int = 1) -> None:
        self.bytes_max = max(BODIES_BYTES_MAX // loops, _SHARE_BYTES_MIN)
        # Bytes of bodies that are admitted, or have come and were not taken.
        self._used = 0
        self._estimate = 0.0
        self._answers = 0
        # Bodies that come in pieces: how many have begun, and how many are read and count with their length.
        self._begun = 0
        self._reading = 0
        # Those that wait, as a heap, the one that began first on top: its number, and for how many bytes it waits.
        self._waiting: list[tuple[int, int, BodyRoom, asyncio.Future[None]]] = []
        # Of the bytes used, those that only a body that waits can set free.
        self._stuck = 0

    @property
    def used(self) -> int:
        """Bytes that are admitted, or have come and were not taken."""
        return self._used

    def has_room(self, in_flight: int) -> bool:
        """Whether another request may go out beside so many. One always may when nothing is held."""
        if self._waiting:
            return False
        estimate = self._estimate if self._answers >= _FIRST_ANSWERS else max(self._estimate, _FIRST_ESTIMATE)
        needed = self._used + (in_flight - self._reading + 1) * estimate
        return needed <= self.bytes_max or (in_flight == 0 and self._used < self.bytes_max)

    def note(self, answer: Answer) -> None:
        """An answer has come: its body is held until it is released."""
        self._answers += 1
        if isinstance(answer, ReplyAnswer):
            length = len(answer.body)
            self._used += length
            self._estimate = max(length, self._estimate + (length - self._estimate) * _FORGET)

    def release(self, held: int) -> None:
        """So many bytes have been taken."""
        self._used -= held
        if self._waiting:
            self._admit_waiting()

    def begin_body(self, connection_bytes: int) -> "BodyRoom":
        """The room of a body that comes in pieces, for a `with` block; the answer is noted right behind it.

        Args:
            connection_bytes: what its connection holds until the body is complete.
        """
        self._begun += 1
        return BodyRoom(self, self._begun, connection_bytes)

    def take(self, room: "BodyRoom", count: int) -> bool:
        """Admits so many bytes more of a body, if there is room and no other waits."""
        self._estimate = max(self._estimate, room.bytes + count)
        if self._waiting or self._used + count > self.bytes_max:
            return False
        self._admit(room, count)
        return True

    async def wait(self, room: "BodyRoom", count: int) -> None:
        """Returns when so many bytes more are admitted."""
        admitted = asyncio.get_running_loop().create_future()
        waiting = (room.number, count, room, admitted)
        heapq.heappush(self._waiting, waiting)
        self._stuck += room.stuck
        self._admit_waiting()
        try:
            await admitted
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                heapq.heapify(self._waiting)
                self._stuck -= room.stuck
                self._admit_waiting()
            raise

    def end_body(self, room: "BodyRoom") -> None:
        """It is complete, and noted by itself, or there will be none."""
        if room.bytes:
            self._used -= room.bytes
            self._reading -= 1
        if self._waiting:
            # Not before it is noted.
            asyncio.get_running_loop().call_soon(self._admit_waiting)

    def _admit(self, room: "BodyRoom", count: int) -> None:
        if not room.bytes:
            self._reading += 1
        room.bytes += count
        self._used += count

    def _admit_waiting(self) -> None:
        """In the order in which the bodies began. One goes on without room when nothing else would make some."""
        while self._waiting:
            _, count, room, admitted = self._waiting[0]
            if self._used + count > self.bytes_max and self._used > self._stuck:
                return
            heapq.heappop(self._waiting)
            self._stuck -= room.stuck
            if not admitted.done():
                self._admit(room, count)
                admitted.set_result(None)


class BodyRoom:
    """What one body that is read takes."""

    __slots__ = ("_memory", "bytes", "connection_bytes", "number")

    def __init__(self, memory: BodyMemory, number: int, connection_bytes: int) -> None:
        self._memory = memory
        self.number = number
        self.bytes = 0
        self.connection_bytes = connection_bytes

    @property
    def stuck(self) -> int:
        """Bytes that are not set free before it goes on."""
        return self.bytes + self.connection_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.end_body(self)


def bytes_of(answers: Iterable[Answer]) -> int:
    """Bytes of their bodies."""
    return sum(len(answer.body) for answer in answers if isinstance(answer, ReplyAnswer))
