"""`fetchmill ls` lists the targets of a source like the objects of a destination."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conftest import Ended
from fetchmill.testing import S3Store, Server, s3
from raw_server import Exchange, RawServer, reply
from shared_jobs import write_list

Run = Callable[..., Ended]
Serve = Callable[..., Server]
Raw = Callable[..., RawServer]

KEYS = {"a b": b"1", "line\nbreak": b"22", "x/é": b"333"}
LISTED_AT = "2026-11-22T08:30:00Z"


def page_of(exchange: Exchange) -> bytes:
    """Returns the only page of the bucket."""
    del exchange
    contents = "".join(
        f"<Contents><Key>{quote(key)}</Key><LastModified>2026-11-22T08:30:00.000Z</LastModified>"
        f"<ETag>&quot;e-{len(body)}&quot;</ETag><Size>{len(body)}</Size></Contents>"
        for key, body in KEYS.items()
    )
    return reply(
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>bucket</Name><Prefix></Prefix>'
        f"<KeyCount>{len(KEYS)}</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType>"
        f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()
    )


@pytest.fixture
def bucket(raw: Raw, environment: dict[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Serves a public bucket with KEYS. Returns the options and the environment for reaching it."""
    missing = reply(b"<Error><Code>NoSuchKey</Code></Error>", status="404 Not Found")
    source = raw({"/bucket": page_of, "/bucket/job.json": missing})
    options = ("--endpoint-url", source.url, "--no-sign-request", "--region", "us-east-1")
    return options, environment | {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "no_proxy": "*"}


@pytest.fixture
def store(environment: dict[str, str]) -> Iterator[tuple[S3Store, dict[str, str]]]:
    """Starts an S3 store. Returns it, and an environment with its credentials."""
    with s3() as store:
        yield store, environment | store.environment()


def test_ls_names_equal_names_of_list(run: Run, server: Serve) -> None:
    """Names of a source go to standard output, and the summary to standard error."""
    source = server(synthetic=1200)

    shown, expected = run("ls", source.url), run("list", source.url)

    assert (shown.code, shown.out) == (0, expected.out)
    assert shown.out.count("\n") == 1200
    assert shown.err.startswith("1,200 targets in ")
    assert source.stats().get("get", 0) == 0


def test_ls_manifest_equals_manifest_of_list(run: Run, server: Serve, tmp_path: Path) -> None:
    """`ls -o` writes the same manifest as `list`, also with events. The same command then has nothing to do."""
    source = server(synthetic=50)

    first, again = (run("ls", source.url, "-o", "ls.csv") for _ in range(2))
    events = run("ls", source.url, "--output", "events.csv", "--json")
    assert run("list", source.url, "list.csv").code == 0

    assert (first.code, first.out, again.code) == (0, "", 0), first.err
    assert "manifest: ls.csv" in first.err
    assert "already complete: 50 targets; choose another manifest to list again" in again.err
    assert json.loads(events.out.splitlines()[-1])["manifest"] == "events.csv"
    contents = {(tmp_path / f"{name}.csv").read_text() for name in ("ls", "list", "events")}
    assert len(contents) == 1


def test_ls_shows_bucket_in_every_format(run: Run, bucket: tuple[tuple[str, ...], dict[str, str]]) -> None:
    """The output formats are those of a destination. A source has sizes and times, but no status."""
    options, env = bucket
    place = ("ls", "s3://bucket/", *options)

    names, long = (run(*place, *more, env=env) for more in ((), ("--long",)))
    brief, full = (run(*place, "--json", *more, env=env).out.splitlines() for more in ((), ("--long",)))

    assert names.code == 0, names.err
    assert names.out.splitlines() == ["a b", "line\\nbreak", "x/é"]
    assert long.out.splitlines()[1] == f"2\t-\t{LISTED_AT}\tline\\nbreak"
    assert [json.loads(line) for line in brief] == [{"name": key, "bytes": len(body)} for key, body in KEYS.items()]
    assert json.loads(full[0]) == {
        "name": "a b",
        "bytes": 1,
        "url": "s3://bucket/a%20b",
        "etag": "e-1",
        "last_modified": LISTED_AT,
    }
    assert run(*place, "-0", env=env).out == "".join(f"{key}\0" for key in KEYS)


