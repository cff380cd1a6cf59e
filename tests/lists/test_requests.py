"""Methods, bodies and headers from a list or from `fetchmill.Request`, as a server receives them."""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill._job.get import GetItem
from fetchmill.errors import UsageError
from lists import write_list
from methods_server import MethodsServer
from stored import read_objects

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]

HOSTILE = ['a"b\\c', "x\r\nX-Evil: 1", "}, {", "a&b=c d%20+", "näme ☃", "{id}", '","admin":true,"x":"', "\t"]


@pytest.fixture
def methods() -> Iterator[MethodsServer]:
    """Starts a server that records its requests."""
    with MethodsServer() as server:
        yield server


def rows(count: int) -> list[dict[str, str]]:
    """Returns rows for a template with one URL."""
    return [{"id": str(index), "text": f"t{index}"} for index in range(count)]


def get(run: Run, listed: Path, dest: Path, *options: object) -> Any:  # noqa: ANN401 - as `run`
    """Runs a job with a list, in a format that allows a URL many times."""
    return run("get", listed, dest, "--format", "jsonl", "--allow-private", *options)


def test_each_row_is_posted_once_with_its_own_body(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path
) -> None:
    """All rows have one URL, and each JSON body has the row's number and string with their types."""
    listed = write_list(tmp_path, rows(300), "csv")
    template = '{"id": {id}, "text": "<{text}>", "empty": {}}'
    done = get(run, listed, dest, "--template", methods.url + "/x", "--data-json", template)

    assert done.code == 0, done.err
    assert {request.method for request in methods.received} == {"POST"}
    assert {request.fields["content-type"] for request in methods.received} == {"application/json"}
    bodies = sorted((json.loads(request.body) for request in methods.received), key=lambda body: body["id"])
    assert bodies == [{"id": index, "text": f"<t{index}>", "empty": {}} for index in range(300)]
    assert len(list(read_objects(dest, "jsonl"))) == 300


@pytest.mark.parametrize("option", ["--data", "--data-json"])
def test_hostile_value_stays_within_its_json_field(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, option: str
) -> None:
    """Values of the list arrive unchanged in the body, whatever they contain."""
    listed = write_list(tmp_path, [{"id": str(index), "text": value} for index, value in enumerate(HOSTILE)], "jsonl")
    data = "id={id}&text={text}" if option == "--data" else '{"id": "{id}", "text": "{text}"}'
    done = get(run, listed, dest, "--template", methods.url + "/{id}x", option, data)

    assert done.code == 0, done.err
    found = {}
    for request in methods.received:
        body = request.values()
        assert sorted(body) == ["id", "text"]
        found[int(body["id"])] = body["text"]
        assert "x-evil" not in request.fields
    assert [found[index] for index in range(len(HOSTILE))] == HOSTILE


@pytest.mark.parametrize("column", ["{v}", "{v!r}"])
def test_row_headers_refuse_control_characters(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, column: str
) -> None:
    """Row headers go to the template's origin. A line whose value has a line end fails without a request."""
    smuggled = "x\r\n\r\nDELETE /admin HTTP/1.1\r\nHost: internal\r\nX: y"
    values = ["plain", "x\r\nX-Evil: 1", "nul\0", smuggled, "{braces}"]
    listed = write_list(tmp_path, [{"id": str(index), "v": value} for index, value in enumerate(values)], "jsonl")
    template = ("--template", methods.url + "/{id}x?v={v}")
    done = get(run, listed, dest, *template, "--header", f"X-Value: <{column}>", "--header", 'X-Json: {"a": 1}')

    assert done.code == 3, done.err
    assert {(request.method, request.fields["x-value"]) for request in methods.received} == {
        ("GET", "<plain>"),
        ("GET", "<{braces}>"),
    }
    assert {request.fields["x-json"] for request in methods.received} == {'{"a": 1}'}
    failures = run("status", dest, "--failures", "--json").out
    assert "control characters" in failures


