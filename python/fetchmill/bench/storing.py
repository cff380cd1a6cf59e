"""`python -m fetchmill.bench.storing OPTIONS`: the store of a contender, in a process of its own.

One line of JSON says where it is, then one for each line of its standard input, with what it was asked for; it ends
with that.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fetchmill.bench import versitygw

# versitygw reads a whole folder for each page of its listing.
_FOLDER_OBJECTS = 1000
_Stats = Callable[[], dict[str, Any]]


def main() -> None:
    """Serves until standard input ends."""
    options = json.loads(sys.argv[1])
    serve = _versitygw if options["store"] == "versitygw" else _replay
    with serve(options) as (said, stats):
        _say(said)
        for _ in sys.stdin:
            _say(stats())


@contextlib.contextmanager
def _replay(options: dict[str, Any]) -> Iterator[tuple[dict[str, Any], _Stats]]:
    """The project's own."""
    from fetchmill.testing import s3

    with s3(bucket="bucket", synthetic=options["count"], size=options["size"]) as store:
        said = {"url": store.url, "bucket": store.bucket, "environment": store.environment(), "pid": os.getpid()}
        yield said, store.stats


@contextlib.contextmanager
def _versitygw(options: dict[str, Any]) -> Iterator[tuple[dict[str, Any], _Stats]]:
    """Other people's, which does not tell what it was asked for. Its objects are files, made by the first run."""
    folder = Path(options["folder"])
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    with versitygw.serving(folder) as store:
        for index in range(options["count"]) if is_new else ():
            store.put(f"{index // _FOLDER_OBJECTS:06}/file-{index:012}", index.to_bytes(options["size"]))
        said = {"url": store.endpoint, "bucket": store.bucket, "environment": store.environment(), "pid": store.pid}
        yield said, lambda: {"gets": None}


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
