"""Conclusions of every engine from a reply: contradictory clocks, and sizes from a source."""

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from engines import engine_options, limit_options
from independent import read_ledger
from raw_server import Exchange, RawServer, bare_reply, reply

Run = Callable[..., Ended]

ENGINES = ("native", "threads", "asyncio", "processes")
KEYS = [f"key-{number:02}" for number in range(8)]
HOUR = 3600
# One request, and the corrections that it may have.
REQUESTS_MAX = 5
FINISHED_WITH_FAILURES = 3
LISTING_FAILED = 4
FOREVER = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
LISTED = 1000
BODY = b"b" * 68


def bucket_page(keys: list[str]) -> bytes:
    """Returns a page of a bucket's listing."""
    entries = "".join(f"<Contents><Key>{key}</Key><Size>{len(BODY)}</Size></Contents>" for key in keys)
    return reply(f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode())


def list_keys(exchange: Exchange) -> bytes:
    """Returns the requested page."""
    after = re.search("start-after=([^&]*)", exchange.target)
    keys = [key for key in KEYS if not after or key > after[1]]
    return bucket_page(keys[:1] if "max-keys=1&" in exchange.target + "&" else keys)


def skewed(server_time: float | None, date: float) -> bytes:
    """Returns the refusal of a signature because of its time."""
    told = "" if server_time is None else f"<ServerTime>{datetime.fromtimestamp(server_time, UTC):%FT%TZ}</ServerTime>"
    document = f"<Error><Code>RequestTimeTooSkewed</Code><Message>too far</Message>{told}</Error>"
    return reply(document.encode(), f"Date: {formatdate(date, usegmt=True)}", status="403 Forbidden")


