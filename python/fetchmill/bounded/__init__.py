"""Bounded concurrency for coroutines, threads and processes, with input of any length and any kind of work.

    async for task in bounded.as_completed(coroutines(), limit=1000): ...
    async for body in bounded.map(fetch, urls(), limit=1000): ...
    for body in bounded.threads.map(fetch, urls(), limit=50): ...

| name | purpose |
|---|---|
| `as_completed` | `asyncio.as_completed` with a limit: yields results of awaitables as they complete |
| `TaskPool` | `asyncio.TaskGroup` with a limit: any code can add work, and errors end the block |
| `each`, `map` | call a coroutine function for each item; each worker can keep a resource open |
| `threads.each`, `threads.map` | the same for a plain function, in threads |
| `processes.each`, `processes.map` | the same for a plain function, in processes |
| `Failed`, `Tally` | a failed item, and the counts that `each` returns |
| `WorkerDiedError` | raised if a worker process died |
| `ItemTimeoutError` | raised if a worker process was killed because an item took longer than `item_timeout` |

With `attempts=3`, each item is tried up to three times. With `item_timeout=10`, each item can take up to 10 seconds.

All functions limit how far they read ahead. At most `limit` items are in progress, and at most `2 * limit` items have
been read but not yet returned to the caller. This package does not import the rest of fetchmill. Its modules are loaded
when a name is first used, because a worker process needs only a few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fetchmill.bounded import processes, threads
    from fetchmill.bounded.completion import as_completed
    from fetchmill.bounded.failures import Failed, ItemTimeoutError, Tally, WorkerDiedError
    from fetchmill.bounded.task_pool import TaskPool
    from fetchmill.bounded.tasks import each, map  # noqa: A004 - exported as bounded.map

__all__ = [
    "Failed",
    "ItemTimeoutError",
    "Tally",
    "TaskPool",
    "WorkerDiedError",
    "as_completed",
    "each",
    "map",
    "processes",
    "threads",
]

_MODULES = {
    "Failed": "failures",
    "ItemTimeoutError": "failures",
    "Tally": "failures",
    "TaskPool": "task_pool",
    "WorkerDiedError": "failures",
    "as_completed": "completion",
    "each": "tasks",
    "map": "tasks",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _MODULES:
        return import_module(f"{__name__}.{name}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
