"""Lists of synthetic objects for shared jobs, and the contents of job directories, read without fetchmill."""

import io
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from fetchmill._shared.ranges import ListFile, Range
from fetchmill._shared.records import JobRecord
from fetchmill.testing import S3Store, Server, synthetic_body


def write_list(path: Path, server: Server, count: int) -> list[str]:
    """Writes a list of synthetic objects."""
    urls = [f"{server.url}/get/file-{number:012}" for number in range(count)]
    path.write_text("".join(f"{url}\n" for url in urls))
    return urls


def final_rows(job: Path) -> Counter[str]:
    """Counts each name in the shards that commit records name; bodies are compared."""
    found: Counter[str] = Counter()
    for path in (job / "commits").iterdir():
        for shard in (job / "data" / _folder(path.read_bytes())).glob("*.parquet"):
            found += _names_of(pyarrow.parquet.read_table(shard, columns=["name", "body"]))
    return found


def final_rows_of_bucket(store: S3Store) -> Counter[str]:
    """Does the same for the only job in a bucket."""
    objects = store.objects()
    found: Counter[str] = Counter()
    for key, record in objects.items():
        if "/commits/" not in key:
            continue
        begin = f"{key.partition('/commits/')[0]}/data/{_folder(record)}/"
        for name, body in objects.items():
            if name.startswith(begin) and name.endswith(".parquet"):
                found += _names_of(pyarrow.parquet.read_table(io.BytesIO(body), columns=["name", "body"]))
    return found


def _folder(record: bytes) -> str:
    """Returns the folder that a commit record names."""
    values = json.loads(record)
    return f"{values['file']:05}-{values['range'][0]:014}-{values['attempt']}"


def _names_of(table: pa.Table) -> Counter[str]:
    for name, body in zip(table["name"].to_pylist(), table["body"].to_pylist(), strict=True):
        assert body == synthetic_body(name.rpartition("/")[2], 100), name
    return Counter(table["name"].to_pylist())


def job_record() -> JobRecord:
    """Returns a job of one range."""
    return JobRecord(
        id="j",
        options={},
        secrets=(),
        source="list",
        files=(ListFile(path="list", size=9, modified=0, has_lines=True),),
        list_format="txt",
        ranges=(Range(file=0, start=0, end=9),),
        lease=1.0,
    )
