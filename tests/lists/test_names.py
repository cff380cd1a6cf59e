"""Names of objects: from a template, from replies, and without a leading path."""

import contextlib
import json
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from webdataset.tariterators import group_by_keys, tar_file_expander

import fetchmill
from engines import engine_options
from fetchmill.errors import UsageError
from fetchmill.testing import Server
from independent import read_ledger
from lists import write_list
from raw_server import Behaviour, Exchange, RawServer, in_turn, mirror, reply
from s3_stores import Versitygw
from stored import find_wrong, read_objects

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]
Serve = Callable[..., Server]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

BODIES = {"one": b"1", "two": b"22", "three": b"333", "empty": b""}


@pytest.fixture
def stored_at(server: Serve, tmp_path: Path) -> str:
    """Returns the base URL of the objects."""
    folder = tmp_path / "objects"
    folder.mkdir()
    for name, body in BODIES.items():
        (folder / name).write_bytes(body)
    return f"{server(folder).url}/get"


def rows(stored_at: str, *columns: tuple[str, str]) -> list[dict[str, str]]:
    """Returns a row per object. A column is a name and a format string, which gets the number of the row."""
    return [
        {"url": f"{stored_at}/{name}"} | {column: value.format(index) for column, value in columns}
        for index, name in enumerate(BODIES)
    ]


@pytest.mark.parametrize("format", ["files", "tar", "parquet"])
def test_name_template_uses_any_column(run: Run, stored_at: str, dest: Path, tmp_path: Path, format: str) -> None:
    """A template may use any column by name or number, and the row number. `verify` and readers use these names."""
    listed = write_list(tmp_path, rows(stored_at, ("id", "{}"), ("group", "g {}")), "csv")
    names = "{group}/{2}-{index}.jpg"
    done = run("get", listed, dest, "--format", format, "--names", names, "--column", "url", "--allow-private")
    assert done.code == 0, done.err

    expected = {f"g {index}/{index}-{index:09}.jpg": body for index, body in enumerate(BODIES.values())}
    assert find_wrong(dest, format, expected) == []
    assert run("verify", dest).code == 0
    assert sorted(run("ls", dest).out.splitlines()) == sorted(expected)
    other = run("get", listed, dest, "--format", format, "--names", "{group}", "--column", "url", "--allow-private")
    assert (other.code, "its names is" in other.err) == (2, True)


@pytest.mark.parametrize("format", ["files", "tar"])
def test_name_value_stays_in_its_path_segment(
    run: Run, stored_at: str, dest: Path, tmp_path: Path, format: str
) -> None:
    """A value stays in its path segment and cannot make a hidden file. A row with an empty value fails."""
    values = ["../../escaped", "..", ".hidden", "a/b\nc\t\u202e%2e", "/etc/x", "", "é" * 200, "nul\0"]
    made = [{"url": f"{stored_at}/one", "id": value} for value in values]
    listed = write_list(tmp_path, made, "jsonl")
    before = set(tmp_path.rglob("*"))
    done = run("get", listed, dest, "--names", "d/{id}", "--format", format, "--allow-private")

    assert done.code == 3, done.err
    beside = {path for path in tmp_path.rglob("*") if path != dest and dest not in path.parents}
    assert beside == before
    stored = [name for name, _ in read_objects(dest, format)]
    assert all(name.startswith("d/") and name.count("/") == 1 and name[2] != "." for name in stored)
    assert {"d/%2E.%2F..%2Fescaped", "d/%2E.", "d/%2Ehidden", "d/%2Fetc%2Fx"} <= set(stored)
    assert len(stored) == (5 if format == "files" else 7)
    assert not [path for path in dest.rglob("*") if path.name[0] == "." and path.name != ".fetchmill"]
    assert run("verify", dest).code == 0


