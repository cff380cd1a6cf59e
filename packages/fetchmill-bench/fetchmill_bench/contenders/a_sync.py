"""A, "synchronous": lists a page, then gets and writes each of its files, with a new connection for each request.

Everything waits: the listing waits for the files, each file for the previous one, and each request for a handshake.
This way shows the cost of round trips, and is the baseline for all others.
"""

from fetchmill_bench.requests_client import download, pages
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    for page in pages(task):
        for name in page:
            is_fetched = download(task, name)
            counter.add(failed=int(not is_fetched))
