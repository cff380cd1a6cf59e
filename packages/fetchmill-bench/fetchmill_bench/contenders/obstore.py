"""Client obstore, Rust's object_store with `await`: starts a task for an object whenever a slot is free.

Signing, HTTP and retries happen in Rust. Python needs only one future per object, which wakes the loop.
"""

import asyncio

from obstore.exceptions import BaseError
from obstore.store import S3Store

from fetchmill.bounded import TaskPool
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    asyncio.run(_read_all(task, counter))


async def _read_all(task: Task, counter: RequestCounter) -> None:
    store = S3Store(task.bucket, endpoint=task.url, client_options={"allow_http": True})
    counter.is_set_up()
    left = task.count
    async with TaskPool(task.limit) as pool:
        async for page in store.list():
            for found in page[:left]:
                await pool.put(_read(task, store, found["path"], counter))
            left -= len(page)
            if left <= 0:
                return


async def _read(task: Task, store: S3Store, key: str, counter: RequestCounter) -> None:
    try:
        reply = await store.get_async(key)
        task.store(key, bytes(await reply.bytes_async()))
        is_read = True
    except (BaseError, OSError):
        is_read = False
    counter.add(failed=int(not is_read))
