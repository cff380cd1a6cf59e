"""One request after the other: the engine `sync`, and what each process of the engine `processes` does."""

import time
from typing import TYPE_CHECKING

from fetchmill.engines.exchange import PATIENCE_SECONDS
from fetchmill.engines.transports import BlockingTransport

if TYPE_CHECKING:
    from fetchmill._native import Desk
    from fetchmill.engines.answers import Answer

# Targets that are taken at once, and answers that are reported at once.
BATCH = 64
# Answers are reported at the latest after this.
REPORT_SECONDS = 0.1


def run(desk: "Desk", transport: BlockingTransport) -> None:
    """Fetches what the desk gives, until there is no more."""
    state = transport.start()
    try:
        while (batch := desk.next_batch(BATCH, PATIENCE_SECONDS)) is not None:
            answers: list[Answer] = []
            reported = time.monotonic()
            for target in batch:
                if desk.is_stopping:
                    break  # the rest stays pending
                answers.append(transport.fetch(target, state))
                if time.monotonic() - reported >= REPORT_SECONDS:
                    desk.report(answers)
                    answers, reported = [], time.monotonic()
            desk.report(answers)
    finally:
        transport.done(state)
