"""Other clients that fetch ranges, written as their users would write them.

Usage: `python record_readers.py CLIENT LIST FOLDER IN_FLIGHT`. Each client stores its records in one file. A record
consists of a line with file number, offset and length, followed by the bytes.
"""

import asyncio
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import pyarrow.parquet as pq

PARTIAL = 206
# Number of requests that `get_ranges_async` has in flight for one object (object_store, `coalesce_ranges`).
RANGES_AT_ONCE = 10
# Default gap of `get_ranges_async` in bytes.
OBSTORE_COALESCE = 1 << 20

Row = tuple[str, int, int]


def rows_of(listed: str) -> Iterator[Row]:
    """Yields the rows of the list. Reads one batch at a time."""
    for batch in pq.ParquetFile(listed).iter_batches():
        yield from zip(*(batch.column(name).to_pylist() for name in ("url", "offset", "length")), strict=True)


def store(out: BinaryIO, url: str, offset: int, body: bytes) -> None:
    """Appends a record."""
    out.write(b"%d %d %d\n" % (int(url.rpartition("-")[2][:5]), offset, len(body)))
    out.write(body)


async def with_aiohttp(rows: Iterator[Row], out: BinaryIO, in_flight: int) -> None:
    """Runs a fixed number of tasks, which share a session and the list."""
    import aiohttp

    async def work(session: aiohttp.ClientSession) -> None:
        for url, offset, length in rows:
            async with session.get(url, headers={"Range": f"bytes={offset}-{offset + length - 1}"}) as reply:
                body = await reply.read()
            if reply.status != PARTIAL or len(body) != length:
                raise SystemExit(f"{url} {offset}: {reply.status}, {len(body)} bytes")
            store(out, url, offset, body)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:
        await asyncio.gather(*(work(session) for _ in range(in_flight)))


async def with_obstore(rows: Iterator[Row], out: BinaryIO, in_flight: int, coalesce: int) -> None:
    """Fetches all ranges of a file in one call. The number of concurrent files depends on the requests in flight."""
    import obstore
    from obstore.store import HTTPStore

    files = groupby(rows, key=lambda row: row[0])
    stores: dict[str, HTTPStore] = {}

    async def work() -> None:
        for url, group in files:
            wanted = list(group)
            site = urlsplit(url)
            origin = f"{site.scheme}://{site.netloc}"
            if origin not in stores:
                stores[origin] = HTTPStore.from_url(origin, client_options={"allow_http": True})
            starts, lengths = [row[1] for row in wanted], [row[2] for row in wanted]
            bodies = await obstore.get_ranges_async(
                stores[origin], site.path.lstrip("/"), starts=starts, lengths=lengths, coalesce=coalesce
            )
            for (_, offset, _), body in zip(wanted, bodies, strict=True):
                store(out, url, offset, bytes(body))

    await asyncio.gather(*(work() for _ in range(max(1, in_flight // RANGES_AT_ONCE))))


def main() -> None:
    """Runs one client."""
    import uvloop

    client, listed, folder, in_flight = sys.argv[1:]
    with Path(folder, "records").open("wb") as out:
        rows = rows_of(listed)
        if client == "aiohttp":
            uvloop.run(with_aiohttp(rows, out, int(in_flight)))
        else:
            coalesce = int(client.partition("=")[2] or OBSTORE_COALESCE)
            uvloop.run(with_obstore(rows, out, int(in_flight), coalesce))


if __name__ == "__main__":
    main()
