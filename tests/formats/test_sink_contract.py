"""Promises of every sink, checked with independent code: each object is stored once, with its bytes, name and metadata.

`FETCHMILL_CONTRACT_COUNT` is the number of objects in a large job (`make contract-million`).
"""

import os
import random
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from awkward_names import REFUSED, STORED
from conftest import folder_in_memory, format_options
from fetchmill.testing import Fault, Server, serve
from foreign import (
    READERS,
    STATE,
    SUFFIXES,
    TOLD,
    Stored,
    check_warc,
    describe_parquet,
    extract_tars,
    find_shards,
    read_objects,
    read_warc_blocks,
    shard_number,
)
from independent import (
    Expected,
    find_leftovers,
    find_problems,
    find_unbalanced,
    find_unfinished,
    find_unlike,
    synthetic,
    synthetic_name,
)
from raw_server import RawServer, chunked_reply, get_target, mirror, reply

Run = Callable[..., Any]
Serve = Callable[..., Server]
Raw = Callable[..., RawServer]

COUNT = int(os.environ.get("FETCHMILL_CONTRACT_COUNT") or 20_000)
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# Memory per object in all formats together, including one with a separate file in a page of memory.
BYTES_EACH = 8 * KIB
SHARD_BYTES = max(128 * KIB, COUNT * 6)
# Tolerance of the shard size: the size of compressed bytes is not known before a shard is sealed.
SHARD_SHARE = {"tar": (0.9, 1.2), "jsonl": (0.9, 1.2), "warc": (0.5, 1.5), "parquet": (0.2, 2.0)}
WINDOW = 0.1
NEVER_SECONDS = 3600.0

FORMATS = ("files", *SUFFIXES)
PAIRS = [(format, reader) for format in FORMATS for reader in READERS[format]]
TELLING = [(format, reader) for format, reader in PAIRS if TOLD[format] and reader != "webdataset"]

REFUSED_INDEXES = [*range(120, 130), *range(340, 350)]
REFUSALS = [
    Fault("status", status=404, match="file-00000000012*"),
    Fault("status", status=403, match="file-00000000034*"),
]

