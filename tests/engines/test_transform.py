"""A function between fetching and storing: its results are stored, and dropped and failed replies are in the ledger."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

import fetchmill
import transforms
from conftest import format_options
from fetchmill._options.table import EngineName, Format
from fetchmill.testing import Fault, Server, synthetic_body
from raw_server import RawServer, reply
from stored import FORMATS, find_wrong, read_objects

Serve = Callable[..., Server]
Run = Callable[..., Any]
Function = Callable[[list[fetchmill.FetchedReply]], Any]

COUNT = 600


def names(count: int = COUNT) -> list[str]:
    """Returns the names of synthetic objects."""
    return [f"file-{number:012}" for number in range(count)]


def bodies(count: int = COUNT, size: int = 100) -> dict[str, bytes]:
    """Returns the bodies of a server of synthetic objects."""
    return {name: synthetic_body(name, size) for name in names(count)}


def uppers(count: int = COUNT) -> dict[str, bytes]:
    """Returns the results of `transforms.upper` for these objects."""
    return {name: body.upper() for name, body in bodies(count).items()}


def assert_balanced(report: fetchmill.Report | fetchmill.Status, listed: int = COUNT) -> None:
    """Checks that every target has its outcome."""
    assert report.listed == listed
    assert report.listed == report.fetched + report.absent + report.failed + report.skipped


def assert_proved(dest: Path) -> None:
    """Checks that `verify` finds nothing."""
    found = fetchmill.verify(dest)
    assert found.ok, found


def details(dest: Path) -> dict[str, str | None]:
    """Returns the names of failed targets with their details."""
    return {failure.name: failure.detail for failure in fetchmill.failures(dest)}


def processes_of(folder: Path) -> list[int]:
    """Returns the reported transform processes that still exist, except zombies."""
    return [int(path.name) for path in folder.iterdir() if is_running(int(path.name))]


def is_running(pid: int) -> bool:
    """Returns whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Waits until a condition is true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder where transform processes report their ids."""
    folder = tmp_path / "pids"
    folder.mkdir()
    monkeypatch.setenv("TRANSFORM_TEST_PIDS", str(folder))
    return folder


@pytest.fixture
def command_line(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Returns the environment of a command whose working folder has the functions."""
    (tmp_path / "transforms.py").write_text(Path(transforms.__file__).read_text())
    return environment


def test_transform_result_is_warc_resource_record(server: Serve, dest: Path) -> None:
    """It is not a response record, because no server has sent such a body."""
    fetchmill.get(server(synthetic=5).url, dest, format="warc", transform=transforms.twice_as_a_generator)

    records = []
    for path in dest.glob("*.warc.gz"):
        with path.open("rb") as file:
            records += [(record.rec_type, record.content_stream().read()) for record in ArchiveIterator(file)]
    kinds = {kind for kind, _ in records}
    assert kinds == {"warcinfo", "resource"}
    assert sorted(body for kind, body in records if kind == "resource") == sorted(
        body * 2 for body in bodies(5).values()
    )
    assert fetchmill.verify(dest).ok


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", FORMATS)
def test_transform_result_is_stored(server: Serve, dest: Path, format: Format) -> None:
    """The result is stored under the reply's name, and `bytes` counts it."""
    source = server(synthetic=COUNT)

    report = fetchmill.get(source.url, dest, format=format, transform=transforms.twice_as_a_generator)

    assert_balanced(report)
    assert (report.fetched, report.bytes) == (COUNT, 200 * COUNT)
    assert find_wrong(dest, format, {name: body * 2 for name, body in bodies().items()}) == []
    assert_proved(dest)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["files", "jsonl"])
@pytest.mark.parametrize("engine", ["threads", "processes", "asyncio", "combo"])
def test_python_engines_apply_transform(server: Serve, dest: Path, engine: EngineName, format: Format) -> None:
    """The transform runs next to each sink, even in a worker process."""
    source = server(synthetic=100)

    report = fetchmill.get(source.url, dest, engine=engine, format=format, transform=transforms.odd_only)

    assert_balanced(report, 100)
    assert (report.fetched, report.skipped) == (50, 50)
    assert_proved(dest)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", [*FORMATS, "null"])
