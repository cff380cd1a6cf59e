"""Opens sessions and makes requests for the published ways that use aiohttp.

Like the engines, these ways do not follow redirects.
"""

import ssl
from urllib.parse import quote

import aiohttp

from fetchmill_bench.task import RequestCounter, Task, is_good

# The library's default. Additional requests wait for a connection.
DEFAULT_CONNECTIONS = 100


def open_session(task: Task, connections: int = 0) -> aiohttp.ClientSession:
    """Opens a session with at most `connections` connections; 0 leaves only the way's own limit."""
    # Use the system's name lookup, even if other resolvers are installed.
    connector = aiohttp.TCPConnector(limit=connections, ssl=_trust(task), resolver=aiohttp.ThreadedResolver())
    if task.timeout is None:
        return aiohttp.ClientSession(connector=connector)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=task.timeout, sock_read=task.timeout)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)


async def get(session: aiohttp.ClientSession, url: str) -> bytes | None:
    """Returns the body of a complete 2xx reply, or None if there was none."""
    try:
        async with session.get(url, allow_redirects=False) as reply:
            body = await reply.read()
            return body if is_good(reply.status) else None
    except (aiohttp.ClientError, TimeoutError):
        return None


async def download(task: Task, session: aiohttp.ClientSession, name: str) -> bool:
    """Gets an object and stores it, which blocks the loop. Returns whether a complete 2xx reply arrived."""
    body = await get(session, f"{task.url}/get/{quote(name)}")
    if body is None:
        return False
    try:
        task.store(name, body)
    except OSError:
        return False
    return True


async def fetch(session: aiohttp.ClientSession, url: str, counter: RequestCounter) -> None:
    """Reads a body, discards it and counts it."""
    body = await get(session, url)
    counter.add(failed=int(body is None))


async def classify(session: aiohttp.ClientSession, url: str) -> str:
    """Returns a site's answer, which is its status, `timeout` or `connection-error`."""
    try:
        async with session.get(url, allow_redirects=False) as reply:
            await reply.read()
            return str(reply.status)
    except TimeoutError:
        return "timeout"
    except aiohttp.ClientError:
        return "connection-error"


def _trust(task: Task) -> ssl.SSLContext | bool:
    return True if task.ca_file is None else ssl.create_default_context(cafile=task.ca_file)
