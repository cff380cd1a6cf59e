"""A, "synchronous": list a page, get each file, write it; a new connection for each request.

Everything waits for everything: the listing for the files, each file for the one before, and each request for a
handshake. It teaches what a round trip costs, and is the measure for all the others.
"""

from fetchmill_bench.requests_client import download, pages
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """One loop."""
    for page in pages(task):
        for name in page:
            is_fetched = download(task, name)
            counter.add(failed=int(not is_fetched))
