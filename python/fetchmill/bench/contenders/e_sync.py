"""E, "synchronous": one site after the other; every dead host is waited for alone."""

from fetchmill.bench.blocking import classify
from fetchmill.bench.task import Tally, Task


def run(task: Task, tally: Tally) -> None:
    """One loop."""
    for url in task.each_url():
        tally.add_site(url, classify(task, url))
