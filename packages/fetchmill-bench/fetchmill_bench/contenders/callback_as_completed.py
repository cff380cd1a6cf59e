"""D, "as_completed with a limit, by callbacks": works in the same way as `fetchmill.bounded.as_completed`.

When a task ends, the next one starts. Memory use is constant, and no code runs until a task ends.
"""

import asyncio

from fetchmill.bounded import as_completed
from fetchmill_bench.aiohttp_client import fetch, open_session
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    asyncio.run(_fetch_all(task, counter))


async def _fetch_all(task: Task, counter: RequestCounter) -> None:
    async with open_session(task) as session:
        for finished in as_completed((fetch(session, url, counter) for url in task.each_url()), task.limit):
            await finished
