"""D, "synchronous": one request after the other, a new connection for each.

Against a server that waits, its time is the sum of all waits; nothing else of it matters.
"""

from fetchmill.bench.blocking import read
from fetchmill.bench.task import Tally, Task


def run(task: Task, tally: Tally) -> None:
    """One loop."""
    for url in task.each_url():
        is_read = read(task, url)
        tally.add(failed=int(not is_read))
