"""One request after the other: the engine `sync`, and what each process of the engine `processes` does."""

import time
from typing import TYPE_CHECKING

from fetchmill.engines.exchange import IDLE_WAIT_SECONDS
from fetchmill.engines.transports import BlockingTransport

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher
    from fetchmill.engines.answers import Answer

# Targets that are taken at once, and answers that are reported at once.
BATCH = 64
# Answers are reported at the latest after this.
REPORT_SECONDS = 0.1


def run(dispatcher: "Dispatcher", transport: BlockingTransport) -> None:
    """Fetches what the dispatcher gives, until there is no more."""
    if (replies := transport.origin_replies) is not None:
        dispatcher.observe_arrivals(replies)
    state = transport.start()
    try:
        while (batch := dispatcher.next_batch(BATCH, IDLE_WAIT_SECONDS)) is not None:
            answers: list[Answer] = []
            reported = time.monotonic()
            for target in batch:
                if dispatcher.is_stopping:
                    break  # the rest stays pending
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
