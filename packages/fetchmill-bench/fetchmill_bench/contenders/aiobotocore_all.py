"""B, "asyncio": aiobotocore, with all requests created first. Only the connection pool limits them.

Every task signs its request and then waits for a connection. The last tasks wait until all others are done, but S3
refuses a request signed more than a quarter of an hour ago (`RequestTimeTooSkewed`). No object is read before all
requests are signed.
"""

import asyncio

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from fetchmill_bench.s3_clients import keys_async, read_async
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    asyncio.run(_read_all(task, counter))


async def _read_all(task: Task, counter: RequestCounter) -> None:
    config = AioConfig(max_pool_connections=task.limit)
    async with get_session().create_client("s3", endpoint_url=task.url, config=config) as client:
        counter.is_set_up()
        keys = [key async for key in keys_async(task, client)]
        await asyncio.gather(*(read_async(task, client, key, counter) for key in keys))