pytestmark = pytest.mark.timeout(300 + COUNT // 500)


@dataclass(frozen=True)
class Told:
    """A reply's metadata about its object, and the expected metadata."""

    fields: tuple[str, ...] = ()
    status: str = "200 OK"
    content_type: str | None = None
    etag: str | None = None
    last_modified: datetime | None = None


MODIFIED = datetime(2015, 2, 13, 12, 34, 56, tzinfo=UTC)
TOLD_BY_NAME = {
    "told/all": Told(
        ("Content-Type: text/plain; charset=utf-8", 'ETag: "abc-1"', "Last-Modified: Fri, 13 Feb 2015 12:34:56 GMT"),
        content_type="text/plain; charset=utf-8",
        etag='"abc-1"',
        last_modified=MODIFIED,
    ),
    "told/nothing": Told(),
    "told/created": Told(status="201 Created"),
    "told/by-another": Told(
        ("content-type:   image/svg+xml", 'etag: W/"0"'),
        status="203 Non-Authoritative Information",
        content_type="image/svg+xml",
        etag='W/"0"',
    ),
    "told/quotes": Told(
        ('ETag: "a\\b,c"', 'Content-Type: multipart/x; boundary="a\\"b"'),
        content_type='multipart/x; boundary="a\\"b"',
        etag='"a\\b,c"',
    ),
    "told/no-date": Told(("Last-Modified: yesterday",)),
}
CHUNKED = {
    "chunked/none": (),
    "chunked/one": (b"one",),
    "chunked/many": tuple(b"%d," % index for index in range(3000)),
    "chunked/large": (b"a" * 100_000, b"\r\n0\r\n\r\n", b"b" * 70_000),
}
NAMES = [*REFUSED.values(), *(name for name, _ in STORED.values()), "case", "Case", "n" * 1000, *TOLD_BY_NAME]
BODIES = {
    "empty": b"",
    "one": b"\0",
    "all-bytes": bytes(range(256)) * 5,
    "zeros": bytes(10_000),
    "letters": "größe 文件 \U0001f600 e\u0301".encode(),
    "json": b'{"body": "\\u0000", \'"\'}\n{"a": 1}\n',
    "lines": "a\nb\r\nc\rd\u2028e\u2029f\x0b\x0c\x1c\x85g\n".encode(),
    "controls": bytes(range(32)) + b"\x7f",
    "byte-order-mark": b"\xef\xbb\xbftext",
    "no-utf8": b"text\xff\xfe",
    "surrogate": b"\xed\xa0\x80",
    "like-base64": b"AAAA====",
    "like-gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
    "like-warc": b"\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
    "like-parquet": b"PAR1\0\0\0\0PAR1",
    "like-zstd": b"\x28\xb5\x2f\xfd",
    "511": b"x" * 511,
    "512": b"x" * 512,
    "513": b"x" * 513,
    **{f"{size}": random.Random(size).randbytes(size) for size in (MIB - 1, MIB, MIB + 1)},
    "64MiB": random.Random(64).randbytes(64 * MIB),
    **{f"text-{size}": (b'{"id": 17, "name": "a"}, ' * size)[:size] for size in (100, 1400, 1800, 64 * KIB, 5 * MIB)},
}


@dataclass(frozen=True)
class Job:
    """A finished job: its source, its destination, and the expected objects."""

    format: str
    dest: Path
    source: str
    bodies: dict[str, bytes]
    refused: frozenset[str]
    report: fetchmill.Report
    began: datetime
    ended: datetime = field(default_factory=lambda: datetime.now(UTC))

    def read(self, reader: str) -> Iterator[Stored]:
        """Reads the stored objects."""
        return read_objects(self.dest, self.format, reader)


def fetch(source: str, dest: Path, format: str, expected: Expected, **more: Any) -> Job:  # noqa: ANN401
    """Runs a job in this process."""
    options: dict[str, Any] = {"format": format, "commit_window": WINDOW, **more}
    began = datetime.now(UTC)
    report = fetchmill.get(source, dest, **options)
    return Job(format, dest, source, expected.bodies, expected.failures, report, began)


def fetch_many(folder: Path, format: str) -> Job:
    """Fetches synthetic objects, some absent and some failed, into small shards."""
    sizes = {} if format == "files" else {"shard_size": SHARD_BYTES, "seal_after": NEVER_SECONDS}
    with serve(synthetic=COUNT, faults=REFUSALS) as source:
        return fetch(source.url, folder / "many", format, expect_many(), **sizes)


@cache
def expect_many() -> Expected:
    """Returns the expected objects, which all formats share: a million bodies are enough."""
    return synthetic(COUNT, failures=REFUSED_INDEXES)


def fetch_odd(folder: Path, format: str) -> Job:
    """Fetches awkward names, metadata of replies, and chunked bodies."""
    scripted = {name: reply(name.encode(), *told.fields, status=told.status) for name, told in TOLD_BY_NAME.items()}
    scripted |= {name: chunked_reply(*chunks) for name, chunks in CHUNKED.items()}
    refused = frozenset(REFUSED.values() if format == "files" else ()) | ({"n" * 1000} if format == "files" else set())
    bodies = {name: name.encode() for name in NAMES if name not in refused}
    bodies |= {name: b"".join(chunks) for name, chunks in CHUNKED.items()}
    with RawServer(mirror([*NAMES, *CHUNKED], scripted)) as source:
        return fetch(source.url, folder / "odd", format, Expected(bodies, refused))


def fetch_bodies(folder: Path, format: str) -> Job:
    """Fetches bodies of every kind, including one of the maximum size."""
    for name, body in BODIES.items():
        (folder / "content").mkdir(exist_ok=True)
        (folder / "content" / name).write_bytes(body)
    with serve(folder / "content") as source:
        return fetch(source.url, folder / "bodies", format, Expected(BODIES))


FETCHERS: dict[str, Callable[[Path, str], Job]] = {"many": fetch_many, "odd": fetch_odd, "bodies": fetch_bodies}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Job]]:
    """Runs a job on first use, by content and format; later tests share it."""
    disk = tmp_path_factory.mktemp("sinks")
    made: dict[tuple[str, str], Job] = {}
    with folder_in_memory(disk, room=2 * GIB + COUNT * BYTES_EACH) as folder:

        def make(content: str, format: str) -> Job:
            if (content, format) not in made:
                (folder / format).mkdir(exist_ok=True)
                made[content, format] = FETCHERS[content](folder / format, format)
            return made[content, format]

        yield make
    shutil.rmtree(disk)


