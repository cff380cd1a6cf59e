"""A, "10 / 100 threads": a work queue, a result queue, a poller and a sentinel. `limit` is the number of threads.

This thread lists into a bounded work queue. Workers get objects, write them, and report to a bounded result queue that
a poller reads. Every object crosses two queues and waits for the interpreter's lock several times. If the server is
near and objects are small, this costs more than it gains, and a hundred threads are slower than ten.
"""

import queue
import threading

from fetchmill_bench.requests_client import download, pages
from fetchmill_bench.task import RequestCounter, Task

QUEUE_MAX = 1000
# Marks the end of a queue.
SENTINEL = None


def run(task: Task, counter: RequestCounter) -> None:
    """Lists the objects, then shuts down first the workers and then the poller."""
    work: queue.Queue[str | None] = queue.Queue(QUEUE_MAX)
    results: queue.Queue[bool | None] = queue.Queue(QUEUE_MAX)
    workers = [threading.Thread(target=_work, args=(task, work, results)) for _ in range(task.limit)]
    poller = threading.Thread(target=_poll, args=(results, counter))
    for thread in (*workers, poller):
        thread.start()
    for page in pages(task):
        for name in page:
            work.put(name)
    for _ in workers:
        work.put(SENTINEL)
    for worker in workers:
        worker.join()
    results.put(SENTINEL)
    poller.join()


def _work(task: Task, work: queue.Queue[str | None], results: queue.Queue[bool | None]) -> None:
    while (name := work.get()) is not SENTINEL:
        results.put(download(task, name))


def _poll(results: queue.Queue[bool | None], counter: RequestCounter) -> None:
    while (is_fetched := results.get()) is not SENTINEL:
        counter.add(failed=int(not is_fetched))