def test_row_headers_need_named_origin(run: Run, methods: MethodsServer, dest: Path, tmp_path: Path) -> None:
    """A list may lead anywhere, so possibly secret row headers are refused unless an origin is named."""
    other = MethodsServer()
    with other:
        listed = write_list(tmp_path, [{"url": server.url + "/x", "v": "1"} for server in (methods, other)], "csv")
        refused = get(run, listed, dest, "--header", "X-Value: k{v}")
        assert refused.code == 2
        assert "--credentials-for" in refused.err
        done = get(run, listed, dest, "--header", "X-Value: k{v}", "--credentials-for", methods.url)
        assert done.code == 0, done.err
        assert methods.received[0].fields["x-value"] == "k1"
        assert "x-value" not in other.received[0].fields


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", ["/503", "/error", "/broken", "/429"])
@pytest.mark.parametrize(
    ("options", "may"),
    [
        ((), True),
        (("--method", "POST"), False),
        (("--method", "PUT"), False),
        (("--data", "a=b", "--idempotent"), True),
    ],
)
def test_only_idempotent_requests_are_retried(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, path: str, options: tuple[str, ...], may: bool
) -> None:
    """After a 503, a 500 or a broken connection, only idempotent requests are sent again."""
    listed = write_list(tmp_path, [{"url": methods.url + path}])
    patience = ("--attempts", 2) if path not in {"/429", "/503"} else ("--give-up-after", "3s")
    done = get(run, listed, dest, *options, *patience)

    assert done.code == (3 if not may or "--attempts" in patience else 5), done.err
    posts = [request for request in methods.received if not may or request.method != "GET" or not options]
    assert len(posts) > 1 if may else len(posts) == 1


def test_redirected_post_follows_same_rules_as_stream(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path
) -> None:
    """A 303 makes it a GET, and a 307 keeps it. Another origin gets no possibly secret header."""
    with MethodsServer() as other:
        paths = ["/303", "/307", f"/to/{other.url}/x"]
        listed = write_list(tmp_path, [{"url": methods.url + path, "id": path} for path in paths], "csv")
        options = ("--data", "a={id}", "--header", "X-Id: {id}", "--credentials-for", methods.url)
        done = get(run, listed, dest, *options, "--key-column", "id")

        assert done.code == 0, done.err
        followed = [(request.method, len(request.body)) for request in methods.received if request.path == "/x"]
        assert sorted(followed) == [("GET", 0), ("POST", len("a=%2F307"))]
        assert [(request.method, "x-id" in request.fields) for request in other.received] == [("GET", False)]


def test_another_body_is_another_job(run: Run, methods: MethodsServer, dest: Path, tmp_path: Path) -> None:
    """Another body is refused as another job, because the stored objects would not match. The body is not shown."""
    listed = write_list(tmp_path, rows(3), "csv")
    template = ("--template", methods.url + "/{id}x")
    assert get(run, listed, dest, *template, "--data", "secret={text}").code == 0

    refused = get(run, listed, dest, *template, "--data", "other={text}")
    assert refused.code == 2
    assert "request" in refused.err
    assert "secret=" not in refused.err
    assert get(run, listed, dest, *template, "--data", "secret={text}").code == 0
    assert len(methods.received) == 3


def test_retry_run_sends_same_request(run: Run, methods: MethodsServer, dest: Path, tmp_path: Path) -> None:
    """A failure keeps the method, the body and the headers for a retry run."""
    listed = write_list(tmp_path, [{"id": "error", "text": "t"}], "csv")
    options = ("--template", methods.url + "/{id}", "--data", "a={text}", "--header", "X-Id: {id}")
    assert get(run, listed, dest, *options).code == 3
    assert get(run, listed, dest, *options, "--retry-failed").code == 3

    first, second = methods.received
    assert (first.method, first.body, first.fields["x-id"]) == ("POST", b"a=t", "error")
    assert second == first


def test_killed_job_does_not_repeat_posts(start: Start, run: Run, dest: Path, tmp_path: Path) -> None:
    """Over five kills, each POST is received at most once. Those in flight have failed, with the reason."""
    count = 1500
    listed = write_list(tmp_path, rows(count), "csv")
    with MethodsServer(delay=0.01) as server:
        command: tuple[object, ...] = (
            "get",
            listed,
            dest,
            "--format",
            "jsonl",
            "--allow-private",
            "-j",
            8,
            "--commit-window",
            "200ms",
        )
        command += ("--template", server.url + "/{id}x", "--data", "id={id}")
        for kill in range(1, 6):
            process = start(*command)
            until = time.monotonic() + 10
            while len(server.received) < kill * 60 and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
        done = run(*command)
        received = Counter(request.body for request in server.received)
        report = json.loads(run("status", dest, "--json").out)

    assert done.code == 3, done.err
    assert max(received.values()) == 1
    assert report["listed"] == count == report["fetched"] + report["failed"]
    assert len(list(read_objects(dest, "jsonl"))) == report["fetched"]
    assert "worker" in run("status", dest, "--failures").out