@pytest.fixture
def job(request: pytest.FixtureRequest, jobs: Callable[[str, str], Job]) -> Job:
    """Returns one of these jobs."""
    return jobs(*request.param)


def readers_of(content: str, pairs: Iterable[tuple[str, str]] = PAIRS) -> pytest.MarkDecorator:
    """Parametrizes a test with each format and reader, and the job of that content."""
    values = [pytest.param((content, format), reader, id=f"{format}-{reader}") for format, reader in pairs]
    return pytest.mark.parametrize(("job", "reader"), values, indirect=["job"])


def formats_of(content: str, *formats: str) -> pytest.MarkDecorator:
    """Parametrizes a test with each format, and the job of that content."""
    values = [pytest.param((content, format), id=f"{content}-{format}") for format in formats]
    return pytest.mark.parametrize("job", values, indirect=True)


def assert_unfailing(job: Job) -> None:
    """Checks that all expected objects count as fetched and the rest as failures, and that the journal balances."""
    assert find_leftovers(job.dest) + find_unbalanced(job.dest) + find_unfinished(job.dest) == []
    assert (job.report.fetched, job.report.pending) == (len(job.bodies), 0)
    assert sorted(failure.name for failure in fetchmill.failures(job.dest)) == sorted(job.refused)


# --- objects -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@readers_of("many")
def test_sink_stores_each_object_once(job: Job, reader: str) -> None:
    """Each object has its name and the origin's bytes. Nothing else is stored."""
    assert find_unlike(job.read(reader), job.bodies) == []


@readers_of("odd")
def test_sink_keeps_every_name(job: Job, reader: str) -> None:
    """Packs accept any name, even one that cannot be a path. Chunked bodies are joined."""
    assert find_unlike(job.read(reader), job.bodies) == []


@pytest.mark.sampled(1)
@readers_of("bodies")
def test_sink_keeps_every_body(job: Job, reader: str) -> None:
    """Bodies are empty, binary, similar to a format's own markers, at block boundaries, and 64 MiB large."""
    assert find_unlike(job.read(reader), job.bodies) == []


@pytest.mark.sampled(1)
@formats_of("many", *FORMATS)
def test_ledger_lists_targets_that_are_not_stored(job: Job) -> None:
    """Absent and failed targets are in the ledger, and nothing is left pending."""
    assert_unfailing(job)
    assert (job.report.absent, job.report.failed) == (10, 10)


@formats_of("odd", *FORMATS)
def test_only_files_format_refuses_names(job: Job) -> None:
    """Packs accept every name; only `files` refuses some."""
    assert_unfailing(job)
    assert {failure.kind for failure in fetchmill.failures(job.dest)} == ({"name"} if job.refused else set())


@pytest.mark.parametrize(("format", "reader"), PAIRS)
def test_packs_keep_duplicate_names_and_files_keep_first(raw: Raw, memory_path: Path, format: str, reader: str) -> None:
    """In tar, the second object is another member. With `files`, it fails with kind `name-taken`."""
    dest = memory_path / "out"
    names = ["same", "other", "same"]

    fetch(raw(mirror(names)).url, dest, format, Expected({}))

    stored = list(read_objects(dest, format, reader))
    kinds = [(failure.name, failure.kind) for failure in fetchmill.failures(dest)]
    if format == "tar":
        # Member names are unique in one shard; two threads have one shard each.
        names_in_shards = sorted(each.name.rpartition(b"/")[2] for each in stored)
        assert names_in_shards == sorted(each.body for each in stored) == [b"other", b"same", b"same"]
        return
    assert {each.name == each.body for each in stored} == {True}
    if format == "files":
        assert sorted(each.name for each in stored) == [b"other", b"same"]
        assert kinds == [("same", "name-taken")]
    else:
        assert sorted(each.name for each in stored) == [b"other", b"same", b"same"]
        assert kinds == []
    if "sequence" in TOLD[format]:
        assert {each.sequence: each.name for each in stored} == {0: b"same", 1: b"other", 2: b"same"}


