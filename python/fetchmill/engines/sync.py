"""The `sync` engine, which makes one request at a time. The `processes` engine runs it in each process."""

import time
from typing import TYPE_CHECKING

from fetchmill.engines.exchange import IDLE_WAIT_SECONDS, POLL_SECONDS
from fetchmill.engines.transports import BlockingTransport

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher, Target
    from fetchmill.engines.answers import Answer

# Number of targets to take at a time, and of answers to report at a time.
BATCH = 64
# Maximum time before an answer is reported.
REPORT_SECONDS = 0.1


def run(dispatcher: "Dispatcher", transport: BlockingTransport) -> None:
    """Fetch the dispatcher's targets until no targets are left."""
    dispatcher.observe_arrivals(transport.origin_replies)
    state = transport.start()
    try:
        while (batch := _next_batch(dispatcher)) is not None:
            answers: list[Answer] = []
            reported = time.monotonic()
            for number, target in enumerate(batch, 1):
                if dispatcher.is_stopping:
                    break  # the remaining targets stay pending
                dispatcher.note_running(1, len(batch) - number)
                answers += transport.fetch(target, state)
                answers += transport.rest(state, is_idle=False)
                if time.monotonic() - reported >= REPORT_SECONDS:
                    dispatcher.report(answers)
                    answers, reported = [], time.monotonic()
            if len(batch) < BATCH:
                answers += transport.rest(state, is_idle=True)
            dispatcher.report(answers)
        dispatcher.report(transport.rest(state, is_idle=True))
    finally:
        transport.done(state)


def _next_batch(dispatcher: "Dispatcher") -> "list[Target] | None":
    """Return the next targets, an empty list while more processes are running than required, or None at the end."""
    if dispatcher.concurrency:
        batch = dispatcher.next_batch(BATCH, IDLE_WAIT_SECONDS)
    else:
        time.sleep(POLL_SECONDS)
        dispatcher.report([])
        batch = dispatcher.next_batch(0, 0.0)
    if not batch:
        dispatcher.note_running(0, 0)
    return batch
