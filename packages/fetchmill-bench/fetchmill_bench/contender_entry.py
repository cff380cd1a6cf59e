"""`python -m fetchmill_bench.contender_entry NAME TASK`: runs one contender until it is done or its time is up."""

import os
import resource
import sys
import threading
from importlib import import_module

from fetchmill_bench import hosts_file
from fetchmill_bench.task import RequestCounter, Task


def main() -> None:
    """Runs the contender and prints one line of JSON. The contender's imports are not timed."""
    name, text = sys.argv[1:]
    task = Task.from_json(text)
    _prepare(task)
    try:
        way = import_module(f"fetchmill_bench.contenders.{name}")
    except ModuleNotFoundError as error:
        RequestCounter(task, error=f"{error.name} is missing: pip install {error.name}").finish()
    except ImportError as error:
        RequestCounter(task, error=f"{type(error).__name__}: {error}").finish()
    counter = RequestCounter(task)
    timer = threading.Timer(task.seconds, counter.finish)
    timer.daemon = True
    timer.start()
    try:
        way.run(task, counter)
    except BaseException as error:  # noqa: BLE001 - any error is reported
        first = _first_of(error)
        counter.error = f"{type(first).__name__}: {first}"
    counter.finish()


def _first_of(error: BaseException) -> BaseException:
    """Returns the first error in a group, which says more than the group itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _prepare(task: Task) -> None:
    """Gives all contenders equal conditions: no proxies, the highest descriptor limit, and the task's name lookup."""
    for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[variable]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if task.hosts is not None:
        hosts_file.answer_from(task.hosts)


if __name__ == "__main__":
    main()
