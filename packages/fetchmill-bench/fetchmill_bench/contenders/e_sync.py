"""E, "synchronous": one site after the other, with a separate wait for every dead host."""

from fetchmill_bench.requests_client import classify
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    for url in task.each_url():
        counter.add_site(url, classify(task, url))
