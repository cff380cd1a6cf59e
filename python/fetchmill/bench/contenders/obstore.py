"""Client obstore, Rust's object_store behind `await`, with a task for an object when there is a place for it.

Signing, HTTP and retries are Rust's; a future of Python for each object, and a loop that is woken for it, remain.
"""

import asyncio

from obstore.exceptions import BaseError
from obstore.store import S3Store

from fetchmill.bench.task import Tally, Task
from fetchmill.bounded import TaskPool


def run(task: Task, tally: Tally) -> None:
    """One loop."""
    asyncio.run(_read_all(task, tally))


async def _read_all(task: Task, tally: Tally) -> None:
    store = S3Store(task.bucket, endpoint=task.url, client_options={"allow_http": True})
    tally.is_set_up()
    left = task.count
    async with TaskPool(task.limit) as pool:
        async for page in store.list():
            for found in page[:left]:
                await pool.put(_read(task, store, found["path"], tally))
            left -= len(page)
            if left <= 0:
                return


async def _read(task: Task, store: S3Store, key: str, tally: Tally) -> None:
    try:
        reply = await store.get_async(key)
        task.store(key, bytes(await reply.bytes_async()))
        is_read = True
    except (BaseError, OSError):
        is_read = False
    tally.add(failed=int(not is_read))