def test_ls_patterns_match_like_include(run: Run, server: Serve) -> None:
    """Patterns select names. If none matches, the exit code is 3, as for a destination."""
    source = server(synthetic=20)

    some = run("ls", source.url, "*7", "*-00000000001?", "--exclude", "*9")
    none = run("ls", source.url, "other*")

    numbers = sorted({7, 17, *range(10, 19)})
    assert (some.code, some.out.splitlines()) == (0, [f"file-{number:012}" for number in numbers])
    assert (none.code, none.out) == (3, "")


def test_ls_reads_lists_from_stdin_and_globs(run: Run, tmp_path: Path) -> None:
    """Standard input, files and globs are lists. A folder of lists needs a glob or `-o`."""
    (tmp_path / "parts").mkdir()
    for name in ("a", "b"):
        (tmp_path / "parts" / f"{name}.txt").write_text(f"http://{name}.test/\n")
    urls = ["http://a.test/", "http://b.test/"]

    with (tmp_path / "parts/a.txt").open() as file:
        piped = run("ls", "-", stdin=file)
    shown = {place: run("ls", place).out.splitlines() for place in ("parts/*.txt", "parts/b.txt")}
    refused, written = run("ls", "parts"), run("ls", "parts", "-o", "m.csv")

    assert (piped.code, piped.out.splitlines()) == (0, urls[:1])
    assert shown == {"parts/*.txt": urls, "parts/b.txt": urls[1:]}
    assert refused.code == 2
    assert "parts holds no fetchmill job" in refused.err
    assert "for a folder of lists: fetchmill ls 'parts/*'\n" in refused.err
    assert (written.code, (tmp_path / "m.csv").read_text().count(".test/")) == (0, 2)


def test_ls_refuses_source_options_for_destination(run: Run, server: Serve) -> None:
    """Options that both support are accepted; options from the environment do not count."""
    assert run("get", server(synthetic=3).url, "out").code == 0

    refused = {
        option: run("ls", "out", option, *value)
        for option, *value in (("-o", "m.csv"), ("--include", "*1"), ("--csv-header", "no"), ("--netrc",))
    }
    accepted = run("ls", "out", "--quiet", "--region", "x", env=os.environ | {"FETCHMILL_BEARER": "x"})

    for option, ended in refused.items():
        written = "--output" if option == "-o" else option
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == (
            f"fetchmill: error: {written} is for a SOURCE, but out contains a fetchmill job\n"
            "hint: list the names of its objects: fetchmill ls out\n"
        )
    assert (accepted.code, accepted.err, accepted.out.count("\n")) == (0, "", 3)


def test_ls_refuses_manifest_and_suggests_list(run: Run, server: Serve, tmp_path: Path) -> None:
    """`ls` points to `list` for the rows of a manifest. `ls -o` may filter them into another manifest."""
    assert run("ls", server(synthetic=12).url, "-o", "m.csv").code == 0

    refused = run("ls", "m.csv")
    listed = run("list", "m.csv")
    filtered = run("ls", "m.csv", "*11", "-o", "one.csv")

    assert refused.code == 2
    assert refused.err.endswith("hint: list its rows: fetchmill list m.csv\n")
    assert listed.out.splitlines() == [f"file-{number:012}" for number in range(12)]
    assert filtered.code == 0, filtered.err
    assert (tmp_path / "one.csv").read_text().count("/get/file-") == 1


def test_ls_takes_bucket_with_shared_job_as_destination(
    run: Run, server: Serve, store: tuple[S3Store, dict[str, str]], tmp_path: Path
) -> None:
    """`ls` lists the objects of the job, and `list` the keys of the bucket. The prefix above the job is a source."""
    held, env = store
    urls = write_list(tmp_path / "urls.txt", server(synthetic=5), 5)
    job = "s3://bucket/some/run"
    assert run("get", "urls.txt", job, "--shared", "--allow-private", "--format", "tar", env=env).code == 0

    names, keys, above = run("ls", job, env=env), run("list", job, env=env), run("ls", "s3://bucket/some/", env=env)
    refused = run("ls", job, "--include", "x", env=env)

    assert (names.code, sorted(names.out.splitlines())) == (0, urls), names.err
    assert keys.out.splitlines() == above.out.splitlines() == sorted(held.objects())
    assert refused.code == 2
    assert f"hint: list the keys of the bucket: fetchmill list {job}\n" in refused.err


