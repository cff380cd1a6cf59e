"""Values of a list in bodies and header fields: each stays in its place, and an invalid value fails its line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from methods_server import MethodsServer

Run = Callable[..., Any]

# In text, a missing column fails the row; as a JSON value, it is null.
ROWS: list[dict[str, Any]] = [
    {"id": 0, "text": "a\"b'c\\d", "any": 1.5},
    {"id": 1, "text": "line\r\nline\u2028\u0000\u007f", "any": None},
    {"id": 2, "text": "{{id}} {id} }} {", "any": True},
    {"id": 3, "text": "\U0001f600 näme ☃", "any": "words"},
    {"id": 4, "text": "", "any": {"a": 1}},
    {"id": 5, "any": [1, 2]},
    {"id": 6, "text": None, "any": '1, "x": 2'},
    {"id": 7, "text": "%00&a=b+c;", "any": "-0.5e3"},
]
TEXTS = {row["id"]: row.get("text") for row in ROWS}


@pytest.fixture
def methods() -> Iterator[MethodsServer]:
    """Starts a server that records its requests."""
    with MethodsServer() as server:
        yield server


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """Writes the rows as JSON lines."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def get(run: Run, listed: Path, dest: Path, *options: object) -> Any:  # noqa: ANN401 - as `run`
    """Runs a job with a list, in a format that allows a URL many times."""
    return run("get", listed, dest, "--format", "jsonl", "--allow-private", *options)


def details(dest: Path) -> dict[str, str]:
    """Returns the details of failures by line."""
    assert {failure.kind for failure in fetchmill.failures(dest)} <= {"url"}
    return {failure.name: failure.detail or "" for failure in fetchmill.failures(dest)}


@pytest.mark.parametrize("option", ["--data", "--data-json"])
def test_any_text_is_sent_unchanged(run: Run, methods: MethodsServer, dest: Path, listed: Path, option: str) -> None:
    """Text is sent unchanged. A line without text, or with null, fails and is not posted as an empty one."""
    template = "id={id}&text={text}&b={{}}" if option == "--data" else '{"id": {id}, "text": "{text}", "b": "{{}}"}'
    done = get(run, listed, dest, "--template", methods.url + "/x", option, template)

    assert done.code == 3, done.err
    found = {}
    for request in methods.received:
        body = request.values()
        assert (set(body), body["b"]) == ({"id", "text", "b"}, "{}")
        found[int(body["id"])] = body["text"]
    assert found == {number: text for number, text in TEXTS.items() if text is not None}
    assert all("has no column text" in detail for detail in details(dest).values())
    assert len(details(dest)) == 2


def test_json_scalars_are_inserted_as_plain_text(run: Run, methods: MethodsServer, dest: Path, listed: Path) -> None:
    """Numbers, true, false and null are inserted as they are.

    Strings, objects and lists fail their lines without `!r`.
    """
    template = ("--template", methods.url + "/x", "--data-json")
    assert get(run, listed, dest, *template, '{"id": {id}, "any": {any}}').code == 3

    found = {body["id"]: body["any"] for body in (json.loads(request.body) for request in methods.received)}
    assert found == {0: 1.5, 1: None, 2: True, 7: -500.0}
    assert all("is not a number, true, false or null" in detail for detail in details(dest).values())
    methods.received.clear()

    raw = dest.with_name("raw")
    assert get(run, listed, raw, *template, '{"id": {id}, "any": {any!r}}').code == 3
    found = {body["id"]: body["any"] for body in (json.loads(request.body) for request in methods.received)}
    assert (found[4], found[5]) == ({"a": 1}, [1, 2])
    assert any("--data-json is not JSON" in detail for detail in details(raw).values())


def test_non_utf8_values_fail_their_line(run: Run, methods: MethodsServer, dest: Path, tmp_path: Path) -> None:
    """A value that is not UTF-8 fails its line, in a body and in a header field."""
    listed = tmp_path / "rows.csv"
    listed.write_bytes(b"id,text\n1,a\n2,\xff\xfe\n")
    for index, options in enumerate([("--data", "{text}"), ("--header", "X-Text: {text}")]):
        folder = dest.with_name(f"out{index}")
        assert get(run, listed, folder, "--template", methods.url + "/{id}x", *options).code == 3
        assert [detail for detail in details(folder).values() if "not UTF-8" in detail] == list(
            details(folder).values()
        )
    assert [request.path for request in methods.received] == ["/1x", "/1x"]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\0", "a\x7f", None])
def test_value_with_line_end_is_refused_in_header(
    run: Run, methods: MethodsServer, dest: Path, tmp_path: Path, value: str | None
) -> None:
    """A line with such a value, or without a value, fails without a request."""
    listed = tmp_path / "rows.jsonl"
    listed.write_text(json.dumps({"id": 1, "v": "fine: {x}\t\u00e9"}) + "\n" + json.dumps({"id": 2, "v": value}) + "\n")
    done = get(run, listed, dest, "--template", methods.url + "/x{id}", "--header", "X-V: {v}")

    assert done.code == 3, done.err
    assert [request.path for request in methods.received] == ["/x1"]
    assert methods.received[0].fields["x-v"].encode("latin-1").decode() == "fine: {x}\t\u00e9"
    (detail,) = details(dest).values()
    assert "control characters" in detail or "has no column v" in detail


