"""The check of Parquet shards in own_bench.parquet_rows detects wrong bytes, and missing or doubled objects."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fetchmill
from fetchmill.testing import serve, synthetic_body
from own_bench.machine import ROOT
from own_bench.parquet_rows import SIZE, check_batch, check_rows

pytestmark = pytest.mark.of_files("packages/fetchmill-bench")


def rows(*indexes: int) -> list[Any]:
    """Returns names and bodies of objects, one row of bytes each."""
    names = [f"file-{index:012}" for index in indexes]
    bodies = [synthetic_body(name, SIZE) for name in names]
    values = ([name.encode() for name in names], bodies)
    return [np.array([[*value] for value in of], np.uint8) for of in values]


def test_generated_rows_equal_server_objects() -> None:
    """The names and bodies are compared with those from the server itself."""
    indexes = [0, 1, 999_999_999, 123_456_789_012]

    found, right = check_batch(*rows(*indexes))

    assert found.tolist() == indexes
    assert right.all()


def test_changed_byte_in_name_or_body_is_detected() -> None:
    """The changed byte may be in the name or in the body."""
    for part, length in ((0, 17), (1, SIZE)):
        for at in range(length):
            batch = rows(7, 8)
            batch[part][1, at] ^= 1

            _, right = check_batch(*batch)

            assert right.tolist() == [True, False], (part, at)


def test_swapped_body_is_detected() -> None:
    """A body that belongs to another name is wrong."""
    names, bodies = rows(7, 8)

    assert not check_batch(names, bodies[::-1])[1].any()


@pytest.fixture(scope="module")
def dest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the destination of a job with 3,000 objects."""
    dest = tmp_path_factory.mktemp("rows") / "out"
    with serve(synthetic=3_000) as server:
        fetchmill.get(server.url, dest, format="parquet")
    return dest


def test_missing_objects_of_job_are_detected(dest: Path) -> None:
    """The counts are compared with the expected number of objects."""
    assert check_rows(dest, 3_000) == {"rows": 3_000, "right": 3_000, "names": 3_000}
    assert check_rows(dest, 3_001)["names"] == 3_000
    # This name is not one of the 2,999.
    assert check_rows(dest, 2_999) == {"rows": 3_000, "right": 2_999, "names": 2_999}


def test_duplicate_objects_are_detected(dest: Path, tmp_path: Path) -> None:
    """There are more rows than names."""
    other = shutil.copytree(dest, tmp_path / "out")
    shutil.copy(min(other.glob("shard-*.parquet")), other / "shard-999999.parquet")

    found = check_rows(other, 3_000)

    assert found["names"] == 3_000 < found["rows"] == found["right"]


def test_body_with_wrong_length_ends_row_check(dest: Path, tmp_path: Path) -> None:
    """The error of the child process is raised."""
    other = shutil.copytree(dest, tmp_path / "out")
    path = min(other.glob("shard-*.parquet"))
    shard = pq.read_table(path, columns=["name", "body"])
    bodies = [*shard["body"].to_pylist()[:-1], b"cut"]
    pq.write_table(shard.set_column(1, "body", pa.array(bodies, shard["body"].type)), path)

    with pytest.raises(ValueError, match="does not have 100 bytes"):
        check_rows(other, 3_000)


def test_uncheckable_rows_are_refused_before_job_starts() -> None:
    """The error comes before the job starts, not after hours."""
    command = (sys.executable, "-m", "own_bench.scale", "--count", "10", "--format", "parquet", "--size", "200")

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "requires bodies of 100 bytes" in ended.stderr
