"""E, "thread pool": `ThreadPoolExecutor` with `limit` threads, a future for every site.

For ten sites it was the quickest of its table: threads cost little where there are few and they mostly wait.
"""

from concurrent.futures import ThreadPoolExecutor, as_completed

from fetchmill.bench.blocking import classify
from fetchmill.bench.task import Tally, Task


def run(task: Task, tally: Tally) -> None:
    """Submits all, then takes results as they come."""
    with ThreadPoolExecutor(task.limit) as executor:
        futures = {executor.submit(classify, task, url): url for url in task.each_url()}
        for future in as_completed(futures):
            tally.add_site(futures[future], future.result())
