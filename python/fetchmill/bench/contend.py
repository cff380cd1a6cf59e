"""`python -m fetchmill.bench.contend NAME TASK`: one contender here, until it is done or its time is over."""

import sys
import threading
from importlib import import_module

from fetchmill.bench.task import Tally, Task


def main() -> None:
    """Runs it and prints one line of JSON; what it imports is not timed."""
    name, text = sys.argv[1:]
    task = Task.from_json(text)
    way = import_module(f"fetchmill.bench.contenders.{name}")
    tally = Tally(task)
    timer = threading.Timer(task.seconds, tally.finish)
    timer.daemon = True
    timer.start()
    try:
        way.run(task, tally)
    except BaseException as error:  # noqa: BLE001 - whatever ended it is what is told
        tally.error = f"{type(error).__name__}: {error}"
    tally.finish()


if __name__ == "__main__":
    main()
