"""E, "synchronous": one site at a time, so every dead host costs a full timeout."""

from fetchmill_bench.requests_client import classify
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    for url in task.each_url():
        counter.add_site(url, classify(task, url))