def test_raw_name_value_makes_folders_within_destination(run: Run, stored_at: str, dest: Path, tmp_path: Path) -> None:
    """A name that points outside the destination fails without a request."""
    values = ["a/b", "../x", "/y", "a/./z"]
    listed = write_list(tmp_path, [{"url": f"{stored_at}/one", "id": value} for value in values], "jsonl")
    done = run("get", listed, dest, "--names", "{id!r}.txt", "--allow-private")

    assert done.code == 3, done.err
    assert [name for name, _ in read_objects(dest, "files")] == ["a/b.txt"]
    assert not (tmp_path / "x.txt").exists()


@pytest.mark.parametrize(("format", "code", "count"), [("files", 3, 1), ("parquet", 0, 4)])
def test_rows_with_one_name_are_reported(
    run: Run, stored_at: str, dest: Path, tmp_path: Path, format: str, code: int, count: int
) -> None:
    """As files, only the first of equal names is stored. Packs keep all, with their sequence numbers."""
    listed = write_list(tmp_path, rows(stored_at, ("id", "x")), "csv")
    done = run("get", listed, dest, "--format", format, "--names", "{id}", "--allow-private")

    assert done.code == code, done.err
    assert [name for name, _ in read_objects(dest, format)] == ["x"] * count
    if format == "files":
        assert "name-taken" in done.err + done.out


def test_python_items_have_only_name_and_number(stored_at: str, dest: Path) -> None:
    """A template for Python items may use their name and number, and no other column."""
    pairs = [(f"{stored_at}/{name}", name.upper()) for name in BODIES]
    report = fetchmill.get(pairs, dest, format="tar", names="{index}-{name}.txt")

    assert report.fetched == 4
    expected = {f"{index:09}-{name.upper()}.txt": body for index, (name, body) in enumerate(BODIES.items())}
    assert find_wrong(dest, "tar", expected) == []
    with pytest.raises(UsageError, match=r"only \{\}, \{name\} and \{index\} in --names"):
        fetchmill.get(pairs, dest.with_name("other"), names="{id}")


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("{id", "brace"),
        ("name", "all objects the same"),
        ("../{id}", "segment . or .."),
        ("/{id}", "starts with a slash"),
        ("{id}/", "folder names"),
    ],
)
def test_name_template_without_unique_names_is_refused(
    run: Run, dest: Path, tmp_path: Path, names: str, why: str
) -> None:
    """The error is one line, before anything is created."""
    listed = write_list(tmp_path, rows("http://127.0.0.1:1", ("id", "{}")), "csv")
    refused = run("get", listed, dest, "--names", names)

    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--names" in refused.err
    assert why in refused.err
    assert not dest.exists()


def test_conflicting_name_options_are_refused(run: Run, dest: Path, tmp_path: Path) -> None:
    """--names cannot be combined with --key-column, and is refused for a server, which has its own names."""
    listed = write_list(tmp_path, rows("http://127.0.0.1:1", ("id", "{}")), "csv")
    both = run("get", listed, dest, "--names", "{id}", "--key-column", "id")
    server = run("get", "http://127.0.0.1:1", dest, "--names", "{id}")

    assert (both.code, "leave out one of them" in both.err) == (2, True)
    assert (server.code, "names is for lists of URLs" in server.err) == (2, True)


def test_dry_run_shows_names(run: Run, dest: Path, tmp_path: Path) -> None:
    """A dry run shows each name as far as it does not depend on the reply."""
    made = [{"url": "http://127.0.0.1:1/x.PNG", "id": "7"}, {"url": "http://127.0.0.1:1/y", "id": "8/9"}]
    listed = write_list(tmp_path, made, "csv")
    shown = run("get", listed, dest, "--dry-run", "--names", "a/{id}.{ext}", "--strip-prefix", "a")

    assert shown.code == 0, shown.err
    assert [line.split("\t")[1] for line in shown.out.splitlines()] == ["7.png", "8%2F9.bin"]


