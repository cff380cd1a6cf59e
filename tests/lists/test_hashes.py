"""Hashes of stored bodies in rows, and expected hashes in a list: an object that differs is never stored."""

import base64
import hashlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import fetchmill
from engines import engine_options
from fetchmill.errors import UsageError
from lists import write_list
from raw_server import Behaviour, RawServer, in_turn, reply
from s3_stores import Versitygw

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

LARGE = b"0123456789" * 300_000
BODIES = {"empty": b"", "text": b"text", "binary": bytes(range(256)), "large": LARGE}


def sha256(body: bytes) -> str:
    """Returns the SHA-256 in the form of rows."""
    return hashlib.sha256(body).hexdigest()


def query(text: str) -> list[tuple[Any, ...]]:
    """Returns the result of a DuckDB query."""
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder of objects: one is empty, and one is too large for memory."""
    made = tmp_path / "objects"
    made.mkdir()
    for name, body in BODIES.items():
        (made / name).write_bytes(body)
    return made


def hashes_of(dest: Path, format: str) -> dict[str, tuple[str, str]]:
    """Returns the stored hash and the actual hash of each object, read by independent readers."""
    if format == "parquet":
        table = query(f"SELECT name, sha256, body FROM '{dest}/*.parquet'")  # noqa: S608
        assert [field.name for field in pq.read_schema(next(dest.glob("*.parquet")))][-1] == "sha256"
        return {name: (stored, sha256(body)) for name, stored, body in table}
    rows = [json.loads(line) for path in dest.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    return {row["name"]: (row["columns"]["sha256"], sha256(body_of(row))) for row in rows}


def body_of(row: dict[str, Any]) -> bytes:
    """Returns the body in a JSON line."""
    return row["body"].encode() if "body" in row else base64.b64decode(row["body_base64"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("engine", "format"),
    [
        ("native", "parquet"),
        ("native", "jsonl"),
        ("threads", "jsonl"),
        ("processes", "parquet"),
        ("asyncio", "parquet"),
    ],
)
def test_rows_have_hash_of_their_body(
    run: Run, server: Callable[..., Any], folder: Path, dest: Path, format: str, engine: str
) -> None:
    """Objects of every size and engine have their hash, as independent readers and the package itself show."""
    url = server(folder).url
    done = run("get", url, dest, "--format", format, "--hash", "sha256", *engine_options(engine))

    assert done.code == 0, done.err
    assert hashes_of(dest, format) == {name: (sha256(body), sha256(body)) for name, body in BODIES.items()}
    assert run("verify", dest).code == 0
    with fetchmill.open(dest) as stored:
        assert {item.name: item.columns for item in stored.records()} == {
            name: {"sha256": sha256(body)} for name, body in BODIES.items()
        }


def test_hash_column_follows_kept_columns_and_is_exported(
    run: Run, server: Callable[..., Any], folder: Path, dest: Path, tmp_path: Path
) -> None:
    """The hash is the last column, also in an export, and each column keeps its own values."""
    url = server(folder).url
    rows = [{"url": f"{url}/get/{name}", "tag": name.upper()} for name in BODIES]
    listed = write_list(tmp_path, rows, "csv")
    options = ("--format", "parquet", "--keep-columns", "tag", "--hash", "sha256", "--allow-private")
    done = run("get", listed, dest, *options)
    assert done.code == 0, done.err
    exported = run("export", dest, tmp_path / "again", "--format", "jsonl")
    assert exported.code == 0, exported.err

    expected = {(name.upper(), sha256(body)) for name, body in BODIES.items()}
    assert set(query(f"SELECT tag, sha256 FROM '{dest}/*.parquet'")) == expected  # noqa: S608
    with fetchmill.open(tmp_path / "again") as stored:
        assert {(item.columns["tag"], item.columns["sha256"]) for item in stored.records()} == expected


def test_hash_column_describes_output_of_transform(
    run: Run, server: Callable[..., Any], folder: Path, dest: Path, tmp_path: Path
) -> None:
    """The hash is of the transformed bytes, not of the received ones. Its column follows those of the transform."""
    module = (
        "def upper(replies):\n    return [{'body': each.body.upper(), 'size': len(each.body)} for each in replies]\n"
    )
    (tmp_path / "upper_bodies.py").write_text(module)
    transform = ("--transform", "upper_bodies:upper", "--transform-columns", "size")
    done = run("get", server(folder).url, dest, "--format", "parquet", "--hash", "sha256", *transform)

    assert done.code == 0, done.err
    expected = {(str(len(body)), sha256(body.upper())) for body in BODIES.values()}
    assert set(query(f"SELECT size, sha256 FROM '{dest}/*.parquet'")) == expected  # noqa: S608


def test_killed_job_keeps_its_hash_column(run: Run, start: Start, server: Callable[..., Any], dest: Path) -> None:
    """After a kill, each row still has its hash, and dropping the hash column is refused."""
    url = server(synthetic=2000, size=500).url
    words = ("get", url, dest, "--format", "parquet", "--hash", "sha256", "--commit-window", "0.1")
    # Slow enough that the job cannot end before it is killed, however busy the machine is.
    job = start(*words, "--rate", 100)
    until = time.monotonic() + 60
    while not list(dest.glob(".fetchmill/open/*.shard")):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)
    job.send_signal(signal.SIGKILL)
    assert job.wait() == -signal.SIGKILL

    refused = run(*words[:5])
    assert refused.code == 2, refused.err
    assert run(*words).code == 0
    found = hashes_of(dest, "parquet")
    assert len(found) == 2000
    assert all(stored == real for stored, real in found.values())
    count = query(f"SELECT count(*) FROM '{dest}/*.parquet'")  # noqa: S608
    assert count == [(2000,)]


def test_repaired_object_has_its_hash(
    run: Run, server: Callable[..., Any], folder: Path, dest: Path, tmp_path: Path
) -> None:
    """Lost objects are identified by their URLs alone, because the hash column does not come from the list."""
    url = server(folder).url
    listed = write_list(tmp_path, [{"url": f"{url}/get/{name}"} for name in BODIES])
    words = ("get", listed, dest, "--format", "parquet", "--hash", "sha256", "--allow-private")
    assert run(*words).code == 0
    for shard in dest.glob("*.parquet"):
        shard.unlink()
    repaired = run("verify", dest, "--repair")
    assert run(*words).code == 0, repaired.err

    assert run("verify", dest).code == 0
    assert {stored for stored, _ in hashes_of(dest, "parquet").values()} == {sha256(body) for body in BODIES.values()}
    assert all(stored == real for stored, real in hashes_of(dest, "parquet").values())


@pytest.mark.parametrize("format", ["files", "tar", "warc", "null"])
def test_formats_without_columns_refuse_hash_column(run: Run, dest: Path, format: str) -> None:
    """The error is one line, before anything is created."""
    done = run("get", "http://127.0.0.1:1", dest, "--format", format, "--hash", "sha256")

    assert (done.code, dest.exists()) == (2, False)
    assert done.err.strip().splitlines()[-1].endswith("--hash needs --format parquet or jsonl")


RIGHT, WRONG = b"what was written", b"what was wrotten"


def in_hexadecimal(algorithm: str, body: bytes) -> str:
    """Returns the hash as `sha256sum` and `md5sum` print it."""
    return hashlib.new(algorithm, body).hexdigest()


def in_base64(algorithm: str, body: bytes) -> str:
    """Returns the hash in the form of `Content-MD5`."""
    return base64.b64encode(hashlib.new(algorithm, body).digest()).decode()


def get(run: Run, listed: Path, dest: Path, *options: object, format: str = "jsonl") -> Any:  # noqa: ANN401 - as `run`
    """Runs a job whose list has hashes."""
    words = ("--format", format, "--allow-private", "--hash-column", "hash", "--attempts", 2)
    return run("get", listed, dest, *words, *options)


def failed(dest: Path) -> list[tuple[str, str | None, int]]:
    """Returns failed names with their kinds and attempts."""
    return sorted((each.name, each.kind, each.attempts) for each in fetchmill.failures(dest))


@pytest.mark.parametrize(
    ("algorithm", "write", "listed_as", "format"),
    [
        ("sha256", in_hexadecimal, "csv", "files"),
        ("sha256", in_base64, "jsonl", "parquet"),
        ("md5", in_hexadecimal, "parquet", "tar"),
        ("md5", in_base64, "tsv", "jsonl"),
    ],
)
def test_object_with_wrong_hash_is_retried_and_never_stored(
    run: Run,
    raw: Raw,
    dest: Path,
    tmp_path: Path,
    algorithm: str,
    write: Callable[[str, bytes], str],
    listed_as: str,
    format: str,
) -> None:
    """An object that is right at the second attempt is stored; one that is always wrong fails."""
    large = b"0" + LARGE
    routes = {
        "/right": reply(RIGHT),
        "/empty": reply(b""),
        "/once": in_turn(reply(WRONG), reply(RIGHT)),
        "/always": reply(WRONG),
        "/large": in_turn(reply(large), reply(LARGE)),
    }
    url = raw(routes).url
    said = {"/right": RIGHT, "/empty": b"", "/once": RIGHT, "/always": RIGHT, "/large": LARGE}
    rows = [{"url": url + path, "hash": write(algorithm, body)} for path, body in said.items()]
    done = get(run, write_list(tmp_path, rows, listed_as), dest, format=format)

    assert done.code == 3, done.err
    assert failed(dest) == [((url + "/always").removeprefix("http://" if format == "files" else ""), "checksum", 2)]
    with fetchmill.open(dest) as stored:
        found = {name.removeprefix("http://"): body for name, body in stored.items()}
    assert found == {(url + path).removeprefix("http://"): said[path] for path in said if path != "/always"}


def test_retry_run_compares_listed_hash(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """`--retry-failed` compares a failed target with the hash in its list, too."""
    server = raw({"/x": in_turn(*[reply(WRONG)] * 4, reply(RIGHT))})
    listed = write_list(tmp_path, [{"url": server.url + "/x", "hash": in_hexadecimal("sha256", RIGHT)}], "csv")
    for _ in range(2):
        assert get(run, listed, dest, "--retry-failed").code == 3
        assert failed(dest) == [(server.url + "/x", "checksum", 2)]

    assert get(run, listed, dest, "--retry-failed").code == 0
    with fetchmill.open(dest) as stored:
        assert dict(stored.items()) == {server.url + "/x": RIGHT}


def test_invalid_hash_fails_target_without_request(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """A row without a valid hash fails, because its object could not be compared."""
    server = raw({"/x": reply(RIGHT)})
    values: list[dict[str, str | None]] = [
        {"hash": value} for value in ("", "abc", in_hexadecimal("sha1", RIGHT), "g" * 64, None)
    ]
    rows = [{"url": server.url + "/x", **value} for value in [*values, {}]]
    listed = tmp_path / "list.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = get(run, listed, dest)

    assert done.code == 3, done.err
    found = list(fetchmill.failures(dest))
    assert [(each.kind, each.attempts) for each in found] == [("url", 0)] * len(rows)
    assert all("hash" in (each.detail or "") for each in found), [each.detail for each in found]
    assert server.count("/x") == 0


def test_listed_hashes_apply_to_redirects_and_ranges(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Hashes are those of the stored bytes: of the range if a range is requested."""
    part = reply(RIGHT[2:6], f"Content-Range: bytes 2-5/{len(RIGHT)}", status="206 Partial Content")
    server = raw({"/from": reply(b"it is elsewhere", "Location: /to", status="302 Found"), "/to": part})
    row = {"url": server.url + "/from", "offset": "2", "length": "4", "hash": in_base64("md5", RIGHT[2:6])}
    listed = write_list(tmp_path, [row, row | {"hash": in_base64("md5", RIGHT)}], "csv")
    done = get(run, listed, dest, "--offset-column", "offset", "--length-column", "length", "--hash", "sha256")

    assert done.code == 3, done.err
    assert [each.kind for each in fetchmill.failures(dest)] == ["checksum"]
    with fetchmill.open(dest) as stored:
        [record] = stored.records()
    assert (record.body, record.columns) == (RIGHT[2:6], {"sha256": sha256(RIGHT[2:6])})