def by_the_hour_ahead(exchange: Exchange) -> bytes:
    """An object of a store whose clock is one hour ahead and appears only in `Date`."""
    now = time.time() + HOUR
    signed = re.search(rb"x-amz-date: (\w+)", exchange.head, re.IGNORECASE)
    assert signed, exchange.head
    at = datetime.strptime(signed[1].decode(), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    return reply(BODY) if abs(at - now) < HOUR / 4 else skewed(None, now)


def never_right(exchange: Exchange) -> bytes:
    """A store whose gateways have different clocks: each request reaches another one."""
    now = time.time() + exchange.number * HOUR
    return skewed(now, now)


@pytest.fixture
def get(run: Run, environment: dict[str, str], dest: Path) -> Callable[..., Ended]:
    """Fetches the bucket of a store."""

    def run_get(store: RawServer, *options: str) -> Ended:
        words = ("get", "s3://bkt/", str(dest), "--endpoint-url", store.url, "--format", "jsonl", *options)
        return run(*words, env=environment | FOREVER, timeout=100)

    return run_get


@pytest.mark.parametrize("engine", ENGINES)
def test_store_clock_is_taken_from_date_header(get: Callable[..., Ended], dest: Path, engine: str) -> None:
    """The store's clock becomes wrong after the listing. Each engine takes the time from the reply's head."""
    with RawServer({"/bkt": list_keys} | {f"/bkt/{key}": by_the_hour_ahead for key in KEYS}) as store:
        ended = get(store, *engine_options(engine), *limit_options(engine, 2))

    assert ended.code == 0, ended.err
    with fetchmill.open(dest) as stored:
        assert {name: stored[name] for name in stored} == dict.fromkeys(KEYS, BODY)


@pytest.mark.parametrize("engine", ENGINES)
def test_contradictory_store_clocks_fail_objects(get: Callable[..., Ended], dest: Path, engine: str) -> None:
    """Each object is requested a limited number of times, and the report has the store's message."""
    with RawServer({"/bkt": list_keys} | {f"/bkt/{key}": never_right for key in KEYS}) as store:
        ended = get(store, *engine_options(engine), *limit_options(engine, 2))
        asked = [store.count(f"/bkt/{key}") for key in KEYS]

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    assert asked == [REQUESTS_MAX] * len(KEYS)
    assert read_ledger(dest).failed == len(KEYS)
    details = [failure.detail or "" for failure in fetchmill.failures(dest)]
    assert all(detail.startswith("RequestTimeTooSkewed: too far") for detail in details), details


def test_stream_returns_error_of_store_with_changing_clocks(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream stops after the usual number of requests, and returns the store's error."""
    for name, value in (environment | FOREVER).items():
        monkeypatch.setenv(name, value)
    with RawServer({"/bkt/key": never_right}) as store:
        (got,) = fetchmill.stream(["s3://bkt/key"], endpoint_url=store.url)

        assert got.status == 403
        assert b"RequestTimeTooSkewed" in got.body
        assert store.count("/bkt/key") == REQUESTS_MAX


@pytest.mark.parametrize("first_wrong", [1, 2])
def test_listing_with_contradictory_clocks_gets_one_line_error(get: Callable[..., Ended], first_wrong: int) -> None:
    """The error names the cause, at the first contact and later."""
    pages = []

    def answer(exchange: Exchange) -> bytes:
        pages.append(exchange.target)
        return list_keys(exchange) if len(pages) < first_wrong else skewed(time.time() + len(pages) * HOUR, 0)

    with RawServer({"/bkt": answer}) as store:
        ended = get(store)

    assert ended.code == LISTING_FAILED, ended.err
    assert "RequestTimeTooSkewed" in ended.err
    # Listing pages are requested in parallel.
    assert len(pages) <= first_wrong - 1 + 8 * REQUESTS_MAX


def folder(names: list[str], size: object = LISTED) -> bytes:
    """Returns a folder's listing as nginx writes it."""
    entries = [{"name": name, "type": "file", "mtime": "Fri, 20 Nov 2026 21:08:00 GMT", "size": size} for name in names]
    return reply(json.dumps(entries).encode(), "Content-Type: application/json")


@pytest.mark.parametrize("engine", ENGINES)
def test_size_different_from_folder_listing_fails(run: Run, dest: Path, engine: str) -> None:
    """A file that has grown fails with kind `changed`. An encoded reply may have another length."""
    whole = b"w" * LISTED
    encoded = reply(BODY, "Content-Encoding: gzip")
    routes = {"/": folder(KEYS), "/key-00": reply(BODY), "/key-01": reply(whole + b"more"), "/key-02": encoded}
    with RawServer(routes | {f"/{key}": reply(whole) for key in KEYS[3:]}) as server:
        words = ("--listing", "autoindex", *engine_options(engine), *limit_options(engine, 2))
        ended = run("get", server.url, str(dest), *words, timeout=100)

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    assert "changed 2" in ended.err
    stored = {path.name: path.read_bytes() for path in dest.iterdir() if path.is_file()}
    assert stored == dict.fromkeys(KEYS[3:], whole) | {"key-02": BODY}


def test_retry_failed_accepts_changed_object(run: Run, dest: Path) -> None:
    """The object is stored as it is at the time of the retry."""
    with RawServer({"/": folder(["a"]), "/a": reply(BODY)}) as server:
        words = ("get", server.url, str(dest), "--listing", "autoindex")
        assert run(*words).code == FINISHED_WITH_FAILURES

        assert run(*words, "--retry-failed").code == 0

    assert (dest / "a").read_bytes() == BODY


def test_non_numeric_folder_size_is_ignored(run: Run, dest: Path) -> None:
    """The object is fetched as if the folder had no size for it."""
    with RawServer({"/": folder(["a"], "68 bytes"), "/a": reply(BODY)}) as server:
        assert run("get", server.url, str(dest), "--listing", "autoindex").code == 0

    assert (dest / "a").read_bytes() == BODY


def test_manifest_of_folders_has_sizes(run: Run, tmp_path: Path) -> None:
    """Sizes of folders are compared when the objects are fetched, even by a Python engine."""
    manifest = tmp_path / "m.csv"
    with RawServer({"/": folder(["a", "b"]), "/a": reply(BODY), "/b": reply(b"w" * LISTED)}) as server:
        assert run("list", server.url, str(manifest), "--listing", "autoindex").code == 0
        assert manifest.read_text().count(f",{LISTED},") == 2
        words = ("--allow-private", "--format", "jsonl", *engine_options("threads"))
        ended = run("get", str(manifest), str(tmp_path / "out"), *words)

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    assert "changed 1" in ended.err


def test_eof_delimited_body_is_compared_with_listed_size(run: Run, dest: Path) -> None:
    """A body that ends with its connection may be truncated, but the listing has its length."""
    cut = bare_reply("Connection: close") + BODY

    def send_cut(exchange: Exchange) -> None:
        exchange.send(cut)
        exchange.close()

    with RawServer({"/": folder(["a"]), "/a": send_cut}) as server:
        ended = run("get", server.url, str(dest), "--listing", "autoindex", "--allow-eof-bodies")

    assert ended.code == FINISHED_WITH_FAILURES, ended.err
    assert "changed 1" in ended.err
