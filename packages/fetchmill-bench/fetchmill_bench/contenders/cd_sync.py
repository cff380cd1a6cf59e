"""D, "synchronous": one request at a time, each on a new connection.

Because the server delays its replies, the total time is the sum of all delays. Everything else is negligible.
"""

from fetchmill_bench.requests_client import read
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    for url in task.each_url():
        is_read = read(task, url)
        counter.add(failed=int(not is_read))
