"""C, "pypeln each": `workers` is the limit, and `on_start` and `on_done` open and close the session.

It limits tasks as a task pool does, but it is called like a plain function, because pypeln runs a loop in its own
thread. It reads its entire input in advance, so all URLs are in memory at once, but not all tasks.
"""

import aiohttp
import pypeln

from fetchmill_bench.aiohttp_client import fetch, open_session
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Runs one stage without results."""

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
