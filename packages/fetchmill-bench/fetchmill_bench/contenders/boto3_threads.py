"""B, "threads": boto3 with a single client for all `limit` threads of a `ThreadPoolExecutor`.

Creating a client takes time, and threads can share one. This way therefore uses only one client, with as many
connections as threads. The number of submitted tasks is limited, because the pool's queue would otherwise hold all keys
in the bucket.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import boto3
from botocore.config import Config

from fetchmill_bench.s3_clients import keys, read
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Lists in this thread, and reads objects in the other threads."""
    client = boto3.client("s3", endpoint_url=task.url, config=Config(max_pool_connections=task.limit))
    counter.is_set_up()
    places = threading.Semaphore(2 * task.limit)

    def count(finished: Future[bool]) -> None:
        counter.add(failed=int(not finished.result()))
        places.release()

    with ThreadPoolExecutor(task.limit) as executor:
        for key in keys(task, client):
            places.acquire()
            executor.submit(read, task, client, key).add_done_callback(count)
