"""C, "pypeln each": `workers` is the limit, `on_start` and `on_done` open and close the session.

The same bound as a pool of tasks, behind a plain function call: pypeln runs a loop in a thread of its own. It reads its
input as far ahead as there is any, so URLs, if not tasks, are all in memory.
"""

import aiohttp
import pypeln

from fetchmill_bench.aiohttp_client import fetch, open_session
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """A stage without results."""

    async def fetch_one(url: str, session: aiohttp.ClientSession) -> None:
        await fetch(session, url, counter)

    pypeln.task.each(
        fetch_one,
        task.each_url(),
        workers=task.limit,
        on_start=lambda: {"session": open_session(task)},
        on_done=lambda session: session.close(),
        run=True,
    )
