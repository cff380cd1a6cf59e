"""Lists of synthetic objects for shared jobs, and what is in their job directories, read without fetchmill."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet

from fetchmill.testing import Server, synthetic_body


def write_list(path: Path, server: Server, count: int) -> list[str]:
    """A list of synthetic objects."""
    urls = [f"{server.url}/get/file-{number:012}" for number in range(count)]
    path.write_text("".join(f"{url}\n" for url in urls))
    return urls


def final_rows(job: Path) -> Counter[str]:
    """How often each name is in the shards that commit records name; bodies are compared."""
    found: Counter[str] = Counter()
    for path in (job / "commits").iterdir():
        record = json.loads(path.read_text())
        folder = f"{record['file']:05}-{record['range'][0]:014}-{record['attempt']}"
        for shard in (job / "data" / folder).glob("*.parquet"):
            table = pyarrow.parquet.read_table(shard, columns=["name", "body"])
            for name, body in zip(table["name"].to_pylist(), table["body"].to_pylist(), strict=True):
                assert body == synthetic_body(name.rpartition("/")[2], 100), name
                found[name] += 1
    return found
