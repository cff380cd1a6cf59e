"""Retried statuses: those of `--retry-status`, and 403 with `Retry-After`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import Ended
from raw_server import Behaviour, RawServer, in_turn, mirror, page, reply

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]
Tree = Callable[..., dict[str, bytes | None]]

DENIED = "999 Request denied"
FORBIDDEN = "403 Forbidden"


def once(status: str, *fields: str) -> Behaviour:
    """Returns the status first, and then the requested object."""
    return in_turn(reply(b"no", *fields, status=status), reply(b"yes"))


@pytest.mark.parametrize("engine", ["native", "threads"])
def test_named_statuses_and_403_with_retry_after_are_retried(
    engine: str, run: Run, raw: Raw, dest: Path, tree: Tree
) -> None:
    """A 403 without `Retry-After` is final: the server does not say that it will send the object later."""
    scripted = {"a": once(DENIED), "b": once(FORBIDDEN), "c": once(FORBIDDEN, "Retry-After: 1")}
    server = raw(mirror("abc", scripted))

    ended = run("get", server.url, dest, "--retry-status", "999", "--engine", engine)

    assert ended.code == 3, ended.err
    assert tree(dest) == {"a": b"yes", "c": b"yes"}
    assert [(each.name, each.kind, each.status) for each in fetchmill.failures(dest)] == [("b", "status", 403)]
    assert [server.count(f"/get/{name}") for name in "abc"] == [2, 1, 2]


@pytest.mark.parametrize("command", ["get", "sync", "list"])
def test_all_commands_retry_pages_and_objects_by_status(command: str, run: Run, raw: Raw, tmp_path: Path) -> None:
    """After the last attempt, a status has its usual meaning: a 404 is absent, and a 403 is failed."""
    routes = mirror("abc", {"a": once(DENIED), "b": reply(status="404 Not Found"), "c": reply(status=FORBIDDEN)})
    routes["/list"] = in_turn(reply(status=DENIED), page("abc"))
    server = raw(routes)
    out = tmp_path / ("rows.jsonl" if command == "list" else "out")
    words = ["--retry-status", "999", "--retry-status", "404", "--retry-status", "403"]

    ended = run(command, server.url, out, *words, *([] if command == "list" else ["--attempts", "2"]))

    assert server.count("/list") == 2, ended.err
    if command == "list":
        assert ended.code == 0, ended.err
        assert len(out.read_text().splitlines()) == 3
        return
    assert ended.code == 3, ended.err
    assert [server.count(f"/get/{name}") for name in "abc"] == [2, 2, 2]
    assert (out / "a").read_bytes() == b"yes"
    if command == "get":
        found = fetchmill.status(out)
        assert (found.fetched, found.absent, found.failed_statuses) == (1, 1, {FORBIDDEN: 1})


def test_checks_and_streams_retry_named_statuses(run: Run, raw: Raw, tmp_path: Path) -> None:
    """The check's row and the stream's reply are those of the last attempt."""
    routes = {"/a": once(DENIED), "/b": reply(status=FORBIDDEN)}
    server = raw(routes)
    urls = [f"{server.url}{path}" for path in routes]
    (tmp_path / "urls.txt").write_text("\n".join(urls))

    ended = run(
        "check",
        "urls.txt",
        "rows.jsonl",
        "--allow-private",
        "--attempts",
        "2",
        "--retry-status",
        "999",
        "--retry-status",
        "403",
    )

    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    found = {row["url"].removeprefix(server.url): (row["status"], row["attempts"]) for row in rows}
    assert found == {"/a": (200, 2), "/b": (403, 2)}

    server = raw(routes)
    urls = [f"{server.url}{path}" for path in routes]
    replies = list(fetchmill.stream(urls, attempts=2, retry_status=[999, 403]))
    assert sorted(each.status or 0 for each in replies) == [200, 403]
    assert [server.count(path) for path in routes] == [2, 2]


@pytest.mark.parametrize("value", ["200", "302", "1000", "5xx", "-1", "403,404"])
def test_retry_status_refuses_non_error_status(value: str, run: Run, raw: Raw, dest: Path) -> None:
    """The error comes before any request."""
    server = raw(mirror("a"))
    ended = run("get", server.url, dest, f"--retry-status={value}")
    assert ended.code == 2
    assert "retry" in ended.err
    assert value in ended.err
    assert not server.requests
    given: Any = [int(value) if value.lstrip("-").isdigit() else value]
    with pytest.raises(fetchmill.UsageError, match="retry_status"):
        fetchmill.get(server.url, dest, retry_status=given)
