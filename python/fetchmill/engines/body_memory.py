"""Limits the memory for bodies in an event loop, by limiting the requests in flight and the bodies being read.

The size of a body is unknown until its head arrives. Therefore, each body in flight is assumed to be as large as the
largest recent body. This estimate can be wrong: if objects are sorted by size, hundreds of requests may be in flight
when the first large objects arrive. A body that arrives in pieces must therefore be admitted before it is read. Until
then, the remainder of the body stays at the server, and timeouts are paused.
"""

import asyncio
import heapq
from collections.abc import Iterable
from typing import Self

from fetchmill.engines.answers import Answer, ReplyAnswer

# Maximum total size of bodies that are being received or wait for the dispatcher, for all event loops of a job, and the
# minimum share of each loop. Each body is briefly in memory twice.
BODIES_BYTES_MAX = 32 << 20
_SHARE_BYTES_MIN = 8 << 20
# Estimated body size before the first answers arrive, which allows 16 requests in flight.
_FIRST_ESTIMATE = 2 << 20
_FIRST_ANSWERS = 4
# Decay of the estimate: the weight of a large body halves after about eleven smaller bodies.
_FORGET = 1 / 16


class BodyMemory:
    """Counts the bytes of bodies. Used only by the event loop.

    Args:
        loops: number of event loops in the job, which share the maximum.
    """

    def __init__(self, loops: int = 1) -> None:
        self.bytes_max = max(BODIES_BYTES_MAX // loops, _SHARE_BYTES_MIN)
        # Bytes of bodies that were admitted, or that have arrived but that the dispatcher has not taken yet.
        self._used = 0
        self._estimate = 0.0
        self._answers = 0
        # Number of bodies that have started to arrive in pieces, and number of bodies that are being read.
        self._begun = 0
        self._reading = 0
        # Heap of waiting bodies, oldest first, with each body's number and the number of bytes that it waits for.
        self._waiting: list[tuple[int, int, BodyRoom, asyncio.Future[None]]] = []
        # The part of the used bytes that only waiting bodies can free.
        self._stuck = 0

    @property
    def used(self) -> int:
        """Bytes that were admitted, or that have arrived but that the dispatcher has not taken yet."""
        return self._used

    def has_room(self, in_flight: int) -> bool:
        """Return whether another request can start while `in_flight` others are running.

        If none is in flight, one can start unless the memory is full.
        """
        if self._waiting:
            return False
        estimate = self._estimate if self._answers >= _FIRST_ANSWERS else max(self._estimate, _FIRST_ESTIMATE)
        needed = self._used + (in_flight - self._reading + 1) * estimate
        return needed <= self.bytes_max or (in_flight == 0 and self._used < self.bytes_max)

    def note(self, answer: Answer) -> None:
        """Count the body of a reply as used memory until it is released."""
        self._answers += 1
        if isinstance(answer, ReplyAnswer):
            length = len(answer.body)
            self._used += length
            self._estimate = max(length, self._estimate + (length - self._estimate) * _FORGET)

    def release(self, held: int) -> None:
        """Release bytes taken by the dispatcher."""
        self._used -= held
        if self._waiting:
            self._admit_waiting()

    def begin_body(self, connection_bytes: int) -> "BodyRoom":
        """Return the memory of a body that arrives in pieces, for a `with` block. Note the answer right after it.

        Args:
            connection_bytes: bytes that the connection holds until the body is complete.
        """
        self._begun += 1
        return BodyRoom(self, self._begun, connection_bytes)

    def take(self, room: "BodyRoom", count: int) -> bool:
        """Admit `count` more bytes of a body if there is room and no other body is waiting."""
        self._estimate = max(self._estimate, room.bytes + count)
        if self._waiting or self._used + count > self.bytes_max:
            return False
        self._admit(room, count)
        return True

    async def wait(self, room: "BodyRoom", count: int) -> None:
        """Wait until `count` more bytes are admitted."""
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
        """Release the memory of a body that was abandoned, or that is complete and about to be noted as an answer."""
        if room.bytes:
            self._used -= room.bytes
            self._reading -= 1
        if self._waiting:
            # Wait until the answer has been noted.
            asyncio.get_running_loop().call_soon(self._admit_waiting)

    def _admit(self, room: "BodyRoom", count: int) -> None:
        if not room.bytes:
            self._reading += 1
        room.bytes += count
        self._used += count

    def _admit_waiting(self) -> None:
        """Admit waiting bodies, oldest first. If nothing else can free memory, let one body exceed the limit."""
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
    """The memory of one body that is being read."""

    __slots__ = ("_memory", "bytes", "connection_bytes", "number")

    def __init__(self, memory: BodyMemory, number: int, connection_bytes: int) -> None:
        self._memory = memory
        self.number = number
        self.bytes = 0
        self.connection_bytes = connection_bytes

    @property
    def stuck(self) -> int:
        """Bytes that stay in use until this body continues."""
        return self.bytes + self.connection_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.end_body(self)


def bytes_of(answers: Iterable[Answer]) -> int:
    """Return the total size of the answers' bodies in bytes."""
    return sum(len(answer.body) for answer in answers if isinstance(answer, ReplyAnswer))
