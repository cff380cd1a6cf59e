"""Kept columns have types: numbers and booleans of a list are stored as such."""

import json
import subprocess
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fetchmill
from fetchmill.testing import Server
from lists import write_list

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]
Serve = Callable[..., Server]

COUNT = 40
KEPT = ("rank", "score", "ok", "big", "day", "word")
STORED = {"rank": pa.int64(), "score": pa.float64(), "ok": pa.bool_(), "big": pa.string(), "day": pa.string()}
# Values without an exact decimal form, the ends of the 64-bit range, and values that JSON lacks.
SCORES = (0.1, -0.0, 1e300, 5e-324, float("inf"), 2.0, 1 / 3)
RANKS = (0, -1, 2**63 - 1, -(2**63), 7)


def values(number: int) -> dict[str, Any]:
    """Returns the values of one row; some are missing."""
    row = {
        "rank": RANKS[number % len(RANKS)],
        "score": SCORES[number % len(SCORES)],
        "ok": number % 3 == 0,
        "big": 2**64 - 1 - number,
        "day": datetime(2026, 1, 1 + number % 28, tzinfo=UTC),
        "word": f"w {number}",
    }
    if number % 4 == 1:
        row[KEPT[number // 4 % len(KEPT)]] = None
    return row


def shown(number: int) -> dict[str, Any]:
    """Returns the values as stored: numbers above 2^63 and times become strings."""
    row = values(number)
    row["big"] = None if row["big"] is None else str(row["big"])
    row["day"] = None if row["day"] is None else row["day"].strftime("%Y-%m-%dT%H:%M:%SZ")
    return row


def write_parquet(folder: Path, url: str) -> Path:
    """Writes a list with column types."""
    types = {"rank": pa.int64(), "score": pa.float64(), "ok": pa.bool_(), "big": pa.uint64(), "word": pa.string()}
    types["day"] = pa.timestamp("us", tz="UTC")
    rows = [{"url": f"{url}/get/file-{number:012}", **values(number)} for number in range(COUNT)]
    path = folder / "list.parquet"
    pq.write_table(pa.Table.from_pylist(rows, pa.schema({"url": pa.string(), **types})), path)
    return path


@pytest.fixture
def listed(server: Serve, tmp_path: Path) -> Path:
    """Writes a Parquet list of synthetic objects."""
    return write_parquet(tmp_path, server(synthetic=COUNT).url)


def get(run: Run, listed: Path, dest: Path, *options: object, format: str = "parquet") -> Any:  # noqa: ANN401
    """Runs a job that keeps all columns."""
    columns = ("--keep-columns", ",".join(KEPT))
    return run("get", listed, dest, "--format", format, "--allow-private", *columns, *options)


def rows_of(dest: Path) -> dict[int, dict[str, Any]]:
    """Returns the kept columns of each object, read by pyarrow or json."""
    found = {}
    for path in sorted(dest.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            found[int(row["url" if row["name"] is None else "name"][-12:])] = {name: row[name] for name in KEPT}
    for path in sorted(dest.glob("*.jsonl")):
        for row in map(json.loads, path.read_text().splitlines()):
            found[int(row["name"][-12:])] = row["columns"]
    return found


def in_json(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the values as in JSON, which has no infinity."""
    return {**row, "score": "inf" if row["score"] == float("inf") else row["score"]}


def test_columns_of_parquet_list_keep_their_types(run: Run, listed: Path, dest: Path) -> None:
    """Every Parquet reader sees the types, and exports to and from Parquet keep them."""
    assert get(run, listed, dest).code == 0

    schema = pq.read_schema(next(dest.glob("*.parquet")))
    assert {name: schema.field(name).type for name in STORED} == STORED
    assert rows_of(dest) == {number: shown(number) for number in range(COUNT)}
    assert run("verify", dest).code == 0
    with fetchmill.open(dest) as objects:
        for record in objects.records():
            assert record.columns == shown(int(record.name[-12:]))
        table = pa.RecordBatchReader.from_stream(objects).read_all()
    assert {name: table.schema.field(name).type for name in STORED} == STORED

    there, back = dest.with_name("lines"), dest.with_name("back")
    assert run("export", dest, there, "--format", "jsonl").code == 0
    assert rows_of(there) == {number: in_json(shown(number)) for number in range(COUNT)}
    assert run("export", there, back, "--format", "parquet").code == 0
    assert pq.read_schema(next(back.glob("*.parquet"))) == schema
    assert rows_of(back) == rows_of(dest)


@pytest.mark.parametrize("engine", ["native", "threads", "processes"])
def test_columns_of_json_lines_keep_numbers(run: Run, listed: Path, dest: Path, engine: str) -> None:
    """JSON lines have numbers with every engine."""
    assert get(run, listed, dest, "--engine", engine, format="jsonl").code == 0

    assert rows_of(dest) == {number: in_json(shown(number)) for number in range(COUNT)}
    with fetchmill.open(dest) as objects:
        assert {int(record.name[-12:]): record.columns for record in objects.records()} == {
            number: shown(number) for number in range(COUNT)
        }


def test_sidecars_keep_numbers(run: Run, listed: Path, dest: Path) -> None:
    """A JSON sidecar has numbers; a sidecar of a single column has its text."""
    done = get(run, listed, dest, "--names", "{index}.bin", "--sidecar", "json", "--sidecar", "txt=rank", format="tar")

    assert done.code == 0, done.err
    members: dict[str, bytes] = {}
    for path in dest.glob("*.tar"):
        with tarfile.open(path) as shard:
            members |= {member.name: shard.extractfile(member).read() for member in shard}  # type: ignore[union-attr]
    for number in range(COUNT):
        sidecar = json.loads(members[f"{number:09}.json"])
        assert {name: sidecar[name] for name in KEPT} == in_json(shown(number))
        rank = shown(number)["rank"]
        assert members[f"{number:09}.txt"] == (b"" if rank is None else str(rank).encode())


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_given_types_apply_to_other_lists(run: Run, server: Serve, dest: Path, tmp_path: Path, format: str) -> None:
    """A value that does not fit its type fails the row and is named with its column. A missing value is null."""
    url = server(synthetic=8).url
    told = ["1", " 2 ", "", "four", "5.0", "9223372036854775808", "7", "8"]
    oks = ["true", "False", "", "true", "true", "true", "yes", "TRUE"]
    rows = [
        {"url": f"{url}/get/file-{number:012}", "rank": rank, "ok": ok}
        for number, (rank, ok) in enumerate(zip(told, oks, strict=True))
    ]
    listed = write_list(tmp_path, rows, format)
    options = ("--keep-columns", "rank,ok", "--column-types", "rank=int64,ok=bool", "--allow-private")
    done = run("get", listed, dest, "--format", "parquet", *options)

    assert done.code == 3
    table = pq.read_table(dest, columns=["name", "rank", "ok"]).to_pylist()
    assert sorted((int(row["name"][-12:]), row["rank"], row["ok"]) for row in table) == [
        (0, 1, True), (1, 2, False), (2, None, None), (7, 8, True),
    ]  # fmt: skip
    details = {str(failure.detail) for failure in fetchmill.failures(dest)}
    assert details == {
        "column rank is not of type int64: four",
        "column rank is not of type int64: 5.0",
        "column rank is not of type int64: 9223372036854775808",
        "column ok is not of type bool: yes",
    }


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_rows_without_objects_have_typed_columns(
    run: Run, server: Serve, dest: Path, tmp_path: Path, format: str
) -> None:
    """A value that does not fit its type is null in Parquet, and text in JSON lines."""
    url = server(synthetic=2).url
    names = ["file-000000000000", "file-000000000001", "missing"]
    rows = [{"url": f"{url}/get/{name}", "n": n} for name, n in zip(names, ["1", "one", "3"], strict=True)]
    listed = write_list(tmp_path, rows, "csv")
    options = ("--keep-columns", "n", "--column-types", "n=int64", "--allow-private", "--keep-failed")
    assert run("get", listed, dest, "--format", format, *options).code == 3

    if format == "parquet":
        found = {row["outcome"]: row["n"] for row in pq.read_table(dest).to_pylist()}
        assert found == {"fetched": 1, "failed": None, "absent": 3}
    else:
        lines = [json.loads(line) for path in dest.glob("*.jsonl") for line in path.read_text().splitlines()]
        assert {row["outcome"]: row["columns"]["n"] for row in lines} == {"fetched": 1, "failed": "one", "absent": 3}


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_results_have_typed_columns(run: Run, listed: Path, tmp_path: Path, format: str) -> None:
    """The results of `check` and of `list` have typed columns."""
    for command in ("check", "list"):
        path = tmp_path / f"{command}-results.{format}"
        options = ("--allow-private",) if command == "check" else ()
        assert run(command, listed, path, "--keep-columns", "rank,score,ok", *options).code == 0
        if format == "csv":
            assert "9223372036854775807" in path.read_text()
            continue
        if format == "parquet":
            rows = pq.read_table(path).to_pylist()
        else:
            rows = [json.loads(line) for line in path.read_text().splitlines()]
        found = {int(row["url"][-12:]): {name: row[name] for name in ("rank", "score", "ok")} for row in rows}
        expected = {number: shown(number) for number in range(COUNT)}
        if format == "jsonl":
            expected = {number: in_json(row) for number, row in expected.items()}
        assert found == {number: {name: row[name] for name in found[0]} for number, row in expected.items()}


def test_listed_targets_have_typed_columns(listed: Path) -> None:
    """A Python function gets listed targets with typed columns."""
    found: list[fetchmill.ListedTarget] = []
    fetchmill.list(listed, each=found.extend, keep_columns=["rank", "score", "ok", "big"])

    expected = [{name: shown(number)[name] for name in ("rank", "score", "ok", "big")} for number in range(COUNT)]
    assert [target.columns for target in found] == expected


def test_listed_value_of_another_type_stays_text(tmp_path: Path) -> None:
    """The core decides what a number is: what only Python would parse stays text."""
    ranks = ["1", " 2 ", "1_000", "\u0663"]
    rows = [{"url": f"http://a.test/{number}", "rank": rank} for number, rank in enumerate(ranks)]
    listed = write_list(tmp_path, rows, "csv")
    found: list[fetchmill.ListedTarget] = []
    fetchmill.list(listed, each=found.extend, keep_columns=["rank"], column_types=["rank=int64"])

    assert [target.columns["rank"] for target in found] == [1, 2, "1_000", "\u0663"]


def measured(replies: list[fetchmill.FetchedReply]) -> list[dict[str, object]]:
    """Transforms each reply into a number, and one into a value of another type."""
    return [
        {
            "size": "large" if reply.name.endswith("3") else len(reply.body),
            "share": 0.5,
            "is_odd": bool(len(reply.body) % 2),
        }
        for reply in replies
    ]


def test_columns_of_transform_have_given_types(server: Serve, dest: Path) -> None:
    """A result of a transform that does not fit the given type fails."""
    url = server(synthetic=10, size=101).url
    report = fetchmill.get(
        url,
        dest,
        format="parquet",
        transform=measured,
        transform_columns=["size", "share", "is_odd"],
        column_types=["size=int64", "share=float64", "is_odd=bool"],
    )

    assert (report.fetched, report.failed) == (9, 1)
    rows = pq.read_table(dest, columns=["size", "share", "is_odd"]).to_pylist()
    assert rows == [{"size": 101, "share": 0.5, "is_odd": True}] * 9
    assert [failure.detail for failure in fetchmill.failures(dest)] == ["column size is not of type int64: large"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--keep-columns", "rank", "--column-types", "score=int64"), "column score is not kept"),
        (("--keep-columns", "rank", "--column-types", "rank=int"), "the types are string, int64, float64 and bool"),
        (("--keep-columns", "rank", "--column-types", "rank"), "not COLUMN=TYPE"),
    ],
)
def test_invalid_type_options_are_refused(
    run: Run, listed: Path, dest: Path, options: tuple[str, ...], message: str
) -> None:
    """The error comes before anything is created."""
    done = run("get", listed, dest, "--format", "parquet", "--allow-private", *options)

    assert done.code == 2
    assert message in done.err
    assert not dest.exists()


def test_job_of_earlier_release_keeps_text_columns(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """A job that began with text columns keeps them, so all shards have one type per column."""
    listed = write_parquet(tmp_path, server(synthetic=COUNT, delay=(0.05, 0.06)).url)
    text = ",".join(f"{name}=string" for name in ("rank", "score", "ok"))
    first = get(run, listed, dest, "--column-types", text, "--max-bytes", "1000", "-j", "1")
    assert "run the same command again" in first.err
    ended = get(run, listed, dest)

    assert ended.code == 0, ended.err
    schemas = {pq.read_schema(path).field("rank").type for path in dest.glob("*.parquet")}
    assert schemas == {pa.string()}
    assert len(rows_of(dest)) == COUNT
    other = get(run, listed, dest, "--column-types", "rank=int64")
    assert other.code == 2
    assert "belongs to another job" in other.err


def test_killed_job_resumes_with_typed_columns(
    run: Run, start: Start, server: Serve, dest: Path, tmp_path: Path
) -> None:
    """A killed job completes its open shard and merges small shards, all with the same types."""
    source = server(synthetic=COUNT, delay=(0.05, 0.1))
    listed = write_parquet(tmp_path, source.url)
    command = ("get", listed, dest, "--format", "parquet", "--allow-private", "--keep-columns", ",".join(KEPT))
    for _ in range(3):
        process = start(*command, "-j", "4", "--commit-window", "10ms")
        try:
            process.wait(0.4)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert run(*command).code == 0

    assert rows_of(dest) == {number: shown(number) for number in range(COUNT)}
    assert {pq.read_schema(path).field("score").type for path in dest.glob("*.parquet")} == {pa.float64()}