def test_missing_name_column_is_reported(run: Run, stored_at: str, dest: Path, tmp_path: Path) -> None:
    """A missing column is an error, because every line would fail."""
    listed = write_list(tmp_path, rows(stored_at, ("id", "{}")), "csv")
    refused = run("get", listed, dest, "--names", "{key}.jpg", "--allow-private")

    assert refused.code != 0
    assert "key" in refused.err


TYPED: dict[str, Behaviour] = {
    "/a": reply(b"a", "Content-Type: image/jpeg"),
    "/b.gif": reply(b"b", "Content-Type: IMAGE/PNG; charset=x"),
    "/c.GIF?x=.jpg": reply(b"c", "Content-Type: application/octet-stream"),
    "/d": reply(b"d"),
    "/e.tar": reply(b"e", "Content-Type: ../../x"),
    "/f": reply(b"f" * 3_000_000, "Content-Type: video/mp4"),
    "/moved.png": reply(b"", "Location: /a", status="302 Found"),
    "/gone.png": reply(b"", status="404 Not Found"),
}
TYPED_NAMES = {"0.jpg": b"a", "1.png": b"b", "2.gif": b"c", "3.bin": b"d", "4.tar": b"e", "5.mp4": b"f" * 3_000_000}
TYPED_NAMES |= {"6.jpg": b"a"}


def typed_list(site: RawServer, folder: Path) -> Path:
    """Writes a list of numbered objects with content types."""
    return write_list(folder, [{"url": site.url + path, "id": str(index)} for index, path in enumerate(TYPED)], "csv")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("engine", "format", "more"),
    [
        ("native", "files", ()),
        ("native", "files", ("--no-server-times",)),
        ("native", "tar", ()),
        ("native", "warc", ()),
        ("threads", "jsonl", ()),
    ],
)
def test_extension_follows_reply(
    run: Run, raw: Raw, dest: Path, tmp_path: Path, engine: str, format: str, more: tuple[str, ...]
) -> None:
    """The extension follows the content type of the reply. If that is unspecific, it follows the URL."""
    listed = typed_list(raw(TYPED), tmp_path)
    options = ("--names", "{id}.{ext}", "--format", format, "--allow-private", *engine_options(engine), *more)
    done = run("get", listed, dest, *options)

    assert done.code == 3, done.err
    # HTTP libraries of other engines are configured not to follow redirects.
    expected = {name: body for name, body in TYPED_NAMES.items() if engine == "native" or name != "6.jpg"}
    assert find_wrong(dest, format, expected) == []
    assert run("verify", dest).code == 0
    assert sorted(run("ls", dest).out.split()) == sorted(expected)
    assert (run("get", listed, dest, *options).code, read_ledger(dest).absent) == (3, 1)