def test_interrupted_job_posts_everything_once(start: Start, run: Run, dest: Path, tmp_path: Path) -> None:
    """After SIGINT, requests in flight finish before the run ends, and the next run sends the others."""
    listed = write_list(tmp_path, rows(300), "csv")
    with MethodsServer(delay=0.01) as server:
        command: tuple[object, ...] = ("get", listed, dest, "--format", "jsonl", "--allow-private", "-j", 8)
        command += ("--template", server.url + "/{id}x", "--data", "id={id}")
        process = start(*command)
        while len(server.received) < 50 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert run(*command).code == 0
        received = Counter(request.body for request in server.received)

    assert len(received) == 300
    assert set(received.values()) == {1}


def test_get_accepts_python_requests(methods: MethodsServer, tmp_path: Path) -> None:
    """Requests have their own method, body and headers, and are mixed with URLs.

    They are sent again only for other items.
    """
    items: list[GetItem] = [
        fetchmill.Request(methods.url + "/a", "POST", {"X-Id": "1"}, b"\0\xff"),
        methods.url + "/b",
        (fetchmill.Request(methods.url + "/a", "PUT", body=b"2"), "named"),
        fetchmill.Request(methods.url + "/h", "HEAD"),
    ]
    report = fetchmill.get(items, tmp_path / "out", format="jsonl")

    assert (report.fetched, report.failed) == (4, 0)
    seen = {(request.method, request.path, request.body) for request in methods.received}
    assert seen == {("POST", "/a", b"\0\xff"), ("GET", "/b", b""), ("PUT", "/a", b"2"), ("HEAD", "/h", b"")}
    stored = dict(read_objects(tmp_path / "out", "jsonl"))
    assert stored["named"] == b"xxxxx"
    assert fetchmill.get(items, tmp_path / "out", format="jsonl").already_finished


@pytest.mark.parametrize("options", [{"engine": "threads"}, {"engine": "asyncio"}, {"format": "warc"}])
def test_unsupported_commands_refuse_request_options(
    methods: MethodsServer, tmp_path: Path, options: dict[str, Any]
) -> None:
    """The error is one line, and nothing is sent."""
    item = fetchmill.Request(methods.url + "/a", "POST")
    with pytest.raises(UsageError, match=r"native|jsonl"):
        fetchmill.get([item], tmp_path / "out", **{"format": "jsonl", **options})
    with pytest.raises(UsageError, match=r"native|another format"):
        fetchmill.get([methods.url], tmp_path / "out2", method="POST", **{"format": "jsonl", **options})
    assert methods.received == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--data", "a={nothing}"), "nothing"),
        (("--data", "{"), "--data has an unpaired brace"),
        (("--data-json", '{"a": }'), "not JSON"),
        (("--data", "a", "--data-json", "1"), "cannot be combined"),
        (("--method", "TRACE"), "cannot use the method"),
        (("--data", "<a>{id}</a>", "--header", "Content-Type: text/xml"), "{name!r}"),
    ],
)
def test_invalid_request_rows_get_one_line_error(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    """The exit code is 2, before anything is sent."""
    listed = write_list(tmp_path, rows(2), "csv")
    refused = get(run, listed, dest, "--template", methods.url + "/{id}x", *options)

    assert refused.code == 2
    assert said in refused.err
    assert methods.received == []


def test_files_of_one_url_need_names(run: Run, methods: MethodsServer, dest: Path, tmp_path: Path) -> None:
    """Files of one URL need names: otherwise, all replies but the first would be discarded."""
    listed = write_list(tmp_path, rows(2), "csv")
    options = ("--allow-private", "--template", methods.url + "/x", "--data", "a={id}")
    refused = run("get", listed, dest, *options)

    assert (refused.code, methods.received) == (2, [])
    assert "--names seq" in refused.err
    assert run("get", listed, dest, *options, "--key-column", "id").code == 0
    assert sorted(name for name, _ in read_objects(dest, "files")) == ["0", "1"]
