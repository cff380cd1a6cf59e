"""Lists objects, makes requests and determines answers for the published ways that use `requests`.

Like the engines, these ways do not follow redirects.
"""

from collections.abc import Callable, Iterator
from urllib.parse import quote

import requests

from fetchmill_bench.task import Task, is_good

# `requests.get`, which opens a connection for each request, or a session's `get`.
Get = Callable[..., requests.Response]


def pages(task: Task, get: Get = requests.get) -> Iterator[list[str]]:
    """Yields up to `task.count` object names, and requests one page at a time.

    Raises:
        requests.RequestException: a page cannot be fetched.
    """
    left = task.count
    query: dict[str, str] = {}
    while left > 0:
        reply = _ask(task, f"{task.url}/list", get, query)
        reply.raise_for_status()
        page = reply.json()
        names = page["FileNames"][:left]
        left -= len(names)
        yield names
        if not page.get("NextMarker"):
            return
        query = {"next-marker": page["NextMarker"]}


def download(task: Task, name: str, get: Get = requests.get) -> bool:
    """Gets an object and stores it. Returns whether a complete 2xx reply arrived."""
    try:
        reply = _ask(task, f"{task.url}/get/{quote(name)}", get)
        if is_good(reply.status_code):
            task.store(name, reply.content)
            return True
    except OSError:  # includes the errors of requests
        pass
    return False


def read(task: Task, url: str) -> bool:
    """Reads a body and discards it. Returns whether a complete 2xx reply arrived."""
    try:
        return is_good(_ask(task, url).status_code)
    except requests.RequestException:
        return False


def classify(task: Task, url: str) -> str:
    """Returns a site's answer, which is its status, `timeout`, or `connection-error` for any other failure."""
    try:
        return str(_ask(task, url).status_code)
    except requests.Timeout:
        return "timeout"
    except Exception:  # noqa: BLE001 - as in the text, because libraries below requests raise other errors
        return "connection-error"


def _ask(task: Task, url: str, get: Get = requests.get, query: dict[str, str] | None = None) -> requests.Response:
    return get(url, params=query, allow_redirects=False, timeout=task.timeout, verify=task.ca_file or True)
