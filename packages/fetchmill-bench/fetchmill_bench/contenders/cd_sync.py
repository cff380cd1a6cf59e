"""D, "synchronous": one request after the other, a new connection for each.

With a server that waits, its time is the sum of all waits. Everything else is negligible.
"""

from fetchmill_bench.requests_client import read
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    for url in task.each_url():
        is_read = read(task, url)
        counter.add(failed=int(not is_read))
