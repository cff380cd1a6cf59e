"""Client aiobotocore with a task for an object when there is a place for it, and as many connections as tasks.

A request is signed when its task begins, which is when it is sent. The library's pool has 10 connections unless it is
told otherwise, which was taken for slowness.
"""

import asyncio

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from fetchmill.bench.buckets import keys_soon, read_soon
from fetchmill.bench.task import Tally, Task
from fetchmill.bounded import TaskPool


def run(task: Task, tally: Tally) -> None:
    """One loop."""
    asyncio.run(_read_all(task, tally))


async def _read_all(task: Task, tally: Tally) -> None:
    config = AioConfig(max_pool_connections=task.limit)
    async with get_session().create_client("s3", endpoint_url=task.url, config=config) as client:
        tally.is_set_up()
        async with TaskPool(task.limit) as pool:
            async for key in keys_soon(task, client):
                await pool.put(read_soon(task, client, key, tally))