def test_ls_ignores_journal_of_another_bucket(run: Run, server: Serve, store: tuple[S3Store, dict[str, str]]) -> None:
    """A journal has only the last folder's name, so a bucket with another path is treated as a source."""
    held, env = store
    assert run("get", server(synthetic=5).url, "s3://bucket/one/run/", "--format", "tar", env=env).code == 0

    own, other = run("ls", "s3://bucket/one/run", env=env), run("ls", "s3://bucket/run/", env=env)
    keys = run("list", "s3://bucket/one/run/", env=env)

    assert own.code == 2
    assert "the objects of this job are in s3://bucket/one/run/" in own.err
    assert other.code == 3, other.err
    assert 'the bucket bucket has no key that begins with "run/"' in other.err
    assert keys.out.splitlines() == sorted(held.objects())


def test_ls_names_of_list_are_keys_or_urls(run: Run, tmp_path: Path) -> None:
    """A name is the key or else the URL, and kept columns are part of --json."""
    (tmp_path / "urls.csv").write_text("url,key,rank\nhttp://a.test/x,k1,7\nhttp://b.test/y,,8\n")

    ended = run("ls", "urls.csv", "--key-column", "key", "--keep-columns", "rank", "--json", "--long")

    assert [json.loads(line) for line in ended.out.splitlines()] == [
        {"name": "k1", "bytes": None, "url": "http://a.test/x", "columns": {"rank": "7"}},
        {"name": "http://b.test/y", "bytes": None, "url": "http://b.test/y", "columns": {"rank": "8"}},
    ]


def test_ls_ends_listing_when_output_pipe_closes(start: Callable[..., Any], server: Serve) -> None:
    """With `fetchmill ls SOURCE | head`, the listing ends silently, long before its end."""
    source = server(synthetic=2_000_000)
    process = start("ls", source.url)

    assert process.stdout.readline() == "file-000000000000\n"
    process.stdout.close()

    assert process.wait(30) == 0
    assert process.stderr.read() == ""
    assert source.stats()["list"] < 2000


@pytest.mark.parametrize("command", ["ls", "list"])
def test_ls_limit_ends_listing_early(command: str, run: Run, server: Serve) -> None:
    """--first requests no more pages than needed. A source with fewer names is listed completely."""
    # On a busy machine, the command may need a second to end its listing.
    source = server(synthetic=200_000, page_size=100, list_delay=(0.05, 0.05))

    ended = run(command, source.url, "--first", "150")
    few = run(command, server(synthetic=3).url, "--first", "150")

    assert (ended.code, ended.out) == (0, "".join(f"file-{number:012}\n" for number in range(150)))
    assert ended.err == "ended after 150 targets\n"
    assert source.stats()["list"] < 100
    assert (few.code, few.out.count("\n")) == (0, 3)
    assert few.err.startswith("3 targets in ")


def test_ls_refuses_manifest_of_first_targets(run: Run, tmp_path: Path) -> None:
    """The error has the reason, and the hint has the command for a trial run."""
    ended = run("ls", "http://127.0.0.1:9", "-o", "m.csv", "--first", "5")

    assert (ended.code, ended.err.count("\n")) == (2, 2)
    assert "--first cannot be combined with a manifest: a manifest must contain all targets" in ended.err
    assert ended.err.endswith("hint: fetch the first targets: fetchmill get MANIFEST DEST --first 5\n")
    assert run("ls", "http://127.0.0.1:9", "--first", "0").err == (
        "fetchmill: error: --first must be a whole number of at least 1, not 0\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_ls_limit_applies_to_destination(run: Run, server: Serve) -> None:
    """Patterns without a match are reported only if all names were read."""
    assert run("get", server(synthetic=30).url, "out", "--format", "jsonl").code == 0

    first = run("ls", "out", "--first", "7", "--long")
    some, all_names = (run("ls", "out", "file-*", "other", "--first", count) for count in (7, 100))

    assert (first.code, first.out.count("\n")) == (0, 7)
    assert (some.code, some.out.count("\n"), some.err) == (0, 7, "")
    assert (all_names.code, all_names.out.count("\n")) == (3, 30)
    assert all_names.err == "fetchmill: no name matches other\n"
