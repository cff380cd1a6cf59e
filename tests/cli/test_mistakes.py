"""Plausible mistakes of new users: the answer is one line that says what is wrong and what to do."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Server

Run = Callable[..., Any]
URL = "http://127.0.0.1:9/a"
FILES = {
    "urls.txt": f"{URL}\n",
    "lines.jsonl": f'{{"u": "{URL}"}}\n',
    "two.csv": f"{URL},x\n",
    "full/x": "",
    "fetchmill.toml": "[get]\nfromat = 'tar'\n",
}
GET = ("get", "urls.txt", "out")
RESUME = "run the same command again to resume a job, or: fetchmill resume DEST"
DESTINATION = "the destination is the second argument: fetchmill get SOURCE DEST"
NO_FOLDERS = "/proc/nothing: its file system does not support folders; choose a folder elsewhere"
NOT_ONE_FILE = (
    "out.parquet: fetchmill writes a folder of shards, not one file, so that each shard is complete even if the job is "
    "killed; all shards can be read as one (read_parquet('out/*.parquet'))"
)
ONE_PARQUET_FILE = (
    "fetchmill get urls.txt out/ --format parquet; then, for one file: "
    "duckdb -c \"COPY (FROM 'out/*.parquet') TO 'out.parquet' (FORMAT parquet)\""
)
# A command, its error, and its hint; without a hint, the error itself says what to do.
MISTAKES: list[tuple[tuple[str, ...], str, str | None]] = [
    (("gett",), "No such command 'gett'", "did you mean `fetchmill get`?"),
    (("mirror",), "No such command 'mirror'", "did you mean `fetchmill get`?"),
    (("download",), "No such command 'download'", "did you mean `fetchmill get`?"),
    (("qqqqqqq",), "No such command 'qqqqqqq'", "list the commands: fetchmill -h"),
    (
        ("ls", "nojob"),
        "nojob holds no fetchmill job",
        "for a source, give a URL, s3://BUCKET/PREFIX, or the path of a list",
    ),
    (
        ("ls", "full"),
        "full holds no fetchmill job",
        "for a job started with --state, give --state DIR; for a folder of lists: fetchmill ls 'full/*'",
    ),
    (("ls", "s3://"), "s3:// does not name a bucket; write s3://BUCKET/PREFIX", None),
    (
        ("ls", "urls.txt", "m.csv"),
        "m.csv would be a PATTERN here, but it looks like a manifest",
        "to write it: fetchmill ls urls.txt -o m.csv; to list this name, use --include m.csv",
    ),
    (
        ("ls", "urls.txt", "two.csv", "lines.jsonl"),
        "two.csv would be a PATTERN here, but it is a file",
        "quote the glob so that fetchmill reads all files as one list",
    ),
    (
        ("ls", "urls.txt", "--state", "x"),
        "x has no job for urls.txt; to list a source, --state needs -o MANIFEST",
        None,
    ),
    (("ls", "urls.txt", "-o", "m.csv", "--long"), "--output cannot be combined with --long or --null", None),
    (("ls", "urls.txt", "--opt-out"), "--opt-out: not an option of ls: ", None),
    (("help", "listing"), "listing is not a help topic", "did you mean `fetchmill help listings`?"),
    ((*GET, "--workers", "8"), "--workers works only with --on ray", "--concurrency N limits the requests in flight"),
    ((*GET, "--all-rows"), "No such option '--all-rows'", "did you mean --keep-failed?"),
    ((*GET, "--retries", "8"), "No such option '--retries'", "did you mean --attempts?"),
    ((*GET, "--retrys", "8"), "No such option '--retrys'", "did you mean --attempts?"),
    ((*GET, "--url-col", "8"), "No such option '--url-col'", "did you mean --column?"),
    ((*GET, "--output-format", "tar"), "No such option '--output-format'", "did you mean --format?"),
    ((*GET, "--fromat", "tar"), "No such option '--fromat'", "did you mean --format?"),
    (
        (*GET, "--limit", "10"),
        "No such option '--limit'",
        "--concurrency N limits the requests in flight; --first N fetches only the first N targets",
    ),
    ((*GET, "--format", "webdataset"), "'webdataset' is not one of 'files', 'tar',", "did you mean tar?"),
    ((*GET, "--format", "ndjson"), "'ndjson' is not one of", "did you mean jsonl?"),
    ((*GET, "--next-page", "cursor"), "'cursor' is not one of 'marker',", "did you mean marker?"),
    ((*GET, "--retry-failed", "404"), "Got unexpected extra argument (404)", "did you mean --retry-failed=404?"),
    (
        ("get", "out", "urls.txt"),
        "the list out does not exist, but urls.txt is a file",
        "SOURCE comes first: fetchmill get urls.txt out",
    ),
    (
        ("get", "urls.txt", "out.parquet"),
        NOT_ONE_FILE,
        ONE_PARQUET_FILE,
    ),
    (("get", "urls.txt", "a/b.tar"), "a/b.tar: fetchmill writes a folder", "fetchmill get urls.txt a/b/ --format tar"),
    (
        ("get", "urls.txt", "b.JSONL"),
        "read as one (cat b/*.jsonl)",
        "fetchmill get urls.txt b/ --format jsonl; then, for one file: cat b/*.jsonl > b.JSONL",
    ),
    (
        ("get", "urls.txt", "b.warc.gz"),
        "b.warc.gz: fetchmill writes a folder",
        "fetchmill get urls.txt b/ --format warc; then, for one file: cat b/*.warc.gz > b.warc.gz",
    ),
    (
        ("get", "urls.txt", "b.zip"),
        "b.zip: fetchmill writes a folder",
        "fetchmill get urls.txt b/; then, for one file: zip -qr b.zip b/ -x 'b/.fetchmill/*'",
    ),
    (("get", "urls.txt", "out.parquet", "--format", "parquet"), NOT_ONE_FILE, ONE_PARQUET_FILE),
    (("get", "urls.txt"), "Missing argument 'DEST'. Give a folder, for example: fetchmill get urls.txt out/", None),
    (
        ("get", "urls.txt", "/proc/nothing"),
        NO_FOLDERS,
        None,
    ),
    (
        (*GET, "--state", "/proc/nothing"),
        NO_FOLDERS,
        None,
    ),
    ((*GET, "-j", "0"), "--concurrency must be a whole number of at least 1, or auto, not 0", None),
    ((*GET, "-j", "many"), "'many' is not understood", None),
    ((*GET, "--format", "tarr"), "'tarr' is not one of 'files', 'tar'", "did you mean tar?"),
    ((*GET, "--rate", "10/s"), "'10/s' is not a number", None),
    ((*GET, "--header", "X"), "a header must be 'Name: value'", None),
    (("get", "urls.txt", "full"), "full is not empty and holds no fetchmill job", None),
    (("get", "missing.txt", "out"), "cannot open the list missing.txt", None),
    (("get", "lines.jsonl", "out", "--column", "nope"), "has no column nope (its first values have u", None),
    (("get", "two.csv", "out", "--column", "3"), "has no column 3 (its first record is", None),
    ((*GET, "--timeout", "0"), "--total-timeout must be a number of seconds above 0, not 0.0", None),
    ((*GET, "--retry-status", "200"), "--retry-status must be an error status, 400 to 999, not 200", None),
    ((*GET, "--endpoint-url", "127.0.0.1:7070"), "--endpoint-url must be http://HOST[:PORT]", None),
    ((*GET, "--sidecar", "json"), "--sidecar needs --format tar", None),
    (
        (*GET, "--keep-columns", "x"),
        "is plain text and has no column x; if the list has a different format, give --list-format",
        None,
    ),
    ((*GET, "--shard-size", "100XB"), "'100XB' is not understood; write, for example, 64KiB", None),
    ((*GET, "--include", "re:("), "give a glob such as '*.jpg' or a regular expression such as re:...", None),
    ((*GET, "--output", "x"), "No such option '--output'", DESTINATION),
    ((*GET, "-o", "x"), "No such option '-o'", DESTINATION),
    ((*GET, "--resume"), "No such option '--resume'", RESUME),
    ((*GET, "--head", "5"), "No such option '--head'", "--first N fetches only the first N targets"),
    ((*GET, "-v"), "No such option '-v'", "progress is shown by default; --log-file FILE writes a log"),
    (
        ("get", "http://127.0.0.1:1", "out", "--bearer", "urls.txt"),
        "--bearer must be the token itself, not the name of a file ('urls.txt'); pass the contents of the file",
        "let fetchmill read the file: --bearer-command 'cat urls.txt'",
    ),
    (
        (*GET, "--bearer", "x", "--auth", "a:b"),
        "--auth, --bearer, --bearer-command, --netrc and an Authorization header",
        None,
    ),
    (
        (*GET, "--header", "Authorization: x"),
        "name the only origin that gets the field with --credentials-for https://HOST",
        None,
    ),
    (("get", "urls.txt", "urls.txt"), "urls.txt is not a folder; choose a new or empty folder", None),
    (("status", "nojob"), "nojob holds no fetchmill job; specify a folder written by `fetchmill get`", None),
    (("verify", "nojob"), "nojob holds no fetchmill job; specify a folder written by `fetchmill get`", None),
    (("retry", "nojob"), "nojob holds no fetchmill job; specify a folder written by `fetchmill get`", None),
    (("list", "urls.txt", "out.txt"), ".parquet, .csv or .jsonl (the last two also with .gz or .zst)", None),
    (("check", "urls.txt", "out.xlsx"), ".parquet, .csv or .jsonl (the last two also with .gz or .zst)", None),
    (("get", "ftp://x/y", "out"), "is not supported; use http:// or https://", None),
    (("sync", "urls.txt", "full"), "full: not empty and not created by sync", None),
    (("get", "gs://x/y", "out"), "is not supported; use http:// or https://", None),
    (("get", "s3:/x", "out"), "write s3://BUCKET/PREFIX", None),
    (("check", "http://127.0.0.1:9"), "is a URL, not a list", None),
    ((*GET, "--config", "fetchmill.toml"), "get has no option fromat (did you mean format?)", None),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Creates a folder with some files."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def files_without_jobs(folder: Path) -> list[Path]:
    """Returns the contents of a folder, without journals and their folder `out`."""
    return sorted(path for path in folder.rglob("*") if ".fetchmill" not in path.parts and path != folder / "out")


@pytest.mark.parametrize(("words", "message", "hint"), MISTAKES, ids=[" ".join(words) for words, _, _ in MISTAKES])
def test_user_mistake_gets_error_and_hint(
    words: tuple[str, ...], message: str, hint: str | None, run: Run, home: Path
) -> None:
    """The exit code is 2; at most an empty job is created, which the corrected command reuses."""
    before = files_without_jobs(home)

    ended = run(*words)

    assert (ended.code, ended.out) == (2, "")
    expected = rf"fetchmill: error: [^\n]*{re.escape(message)}[^\n]*\n"
    assert re.fullmatch(expected + (f"hint: {re.escape(hint)}\n" if hint else ""), ended.err), ended.err
    assert files_without_jobs(home) == before


def test_corrected_command_runs_in_same_folder(run: Run, home: Path) -> None:
    """The first command has stored nothing, so the job accepts another column."""
    assert run("get", "two.csv", "out", "--column", "3").code == 2
    assert (home / "out").exists()

    ended = run("get", "two.csv", "out", "--column", "1", "--allow-private", "--attempts", "1")

    assert ended.code == 3
    assert "refused 1" in ended.err


def test_error_event_contains_hint(run: Run) -> None:
    """Programs can read the hint from the event."""
    ended = run("get", "a", "b", "--retries", "3", "--json")

    assert '"hint": "did you mean --attempts?"' in ended.out


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("urls.txt", "out"), {"formt": "tar"}, r"get\(\) has no argument formt; did you mean format\?"),
        (("urls.txt", "out"), {"headers": "X: y"}, "headers must be a mapping of names to values, not a str"),
        (("urls.txt", None), {}, "dest must be a path, not None"),
        (("urls.txt", "out"), {"format": "parqet"}, "format must be one of .*, not 'parqet'; did you mean 'parquet'"),
        (("urls.txt", "out"), {"format": "webdataset"}, "not 'webdataset'; did you mean 'tar'"),
        (("urls.txt", "out"), {"format": ["tar"]}, r"format must be one of .*, not \['tar'\]$"),
        (("urls.txt", "out"), {"engine": "thread"}, "engine must be one of .*; did you mean 'threads'"),
        (("urls.txt", "out"), {"durability": "off"}, "durability must be one of power, process, not 'off'$"),
    ],
)
def test_python_error_uses_python_names(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str, home: Path
) -> None:
    """Options have their Python names without dashes."""
    assert home.exists()
    with pytest.raises((fetchmill.UsageError, TypeError), match=message):
        fetchmill.get(*arguments, **options)


def test_other_python_calls_suggest_nearest_value(home: Path) -> None:
    """`sync` says why it refuses null."""
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: fetchmill.sync("urls.txt", "out", format="tarr"), "did you mean 'tar'"),  # type: ignore[arg-type]
        (lambda: fetchmill.sync("urls.txt", "out", format="null"), "which discards objects"),
        (lambda: fetchmill.export("a", "b", format="json"), "format .* did you mean 'jsonl'"),  # type: ignore[arg-type]
        (lambda: fetchmill.export("a", "b", format="tar", durability="powr"), "durability .* did you mean 'power'"),  # type: ignore[arg-type]
    ]
    assert home.exists()
    for call, message in calls:
        with pytest.raises(fetchmill.UsageError, match=message):
            call()


def test_sync_help_lists_no_refused_format(run: Run) -> None:
    """This holds for `-h` and `--help`."""
    for option in ("-h", "--help"):
        assert "null" not in run("sync", option).out
    assert "null" in run("get", "--help").out


def test_summary_uses_singular_for_count_of_one(run: Run, tmp_path: Path, server: Callable[..., Server]) -> None:
    """This holds for rows of a check and lines of a dry run."""
    (tmp_path / "one.txt").write_text(f"{server(synthetic=1).url}/get/absent\n")
    (tmp_path / "bare.txt").write_text("example.org\n")

    checked = run("check", "one.txt", "--allow-private")
    listed = run("get", "bare.txt", "out", "--dry-run")

    assert re.search(r"^1 row in ", checked.out, re.MULTILINE), checked.out
    assert listed.err == (
        "0 targets would be fetched, 1 line without a URL, 0 left out\n"
        "hint: to build URLs from other values, use --template, for example --template 'https://{}'\n"
    )
