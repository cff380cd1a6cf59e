"""D, "as_completed with a limit, by callbacks": `fetchmill.bounded.as_completed`, which is the same idea.

A task's end starts the next one. Memory is flat, and while nothing is done nothing runs.
"""

import asyncio

from fetchmill.bench.awaiting import fetch, open_session
from fetchmill.bench.task import Tally, Task
from fetchmill.bounded import as_completed


def run(task: Task, tally: Tally) -> None:
    """One loop."""
    asyncio.run(_fetch_all(task, tally))


async def _fetch_all(task: Task, tally: Tally) -> None:
    async with open_session(task) as session:
        for finished in as_completed((fetch(session, url, tally) for url in task.each_url()), task.limit):
            await finished
