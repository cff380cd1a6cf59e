"""E, "asyncio, all at once": `gather` over all sites, without any limit of its own.

In practice, two defaults limit it: the library's hundred connections, and the number of threads that look up names.
"""

import asyncio

import aiohttp

from fetchmill_bench.aiohttp_client import DEFAULT_CONNECTIONS, classify, open_session
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    asyncio.run(_classify_all(task, counter))


async def _classify_all(task: Task, counter: RequestCounter) -> None:
    async with open_session(task, DEFAULT_CONNECTIONS) as session:
        await asyncio.gather(*(_classify(session, url, counter) for url in task.each_url()))


async def _classify(session: aiohttp.ClientSession, url: str, counter: RequestCounter) -> None:
    counter.add_site(url, await classify(session, url))
