"""Shared jobs whose lists are divided by host: their hosts, options, and results."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet

HOSTS = tuple(f"127.0.0.{number + 1}" for number in range(32))
# On a busy machine, heartbeats may be a second late.
OPTIONS = (
    *("--shared", "--allow-private", "--lease", "4s", "--format", "parquet"),
    *("--limit-per-host", "1", "--rate-per-host", "0", "-j", "4", "--threads", "1"),
)


def names(job: Path) -> Counter[str]:
    """Counts each name in the result of a finished job."""
    shards = (job / "data").glob("*/*.parquet")
    return Counter(name for shard in shards for name in pyarrow.parquet.read_table(shard)["name"].to_pylist())