@pytest.mark.parametrize(("format", "reader"), PAIRS)
def test_sink_keeps_non_utf8_name(raw: Raw, memory_path: Path, format: str, reader: str) -> None:
    """The name is bytes, as in a web server's folder listing."""
    dest = memory_path / "out"
    bodies = {b"latin-\xe9": b"1", b"\xff\xfe": b"2", "größe".encode(): b"3", b"cut-\xc3": b"4"}
    entries = b",".join(b'{"name":"%s","type":"file","mtime":"","size":1}' % name for name in bodies)
    routes = {"/" + "".join(_percent(byte) for byte in name): reply(body) for name, body in bodies.items()}
    server = raw(routes | {"/": reply(b"[%s]" % entries, "Content-Type: application/json")})

    fetch(server.url, dest, format, Expected({}), listing="autoindex")

    assert {each.name: each.body for each in read_objects(dest, format, reader)} == bodies


def _percent(byte: int) -> str:
    return chr(byte) if (chr(byte).isalnum() and byte < 128) or byte == ord("-") else f"%{byte:02X}"


# --- metadata ----------------------------------------------------------------------------------------------------


@readers_of("odd", TELLING)
def test_sink_keeps_reply_metadata(job: Job, reader: str) -> None:
    """Status, content type, ETag and modification time are kept. Missing values stay missing."""
    found = {each.name.decode(errors="surrogateescape"): each for each in job.read(reader)}

    for name, told in TOLD_BY_NAME.items():
        wanted = {
            "status": int(told.status[:3]),
            "content_type": told.content_type,
            "etag": told.etag,
            "last_modified": told.last_modified,
        }
        each = found[name]
        for fact in TOLD[job.format]:
            if fact in wanted and not (job.format == "tar" and told.last_modified is None):
                assert getattr(each, fact) == wanted[fact], (name, fact)


@readers_of("odd", TELLING)
def test_sink_keeps_fetch_time(job: Job, reader: str) -> None:
    """The time is in UTC, within the duration of the job. Tar has it if no other time is known."""
    fact = "last_modified" if job.format == "tar" else "fetched_at"
    second = timedelta(seconds=1)

    for each in job.read(reader):
        at = getattr(each, fact)
        assert at.utcoffset() == timedelta(0)
        if each.name != b"told/all" or job.format != "tar":
            assert job.began - second <= at <= job.ended + second, each.name[:100]


@pytest.mark.sampled(1)
@readers_of("many", [pair for pair in TELLING if "sequence" in TOLD[pair[0]]])
def test_sink_keeps_sequence_numbers(job: Job, reader: str) -> None:
    """The number is that of the target, which is its place in the listing if one server lists in order."""
    wrong = [each.name for each in job.read(reader) if each.name.decode() != synthetic_name(each.sequence or 0)]

    assert wrong[:5] == []


@readers_of("odd", [pair for pair in TELLING if "crc32c" in TOLD[pair[0]]])
def test_stored_checksum_matches_body(job: Job, reader: str) -> None:
    """The checksum is the CRC-32C of the body, computed here."""
    wrong = [each.name for each in job.read(reader) if len(each.body) < KIB and each.crc32c != crc32c(each.body)]

    assert wrong == []
    assert crc32c(b"123456789") == 0xE3069283


