"""Items of an API as rows: column types, verbatim lines, kills, expiring tokens, and hostile pages."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest

import fetchmill
from conftest import COMMAND
from independent import has_journal, read_ledger
from raw_server import RawServer, reply

Run = Callable[..., Any]
Raw = Callable[..., RawServer]

WORDS = ("--listing", "json", "--store", "items", "--items-field", "data")
ONE_PAGE = (*WORDS, "--next-page", "none")
MARKED = (*WORDS, "--next-page", "marker", "--next-field", "next", "--marker-param", "after")
SECRET = "canary-item"  # noqa: S105 - a token of the test


def item(number: int) -> dict[str, object]:
    """Returns one item of the golden table."""
    return {
        "id": number,
        "name": f"item \u00e9 {number}",
        "price": number / 8,
        "is_new": number % 3 == 0,
        "status": None if number % 5 == 0 else "open",
        "tags": {"a": [number]},
    }


class PagedApi(ThreadingHTTPServer):
    """A server that returns items page by page.

    A token expires after some pages; the token command prints the next one.
    """

    daemon_threads = True

    def __init__(self, folder: Path, items: int, page: int, lasts: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.items, self.page, self.lasts = items, page, lasts
        self.runs = folder / "runs"
        self.runs.write_text("")
        self.command = f"echo x >> {self.runs}; echo {SECRET}-$(wc -l < {self.runs})"
        self.asked, self.refused, self.shown = 0, 0, 0
        self.token = ""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """Returns the URL of the first page."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, path: str, token: str | None) -> tuple[int, bytes]:
        """Returns the status and the body of a reply."""
        latest = f"Bearer {SECRET}-{len(self.runs.read_text().splitlines())}"
        if self.token != latest:
            self.token, self.shown = latest, 0
        if token != latest or self.shown >= self.lasts:
            self.refused += 1
            return 401, b"{}"
        self.shown += 1
        self.asked += 1
        first = int(parse_qs(urlsplit(path).query).get("after", ["0"])[0])
        behind = min(first + self.page, self.items)
        body = {"data": [item(number) for number in range(first, behind)], "next": str(behind)}
        if behind == self.items:
            body["next"] = ""
        return 200, json.dumps(body).encode()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores that the killed client has gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, PagedApi)
        status, body = server.answer(self.path, self.headers.get("Authorization"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


def listed_items(dest: Path) -> int:
    """Returns the number of items on the pages in the journal, or 0 before the journal exists."""
    return read_ledger(dest).listed if has_journal(dest) else 0


def killed_job(api: PagedApi, dest: Path, format: str, kills: int) -> subprocess.CompletedProcess[str]:
    """Runs a job, kills it several times at later and later pages, and lets it finish.

    A page in the journal is not requested again.
    """
    tokens = ("--bearer-command", api.command)
    command = [*COMMAND, "get", api.url, str(dest), *MARKED, "--format", format, *tokens, "--commit-window", "20ms"]
    pages = api.items // api.page
    for kill in range(1, kills + 1):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while process.poll() is None and (api.asked < pages * kill // (kills + 1) or not listed_items(dest)):
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        asked, listed = api.asked, listed_items(dest)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert listed > 0
    # The server may count the last request of a killed run late.
    assert api.asked - asked - (api.items - listed) // api.page in {0, 1}
    return ended


def check_job(tmp_path: Path, items: int, page: int, format: str, kills: int) -> None:
    """Checks that each item is stored once."""
    api = PagedApi(tmp_path, items, page, lasts=items // page // 2 + kills)
    dest = tmp_path / "out"
    try:
        ended = killed_job(api, dest, format, kills)
    finally:
        api.shutdown()
        api.server_close()

    assert ended.returncode == 0, ended.stderr
    assert f"{items:,} listed = {items:,} fetched + 0 absent + 0 failed + 0 skipped" in ended.stderr
    if format == "jsonl":
        lines = [line for shard in dest.glob("*.jsonl") for line in shard.read_text().split("\n") if line]
        expected = [json.dumps(item(number), separators=(",", ":")) for number in range(items)]
        assert sorted(lines) == sorted(expected)
    else:
        check_table(dest, items)
    assert fetchmill.verify(dest).findings == 0


def check_table(dest: Path, items: int) -> None:
    """Checks that the table equals the golden one, including its types."""
    db = duckdb.connect()
    db.execute(
        "CREATE TABLE golden AS SELECT n AS id, 'item \u00e9 ' || n AS name, n / 8 AS price, n % 3 = 0 AS is_new,"
        " CASE WHEN n % 5 = 0 THEN NULL ELSE 'open' END AS status, '{\"a\":[' || n || ']}' AS tags,"
        " NULL::VARCHAR AS _unfit, n AS _sequence FROM range(?) AS golden(n)",
        [items],
    )
    db.execute("CREATE TABLE stored AS SELECT * EXCLUDE (_item) FROM read_parquet(?)", [f"{dest}/*.parquet"])
    types = [row[1] for row in db.execute("DESCRIBE stored").fetchall()]
    assert types == ["BIGINT", "VARCHAR", "DOUBLE", "BOOLEAN", "VARCHAR", "VARCHAR", "VARCHAR", "BIGINT"]
    differs = "(FROM stored EXCEPT ALL FROM golden) UNION ALL (FROM golden EXCEPT ALL FROM stored)"
    assert db.execute(differs).fetchall() == []


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_items_are_stored_once_when_job_is_killed(tmp_path: Path, format: str) -> None:
    """20,000 items are stored once, although the job is killed several times and its token expires."""
    check_job(tmp_path, 20_000, 100, format, kills=2)


@pytest.mark.thorough
def test_million_items_are_stored_once_when_job_is_killed(tmp_path: Path) -> None:
    """1,000,000 items are stored once."""
    check_job(tmp_path, 1_000_000, 1000, "parquet", kills=10)


def test_hostile_items_are_stored_or_failed(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """Items of any shape become rows verbatim.

    Values that do not fit are kept apart, and an item that is too large fails.
    """
    texts = [
        '{"id":1,"name":"a","x":1.50}',
        '{"id":18446744073709551616,"name":["b"],"x":1e400}',
        '{"id":2,"id":3,"new":{"k":" v "}}',
        '"text"',
        "7",
        "null",
        '{"id":null,"name":"\\ud800","deep":' + "[" * 5000 + "]" * 5000 + "}",
    ]
    body = ('{"data": [\n ' + " ,\n".join([*texts, '"' + "x" * 30_000 + '"']) + "]}").encode()
    server = raw({"/v1": reply(body)})
    given = ("--max-size", "20KiB")

    lines = run("get", f"{server.url}/v1", dest, *ONE_PAGE, *given, "--format", "jsonl")
    types = ("--column-types", "id=int64,x=float64")
    table = tmp_path / "table"
    rows = run("get", f"{server.url}/v1", table, *ONE_PAGE, *given, *types, "--format", "parquet")

    assert (lines.code, rows.code) == (3, 3), rows.err
    assert "8 listed = 7 fetched + 0 absent + 1 failed + 0 skipped" in rows.err
    stored = [line for shard in sorted(dest.glob("*.jsonl")) for line in shard.read_text().splitlines()]
    assert stored == texts
    query = "SELECT id, name, x, _unfit, _item FROM read_parquet(?) ORDER BY _sequence"
    found = duckdb.connect().execute(query, [f"{table}/*.parquet"]).fetchall()
    assert [row[4] for row in found] == texts
    assert [row[:4] for row in found] == [
        (1, "a", 1.5, None),
        (None, '["b"]', None, "id,x"),
        (None, None, None, "id"),
        (None, None, None, "."),
        (None, None, None, "."),
        (None, None, None, "."),
        (None, None, None, "name"),
    ]
    [failure] = fetchmill.failures(table)
    assert (failure.kind, failure.detail) == ("body-too-large", "it has 30002 bytes, more than --max-size (20480)")
    with fetchmill.open(table) as reader:
        assert reader["1"].decode() == texts[1]
    assert fetchmill.verify(table).findings == 0


@pytest.mark.parametrize(
    "body",
    [b'{"data":[NaN]}', b'{"data":["\xff"]}', b'{"data":[{"id":1},{"i', b'{"data":7}', b'{"data":[1],"data":[2]}'],
)
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_non_json_page_ends_item_listing(run: Run, raw: Raw, dest: Path, format: str, body: bytes) -> None:
    """A page that is not JSON ends the listing: none of its items is stored, and the job is incomplete."""
    server = raw({"/v1": reply(body)})

    ended = run("get", f"{server.url}/v1", dest, *ONE_PAGE, "--format", format)

    assert (ended.code, "cannot be read" in ended.err) == (4, True), ended.err


def test_inconsistent_item_options_are_refused(run: Run, dest: Path) -> None:
    """The error names the options and comes before any request."""
    url = "http://127.0.0.1:9/v1"
    for words, message in [
        (("get", *ONE_PAGE), "--store items: files has no rows; choose --format parquet or jsonl"),
        (("get", *ONE_PAGE, "--format", "tar"), "tar has no rows"),
        (("get", *ONE_PAGE, "--format", "jsonl", "--url-field", "x"), "--url-field applies to objects"),
        (("get", *ONE_PAGE, "--format", "jsonl", "--hash", "sha256"), "--hash applies to objects"),
        (("get", *ONE_PAGE, "--format", "jsonl", "--include", "x"), "--include applies to objects"),
        (("get", *ONE_PAGE, "--format", "jsonl", "--column-types", "a=int64"), "--column-types: jsonl"),
        (("get", *ONE_PAGE, "--format", "parquet", "--column-types", "_item=string"), "cannot be a column"),
        (("get", "--store", "items", "--format", "jsonl"), "store requires --listing json"),
        (("plan", *ONE_PAGE), "--store must be objects, because plan cannot measure items"),
        (("list", *ONE_PAGE), "--store: not an option of list"),
        (("sync", *ONE_PAGE), "--store: not an option of sync"),
    ]:
        command, *options = words
        ended = run(command, url, *([] if command in ("list", "plan") else [dest]), *options)
        assert (ended.code, message in ended.err) == (2, True), (words, ended.err)
    assert not dest.exists()
