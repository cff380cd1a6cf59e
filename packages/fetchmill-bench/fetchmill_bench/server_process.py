"""`python -m fetchmill_bench.server_process KIND OPTIONS`: a contender's server, in its own process.

It first prints one line of JSON with its address. For each line on its standard input, it prints a line with its
counters. It ends when its standard input ends.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fetchmill import testing
from fetchmill_bench import versitygw

# versitygw reads a whole folder for each page of a listing.
_FOLDER_OBJECTS = 1000
_Stats = Callable[[], dict[str, Any]]


def main() -> None:
    """Serves until standard input ends."""
    serve = {"files": _files, "replay": _replay, "versitygw": _versitygw}[sys.argv[1]]
    with serve(json.loads(sys.argv[2])) as (details, stats):
        _say(details)
        for _ in sys.stdin:
            _say(stats())


@contextlib.contextmanager
def _files(options: dict[str, Any]) -> Iterator[tuple[dict[str, Any], _Stats]]:
    """Starts the file server."""
    with testing.serve(**options) as server:
        yield {"url": server.url}, server.stats


@contextlib.contextmanager
def _replay(options: dict[str, Any]) -> Iterator[tuple[dict[str, Any], _Stats]]:
    """Starts the project's own store."""
    with testing.s3(bucket="bucket", synthetic=options["count"], size=options["size"]) as store:
        details = {"url": store.url, "bucket": store.bucket, "environment": store.environment(), "pid": os.getpid()}
        yield details, store.stats


@contextlib.contextmanager
def _versitygw(options: dict[str, Any]) -> Iterator[tuple[dict[str, Any], _Stats]]:
    """Starts versitygw, an independent store that does not report requests.

    Its objects are files, which the first run creates.
    """
    folder = Path(options["folder"])
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    with versitygw.run_versitygw(folder) as store:
        for index in range(options["count"]) if is_new else ():
            store.put(f"{index // _FOLDER_OBJECTS:06}/file-{index:012}", index.to_bytes(options["size"]))
        details = {"url": store.endpoint, "bucket": store.bucket, "environment": store.environment(), "pid": store.pid}
        yield details, lambda: {"gets": None}


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
