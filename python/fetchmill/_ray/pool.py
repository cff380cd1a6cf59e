"""Starts the workers of a shared job in a cluster, watches their heartbeats, and replaces dead workers.

A Ray future may stay open for minutes after its node is gone. Therefore a worker also counts as dead if its heartbeat
is too old, and every wait for a future has a time limit.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray

from fetchmill._ray.cluster import free_cpus, nodes
from fetchmill._ray.failures import error_of
from fetchmill._ray.worker import RayWorker
from fetchmill._shared.heartbeats import Heartbeats
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.stored_options import reach_of
from fetchmill.errors import FetchmillError, SecurityError, StorageError, TemporaryError, UsageError

# A worker is replaced if it has not sent a heartbeat for this many leases. Other workers take over its ranges after one
# lease.
_LOST_LEASES = 2.0
# If a worker has not started after this time, a replacement is requested, because the node may be disconnected.
_START_SECONDS = 90.0
# Interval between messages about workers that wait for CPUs, and the time after which a worker counts as waiting.
_WAITING_SECONDS = 60.0
_PATIENCE_SECONDS = 10.0
# Maximum delay before a dead worker is replaced. The delay is 1 s after the first death, and then doubles each time.
_PAUSE_MAX = 30.0
# The job ends if a worker dies this many times in a row without a commit record in between.
_DEATHS_MAX = 5
# Time limit for fetching a reply that Ray reports as available.
_GET_SECONDS = 10.0
_BEAT_SECONDS = 1.0
_NO_PACKAGE = "No module named 'fetchmill"


class _PoolMember:
    """One of the requested workers, with its current actor and the number of its actors that have died."""

    def __init__(self) -> None:
        self.actor: Any = None
        self.name: str | None = None
        self.call: Any = None
        self.began = 0.0
        self.deaths = 0
        self.final_at_death = -1
        self.starts_at = 0.0
        self.has_ended = False

    @property
    def is_running(self) -> bool:
        """Whether an actor is still running."""
        return self.actor is not None and not self.has_ended


class RayPool:
    """See the module docstring.

    Args:
        order: `job`, `id`, `own`, `workers` and `cpus`, as sent by the caller's process.
        emit: called with each event.

    Raises:
        FetchmillError: raised by every method if the job must end.
    """

    def __init__(self, order: dict[str, Any], emit: Callable[..., None]) -> None:
        self._order = order
        self._emit = emit
        self._directory = JobDirectory.at(order["job"], reach_of(order["own"]))
        self._lease = self._directory.job().lease
        self._heartbeats = Heartbeats(self._directory, f"ray-{secrets.token_hex(4)}")
        count = order["workers"] or max(len(nodes()), 1)
        self._members = [_PoolMember() for _ in range(count)]
        self._make = ray.remote(
            num_cpus=order["cpus"], max_restarts=0, max_concurrency=4, scheduling_strategy="SPREAD"
        )(RayWorker)
        self._missed_at = time.monotonic() + _PATIENCE_SECONDS
        self._beats_at = 0.0

    def tend(self) -> bool:
        """Start and replace workers. Return whether any worker is still running."""
        for member in self._members:
            if member.actor is None and not member.has_ended and time.monotonic() >= member.starts_at:
                self._start(member)
        self._take_replies()
        self._look_at_heartbeats()
        self._say_what_is_missing()
        return not all(member.has_ended for member in self._members)

    def drain(self, *, now: bool) -> None:
        """Ask all workers to end. With `now`, workers release their ranges instead of finishing them."""
        for member in self._members:
            if member.is_running:
                (member.actor.abort if now else member.actor.stop).remote()

    def has_running(self) -> bool:
        """Return whether any worker is still working. Dead workers are no longer replaced."""
        for member in self._ready():
            member.has_ended = True
        return any(member.is_running and member.name is not None for member in self._members)

    def close(self) -> None:
        """Kill all workers."""
        for member in self._members:
            self._kill(member)

    # The life cycle of a worker.

    def _start(self, member: _PoolMember) -> None:
        member.actor = self._make.remote()
        member.began = time.monotonic()
        member.name = None
        member.call = member.actor.begin.remote(self._order["job"], self._order["id"], self._order["own"])

    def _ready(self) -> list[_PoolMember]:
        """Return the members whose last call has ended."""
        by_call = {member.call: member for member in self._members if member.is_running}
        if not by_call:
            return []
        ready, _ = ray.wait(list(by_call), num_returns=len(by_call), timeout=0, fetch_local=False)
        return [by_call[call] for call in ready]

    def _take_replies(self) -> None:
        for member in self._ready():
            try:
                reply = ray.get(member.call, timeout=_GET_SECONDS)
            except ray.exceptions.RayError as error:
                self._bury(member, _cause(error))
                continue
            if "error" in reply:
                self._refuse_or_bury(member, reply["kind"], reply["error"])
            elif member.name is None:
                member.name = reply["name"]
                member.call = member.actor.run.remote()
                self._emit(say=f"worker {member.name} is running in Ray")
            elif reply["reason"] == "asked":
                self._bury(member, "the node is being removed")
            else:
                member.has_ended = True

    def _refuse_or_bury(self, member: _PoolMember, kind: str, text: str) -> None:
        """Replace a worker, or raise its error if other workers would fail in the same way."""
        error = error_of(kind, text)
        if isinstance(error, (UsageError, SecurityError)) or member.name is None:
            raise error
        self._bury(member, text, error)

    def _bury(self, member: _PoolMember, why: str, error: FetchmillError | None = None) -> None:
        """Schedule another actor in place of a dead one. Raise an error after too many deaths."""
        final = len(self._directory.final_attempts())
        member.deaths = member.deaths + 1 if final == member.final_at_death else 1
        member.final_at_death = final
        name = member.name or "a worker"
        self._kill(member)
        if member.deaths >= _DEATHS_MAX:
            raise error or TemporaryError(
                f"{name} died {member.deaths} times without finishing a range ({why}); see "
                "the workers' logs in the job directory and in Ray"
            )
        pause = min(2.0 ** (member.deaths - 1), _PAUSE_MAX)
        member.starts_at = time.monotonic() + pause
        self._emit(say=f"{name} was lost ({why}); a replacement starts in {pause:.0f} s")

    def _kill(self, member: _PoolMember) -> None:
        if member.actor is not None:
            with suppress(Exception):  # the actor is already dead or cannot be reached
                ray.kill(member.actor)
        member.actor = member.call = member.name = None

    # Detect failures that Ray does not report in time.

    def _look_at_heartbeats(self) -> None:
        now = time.monotonic()
        if now < self._beats_at:
            return
        self._beats_at = now + _BEAT_SECONDS
        try:
            ages = {each.worker: each.age for each in self._heartbeats.look()}
        except StorageError:
            return  # the folder hangs or is missing; workers handle this themselves
        for member in self._members:
            if (
                member.name is not None
                and ages.get(member.name, 0.0) > self._lease * _LOST_LEASES
                and member.is_running
            ):
                self._bury(member, f"no heartbeat for {ages[member.name]:.0f} s")

    def _say_what_is_missing(self) -> None:
        now = time.monotonic()
        missing = [member for member in self._members if member.is_running and member.name is None]
        for member in missing:
            if now - member.began > _START_SECONDS:
                self._kill(member)
        late = sum(now - member.began > _PATIENCE_SECONDS for member in missing)
        if late and now >= self._missed_at:
            self._missed_at = now + _WAITING_SECONDS
            running = sum(member.is_running and member.name is not None for member in self._members)
            self._emit(
                say=f"{running} of {len(self._members)} workers are running; the others are waiting for "
                f"{self._order['cpus']} CPU each ({free_cpus():g} free in the cluster)"
            )


def _cause(error: Exception) -> str:
    """Return the reason that Ray gives for losing a worker, on one line.

    Raises:
        UsageError: a node cannot import the package.
    """
    text = str(error)
    if _NO_PACKAGE in text:
        raise UsageError(
            "fetchmill is not installed on a node of the cluster; install the same release on all nodes, or add it to "
            'the runtime environment (ray job submit --runtime-env-json \'{"pip": ["fetchmill"]}\')'
        ) from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
