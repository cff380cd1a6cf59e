"""Replies of a dashboard: figures and metrics, and nothing for unauthorized or misbehaving clients."""

import base64
import hashlib
import json
import math
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dashboard_client import SNAPSHOT, TOKEN, StillJob, ask, exchange, port_of, read_reply, sample, showing, wait_until
from fetchmill import UsageError
from fetchmill._dashboard import page_server
from fetchmill._dashboard.dashboard import Dashboard
from fetchmill._dashboard.metrics import metrics_text

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "python/fetchmill/_dashboard/static"
PATHS = ("/", "/dashboard.js", "/charts.js", "/figures.js", "/dashboard.css", "/icon.svg", "/uPlot.iife.min.js")
FIGURES = ("/metrics", "/api/snapshot", "/api/samples", "/api/samples?after=0")


def basic(text: str) -> str:
    """Returns the header field with a user and a password, as a browser sends it."""
    return "Basic " + base64.b64encode(text.encode()).decode()


def metrics(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Returns metric values by name and labels, as read by Prometheus' own library."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    found = {(each.name, tuple(sorted(each.labels.items()))): each.value for each in samples}
    assert len(found) == len(samples)
    return found


def test_dashboard_replies_have_security_headers() -> None:
    """All replies are same-origin, not cached, not sniffed, and without a Referer."""
    with showing() as dashboard:
        replies = [ask(dashboard, path) for path in (*PATHS, *FIGURES, "/nothing")]
        replies += [ask(dashboard, "/", "POST"), ask(dashboard, host="evil.test"), exchange(dashboard, b"x\r\n\r\n")]

    assert [reply.status for reply in replies] == [200] * (len(PATHS) + len(FIGURES)) + [404, 405, 421, 400]
    for reply in replies:
        assert reply.fields["content-security-policy"].startswith("default-src 'self';")
        assert reply.fields["x-content-type-options"] == "nosniff"
        assert reply.fields["referrer-policy"] == "no-referrer"
        assert reply.fields["cache-control"] == "no-store"
        assert reply.fields["cross-origin-resource-policy"] == "same-origin"
        assert not [name for name in reply.fields if name.startswith("access-control") or name == "server"]
        assert len(reply.body) == int(reply.fields["content-length"])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"])
def test_dashboard_refuses_methods_other_than_get_and_head(method: str) -> None:
    """Methods other than GET and HEAD get a 405 at every path."""
    with showing() as dashboard:
        replies = [ask(dashboard, path, method) for path in ("/", "/metrics", "/api/snapshot")]

    assert [(reply.status, reply.fields["allow"]) for reply in replies] == [(405, "GET, HEAD")] * 3


@pytest.mark.parametrize("path", [*PATHS, *FIGURES])
def test_dashboard_head_is_get_without_body(path: str) -> None:
    """The reply to HEAD has the length of the body; figures such as durations may have changed by then."""
    with showing() as dashboard:
        head, got = ask(dashboard, path, "HEAD"), ask(dashboard, path)

    assert (head.status, head.body, head.fields["content-type"]) == (200, b"", got.fields["content-type"])
    assert abs(int(head.fields["content-length"]) - len(got.body)) < 10
    assert got.body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),  # the port of a tunnel
        ("localhost", 200),
        ("LOCALHOST:9000", 200),
        ("watch.test:9000", 200),
        ("[::ffff:127.0.0.1]:9000", 200),
        ("127.0.0.2", 421),
        ("evil.test", 421),
        ("127.0.0.1.evil.test", 421),
        ("localhost.evil.test", 421),
        ("evil.test@127.0.0.1", 421),
        ("127.0.0.1:", 421),
        ("127.0.0.1:80:80", 421),
        ("[::1", 421),
        ("localhost.", 421),
        ("", 421),
        ("127.0.0.1, evil.test", 421),
        ("2130706433", 421),
    ],
)
def test_dashboard_refuses_foreign_host_names(host: str, status: int) -> None:
    """A web page can use a foreign name after DNS rebinding. It does not even get metrics."""
    with showing(names=["Watch.Test"]) as dashboard:
        replies = [
            exchange(dashboard, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            for path in ("/", "/metrics", "/api/snapshot")
        ]

    assert [reply.status for reply in replies] == [status] * 3
    assert status == 200 or all(b"fetched" not in reply.body for reply in replies)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /  HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\nb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_dashboard_answers_invalid_request_with_400(head: bytes) -> None:
    """The 400 reply is one line, and the connection is closed."""
    with showing() as dashboard:
        assert exchange(dashboard, head).status == 400


def test_dashboard_answers_long_head_with_431() -> None:
    """A request line or header fields that are too long get a 431."""
    with showing() as dashboard:
        long = [b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"]
        long.append(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 2000 + b"\r\n")

        assert {exchange(dashboard, head).status for head in long} <= {431, 0}  # 0: the request was still being sent
        assert ask(dashboard).status == 200


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}0",
        f"Bearer {TOKEN.upper()}",
        f"Digest {TOKEN}",
        TOKEN,
        basic(TOKEN),
        basic(f"{TOKEN}:"),
        basic(f"user:{TOKEN[1:]}"),
        "Basic !!!",
        "Basic /w==",
    ],
)
def test_dashboard_without_token_gets_401_everywhere(shown: str | None) -> None:
    """Every path, existing or not, and every method get the same 401."""
    fields = {} if shown is None else {"Authorization": shown}
    with showing(address="127.0.0.1:0", token=TOKEN) as dashboard:
        replies = [ask(dashboard, path, **fields) for path in (*PATHS, *FIGURES, "/nothing")]
        replies += [ask(dashboard, "/", "POST", **fields), ask(dashboard, host="evil.test", **fields)]

    assert {(reply.status, reply.body) for reply in replies} == {(401, b"the token is missing or wrong\n")}
    assert all(reply.fields["www-authenticate"].startswith("Basic realm=") for reply in replies)