def test_killed_job_still_compares_hashes(run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """After a kill, each target is compared once, and those with a wrong hash fail."""

    def own_path(exchange: Any) -> bytes:  # noqa: ANN401 - an exchange of the raw server
        return reply(exchange.target.encode())

    server = raw({"/x": own_path})
    paths = [f"/x?{number}" for number in range(600)]
    rows = [
        {"url": server.url + path, "hash": in_hexadecimal("md5", path.encode() if at % 10 else b"another")}
        for at, path in enumerate(paths)
    ]
    listed = write_list(tmp_path, rows, "csv")
    options = ("--format", "parquet", "--allow-private", "--hash-column", "hash", "--attempts", 1, "-j", 4)
    words = ("get", listed, dest, *options, "--commit-window", "50ms")
    # Slow enough that the job cannot end before it is killed, however busy the machine is.
    job = start(*words, "--rate", 30)
    until = time.monotonic() + 60
    while len(server.asked("/x")) < 60:
        assert time.monotonic() < until
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    assert job.wait() == -signal.SIGKILL

    assert run(*words).code == 3
    wrong = sorted(server.url + path for path in paths[::10])
    assert [name for name, kind, _ in failed(dest) if kind == "checksum"] == wrong
    table = query(f"SELECT name, body FROM '{dest}/*.parquet'")  # noqa: S608
    assert len(table) == 540
    assert dict(table) == {server.url + path: path.encode() for at, path in enumerate(paths) if at % 10}


def test_objects_of_bucket_are_compared_with_listed_hashes(
    run: Run, versitygw: Versitygw, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """Objects of a bucket are compared with the hashes of their list and with the store's checksums."""
    for key in ("right", "wrong"):
        versitygw.put(key, RIGHT)
    url = f"s3://{versitygw.bucket}"
    rows = [
        {"url": f"{url}/right", "hash": in_hexadecimal("sha256", RIGHT)},
        {"url": f"{url}/wrong", "hash": in_hexadecimal("sha256", WRONG)},
    ]
    options = ("--endpoint-url", versitygw.endpoint)
    words = ("get", write_list(tmp_path, rows, "csv"), dest, "--hash-column", "hash", "--attempts", 2)
    done = run(*words, "--format", "parquet", *options, env=environment | versitygw.environment())

    assert done.code == 3, done.err
    assert [(each.kind, each.attempts) for each in fetchmill.failures(dest)] == [("checksum", 2)]
    with fetchmill.open(dest) as stored:
        assert list(stored.values()) == [RIGHT]


@pytest.mark.parametrize(
    ("source", "options", "reason"),
    [
        ("http://127.0.0.1:1", (), "--hash-column is for lists of URLs"),
        ("list.csv", ("--engine", "threads"), "--hash-column needs --engine native"),
        ("list.csv", ("--format", "warc"), "--hash-column cannot be combined with --format warc"),
    ],
)
def test_hash_options_are_refused_where_unsupported(
    run: Run, dest: Path, tmp_path: Path, source: str, options: tuple[str, ...], reason: str
) -> None:
    """The error is one line and comes before any request."""
    write_list(tmp_path, [{"url": "http://127.0.0.1:1/x", "hash": "0" * 32}], "csv")
    done = run("get", source, dest, "--hash-column", "hash", *options)

    assert (done.code, dest.exists()) == (2, False)
    assert reason in done.err.replace("\n", " ")


def test_hash_column_is_refused_for_iterable(dest: Path) -> None:
    """Items of an iterable have no columns, so a hash column is refused."""
    with pytest.raises(UsageError, match="no columns"):
        fetchmill.get(["http://127.0.0.1:1/x"], dest, hash_column="hash")