@pytest.mark.parametrize("name", ["Content-Length", "Transfer-Encoding", "Host", "Connection"])
def test_connection_header_fields_are_refused(
    run: Run, methods: MethodsServer, dest: Path, listed: Path, name: str
) -> None:
    """Fields that frame the message are refused, because one request could end inside another."""
    done = get(run, listed, dest, "--template", methods.url + "/x", "--data", "a", "--header", f"{name}: {{id}}")
    assert (done.code, methods.received) == (2, [])
    assert name.lower() in done.err.lower()


def test_body_size_is_limited(run: Run, methods: MethodsServer, dest: Path, tmp_path: Path) -> None:
    """The limit applies to lines, to items of a program, and to a job."""
    listed = tmp_path / "rows.jsonl"
    rows = [{"id": index, "text": "x" * length} for index, length in enumerate([65_000, 66_000])]
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    template = ("--template", methods.url + "/x", "--data-json")
    assert get(run, listed, dest, *template, '"{text}"').code == 3
    assert [len(request.body) for request in methods.received] == [65_002]
    assert ["64 KiB" in detail for detail in details(dest).values()] == [True]

    items = [fetchmill.Request(methods.url, "POST", body=b"x" * length) for length in (65_000, 66_000)]
    assert fetchmill.get(items, tmp_path / "items", format="jsonl").failed == 1
    assert ["64 KiB" in detail for detail in details(tmp_path / "items").values()] == [True]

    template = ("--template", methods.url + "/{id}x", "--data-json")
    refused = get(run, listed, tmp_path / "common", *template, json.dumps("x" * 66_000))
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "64 KiB" in refused.err


def test_empty_body_has_content_length(run: Run, methods: MethodsServer, dest: Path, listed: Path) -> None:
    """An empty body has a length, so that the server does not wait for more."""
    assert get(run, listed, dest, "--template", methods.url + "/{id}x", "--method", "POST").code == 0
    assert {(request.method, request.body, request.fields["content-length"]) for request in methods.received} == {
        ("POST", b"", "0")
    }


def test_bucket_objects_refuse_bodies_and_methods(run: Run, dest: Path, tmp_path: Path) -> None:
    """Objects of buckets refuse bodies and methods, which would not match the bucket's name."""
    listed = tmp_path / "list.txt"
    listed.write_text("s3://bucket/key\n")
    options = ("--endpoint-url", "http://127.0.0.1:9", "--no-sign-request", "--method", "DELETE")
    assert get(run, listed, dest, *options).code == 3
    assert ["plain GET" in detail for detail in details(dest).values()] == [True]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("http://127.0.0.1:9", ("--data", "a"), "lists of URLs"),
        ("s3://bucket", ("--method", "POST"), "lists of URLs"),
        ("rows.jsonl", ("--data", "a", "--engine", "threads"), "--engine native"),
        ("rows.jsonl", ("--data-json", "{}", "--engine", "asyncio"), "--engine native"),
        ("rows.jsonl", ("--header", "X-Id: {id}", "--engine", "sync", "--credentials-for", "http://a"), "native"),
        ("rows.jsonl", ("--method", "PO ST"), "cannot use the method"),
        ("rows.jsonl", ("--method", ""), "non-empty"),
        ("rows.jsonl", ("--data", ""), "non-empty"),
        ("rows.jsonl", ("--data-json", "{id}}"), "not JSON"),
        ("rows.jsonl", ("--data", b"\xff"), "UTF-8"),
    ],
)
def test_invalid_request_options_get_one_line_error(
    run: Run, listed: Path, dest: Path, source: str, options: tuple[object, ...], said: str
) -> None:
    """The error comes before anything is sent or written."""
    texts = [option.decode("utf-8", "surrogateescape") if isinstance(option, bytes) else option for option in options]
    refused = get(run, listed if source == "rows.jsonl" else Path(source), dest, *texts)
    if source != "rows.jsonl":
        refused = run("get", source, dest, "--format", "jsonl", *texts)

    assert (refused.code, len(refused.err.strip().splitlines())) == (2, 1), refused.err
    assert said in refused.err
    assert not dest.exists()


def test_check_sends_braces_verbatim(run: Run, methods: MethodsServer, tmp_path: Path) -> None:
    """Requests of `check` differ only by URL, so braces are not placeholders."""
    listed = tmp_path / "list.txt"
    listed.write_text(methods.url + "/x\n")
    options = ("--header", "X-Id: {id}", "--credentials-for", methods.url, "--allow-private")
    done = run("check", listed, tmp_path / "rows.jsonl", *options)

    assert done.code == 0, done.err
    assert methods.received[0].fields["x-id"] == "{id}"
