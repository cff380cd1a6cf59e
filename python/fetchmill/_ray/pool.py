"""The workers of a shared job in a cluster: started, watched by their heartbeats, and replaced when they die.

A future of Ray may stay open for minutes after its node is gone. So a worker also counts as dead when its heartbeat is
too old, and no call here waits for a future without a limit.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray

from fetchmill._ray.cluster import free_cpus, nodes
from fetchmill._ray.failures import error_of
from fetchmill._ray.worker import RayWorker
from fetchmill._shared.heartbeats import Heartbeats
from fetchmill._shared.job_directory import JobDirectory
from fetchmill.errors import FetchmillError, SecurityError, StorageError, TemporaryError, UsageError

# A worker without a heartbeat for this many leases is replaced. Others take its ranges after one.
_LOST_LEASES = 2.0
# A worker that has not started after this time is asked for again: its node may be cut off.
_START_SECONDS = 90.0
# How often it is said that workers wait for CPUs, and how long none is missed.
_WAITING_SECONDS = 60.0
_PATIENCE_SECONDS = 10.0
# Before a dead worker is replaced: 1 s after the first death, twice as long after each further one, at most this.
_PAUSE_MAX = 30.0
# Deaths of one worker in a row, with no commit record of the job in between, after which the job is not continued.
_DEATHS_MAX = 5
# Limit for a reply that Ray says is there.
_GET_SECONDS = 10.0
_BEAT_SECONDS = 1.0
_NO_PACKAGE = "No module named 'fetchmill"


class _Slot:
    """One of the workers that the caller wants: the actor that is it now, and those that died before."""

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
        """Whether an actor is there that has not ended."""
        return self.actor is not None and not self.has_ended


class WorkerPool:
    """See the module.

    Args:
        order: `job`, `id`, `own`, `workers` and `cpus`, as the caller's process sends them.
        emit: takes events.

    Raises:
        FetchmillError: of each method, when the job is not to be continued.
    """

    def __init__(self, order: dict[str, Any], emit: Callable[..., None]) -> None:
        self._order = order
        self._emit = emit
        self._directory = JobDirectory(Path(order["job"]))
        self._lease = self._directory.job().lease
        self._heartbeats = Heartbeats(self._directory, f"ray-{secrets.token_hex(4)}")
        count = order["workers"] or max(len(nodes()), 1)
        self._slots = [_Slot() for _ in range(count)]
        self._make = ray.remote(
            num_cpus=order["cpus"], max_restarts=0, max_concurrency=4, scheduling_strategy="SPREAD"
        )(RayWorker)
        self._missed_at = time.monotonic() + _PATIENCE_SECONDS
        self._beats_at = 0.0

    def tend(self) -> bool:
        """Starts and replaces workers; whether there is still one to watch."""
        for slot in self._slots:
            if slot.actor is None and not slot.has_ended and time.monotonic() >= slot.starts_at:
                self._start(slot)
        self._take_replies()
        self._look_at_heartbeats()
        self._say_what_is_missing()
        return not all(slot.has_ended for slot in self._slots)

    def drain(self, *, now: bool) -> None:
        """Asks all workers to end; `now`: to give back what they have."""
        for slot in self._slots:
            if slot.is_running:
                (slot.actor.abort if now else slot.actor.stop).remote()

    def has_running(self) -> bool:
        """Whether a worker works. No other is started in place of one that has died."""
        for slot in self._ready():
            slot.has_ended = True
        return any(slot.is_running and slot.name is not None for slot in self._slots)

    def close(self) -> None:
        """Ends all workers, whatever they do."""
        for slot in self._slots:
            self._kill(slot)

    # The life of a worker.

    def _start(self, slot: _Slot) -> None:
        slot.actor = self._make.remote()
        slot.began = time.monotonic()
        slot.name = None
        slot.call = slot.actor.begin.remote(self._order["job"], self._order["id"], self._order["own"])

    def _ready(self) -> list[_Slot]:
        """The slots whose last call has ended."""
        by_call = {slot.call: slot for slot in self._slots if slot.is_running}
        if not by_call:
            return []
        ready, _ = ray.wait(list(by_call), num_returns=len(by_call), timeout=0, fetch_local=False)
        return [by_call[call] for call in ready]

    def _take_replies(self) -> None:
        for slot in self._ready():
            try:
                reply = ray.get(slot.call, timeout=_GET_SECONDS)
            except ray.exceptions.RayError as error:
                self._bury(slot, _cause(error))
                continue
            if "error" in reply:
                self._refuse_or_bury(slot, reply["kind"], reply["error"])
            elif slot.name is None:
                slot.name = reply["name"]
                slot.call = slot.actor.run.remote()
                self._emit(say=f"worker {slot.name} works in Ray")
            elif reply["reason"] == "asked":
                self._bury(slot, "its node is taken away")
            else:
                slot.has_ended = True

    def _refuse_or_bury(self, slot: _Slot, kind: str, text: str) -> None:
        """Other workers would meet some errors, too: then the job is not continued."""
        error = error_of(kind, text)
        if isinstance(error, (UsageError, SecurityError)) or slot.name is None:
            raise error
        self._bury(slot, text, error)

    def _bury(self, slot: _Slot, why: str, error: FetchmillError | None = None) -> None:
        """Has another actor take the place of one that is dead."""
        final = len(self._directory.final_attempts())
        slot.deaths = slot.deaths + 1 if final == slot.final_at_death else 1
        slot.final_at_death = final
        name = slot.name or "a worker"
        self._kill(slot)
        if slot.deaths >= _DEATHS_MAX:
            raise error or TemporaryError(
                f"{name} died {slot.deaths} times, and no range became final meanwhile ({why}); see the logs of the "
                "workers in the job directory and in Ray"
            )
        pause = min(2.0 ** (slot.deaths - 1), _PAUSE_MAX)
        slot.starts_at = time.monotonic() + pause
        self._emit(say=f"{name} is lost ({why}); another one starts in {pause:.0f} s")

    def _kill(self, slot: _Slot) -> None:
        if slot.actor is not None:
            with suppress(Exception):  # it is dead already, or nobody can reach it
                ray.kill(slot.actor)
        slot.actor = slot.call = slot.name = None

    # What Ray does not say in time.

    def _look_at_heartbeats(self) -> None:
        now = time.monotonic()
        if now < self._beats_at:
            return
        self._beats_at = now + _BEAT_SECONDS
        try:
            ages = {each.worker: each.age for each in self._heartbeats.look()}
        except StorageError:
            return  # the folder hangs or is away: workers know what to do then
        for slot in self._slots:
            if slot.name is not None and ages.get(slot.name, 0.0) > self._lease * _LOST_LEASES and slot.is_running:
                self._bury(slot, f"no heartbeat for {ages[slot.name]:.0f} s")

    def _say_what_is_missing(self) -> None:
        now = time.monotonic()
        missing = [slot for slot in self._slots if slot.is_running and slot.name is None]
        for slot in missing:
            if now - slot.began > _START_SECONDS:
                self._kill(slot)
        late = sum(now - slot.began > _PATIENCE_SECONDS for slot in missing)
        if late and now >= self._missed_at:
            self._missed_at = now + _WAITING_SECONDS
            running = sum(slot.is_running and slot.name is not None for slot in self._slots)
            self._emit(
                say=f"{running} of {len(self._slots)} workers run; the others wait for {self._order['cpus']} CPU each "
                f"({free_cpus():g} are free in the cluster)"
            )


def _cause(error: Exception) -> str:
    """Why Ray lost a worker, in one line.

    Raises:
        UsageError: a node cannot import the package.
    """
    text = str(error)
    if _NO_PACKAGE in text:
        raise UsageError(
            "a node of the cluster has no fetchmill: install the same release on all nodes, or name it in the runtime "
            'environment (ray job submit --runtime-env-json \'{"pip": ["fetchmill"]}\')'
        ) from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
