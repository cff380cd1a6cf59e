"""E, "asyncio, all at once": `gather` over all sites, without any limit of its own.

What holds it back is what nobody chose: the library's own hundred connections, and the threads that look names up.
"""

import asyncio

import aiohttp

from fetchmill.bench.awaiting import DEFAULT_CONNECTIONS, classify, open_session
from fetchmill.bench.task import Tally, Task


def run(task: Task, tally: Tally) -> None:
    """One loop."""
    asyncio.run(_classify_all(task, tally))


async def _classify_all(task: Task, tally: Tally) -> None:
    async with open_session(task, DEFAULT_CONNECTIONS) as session:
        await asyncio.gather(*(_classify(session, url, tally) for url in task.each_url()))


async def _classify(session: aiohttp.ClientSession, url: str, tally: Tally) -> None:
    tally.add_site(url, await classify(session, url))
