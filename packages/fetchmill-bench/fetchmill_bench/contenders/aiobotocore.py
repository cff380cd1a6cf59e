"""Client aiobotocore: starts a task for an object whenever a slot is free, with as many connections as tasks.

A request is signed when its task starts, and sent immediately. By default, the library's pool has only 10 connections.
The author of the text mistook this limit for slowness.
"""

import asyncio

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from fetchmill.bounded import TaskPool
from fetchmill_bench.s3_clients import keys_async, read_async
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    asyncio.run(_read_all(task, counter))


async def _read_all(task: Task, counter: RequestCounter) -> None:
    config = AioConfig(max_pool_connections=task.limit)
    async with get_session().create_client("s3", endpoint_url=task.url, config=config) as client:
        counter.is_set_up()
        async with TaskPool(task.limit) as pool:
            async for key in keys_async(task, client):
                await pool.put(read_async(task, client, key, counter))
