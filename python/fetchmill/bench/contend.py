"""`python -m fetchmill.bench.contend NAME TASK`: one contender here, until it is done or its time is over."""

import os
import resource
import sys
import threading
from importlib import import_module

from fetchmill.bench import names
from fetchmill.bench.task import Tally, Task


def main() -> None:
    """Runs it and prints one line of JSON; what it imports is not timed."""
    name, text = sys.argv[1:]
    task = Task.from_json(text)
    _prepare(task)
    try:
        way = import_module(f"fetchmill.bench.contenders.{name}")
    except ImportError as error:
        Tally(task, error=f"{type(error).__name__}: {error}").finish()
    tally = Tally(task)
    timer = threading.Timer(task.seconds, tally.finish)
    timer.daemon = True
    timer.start()
    try:
        way.run(task, tally)
    except BaseException as error:  # noqa: BLE001 - whatever ended it is what is told
        tally.error = f"{type(error).__name__}: {error}"
    tally.finish()


def _prepare(task: Task) -> None:
    """The same ground for all: no proxy of the person's in between, as many descriptors as may be, the task's names."""
    for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[variable]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if task.hosts is not None:
        names.answer_from(task.hosts)


if __name__ == "__main__":
    main()