def test_retry_run_names_object_by_its_own_reply(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """A failed target has the extension of its URL; the later reply may give it another one."""
    site = raw(
        {
            "/a.gif": in_turn(reply(b"", status="404 Not Found"), reply(b"a", "Content-Type: image/png")),
            "/b.gif": in_turn(reply(b"", status="404 Not Found"), reply(b"b")),
        }
    )
    made = [{"url": f"{site.url}/{name}.gif", "id": f"x.gif.{name}"} for name in ("a", "b")]
    listed = write_list(tmp_path, made, "csv")
    options = ("--names", "{id}.{ext}", "--format", "parquet", "--allow-private", "--keep-failed")
    assert run("get", listed, dest, *options).code == 3
    rows = pq.read_table(dest / "unfetched-000000.parquet").to_pylist()
    assert sorted(row["name"] for row in rows) == ["x.gif.a.gif", "x.gif.b.gif"]

    assert run("get", listed, dest, *options, "--retry-failed").code == 0

    assert find_wrong(dest, "parquet", {"x.gif.a.png": b"a", "x.gif.b.gif": b"b"}) == []
    assert run("verify", dest).code == 0


def test_second_object_fails_when_replies_give_one_name(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The second object fails under its listed name, and a retry run requests it again."""
    kinds = {"/a.gif": "image/png", "/b.jpg": "image/png"}
    site = raw({path: reply(path.encode(), f"Content-Type: {kind}") for path, kind in kinds.items()})
    listed = write_list(tmp_path, [{"url": site.url + path, "id": "x"} for path in kinds], "csv")
    options = ("--names", "{id}.{ext}", "--allow-private")
    done = run("get", listed, dest, *options)

    assert (done.code, read_ledger(dest).failed) == (3, 1)
    assert [name for name, _ in read_objects(dest, "files")] == ["x.png"]
    assert run("verify", dest).code == 0
    (taken,) = set(kinds) - {(dest / "x.png").read_text()}
    (dest / "x.png").unlink()
    assert run("get", listed, dest, *options, "--retry-failed").code == 0
    assert (dest / "x.png").read_text() == taken


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("engine", "format"), [("native", "files"), ("processes", "files")])
def test_killed_job_keeps_names_given_by_replies(
    run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path, engine: str, format: str
) -> None:
    """After a kill, each object has one name, even if its window was staged but not renamed."""
    made = slow_list(raw, tmp_path)
    options = ("--names", "{id!r}.{ext}", "--strip-prefix", "a", "--format", format, *SLOW, *engine_options(engine))
    for _ in range(2):
        run_and_kill(start("get", made, dest, *options), dest)
    done = run("get", made, dest, *options)

    assert done.code == 0, done.err
    assert find_wrong(dest, format, {f"{number}.webp": str(number).encode() for number in range(COUNT)}) == []
    assert run("verify", dest).code == 0


COUNT = 160
SLOW = ("--allow-private", "--commit-window", "0.05s", "--limit-per-host", "8", "--rate-per-host", "0")


def slow_list(raw: Raw, folder: Path) -> Path:
    """Writes a list of images on a slow server; their types differ from the extensions of their URLs."""

    def slow(body: bytes) -> Behaviour:
        def answer(exchange: Exchange) -> None:
            time.sleep(0.02)
            exchange.send(reply(body, "Content-Type: image/webp"))

        return answer

    site = raw({f"/{number}.x": slow(str(number).encode()) for number in range(COUNT)})
    rows = [{"url": f"{site.url}/{number}.x", "id": f"a/{number}"} for number in range(COUNT)]
    return write_list(folder, rows, "csv")


def run_and_kill(process: "subprocess.Popen[str]", dest: Path) -> None:
    """Kills a job after some targets have finished, if it has that many."""
    before, deadline = settled(dest), time.monotonic() + 30
    while process.poll() is None and settled(dest) < before + 40:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()


def settled(dest: Path) -> int:
    """Returns the number of targets with an outcome, or 0 while the journal is being created."""
    try:
        return read_ledger(dest).settled
    except Exception:  # noqa: BLE001 - there is no table, or no file
        return 0


@pytest.fixture
def tree_of_names(server: Serve, tmp_path: Path) -> str:
    """Starts a server with objects in folders. Returns its URL."""
    folder = tmp_path / "objects"
    for name in ("a/b/one", "a/b/c/two", "a/bc", "three", "x/a/b/four"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return server(folder).url


STRIPPED = {"one": b"a/b/one", "c/two": b"a/b/c/two", "a/bc": b"a/bc", "three": b"three", "x/a/b/four": b"x/a/b/four"}


@pytest.mark.parametrize(("format", "prefix"), [("files", "a/b"), ("tar", "a/b/"), ("parquet", "a/b")])
def test_strip_prefix_shortens_names(run: Run, tree_of_names: str, dest: Path, format: str, prefix: str) -> None:
    """Names with the prefix lose it.

    `verify`, readers and an export use the stored names, and the job can be resumed.
    """
    options = ("--format", format, "--strip-prefix", prefix)
    done = run("get", tree_of_names, dest, *options)
    assert done.code == 0, done.err

    assert find_wrong(dest, format, STRIPPED) == []
    assert sorted(run("ls", dest).out.split()) == sorted(STRIPPED)
    assert run("cat", dest, "c/two").out == "a/b/c/two"
    assert run("verify", dest).code == 0
    assert run("get", tree_of_names, dest, *options).code == 0
    other = run("get", tree_of_names, dest, "--format", format)
    assert (other.code, "strip-prefix" in other.err) == (2, True)
    again = dest.with_name("again")
    assert run("export", dest, again, "--format", "tar").code == 0
    assert find_wrong(again, "tar", STRIPPED) == []


def test_strip_prefix_is_refused_where_names_locate_objects(run: Run, tree_of_names: str, dest: Path) -> None:
    """Stripped names do not show where objects came from.

    Commands that request objects again, or store their URLs, are refused.
    """
    refused = run("get", tree_of_names, dest, "--strip-prefix", "a", "--format", "warc")
    assert (refused.code, "warc" in refused.err) == (2, True)
    assert run("get", tree_of_names, dest, "--strip-prefix", "", "--format", "tar").code == 2
    assert run("get", tree_of_names, dest, "--strip-prefix", "a/b").code == 0
    again = dest.with_name("again")
    assert run("export", dest, again, "--format", "tar").code == 0

    for place in (dest, again):
        for command in (("verify", place, "--sample", "3"), ("export", place, dest.with_name("w"), "--format", "warc")):
            ended = run(*command)
            assert (ended.code, "a leading path was removed from" in ended.err) == (2, True), ended.err
    synced = run("sync", tree_of_names, dest)
    assert (synced.code, "whose objects were renamed" in synced.err) == (2, True)
    (dest / "one").unlink()
    repaired = run("verify", dest, "--repair")
    assert repaired.code == 10
    assert "because their URLs are unknown" in repaired.err


def test_retry_run_requests_taken_stripped_name(run: Run, raw: Raw, dest: Path) -> None:
    """A failed target is requested again by its name at the source."""
    site = raw(mirror(["a/x", "x", "a/gone"], {"a/gone": reply(b"", status="404 Not Found")}))
    options = ("--strip-prefix", "a", "--format", "files")
    done = run("get", site.url, dest, *options)
    assert (done.code, read_ledger(dest).failed, read_ledger(dest).absent) == (3, 1, 1)
    stored = (dest / "x").read_bytes()
    (dest / "x").unlink()

    assert run("get", site.url, dest, *options, "--retry-failed").code == 3

    assert sorted(set(site.asked())) == ["/get/a/gone", "/get/a/x", "/get/x"]
    assert (dest / "x").read_bytes() != stored
    assert read_ledger(dest).fetched == 2


@pytest.mark.parametrize("format", ["files", "parquet", "warc"])
def test_strip_prefix_shortens_urls(run: Run, stored_at: str, dest: Path, tmp_path: Path, format: str) -> None:
    """A prefix with a scheme works in all formats. Rows have the full URL, which comparisons use."""
    listed = write_list(tmp_path, [{"url": f"{stored_at}/{name}"} for name in BODIES])
    done = run("get", listed, dest, "--format", format, "--strip-prefix", stored_at, "--allow-private")
    assert done.code == 0, done.err

    assert find_wrong(dest, format, BODIES) == []
    assert run("verify", dest).code == 0
    if format in ("parquet", "jsonl", "warc"):
        with fetchmill.open(dest) as objects:
            assert {item.url for item in objects.records()} == {f"{stored_at}/{name}" for name in BODIES}
        assert run("verify", dest, "--sample", "4").code == 0


def test_transform_gets_url_and_stripped_name(
    run: Run, tree_of_names: str, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """A transform gets the full URL and the stored name."""
    (tmp_path / "seen.py").write_text(
        "def seen(replies):\n    return [f'{each.name} {each.url}'.encode() for each in replies]\n"
    )
    options = ("--strip-prefix", "a/b", "--format", "tar", "--transform", "seen:seen")
    done = run("get", tree_of_names, dest, *options, env=environment | {"PYTHONPATH": str(tmp_path)})
    assert done.code == 0, done.err

    told = dict(body.decode().split() for _, body in read_objects(dest, "tar"))
    assert told == {name: f"{tree_of_names}/get/{body.decode()}" for name, body in STRIPPED.items()}


def test_strip_prefix_applies_to_rows_without_objects(run: Run, raw: Raw, dest: Path) -> None:
    """Rows without an object also lose the prefix, so that all rows have the same kind of name."""
    site = raw(mirror(["a/x", "a/gone"], {"a/gone": reply(b"", status="404 Not Found")}))
    done = run("get", site.url, dest, "--strip-prefix", "a/", "--format", "parquet", "--keep-failed")

    assert done.code == 3, done.err
    rows = [row for path in sorted(dest.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert {row["name"]: row["outcome"] for row in rows} == {"x": "fetched", "gone": "absent"}


def test_strip_prefix_shortens_bucket_keys(
    run: Run, versitygw: Versitygw, environment: dict[str, str], dest: Path
) -> None:
    """The rest of a matching key becomes the path of its file; other keys are unchanged."""
    for key, body in {"2026/11/a": b"1", "2026/12/a": b"2", "b": b"3"}.items():
        versitygw.put(key, body)
    words = ("get", f"s3://{versitygw.bucket}", dest, "--endpoint-url", versitygw.endpoint)
    done = run(*words, "--strip-prefix", "2026/11", env=environment | versitygw.environment())

    assert done.code == 0, done.err
    assert find_wrong(dest, "files", {"a": b"1", "2026/12/a": b"2", "b": b"3"}) == []


def members(dest: Path) -> list[tuple[str, bytes]]:
    """Returns all members of the shards in order, read by an independent reader."""
    found = []
    for shard in sorted(dest.glob("*.tar")):
        with tarfile.open(shard) as archive:
            found += [(member.name, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    return found


def samples(dest: Path) -> list[dict[str, Any]]:
    """Returns samples as webdataset reads them: the key, and members by extension."""
    read: list[dict[str, Any]] = []
    for shard in sorted(dest.glob("*.tar")):
        with shard.open("rb") as file:
            read += group_by_keys(tar_file_expander([{"url": str(shard), "stream": file}]))
    return [
        {name: value for name, value in sample.items() if name not in ("__url__", "__local_path__")} for sample in read
    ]


CAPTIONS = ["a cat", 'ein "großer" Hund\n\u2028', "", "x" * 2000]
SIDECARS = ("--sidecar", "json", "--sidecar", "txt=caption", "--sidecar", "cls=label")


def captioned(stored_at: str, folder: Path) -> Path:
    """Writes a list of objects with captions; the last row has no label."""
    made = [
        {"url": f"{stored_at}/{name}", "id": str(index), "caption": caption, "label": str(index) if index < 3 else None}
        for index, (name, caption) in enumerate(zip(BODIES, CAPTIONS, strict=True))
    ]
    return write_list(folder, made, "parquet")  # type: ignore[arg-type]


def test_sidecars_are_stored_with_their_objects(run: Run, stored_at: str, dest: Path, tmp_path: Path) -> None:
    """The webdataset library reads each object with its sidecars as a sample.

    Readers and exports see objects with columns.
    """
    listed = captioned(stored_at, tmp_path)
    kept = ("--keep-columns", "caption,label")
    done = run("get", listed, dest, "--format", "tar", "--names", "{id}.bin", *kept, *SIDECARS, "--allow-private")
    assert done.code == 0, done.err

    found = {sample["__key__"]: sample for sample in samples(dest)}
    assert len(found) == len(BODIES)
    columns = {}
    for index, (name, body) in enumerate(BODIES.items()):
        sample = found[str(index)]
        label = str(index) if index < 3 else None
        columns[f"{index}.bin"] = {"caption": CAPTIONS[index], "label": label}
        assert list(sample) == ["__key__", "bin", "json", "txt", "cls"]
        assert (sample["bin"], sample["txt"].decode(), sample["cls"].decode()) == (body, CAPTIONS[index], label or "")
        assert json.loads(sample["json"]) == {"url": f"{stored_at}/{name}"} | columns[f"{index}.bin"]
    assert run("verify", dest).code == 0
    assert sorted(run("ls", dest).out.split()) == sorted(columns)
    assert run("cat", dest, "1.bin").out == "22"
    again = dest.with_name("again")
    assert run("export", dest, again, "--format", "parquet").code == 0
    for place in (dest, again):
        with fetchmill.open(place) as objects:
            assert {item.name: item.columns for item in objects.records()} == columns
            assert {item.url for item in objects.records()} == {f"{stored_at}/{name}" for name in BODIES}
    assert run("verify", dest, "--sample", "4").code == 0


def test_damaged_sidecar_is_detected(run: Run, stored_at: str, dest: Path, tmp_path: Path) -> None:
    """`verify` finds a damaged sidecar, because it belongs to the record of its object."""
    listed = captioned(stored_at, tmp_path)
    one_shard = ("--threads", "1")
    options = ("--names", "{id}.bin", "--keep-columns", "caption,label", *SIDECARS, "--allow-private", *one_shard)
    assert run("get", listed, dest, "--format", "tar", *options).code == 0
    (shard,) = dest.glob("*.tar")
    shard.write_bytes(shard.read_bytes().replace(b'"caption":"a cat"', b'"caption":"a cat\'', 1))

    found = run("verify", dest)

    assert found.code == 10
    assert "damaged" in found.out + found.err
    assert run("cat", dest, "0.bin").code == 10


def test_object_keeps_name_that_collides_with_sidecar(run: Run, stored_at: str, dest: Path, tmp_path: Path) -> None:
    """The sidecar gets its extension twice, so nothing is lost and names in a sample are unique."""
    listed = captioned(stored_at, tmp_path)
    options = ("--names", "{id}.JSON", "--keep-columns", "caption", "--sidecar", "json", "--allow-private")
    done = run("get", listed, dest, "--format", "tar", *options)

    assert done.code == 0, done.err
    assert {tuple(sample) for sample in samples(dest)} == {("__key__", "json", "json.json")}
    assert run("verify", dest).code == 0


def test_samples_with_dotted_or_repeated_keys_keep_sidecars(
    run: Run, stored_at: str, dest: Path, tmp_path: Path
) -> None:
    """An id with dots is a separate key, and a repeated id makes a separate sample. No member name occurs twice."""
    ids = ["2101.00001", "2101.00002", "v1.0", "v1.0"]
    made = [
        {"url": f"{stored_at}/{name}", "id": identifier, "caption": f"caption of {name}"}
        for name, identifier in zip(BODIES, ids, strict=True)
    ]
    listed = write_list(tmp_path, made, "parquet")
    columns = ("--keep-columns", "caption", "--sidecar", "txt=caption", "--sidecar", "json")
    options = (*columns, "--allow-private", "--threads", "1")
    for names in ("{id}.bin", "{id}"):
        out = dest / names
        done = run("get", listed, out, "--format", "tar", "--names", names, *options)
        assert done.code == 0, done.err
        found = [name for name, _ in members(out)]
        assert len(set(found)) == len(found) == 3 * len(BODIES)
        assert run("verify", out).code == 0
        with fetchmill.open(out) as objects:
            assert {item.name for item in objects.records()} == {names.format(id=one) for one in ids}
    captions = {(sample["bin"], sample["txt"].decode()) for sample in samples(dest / "{id}.bin")}
    assert captions == {(body, f"caption of {name}") for name, body in BODIES.items()}


def test_job_of_older_release_keeps_sample_keys(run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """The journal has the naming rules of the job; a journal of release 0.1.0 has none."""
    listed = slow_list(raw, tmp_path)
    sidecars = ("--keep-columns", "id", "--sidecar", "txt=id")
    options = ("--names", "v1.{index}.{ext}", "--format", "tar", *sidecars, *SLOW)
    run_and_kill(start("get", listed, dest, *options, "--rate", "100"), dest)
    with contextlib.closing(sqlite3.connect(dest / ".fetchmill/job.sqlite")) as journal:
        assert journal.execute("SELECT value FROM job WHERE key = 'rules'").fetchone() == ("4",)
        journal.execute("DELETE FROM job WHERE key = 'rules'")
        journal.commit()
    assert run("get", listed, dest, *options).code == 0
    found = [name for name, _ in members(dest)]
    later = [name for name in found if not name.startswith("v1%2E")]
    assert later
    assert {name.rpartition("/")[2].split(".", 1)[0] for name in later} == {"v1"}
    assert run("verify", dest).code == 0


def test_killed_job_keeps_objects_with_their_sidecars(
    run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path
) -> None:
    """After a kill, each object is stored with all of its sidecars or not at all."""
    made = slow_list(raw, tmp_path)
    sidecars = ("--keep-columns", "id", "--sidecar", "txt=id", "--sidecar", "json")
    options = ("--names", "{index}.{ext}", "--format", "tar", *sidecars, *SLOW)
    for _ in range(2):
        run_and_kill(start("get", made, dest, *options), dest)
        assert run("verify", dest).code == 0
    done = run("get", made, dest, *options)

    assert done.code == 0, done.err
    found = sorted((sample["__key__"], sample["webp"], sample["txt"]) for sample in samples(dest))
    assert found == [(f"{number:09}", str(number).encode(), f"a/{number}".encode()) for number in range(COUNT)]
    assert len(members(dest)) == 3 * COUNT
    assert run("verify", dest).code == 0


def test_transform_columns_are_in_sidecars(
    run: Run, stored_at: str, environment: dict[str, str], dest: Path, tmp_path: Path
) -> None:
    """Sidecars may have columns of a transform, like columns of a list."""
    (tmp_path / "sized.py").write_text(
        "def sized(replies):\n    return [{'body': each.body, 'size': str(len(each.body))} for each in replies]\n"
    )
    listed = captioned(stored_at, tmp_path)
    filled = ("--transform", "sized:sized", "--transform-columns", "size", "--sidecar", "size=size")
    options = (*filled, "--names", "{id}.bin", "--format", "tar", "--allow-private")
    done = run("get", listed, dest, *options, env=environment | {"PYTHONPATH": str(tmp_path)})

    assert done.code == 0, done.err
    assert {sample["size"].decode() for sample in samples(dest)} == {str(len(body)) for body in BODIES.values()}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--format", "parquet", "--sidecar", "json"), "--sidecar needs --format tar"),
        (("--sidecar", "json"), "--sidecar needs --format tar"),
        (("--format", "tar", "--sidecar", "txt=caption"), "--keep-columns"),
        (("--format", "tar", "--sidecar", "caption"), "EXTENSION=COLUMN"),
        (("--format", "tar", "--sidecar", "../x=caption", "--keep-columns", "caption"), "lowercase letters"),
        (("--format", "tar", "--keep-columns", "caption"), "tar with --sidecar"),
    ],
)
def test_impossible_sidecar_options_are_refused(
    run: Run, dest: Path, tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    """The error is one line, before anything is created."""
    refused = run("get", captioned("http://127.0.0.1:1", tmp_path), dest, *options)

    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert why in refused.err
    assert not dest.exists()