@pytest.mark.parametrize("shown", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(f"user:{TOKEN}"), basic(f":{TOKEN}")])
def test_dashboard_with_token_is_readable(shown: str) -> None:
    """Both ways to send a token, of Prometheus and of browsers, work. The host name must still be correct."""
    with showing(token=TOKEN) as dashboard:
        assert [ask(dashboard, path, Authorization=shown).status for path in PATHS] == [200] * len(PATHS)
        assert ask(dashboard, "/metrics", Authorization=shown).status == 200
        assert ask(dashboard, host="evil.test", Authorization=shown).status == 421


@pytest.mark.parametrize(
    ("address", "own", "foreign"), [("0.0.0.0:0", "127.0.0.1", "127.0.0.2"), ("[::]:0", "[::1]", "[::2]")]
)
def test_dashboard_at_non_loopback_address_needs_token(address: str, own: str, foreign: str) -> None:
    """Without a token, the error says how to create one. With a token, the address itself is a valid host name."""
    with pytest.raises(UsageError, match=r"set a token: openssl rand -hex 16 > token.txt, then --dashboard-token"):
        Dashboard(address, (), None, {})
    with showing(address=address, token=TOKEN) as dashboard:
        reply = ask(dashboard, host=own, Authorization=f"Bearer {TOKEN}")
        other = ask(dashboard, host=foreign, Authorization=f"Bearer {TOKEN}")

    assert (reply.status, other.status) == (200, 421)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("9000", "dashboard_addr must be HOST:PORT"),
        ("localhost", "dashboard_addr must be HOST:PORT"),
        ("::1:9000", "dashboard_addr must be HOST:PORT"),
        ("127.0.0.1:70000", "dashboard_addr must be HOST:PORT"),
        ("http://127.0.0.1:9000", "dashboard_addr must be HOST:PORT"),
        ("no such host:1", "dashboard_addr must be HOST:PORT"),
        ("192.0.2.1:9000", "set a token"),
    ],
)
def test_dashboard_address_must_be_valid(address: str, message: str) -> None:
    """An invalid address gets an error and is never guessed."""
    with pytest.raises(UsageError, match=re.escape(message)):
        Dashboard(address, (), None, {})