def test_reply_dropped_by_transform_is_skipped(server: Serve, dest: Path, format: Format) -> None:
    """A dropped reply is not a failure, and is still dropped when the job runs again."""
    source = server(synthetic=COUNT)
    options: dict[str, Any] = {"format": format, "transform": transforms.odd_only}

    report = fetchmill.get(source.url, dest, **options)
    again = fetchmill.get(source.url, dest, **options)

    assert_balanced(report)
    assert (report.fetched, report.skipped, report.bytes) == (COUNT // 2, COUNT // 2, 100 * COUNT // 2)
    assert (again.skipped, again.already_finished, source.stats()["get"]) == (COUNT // 2, True, COUNT)
    assert list(fetchmill.failures(dest)) == []
    if format != "null":
        assert find_wrong(dest, format, {name: body for name, body in bodies().items() if int(name[-3:]) % 2}) == []
    assert_proved(dest)


def test_transform_option_loads_module_from_working_folder(
    server: Serve, dest: Path, run: Run, command_line: dict[str, str]
) -> None:
    """The function is given as `MODULE:FUNCTION`, and text that it prints is not taken for data."""
    source = server(synthetic=20)

    ended = run("get", source.url, dest, "--transform", "transforms:prints", "--json", env=command_line)

    assert (ended.code, find_wrong(dest, "files", uppers(20))) == (0, [])
    assert all(json.loads(line) for line in ended.out.splitlines())
    assert "said by the function" in ended.err


def test_transform_reply_has_all_metadata(raw: Callable[..., RawServer], dest: Path) -> None:
    """A reply has all its metadata, even if the format stores none of it."""
    fields = ("Content-Type: text/plain", 'ETag: "e"', "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT")
    site = raw({"/a%20b": reply(b"body", *fields)})

    fetchmill.get([(f"{site.url}/a%20b", "key")], dest, transform=transforms.facts)

    told = (dest / "key").read_text()
    assert told == f'key {site.url}/a%20b 200 4 text/plain "e" 2015-10-21 07:28:00+00:00'


def test_listed_object_has_url_in_transform(server: Serve, dest: Path) -> None:
    """An object of a listing has a URL in addition to its name."""
    source = server(synthetic=1)

    fetchmill.get(source.url, dest, transform=transforms.facts)

    assert (dest / names(1)[0]).read_text().split()[1] == f"{source.url}/get/{names(1)[0]}"


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_transform_dict_becomes_columns(server: Serve, dest: Path, format: Format) -> None:
    """Strings stay unchanged, numbers and bools are written as in JSON, and `body` is stored as the body."""
    source = server(synthetic=20)
    columns = ["text", "size", "share", "is_odd", "nothing"]

    report = fetchmill.get(source.url, dest, format=format, transform=transforms.columns, transform_columns=columns)

    assert_balanced(report, 20)
    with fetchmill.open(dest) as objects:
        for number, name in enumerate(names(20)):
            found = objects.record(name)
            expected = [f"é {name}", "100", "0.5", "true" if number % 2 else "false", None]
            assert found.columns == dict(zip(columns, expected, strict=True))
            assert found.body == (b"as text" if number % 2 else b"")
            assert found.url == f"{source.url}/get/{name}"
    assert_proved(dest)


def test_transform_columns_follow_list_columns(server: Serve, dest: Path, tmp_path: Path) -> None:
    """Both kinds of columns are stored, and a failed target keeps those of its list."""
    source = server(synthetic=20, faults=[Fault("status", status=404, match=names(20)[3])])
    rows = "".join(f"{source.url}/get/{name},{number}\n" for number, name in enumerate(names(20)))
    (tmp_path / "list.csv").write_text(f"url,rank\n{rows}")

    report = fetchmill.get(
        tmp_path / "list.csv",
        dest,
        format="jsonl",
        allow_private=True,
        keep_columns=["rank"],
        transform=transforms.columns,
        transform_columns=["size", "text", "share", "is_odd", "nothing"],
    )

    assert (report.fetched, report.absent) == (19, 1)
    with fetchmill.open(dest) as objects:
        found = objects.record(f"{source.url}/get/{names(20)[5]}").columns
    assert (found["rank"], found["size"], found["nothing"]) == ("5", "100", None)
    (absent,) = fetchmill.failures(dest)
    assert absent.columns["rank"] == "3"


def test_transform_batch_is_filled_up_to_maximum(server: Serve, dest: Path) -> None:
    """The largest batch has as many replies as allowed, and each reply gets a result."""
    source = server(synthetic=COUNT)

    fetchmill.get(source.url, dest, transform=transforms.sizes_of_batches, transform_batch=7, format="tar")

    sizes = [int(body) for _, body in read_objects(dest, "tar")]
    assert (len(sizes), max(sizes)) == (COUNT, 7)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", [*FORMATS, "null"])
@pytest.mark.parametrize("function", [transforms.small, transforms.large])
def test_transform_handles_bodies_of_any_size(server: Serve, dest: Path, format: Format, function: Function) -> None:
    """Bodies above 1 MiB are passed in files, and no file is left."""
    size = 1_500_000
    source = server(synthetic=6, size=size)

    report = fetchmill.get(source.url, dest, format=format, transform=function)

    made = dict(zip(names(6), function([_reply(name, body) for name, body in bodies(6, size).items()]), strict=True))
    expected = {name: body for name, body in made.items() if body is not None}
    assert_balanced(report, 6)
    assert (report.fetched, report.bytes) == (len(expected), sum(map(len, expected.values())))
    if format != "null":
        assert find_wrong(dest, format, expected) == []
    assert not (dest / ".fetchmill" / "stage").exists()
    assert_proved(dest)


def _reply(name: str, body: bytes) -> fetchmill.FetchedReply:
    return fetchmill.FetchedReply(name, "", 200, body, None, None, None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("function", "detail"),
    [
        (transforms.raises_for_seven, "LookupError: there is no seven"),
        (transforms.dies_for_seven, "the process ended (signal 9)"),
        (transforms.exits_for_seven, "the process ended (exit code 3)"),
    ],
)
def test_reply_crashing_transform_fails_alone(server: Serve, dest: Path, function: Function, detail: str) -> None:
    """The other replies of its batch are passed again. After the function is fixed, `retry_failed` fetches the rest."""
    source = server(synthetic=COUNT)

    report = fetchmill.get(source.url, dest, transform=function)

    assert_balanced(report)
    assert (report.fetched, report.failures) == (COUNT - 1, {"transform": 1})
    assert details(dest) == {names()[7]: detail}
    assert_proved(dest)
    mended = fetchmill.get(source.url, dest, transform=transforms.upper, retry_failed=True)
    assert (mended.fetched, mended.failed) == (COUNT, 0)
    assert find_wrong(dest, "files", uppers()) == []


def test_dropped_target_stays_dropped_in_retry_run(server: Serve, dest: Path) -> None:
    """Dropped targets stay dropped in a retry run; only failed and absent ones are fetched."""
    first = names()[1]
    source = server(synthetic=COUNT, faults=[Fault("status", status=404, match=first, times=1)])
    options: dict[str, Any] = {"transform": transforms.odd_only, "format": "jsonl"}
    fetchmill.get(source.url, dest, **options)

    report = fetchmill.get(source.url, dest, retry_failed=True, **options)

    assert_balanced(report)
    assert (report.fetched, report.skipped, report.absent) == (COUNT // 2, COUNT // 2, 0)
    assert source.stats()["get"] == COUNT + 1
    assert_proved(dest)


def test_invalid_transform_result_fails_only_its_target(server: Serve, dest: Path) -> None:
    """The failure has its reason; valid results are stored."""
    source = server(synthetic=20)

    report = fetchmill.get(source.url, dest, format="jsonl", transform=transforms.of_no_use, transform_columns=["size"])

    told = details(dest)
    assert (report.fetched, report.failed) == (12, 8)
    assert told[names()[0]] == "TypeError: a result must be bytes, None or a dict, not int"
    assert told[names()[3]] == "ValueError: transform_columns has no column 'other'"
    assert told[names()[7]] == "TypeError: the column 'size' must be a string, a number, a bool or None, not list"
    assert set(told) == {names()[number] for number in (0, 1, 3, 4, 5, 6, 7, 8)}


def test_dict_result_is_refused_for_files(server: Serve, dest: Path) -> None:
    """A dict is refused for files, which have no columns."""
    source = server(synthetic=3)

    fetchmill.get(source.url, dest, transform=transforms.columns)

    assert set(details(dest).values()) == {
        "TypeError: a result can be a dict only if transform_columns is set and the format has columns"
    }


@pytest.mark.parametrize(
    ("function", "detail"),
    [
        (transforms.too_few, "ValueError: the function returned 0 results for 1 replies"),
        (transforms.not_a_list, "TypeError: the function must return a list with one result per reply, not bytes"),
    ],
)
def test_invalid_transform_return_value_is_reported(server: Serve, dest: Path, function: Function, detail: str) -> None:
    """The detail of each failure is the exception's type and text."""
    fetchmill.get(server(synthetic=5).url, dest, transform=function)

    assert set(details(dest).values()) == {detail}


def test_transform_result_above_maximum_size_fails(server: Serve, dest: Path) -> None:
    """A result above the maximum body size fails."""
    source = server(synthetic=3)

    fetchmill.get(source.url, dest, transform=transforms.twice_as_a_generator, max_size=150)

    assert set(details(dest).values()) == {"the result has 200 bytes, but --max-size is 150"}


def test_callable_transform_keeps_its_state(server: Serve, dest: Path) -> None:
    """A callable object is pickled with its state."""
    fetchmill.get(server(synthetic=3).url, dest, transform=transforms.AsItIs(b"!"))

    assert (dest / names(1)[0]).read_bytes() == bodies(1)[names(1)[0]] + b"!"


def test_main_module_function_works_in_script_transform(server: Serve, dest: Path, tmp_path: Path) -> None:
    """As with `multiprocessing`, the script starts the job below its main guard."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, fetchmill
            def shout(replies):
                return [reply.body.upper() for reply in replies]
            if __name__ == "__main__":
                fetchmill.get(sys.argv[1], sys.argv[2], transform=shout)
            """
        )
    )

    subprocess.run([sys.executable, script, server(synthetic=10).url, dest], check=True, timeout=120)

    assert find_wrong(dest, "files", uppers(10)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shout = lambda replies: []\nget(shout)", "define functions in a module"),
        ("def shout(replies):\n    return []\nget(shout)", "in a notebook: %%writefile NAME.py"),
        ("get('nowhere:shout')", "ModuleNotFoundError"),
        ("get('os:shout')", "has no attribute 'shout'"),
        ("get('os:name')", "is not a function"),
    ],
)
def test_unimportable_transform_function_is_refused(server: Serve, dest: Path, text: str, message: str) -> None:
    """The error is one line. A program from standard input has no module that another process could import."""
    program = "import sys, fetchmill\nsys.modules['cloudpickle'] = None\n"
    program += "def get(function):\n    fetchmill.get(sys.argv[1], sys.argv[2], transform=function)\n"
    ended = subprocess.run(
        [sys.executable, "-", server(synthetic=3).url, dest],
        input=program + text,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    last = ended.stderr.splitlines()[-1]
    assert last.startswith("fetchmill.errors.UsageError: ")
    assert message in last


@pytest.mark.parametrize("text", ["lambda replies: [reply.body.upper() for reply in replies]", "shout"])
def test_interactive_transform_function_is_sent_by_value(server: Serve, dest: Path, text: str) -> None:
    """The function is sent with its dependencies. A lambda works, too."""
    program = f"""
import sys, fetchmill

def upper(body):
    return body.upper()

def shout(replies):
    return [upper(reply.body) for reply in replies]

fetchmill.get(sys.argv[1], sys.argv[2], transform={text})
"""
    command = [sys.executable, "-", server(synthetic=10).url, str(dest)]
    subprocess.run(command, input=program, text=True, check=True, timeout=120)

    assert find_wrong(dest, "files", uppers(10)) == []


def test_returned_exception_does_not_repeat_transform_call(server: Serve, dest: Path) -> None:
    """A returned exception is a result. Only a raised exception causes another call."""
    report = fetchmill.get(server(synthetic=20).url, dest, transform=transforms.refuse_the_seventh)

    assert (report.fetched, report.failures) == (19, {"transform": 1})
    assert details(dest) == {"file-000000000007": "ValueError: not this one"}
    assert report.bytes == 19


def test_transform_job_without_main_guard_is_refused(server: Serve, dest: Path, tmp_path: Path) -> None:
    """Without the guard, each transform process would start another job."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, fetchmill\ndef shout(replies):\n    return []\n"
        "fetchmill.get(sys.argv[1], sys.argv[2], transform=shout)\n"
    )

    ended = subprocess.run(
        [sys.executable, script, server(synthetic=3).url, dest],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert "__name__ == '__main__'" in ended.stderr.splitlines()[-1]


def test_job_ends_when_transform_process_fails_to_start(server: Serve, dest: Path, run: Run) -> None:
    """The job ends after three processes have ended before they were ready."""
    (dest.parent / "dying.py").write_text(
        "import multiprocessing, os\n"
        "if multiprocessing.current_process().name == 'fetchmill-transform':\n    os._exit(4)\n"
        "def function(replies):\n    return []\n"
    )

    ended = run("get", server(synthetic=3).url, dest, "--transform", "dying:function")

    assert ended.code == 2
    assert "the process ended (exit code 4) before it was ready (3 attempts)" in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transform": "no_place"}, "MODULE:FUNCTION"),
        ({"transform": 17}, "must be a function"),
        ({"transform": transforms.is_a_coroutine}, "plain function"),
        ({"transform_columns": ["a"]}, "needs a transform"),
        ({"transform": transforms.upper, "transform_columns": ["a"]}, "needs --format parquet or jsonl"),
        ({"transform": transforms.upper, "transform_columns": ["body"], "format": "jsonl"}, "--transform-columns: "),
        ({"transform": transforms.upper, "transform_columns": ["a", "a"], "format": "jsonl"}, "given twice"),
        ({"transform": transforms.upper, "transform_batch": 0}, "transform_batch"),
    ],
)
def test_contradictory_transform_options_are_refused(dest: Path, options: dict[str, Any], message: str) -> None:
    """The error comes before anything is created."""
    with pytest.raises(fetchmill.UsageError, match=message):
        fetchmill.get("http://127.0.0.1:1", dest, **options)

    assert not dest.exists()


def test_transform_and_columns_are_part_of_job_identity(server: Serve, dest: Path, tmp_path: Path) -> None:
    """A change to the function itself counts as a fix and continues the same job."""
    source = server(synthetic=20)
    fetchmill.get(source.url, dest, transform=transforms.upper)
    fetchmill.get(source.url, tmp_path / "plain")

    with pytest.raises(fetchmill.UsageError, match="its transform is a function, but this command sets none"):
        fetchmill.get(source.url, dest)
    with pytest.raises(fetchmill.UsageError, match="its transform is not set, not a function"):
        fetchmill.get(source.url, tmp_path / "plain", transform=transforms.upper)
    assert fetchmill.get(source.url, dest, transform=transforms.odd_only).already_finished


def test_verify_sample_ignores_transformed_objects(server: Serve, dest: Path) -> None:
    """Transformed objects differ from their origin on purpose."""
    source = server(synthetic=5)
    fetchmill.get(source.url, dest, transform=transforms.upper)

    with pytest.raises(fetchmill.UsageError, match="transformed"):
        fetchmill.verify(dest, sample=3)


def test_damaged_object_is_transformed_again_after_repair(server: Serve, dest: Path, tmp_path: Path) -> None:
    """The repair makes the object pending again. Columns of the function are not taken for list columns."""
    source = server(synthetic=20)
    (tmp_path / "list.txt").write_text("".join(f"{source.url}/get/{name}\n" for name in names(20)))
    options: dict[str, Any] = {
        "format": "jsonl",
        "threads": 1,  # one shard
        "allow_private": True,
        "transform": transforms.columns,
        "transform_columns": ["text", "size", "share", "is_odd", "nothing"],
    }
    fetchmill.get(tmp_path / "list.txt", dest, **options)
    (shard,) = dest.glob("*.jsonl")
    shard.write_bytes(shard.read_bytes().replace(b"as text", b"at text", 1))

    found = fetchmill.verify(dest, repair=True)
    report = fetchmill.get(tmp_path / "list.txt", dest, **options)

    assert (found.repaired, found.without_url) == (True, 0)
    assert report.fetched == 20
    assert source.stats()["get"] == 21
    assert_proved(dest)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "parquet", "jsonl"])
def test_killed_transform_job_stores_each_object_once(
    server: Serve, dest: Path, run: Run, start: Run, pids: Path, command_line: dict[str, str], format: str
) -> None:
    """Dropped targets stay in the ledger, and the kill leaves no process."""
    count = 6000
    source = server(synthetic=count)
    environment = command_line | {"TRANSFORM_TEST_PIDS": str(pids)}
    command = ("get", source.url, dest, *format_options(format), "--commit-window", "50ms", "--transform-batch", 40)
    for share in (0.2, 0.6):
        process = start(*command, "--transform", "transforms:slow", env=environment)
        wait_until(lambda share=share: fetchmill_settled(dest) > share * count)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not processes_of(pids))

    ended = run(*command, "--transform", "transforms:slow", env=environment)

    status = fetchmill.status(dest)
    assert (ended.code, processes_of(pids)) == (0, [])
    assert_balanced(status, count)
    assert (status.fetched, status.skipped) == (count // 3 * 2, count // 3)
    kept = {name: body.upper() for number, (name, body) in enumerate(bodies(count).items()) if number % 3}
    assert find_wrong(dest, format, kept) == []
    assert_proved(dest)


def fetchmill_settled(dest: Path) -> int:
    """Returns the number of targets with a durable outcome; 0 before there is a journal."""
    try:
        status = fetchmill.status(dest)
    except fetchmill.FetchmillError:
        return 0
    return status.fetched + status.skipped


def hanging(start: Run, server: Serve, dest: Path, pids: Path, command_line: dict[str, str]) -> subprocess.Popen[str]:
    """Starts a job whose function hangs."""
    environment = command_line | {"TRANSFORM_TEST_PIDS": str(pids)}
    process: subprocess.Popen[str] = start(
        "get", server(synthetic=50).url, dest, "--transform", "transforms:hangs", env=environment
    )
    wait_until(lambda: processes_of(pids))
    return process


def test_hung_transform_does_not_delay_stop(
    start: Run, server: Serve, dest: Path, pids: Path, command_line: dict[str, str]
) -> None:
    """The drain ends after 3 s, the checkpoint is written, and the replies in the function are fetched again."""
    process = hanging(start, server, dest, pids, command_line)

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)

    assert (process.returncode, processes_of(pids)) == (130, [])
    assert "without a last checkpoint" not in said
    assert fetchmill.status(dest).pending == 50


def test_hung_transform_process_ends_with_job(
    start: Run, server: Serve, dest: Path, pids: Path, command_line: dict[str, str]
) -> None:
    """The process ends even if the job is killed."""
    process = hanging(start, server, dest, pids, command_line)

    process.send_signal(signal.SIGKILL)
    process.wait()

    wait_until(lambda: not processes_of(pids))


def test_interrupted_transform_call_leaves_no_process(server: Serve, dest: Path, pids: Path) -> None:
    """In Python, `KeyboardInterrupt` is raised after the drain."""
    source = server(synthetic=50)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            fetchmill.get(source.url, dest, transform=transforms.hangs)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    wait_until(lambda: not processes_of(pids))
    assert fetchmill.status(dest).pending == 50


def test_endless_iterable_can_be_transformed(server: Serve, dest: Path) -> None:
    """An endless iterable uses the same code as a list."""
    source = server(synthetic=COUNT)

    def urls() -> Iterator[tuple[str, str]]:
        for name in names():
            yield f"{source.url}/get/{name}", name

    report = fetchmill.get(urls(), dest, format="parquet", transform=transforms.odd_only)

    assert_balanced(report)
    assert (report.fetched, report.skipped) == (COUNT // 2, COUNT // 2)
    assert_proved(dest)