def crc32c(data: bytes) -> int:
    """Computes CRC-32C bit by bit (RFC 3720, B.4)."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


# --- shards ------------------------------------------------------------------------------------------------------


@formats_of("many", *SUFFIXES)
def test_shards_are_numbered_without_gaps(job: Job) -> None:
    """Numbers start at 0, whichever worker has written the shards."""
    numbers = [shard_number(shard) for shard in find_shards(job.dest, job.format)]

    assert numbers == list(range(len(numbers)))


@formats_of("many", *SUFFIXES)
def test_shards_have_requested_size(job: Job) -> None:
    """Only the last shard of each worker may be smaller."""
    low, high = SHARD_SHARE[job.format]
    sizes = [shard.stat().st_size for shard in find_shards(job.dest, job.format)]
    small = [size for size in sizes if size < SHARD_BYTES * low]

    assert len(sizes) >= 4
    assert len(small) <= len(os.sched_getaffinity(0)), sizes
    assert max(sizes) <= SHARD_BYTES * high


def test_parquet_shard_of_slow_job_is_sealed_in_time(start: Run, server: Serve, dest: Path) -> None:
    """Readers see a slow job's first shard long before the end."""
    source = server(synthetic=60, delay=(0.1, 0.1))
    process = start("get", source.url, dest, "--concurrency", "2", *format_options("parquet"))
    while not list(dest.glob("shard-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    fetched = source.stats()["get"]
    _, err = process.communicate(timeout=120)

    assert process.returncode == 0, err
    assert fetched < 45
    assert find_problems(dest, synthetic(60), "parquet") == []


# --- repeated commands -------------------------------------------------------------------------------------------


def picture(dest: Path) -> dict[str, tuple[int, bytes]]:
    """Returns time and bytes of every file except the journal's."""
    return {
        str(path.relative_to(dest)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(dest.rglob("*"))
        if path.is_file() and not (path.parent == dest / STATE and path.name.startswith(("job.sqlite", "lock")))
    }


@pytest.mark.parametrize("format", FORMATS)
def test_second_run_changes_nothing(run: Run, server: Serve, memory_path: Path, format: str) -> None:
    """The second run reports that there is nothing to do."""
    source = server(synthetic=2000)
    command = ("get", source.url, memory_path / "out", "--commit-window", "50ms", *format_options(format))
    first = run(*command)
    before = picture(memory_path / "out")

    second = run(*command)

    assert (first.code, second.code) == (0, 0), first.err
    assert "already complete" in second.err
    assert picture(memory_path / "out") == before
    assert source.stats()["get"] == 2000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_retry_run_adds_failed_objects(run: Run, server: Serve, memory_path: Path, format: str) -> None:
    """After `--retry-failed`, each object is stored once."""
    dest = memory_path / "out"
    source = server(synthetic=2000, faults=[Fault("status", status=404, rate=0.2, times=1)])
    command = ("get", source.url, dest, "--commit-window", "50ms", *format_options(format))

    first = run(*command)
    absent = fetchmill.status(dest).absent
    second = run(*command, "--retry-failed")

    assert (first.code, second.code) == (3, 0), second.err
    assert 300 < absent < 500
    assert source.stats()["get"] == 2000 + absent
    assert find_problems(dest, synthetic(2000), format) == []


# --- format-specific tests ---------------------------------------------------------------------------------------


def test_tar_unpacks_to_same_files_as_files_format(raw: Raw, memory_path: Path) -> None:
    """Names and bytes on disk are those of `files`."""
    names = [name for name, _ in STORED.values()]
    fetch(raw(mirror(names)).url, memory_path / "out", "tar", Expected({}))
    folder = memory_path / "unpacked"
    folder.mkdir()

    extract_tars(memory_path / "out", folder)

    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {path: name.encode() for name, path in STORED.values()}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_tar_is_readable_as_webdataset(raw: Raw, dest: Path) -> None:
    """The usual reader class divides a name into key and extension."""
    import webdataset

    names = [f"train/{index:04}.txt" for index in range(200)]
    fetch(raw(mirror(names)).url, dest, "tar", Expected({}))

    urls = [str(shard) for shard in find_shards(dest, "tar")]
    samples = {sample["__key__"]: sample["txt"] for sample in webdataset.WebDataset(urls, shardshuffle=False)}

    assert samples == {name.removesuffix(".txt"): name.encode() for name in names}


@formats_of("odd", "parquet")
def test_parquet_has_documented_columns(job: Job) -> None:
    """Every reader sees the same order and types."""
    columns = {
        "sequence": ("int64", "Int64", "BIGINT"),
        "name": ("string", "String", "VARCHAR"),
        "name_raw": ("binary", "Binary", "BLOB"),
        "status": ("uint16", "UInt16", "USMALLINT"),
        "content_type": ("string", "String", "VARCHAR"),
        "etag": ("string", "String", "VARCHAR"),
        "last_modified": ("timestamp[us, tz=UTC]", TIME_OF_POLARS, "TIMESTAMP WITH TIME ZONE"),
        "fetched_at": ("timestamp[us, tz=UTC]", TIME_OF_POLARS, "TIMESTAMP WITH TIME ZONE"),
        "crc32c": ("uint32", "UInt32", "UINTEGER"),
        "body": ("binary", "Binary", "BLOB"),
        "content_encoding": ("string", "String", "VARCHAR"),
    }

    for shard in find_shards(job.dest, job.format):
        described = describe_parquet(shard)
        for index, reader in enumerate(("pyarrow", "polars", "duckdb")):
            assert list(described[reader].items()) == [(name, types[index]) for name, types in columns.items()]


TIME_OF_POLARS = "Datetime(time_unit='us', time_zone='UTC')"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "job", [pytest.param((content, "warc"), id=content) for content in ("many", "odd", "bodies")], indirect=True
)
def test_warc_passes_warcio_check(job: Job) -> None:
    """`warcio check` verifies digests and that each record is one gzip member."""
    shards = find_shards(job.dest, job.format)

    assert shards
    assert [said for shard in shards[:20] if (said := check_warc(shard))] == []


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "job", [pytest.param((content, "warc"), id=content) for content in ("many", "bodies")], indirect=True
)
def test_each_warc_record_is_one_gzip_member(job: Job) -> None:
    """Python's zlib checks length and checksum: members follow each other, and each is one whole record."""
    for shard in find_shards(job.dest, job.format)[:20]:
        packed = shard.read_bytes()
        while packed:
            member = zlib.decompressobj(wbits=31)
            record = member.decompress(packed)
            assert member.eof
            head, _, rest = record.partition(b"\r\n\r\n")
            assert head.startswith(b"WARC/1.1\r\n")
            length = re.search(rb"\r\nContent-Length: (\d+)$", head)
            assert length
            assert (len(rest), rest[-4:]) == (int(length[1]) + 4, b"\r\n\r\n")
            packed = member.unused_data


@formats_of("odd", "warc")
def test_warc_has_request_and_response_of_each_object(job: Job) -> None:
    """Both records have the URL. The response has the head as sent, and a chunked body is one chunk."""
    blocks: dict[tuple[str, str], bytes] = {}
    for shard in find_shards(job.dest, job.format):
        for fields, block in read_warc_blocks(shard):
            if fields["WARC-Type"] in {"request", "response"}:
                blocks[fields["WARC-Type"], fields["WARC-Target-URI"]] = block
                assert fields["Content-Type"] == f"application/http; msgtype={fields['WARC-Type']}"

    assert len(blocks) == 2 * len(job.bodies)
    for name, body in job.bodies.items():
        target = get_target(name)
        request, response = (blocks[kind, f"{job.source}{target}"] for kind in ("request", "response"))
        assert request.startswith(f"GET {target} HTTP/1.1\r\n".encode())
        assert request.endswith(b"\r\n\r\n")
        assert re.search(rb"\r\nhost: 127\.0\.0\.1:\d+\r\n", request, re.IGNORECASE)
        if name in CHUNKED:
            chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n"
            assert response.lower() == sent.lower(), name
        else:
            told = TOLD_BY_NAME.get(name, Told())
            assert response == reply(body, *told.fields, status=told.status), name[:100]
