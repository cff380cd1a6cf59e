"""Python clients that read replies one at a time. Each runs in its own process and reports the cost of its loop.

    python -m own_bench.streamers NAME URL COUNT LIMIT

Every loop requests the same objects, with the same number of requests in flight, and checks the status and bytes of
each reply. The figures for the other clients exclude their imports; those for fetchmill include `import fetchmill`.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from io import BytesIO
from typing import Any

OK = 200
# Fetches URLs with the given number of requests in flight. Returns the number of replies and the number of bytes.
Loop = Callable[[Iterator[str], int], tuple[int, int]]


def main() -> int:
    """Runs one client."""
    name, url, count, limit = sys.argv[1:]
    loop = STREAMERS[name]()
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    replies, size = loop(object_urls(url, int(count)), int(limit))
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    took = {"user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
    print(json.dumps({"replies": replies, "bytes": size, "seconds": seconds, **took}))
    return 0


def object_urls(url: str, count: int) -> Iterator[str]:
    """Yields the URLs of a server's synthetic objects."""
    return (f"{url}/get/file-{number:012}" for number in range(count))


def versions() -> dict[str, str]:
    """Returns the versions of the compared libraries."""
    import pycurl

    return {"pycurl": " ".join(pycurl.version.split()[:2])} | {
        name: metadata.version(name) for name in ("aiohttp", "uvloop", "requests")
    }


def stream() -> Loop:
    """Streams with fetchmill."""

    def loop(urls: Iterator[str], limit: int) -> tuple[int, int]:
        import fetchmill

        replies = size = 0
        for reply in fetchmill.stream(urls, limit=limit):
            _require(reply.status)
            replies += 1
            size += len(reply.body)
        return replies, size

    return loop


def stream_batches() -> Loop:
    """Streams with fetchmill in Arrow record batches, read by pyarrow."""
    import pyarrow as pa
    from pyarrow import compute

    def loop(urls: Iterator[str], limit: int) -> tuple[int, int]:
        import fetchmill

        replies = size = 0
        for each in fetchmill.stream_batches(urls, limit=limit):
            batch = pa.record_batch(each)
            replies += compute.sum(compute.equal(batch.column("status"), OK)).as_py()
            size += compute.sum(compute.binary_length(batch.column("body"))).as_py()
        return replies, size

    return loop


def pycurl_multi() -> Loop:
    """Uses libcurl's interface for many transfers, with reused handles and connections."""
    import pycurl

    def loop(urls: Iterator[str], limit: int) -> tuple[int, int]:
        multi = pycurl.CurlMulti()
        multi.setopt(pycurl.M_MAXCONNECTS, limit)
        idle = [_curl_handle(pycurl) for _ in range(limit)]
        replies = size = 0
        while True:
            while idle and (url := next(urls, None)) is not None:
                handle = idle.pop()
                handle.setopt(pycurl.URL, url)
                multi.add_handle(handle)
            if len(idle) == limit:
                return replies, size
            while multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
                pass
            _, done, failed = multi.info_read(limit)
            for handle in done:
                multi.remove_handle(handle)
                _require(handle.getinfo(pycurl.RESPONSE_CODE))
                replies += 1
                size += len(handle.body.getvalue())
                handle.body.seek(0)
                handle.body.truncate()
                idle.append(handle)
            if failed:
                raise SystemExit(f"pycurl: {failed[0][2]}")
            if not done:
                multi.select(1.0)

    return loop


def _curl_handle(pycurl: Any) -> Any:  # noqa: ANN401 - pycurl has no types
    handle = pycurl.Curl()
    handle.body = BytesIO()
    handle.setopt(pycurl.WRITEDATA, handle.body)
    handle.setopt(pycurl.NOSIGNAL, 1)
    return handle


def aiohttp_uvloop() -> Loop:
    """Runs a fixed number of tasks that share one session and one iterator."""
    import aiohttp
    import uvloop

    async def work(session: aiohttp.ClientSession, urls: Iterator[str]) -> tuple[int, int]:
        replies = size = 0
        for url in urls:
            async with session.get(url) as reply:
                body = await reply.read()
            _require(reply.status)
            replies += 1
            size += len(body)
        return replies, size

    async def all_of(urls: Iterator[str], limit: int) -> tuple[int, int]:
        import asyncio

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=limit)) as session:
            sums = await asyncio.gather(*(work(session, urls) for _ in range(limit)))
        return sum(replies for replies, _ in sums), sum(size for _, size in sums)

    return lambda urls, limit: uvloop.run(all_of(urls, limit))


def requests_threads() -> Loop:
    """Runs a fixed number of threads that share one iterator. Each thread has its own session."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Lock

    import requests

    def loop(urls: Iterator[str], limit: int) -> tuple[int, int]:
        lock = Lock()

        def work(_number: int) -> tuple[int, int]:
            replies = size = 0
            with requests.Session() as session:
                while True:
                    with lock:
                        url = next(urls, None)
                    if url is None:
                        return replies, size
                    reply = session.get(url)
                    _require(reply.status_code)
                    replies += 1
                    size += len(reply.content)

        with ThreadPoolExecutor(limit) as pool:
            sums = list(pool.map(work, range(limit)))
        return sum(replies for replies, _ in sums), sum(size for _, size in sums)

    return loop


def _require(status: int | None) -> None:
    if status != OK:
        raise SystemExit(f"a reply has status {status}")


STREAMERS: dict[str, Callable[[], Loop]] = {
    "stream": stream,
    "stream_batches": stream_batches,
    "pycurl": pycurl_multi,
    "aiohttp": aiohttp_uvloop,
    "requests": requests_threads,
}

if __name__ == "__main__":
    sys.exit(main())
