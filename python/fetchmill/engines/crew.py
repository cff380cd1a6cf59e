"""The processes of an engine, as the parent has them: started, told to the job, started again when one dies."""

import contextlib
import multiprocessing
import pickle
import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING

from fetchmill.engines.crew_member import READY, Member, Seat, work
from fetchmill.errors import FetchmillError, UsageError

if TYPE_CHECKING:
    from fetchmill._native import Job

# A process that dies before it has joined is started again, so many times in a row.
STARTS_MAX = 3
LOOK_SECONDS = 0.1
# A process that was told to end, or that waits for a server, is ended after this.
LEAVE_SECONDS = 2.0


@dataclass
class _Place:
    """A worker: what it does, its process, and how often one after the other has not come up."""

    worker: int
    member: bytes
    process: SpawnProcess | None = None
    says: Connection | None = None
    failed_starts: int = 0


class Crew:
    """Processes that fetch. Targets, answers and receipts do not pass through here: the native job has them.

    Args:
        job: the job, with as many places.
        options: its options, for the native module.
        members: what each process does, pickled.
    """

    def __init__(self, job: "Job", options: str, members: list[bytes]) -> None:
        self._job = job
        self._options = options
        self._places = [_Place(worker, member) for worker, member in enumerate(members)]

    def run(self) -> None:
        """Until the job has ended. Raises what a process has raised."""
        context = multiprocessing.get_context("spawn")
        try:
            for place in self._places:
                self._start(context, place)
            while not self._job.wait(0):
                sentinels = [place.process.sentinel for place in self._places if place.process]
                if not sentinels:
                    self._job.wait(LOOK_SECONDS)
                elif ended := wait(sentinels, LOOK_SECONDS):
                    for place in self._places:
                        if place.process and place.process.sentinel in ended:
                            self._look_after(context, place)
        finally:
            self.end()

    def end(self) -> None:
        """Waits for the processes, a moment; what has not ended then is killed."""
        for place in self._places:
            process = place.process
            if process is None:
                continue
            process.join(LEAVE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            place.process = None

    def kill(self) -> None:
        """At once."""
        for place in self._places:
            process = place.process
            if process is not None:
                with contextlib.suppress(ValueError):  # it may have ended meanwhile
                    process.kill()

    def _start(self, context: multiprocessing.context.SpawnContext, place: _Place) -> None:
        own_turns, turns = socket.socketpair()
        own_receipts, receipts = socket.socketpair()
        place.says, says = context.Pipe(duplex=False)
        seat = Seat(self._options, place.worker, self._job.kept(), turns, receipts)
        place.process = context.Process(target=work, args=(place.member, seat, says), name="fetchmill-worker")
        with turns, receipts, says:
            place.process.start()
        pid = place.process.pid or 0
        self._job.attach(place.worker, pid, own_turns.detach(), own_receipts.detach())

    def _look_after(self, context: multiprocessing.context.SpawnContext, place: _Place) -> None:
        """Of a process that has ended: as it was told to, with an error, or it has died."""
        process, says = place.process, place.says
        if process is None or says is None:
            return
        with says:
            has_joined = _hear(says)
        process.join()
        code = process.exitcode
        place.process = place.says = None
        if code == 0 or self._is_over():
            return
        place.failed_starts = 0 if has_joined else place.failed_starts + 1
        if place.failed_starts >= STARTS_MAX:
            raise UsageError(
                f"the processes of this engine end before they are ready (exit code {code}): does the program start "
                "below `if __name__ == '__main__':`?"
            )
        self._start(context, place)

    def _is_over(self) -> bool:
        return self._job.snapshot()["phase"] in ("draining", "done")


def pickled_member(member: Member) -> bytes:
    """For the processes.

    Raises:
        UsageError: it cannot be.
    """
    try:
        return bytes(ForkingPickler.dumps(member))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"with this engine fetch, on_start and on_done go to other processes: give functions of a module ({error})"
        ) from error


def _hear(says: Connection) -> bool:
    """Whether the process had joined; raises what it has raised."""
    said = []
    with contextlib.suppress(EOFError, OSError):
        while says.poll():
            said.append(says.recv_bytes())
    for pickled in said:
        if pickled != READY:
            error = pickle.loads(pickled)  # noqa: S301 - our own process
            raise error if isinstance(error, BaseException) else FetchmillError(str(error))
    return bool(said)