@pytest.mark.parametrize(
    "token", ["", "short", "a" * 257, "with a space in it", "with\nline ends....", "non-äscii-token.."]
)
def test_weak_or_unsendable_token_is_refused(token: str) -> None:
    """A token that is too weak, or cannot be sent, is refused and not shown."""
    with pytest.raises(UsageError, match="dashboard_token must be 16 to 256 visible ASCII characters") as refused:
        Dashboard(None, (), token, {})

    assert not token or token not in str(refused.value)


def test_metrics_are_readable_by_prometheus() -> None:
    """Prometheus' own library reads the metrics, with the values of the job."""
    with showing() as dashboard:
        reply = ask(dashboard, "/metrics")
    found = metrics(reply.body.decode())

    assert reply.fields["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for outcome in ("fetched", "absent", "failed", "skipped"):
        assert found["fetchmill_objects_total", (("outcome", outcome),)] == SNAPSHOT[outcome]
    for kind, count in SNAPSHOT["failures"].items():
        assert found["fetchmill_failures_total", (("kind", kind),)] == count
    for name, key in (
        ("fetchmill_listed_total", "listed"),
        ("fetchmill_listing_complete", "listing_done"),
        ("fetchmill_bytes_total", "bytes"),
        ("fetchmill_requests_total", "attempts"),
        ("fetchmill_in_flight", "in_flight"),
        ("fetchmill_concurrency_limit", "concurrency"),
        ("fetchmill_waiting", "waiting"),
    ):
        assert found[name, ()] == SNAPSHOT[key]
    for quantile, key in (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"), ("1", "max")):
        assert found["fetchmill_latency_seconds", (("quantile", quantile),)] == SNAPSHOT["latency"][key]
    limits = {labels: value for (name, labels), value in found.items() if name == "fetchmill_limited_by"}
    assert {labels for labels, value in limits.items() if value} == {(("kind", "server"),)}
    assert {dict(labels)["kind"] for labels in limits} == set(names_of_limits())


def names_of_limits() -> list[str]:
    """Returns the kinds of limits that the core defines."""
    source = (ROOT / "crates/fetchmill-engine/src/control/telemetry/bottleneck.rs").read_text()
    found = re.findall(r'LimitKind::\w+ => "([a-z-]+)"', source)
    assert len(found) > 10
    return found


def test_metrics_of_new_job_are_readable() -> None:
    """Metrics are valid without latency, failures or a limit. Large numbers are exact."""
    snapshot = {**SNAPSHOT, "latency": None, "limited_by": None, "failures": {}, "bytes": 2**53 - 1}
    found = metrics(metrics_text(snapshot, 1.5, "1.0"))

    assert found["fetchmill_bytes_total", ()] == 2**53 - 1
    assert found["fetchmill_start_time_seconds", ()] == 1.5
    assert not [name for name, _ in found if name in ("fetchmill_latency_seconds", "fetchmill_failures_total")]
    assert {value for (name, _), value in found.items() if name == "fetchmill_limited_by"} == {0}


def test_metrics_labels_are_escaped() -> None:
    """Any failure kind is escaped as a label."""
    kind = 'a"} 1\nfetchmill_bytes_total 5\\'
    found = metrics(metrics_text({**SNAPSHOT, "failures": {kind: 3}}, 0.0, "1.0"))

    assert found["fetchmill_failures_total", (("kind", kind),)] == 3


def names_of_metrics() -> set[str]:
    """Returns the names of all metrics."""
    return set(re.findall(r"# TYPE (\S+) ", metrics_text(SNAPSHOT, 0.0, "1.0")))


def test_grafana_dashboard_uses_existing_metrics() -> None:
    """The Grafana dashboard uses existing metrics only, and every panel has an expression."""
    panels = json.loads((ROOT / "docs/guide/grafana.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for expression in expressions for name in re.findall(r"fetchmill_\w+", expression)}

    assert len(expressions) >= len(panels) == 10
    assert named <= names_of_metrics()
    assert len(named) >= 10


def test_dashboard_figures_are_json() -> None:
    """The snapshot has the figures of the job, and samples may start after a given time."""
    job = StillJob([sample(1), sample(2), sample(3)])
    with showing(job) as dashboard:
        snapshot = json.loads(ask(dashboard, "/api/snapshot").body)
        series = [json.loads(ask(dashboard, f"/api/samples{query}").body) for query in ("", "?after=1000000001.5")]
        bad = [
            ask(dashboard, f"/api/samples?{query}").status for query in ("after=x", "after=nan", "a=1", "after=1&b=2")
        ]

    assert {name: snapshot[name] for name in SNAPSHOT} == SNAPSHOT
    assert (snapshot["command"], snapshot["source"], snapshot["dest"]) == ("get", "http://a/", "out")
    assert snapshot["time"] - snapshot["start_time"] == pytest.approx(12.5, abs=5)
    assert series == [{"samples": job.sampled}, {"samples": job.sampled[1:]}]
    assert bad == [400] * 4


def test_dashboard_redacts_secrets_of_urls() -> None:
    """Secrets are removed from the source and from the waits of the job."""
    url = "http://user:pa55word@a.test/l?X-Amz-Signature=s1gnature&n=1"
    wait = {"what": f"the page {url} fails", "since": "2026-11-22T12:00:01+00:00", "until": "2026-11-22T12:15:01+00:00"}
    with showing(StillJob(waits=[wait]), source=url) as dashboard:
        told = ask(dashboard, "/api/snapshot").body.decode()

    assert "pa55word" not in told
    assert "s1gnature" not in told
    assert "a.test/l" in told


def test_dashboard_survives_unreadable_figures() -> None:
    """Figures that cannot be read get a 500 without a traceback, and the server continues."""
    job = StillJob()
    with showing(job) as dashboard:
        whole = job.given
        job.given = {}
        broken = [ask(dashboard, path) for path in ("/metrics", "/api/snapshot")]
        job.given = whole
        job.sampled = [sample(1, bytes=math.nan)]
        broken.append(ask(dashboard, "/api/samples"))

        assert {(reply.status, reply.body) for reply in broken} == {(500, b"cannot read the progress of the job\n")}
        assert ask(dashboard, "/metrics").status == 200


def test_idle_connections_do_not_block_dashboard() -> None:
    """A request is answered among three hundred unfinished ones; the number of open connections is limited."""
    with showing() as dashboard:
        held = [socket.create_connection(("127.0.0.1", port_of(dashboard)), timeout=10) for _ in range(300)]
        for connection in held:
            connection.sendall(b"GET / HTTP/1.1\r\nHost:")

        assert ask(dashboard, "/api/snapshot").status == 200
        server = dashboard._server
        assert server is not None
        assert len(server._connections) <= page_server.CONNECTIONS_MAX
        # The oldest connections were closed.
        assert read_reply(held[0]).status == 0
        for connection in held:
            connection.close()
        wait_until(lambda: not server._connections)


def test_dashboard_abandons_slow_request_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request head that arrives too slowly is abandoned, even while single bytes still arrive."""
    monkeypatch.setattr(page_server, "HEAD_SECONDS_MAX", 0.3)
    with showing() as dashboard, socket.create_connection(("127.0.0.1", port_of(dashboard)), timeout=10) as slow:
        ended = threading.Event()

        def trickle() -> None:
            try:
                while not ended.wait(0.05):
                    slow.sendall(b"a")
            except OSError:
                ended.set()

        thread = threading.Thread(target=trickle)
        thread.start()
        assert read_reply(slow).status == 0
        ended.set()
        thread.join()
        assert ask(dashboard).status == 200


def test_dashboard_closes_connection_when_reply_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a client does not read a reply that exceeds the kernel's buffers, its connection is closed."""
    monkeypatch.setattr(page_server, "REPLY_SECONDS_MAX", 0.3)
    job = StillJob([sample(number, limited_by="x" * 10_000) for number in range(2000)])
    with showing(job) as dashboard, socket.socket() as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.connect(("127.0.0.1", port_of(dashboard)))
        idle.sendall(b"GET /api/samples HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server = dashboard._server
        assert server is not None
        wait_until(lambda: len(server._connections) == 1)

        wait_until(lambda: not server._connections)
        assert ask(dashboard, "/metrics").status == 200


def test_dashboard_stop_leaves_no_thread_or_port() -> None:
    """No thread and no port are left, with open connections and without any request."""
    before = set(threading.enumerate())
    with showing() as dashboard:
        port = port_of(dashboard)
        held = socket.create_connection(("127.0.0.1", port), timeout=10)
        assert ask(dashboard).status == 200
        assert {thread.name for thread in set(threading.enumerate()) - before} == {"fetchmill-dashboard"}
    with Dashboard(f"127.0.0.1:{port}", (), None, {}):
        pass

    assert set(threading.enumerate()) == before
    assert read_reply(held).status == 0
    held.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_vendored_chart_script_is_unchanged() -> None:
    """The chart script is identical byte for byte, and comes with its licence and no other files."""
    folder = STATIC / "uplot"
    origin = json.loads((folder / "origin.json").read_text())

    assert {path.name for path in folder.iterdir()} == {*origin["files"], "origin.json"}
    for name, pinned in origin["files"].items():
        digest = base64.b64encode(hashlib.sha512((folder / name).read_bytes()).digest()).decode()
        assert pinned["integrity"] == f"sha512-{digest}"
    assert f"v{origin['version']}" in (folder / "uPlot.iife.min.js").read_text()[:80]


def test_dashboard_page_references_no_other_site() -> None:
    """The only URL in our files is the SVG namespace, and the page has no inline script or style."""
    for path in STATIC.glob("*.*"):
        text = path.read_text()
        assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg"}, path
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<style|style=|<script>|\son\w+=", page)


Run = Callable[..., Any]


def test_dashboard_port_in_use_is_reported_before_job(run: Run, dest: Path) -> None:
    """The error is one line, and nothing is created."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run("get", "http://127.0.0.1:1", dest, "--dashboard-addr", address)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"fetchmill: error: the dashboard cannot listen on {address}: Address already in use; "
        f"choose another --dashboard-addr (port 0 selects a free port)\n"
    )
    assert not dest.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dashboard-addr", "0.0.0.0:0"], "set a token: openssl rand -hex 16 > token.txt"),
        (["--dashboard-host", "a.test"], "--dashboard-host needs --dashboard"),
        (["--dashboard", "--dashboard-token", TOKEN], "cannot read the token file (No such file or directory)"),
        (["--dashboard", "--dashboard-token", "short.txt"], "--dashboard-token must be 16 to 256 visible ASCII"),
        (["--dashboard", "--dashboard-token", "/dev/zero"], "the token file is larger than 4 KiB"),
    ],
)
def test_invalid_dashboard_options_are_refused(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    """The error is one line that does not show the token."""
    (tmp_path / "short.txt").write_text("s3cret\n")
    ended = run("get", "http://127.0.0.1:1", "out", *arguments)

    assert ended.code == 2
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert TOKEN not in ended.err
    assert "s3cret" not in ended.err
    assert not (tmp_path / "out").exists()
