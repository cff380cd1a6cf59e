"""Destinations that are named like a file are refused, with a hint that works; existing folders are accepted."""

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import fetchmill
from fetchmill import shared_jobs
from fetchmill.testing import Server

Run = Callable[..., Any]
Serve = Callable[..., Server]

FORMATS = ("files", "tar", "jsonl", "parquet", "warc", "null")
NAMES = {f"file-{number:012}" for number in range(3)}
NOT_ONE_FILE = "fetchmill writes a folder of shards, not one file"
HINT = re.compile(r"^hint: fetchmill (get .*?)(?:; then, for one file: (.*))?$", re.MULTILINE)
JOINED_IN_BUCKET = "duckdb -c \"COPY (FROM 's3://bucket/x/*.parquet') TO 's3://bucket/x.parquet' (FORMAT parquet)\""
# The DuckDB command line, which is not a Python package.
DUCKDB = f"""#!{sys.executable}
import sys, duckdb
words = sys.argv[1:]
duckdb.connect(words[0] if words[0] != "-c" else ":memory:").sql(words[words.index("-c") + 1])
"""


def joined_names(path: Path) -> set[str]:
    """Returns the names of the objects in a file that a hint's second command has written."""
    if path.suffix == ".zip":
        return {Path(name).name for name in zipfile.ZipFile(path).namelist() if not name.endswith("/")}
    if path.suffix == ".parquet":
        return {Path(name).name for (name,) in duckdb.read_parquet(str(path)).select("name").fetchall()}
    if path.suffix == ".duckdb":
        return {Path(name).name for (name,) in duckdb.connect(path).sql("SELECT name FROM objects").fetchall()}
    text = subprocess.run(["zcat", "--force", path], check=True, capture_output=True).stdout.decode(errors="replace")
    return set(re.findall(r"file-\d{12}", text))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "name",
    ["x.parquet", "x.tar", "x.jsonl", "x.csv", "x.zip", "x.warc.gz", "x.sqlite", "x.parquet/", "a/x.duckdb", "x.JSON"],
)
def test_get_refuses_file_like_destination_in_any_format(name: str, format: str, run: Run, tmp_path: Path) -> None:
    """The error has one line, and the hint has the format that was given."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/a\n")

    ended = run("get", "urls.txt", name, *(("--format", format) if format != "files" else ()))

    assert (ended.code, ended.out) == (2, "")
    folder = "a/x/" if name.startswith("a/") else "x/"
    written = r"(?: --format \w+)?" if format == "files" else f" --format {format}"
    expected = (
        rf"fetchmill: error: {name}: {NOT_ONE_FILE}[^\n]*\nhint: fetchmill get urls\.txt {folder}{written}(;.*)?\n"
    )
    assert re.fullmatch(expected, ended.err), ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["urls.txt"]


@pytest.mark.parametrize(
    "name",
    ["x.parquet", "x.duckdb", "x.jsonl", "x.jsonl.gz", "x.warc.gz", "x.warc", "x.zip"],
)
def test_hint_commands_write_single_file(
    name: str, run: Run, server: Serve, environment: dict[str, str], tmp_path: Path
) -> None:
    """Both commands of the hint work unchanged."""
    refused = run("get", server(synthetic=3).url, name)
    found = HINT.search(refused.err)
    assert found, refused.err
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/duckdb").write_text(DUCKDB)
    (tmp_path / "bin/duckdb").chmod(0o755)
    path = f"{tmp_path}/bin:{environment['PATH']}"

    assert run(*found[1].split()).code == 0
    subprocess.run(found[2], shell=True, check=True, cwd=tmp_path, env=environment | {"PATH": path})  # noqa: S602

    assert joined_names(tmp_path / name) == NAMES


def test_hint_command_for_rows_writes_file(run: Run, server: Serve, tmp_path: Path) -> None:
    """A table of targets without bodies is written by another command, which the hint names."""
    source = server(synthetic=3)
    (tmp_path / "urls.txt").write_text("".join(f"{source.url}/get/{name}\n" for name in sorted(NAMES)))

    of_list, of_server = (run("get", given, "rows.csv") for given in ("urls.txt", source.url))

    assert of_list.err.endswith("for one file of rows without bodies: fetchmill check urls.txt rows.csv\n")
    assert of_server.err.endswith(f"for one file of rows without bodies: fetchmill ls {source.url} -o rows.csv\n")
    assert run("check", "urls.txt", "rows.csv", "--allow-private").code == 0
    assert run("ls", source.url, "-o", "listed.csv").code == 0


@pytest.mark.parametrize("format", ["files", "tar"])
def test_job_of_older_release_in_file_like_folder_continues(
    run: Run, server: Serve, tmp_path: Path, format: str
) -> None:
    """Earlier releases created such folders. The same command, `resume` and `sync` accept them."""
    source = server(synthetic=3).url
    words = ("get", source, "x.parquet", "--format", format)
    assert run(*words[:2], "x", *words[3:], "--first", "1").code == 0
    (tmp_path / "x").rename(tmp_path / "x.parquet")

    assert run(*words, "--first", "2").code == 0
    assert run("resume", "x.parquet").code == 0

    assert "already complete" in run(*words).err
    assert set(fetchmill.open(tmp_path / "x.parquet")) == NAMES
    assert run("sync", source, "x.parquet", "--format", format).code == 0


def test_empty_folder_named_like_file_is_used(run: Run, server: Serve, tmp_path: Path) -> None:
    """The user has created the folder, so its name is intended."""
    (tmp_path / "x.tar").mkdir()

    assert run("get", server(synthetic=3).url, "x.tar", "--format", "tar").code == 0

    found = []
    # Each worker has its own shard.
    for shard in (tmp_path / "x.tar").glob("*.tar"):
        with tarfile.open(shard) as archive:
            found += archive.getnames()
    assert sorted(found) == sorted(NAMES)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("sync", "urls.txt", "x.zip"), "sync urls.txt x/; then, for one file: zip -qr x.zip x/ -x 'x/.fetchmill/*'"),
        (("sync", "urls.txt", "x.tar", "--dry-run"), "sync urls.txt x/ --format tar"),
        (("get", "urls.txt", "x.tar", "--dry-run"), "get urls.txt x/ --format tar"),
        (("get", "urls.txt", "x.tar", "--format", "tar", "--shared"), "get urls.txt x/ --format tar"),
        (
            ("export", "x", "x.jsonl", "--format", "jsonl"),
            "export x x-jsonl/ --format jsonl; then, for one file: cat x-jsonl/*.jsonl > x.jsonl",
        ),
        (("export", "old/", "x.zip", "--format", "tar"), "export old/ x/ --format tar"),
        (("get", "urls.txt", "a b.jsonl"), "get urls.txt 'a b/' --format jsonl"),
        (
            ("get", "urls.txt", "s3://bucket/x.parquet", "--format", "parquet"),
            "get urls.txt s3://bucket/x/ --format parquet; then, for one file: " + JOINED_IN_BUCKET,
        ),
        (("get", "urls.txt", "s3://bucket/x.jsonl"), "get urls.txt s3://bucket/x/ --format jsonl"),
    ],
)
def test_other_commands_refuse_file_like_destination(
    words: tuple[str, ...], hint: str, run: Run, tmp_path: Path
) -> None:
    """The hint repeats the command. Commands for local files are not suggested for a bucket."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/a\n")

    ended = run(*words)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 2), ended.err
    assert NOT_ONE_FILE in ended.err
    assert ended.err.endswith(f"hint: fetchmill {hint}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["urls.txt"]


def test_bucket_prefix_named_like_file_is_accepted_with_slash(run: Run, tmp_path: Path) -> None:
    """A bucket has no folders, so the slash marks a prefix. A prefix with a job needs no slash."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/a\n")
    words = ("--format", "tar", "--endpoint-url", "http://127.0.0.1:9", "--give-up-after", "0.1s", "--allow-private")

    with_slash = run("get", "urls.txt", "s3://bucket/x.tar/", *words)
    (tmp_path / "x.tar.fetchmill").mkdir(exist_ok=True)
    (tmp_path / "x.tar.fetchmill/job.sqlite").touch()
    with_job = run("get", "urls.txt", "s3://bucket/x.tar", *words)

    assert NOT_ONE_FILE not in with_slash.err + with_job.err
    assert with_slash.code != 0


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: fetchmill.get("urls.txt", folder / "x.tar", format="tar"),
        lambda folder: fetchmill.get(["http://127.0.0.1:9/a"], folder / "x.tar", format="tar"),
        lambda folder: fetchmill.sync("urls.txt", folder / "x.tar", format="tar"),
        lambda folder: fetchmill.export(folder, folder / "x.tar", format="tar"),
        lambda folder: shared_jobs.get("urls.txt", folder / "x.tar", format="tar"),
    ],
    ids=["get", "get of an iterable", "sync", "export", "shared_jobs.get"],
)
def test_python_calls_refuse_file_like_destination(call: Callable[[Path], object], tmp_path: Path) -> None:
    """The hint for a program names a folder."""
    with pytest.raises(fetchmill.UsageError, match=NOT_ONE_FILE) as caught:
        call(tmp_path)

    assert caught.value.hint == f"choose a folder, such as {tmp_path}/x/"
    assert not any(tmp_path.iterdir())
