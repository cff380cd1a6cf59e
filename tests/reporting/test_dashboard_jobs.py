"""Dashboards of real jobs: in a browser, from Python, and with each command; log files."""

import json
import operator
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from prometheus_client.parser import text_string_to_metric_families

import fetchmill
from browser_tab import Tab, open_tab
from dashboard_client import TOKEN, StillJob, sample, showing
from fetchmill.testing import Fault, Server
from ports import free_ports

Run = Callable[..., Any]
Start = Callable[..., subprocess.Popen[str]]
Serve = Callable[..., Server]

# Of 400 objects, ten are never answered, ten are absent and ten fail, so the job stalls before its end.
FAULTS = [
    Fault("stall", match="file-00000000001*", seconds=120),
    Fault("status", status=404, match="file-00000000002*"),
    Fault("status", status=403, match="file-00000000003*"),
]
STILL = {"listed": 400, "fetched": 370, "absent": 10, "failed": 10, "in_flight": 10}


def get(url: str, **fields: str) -> bytes:
    """Returns the body at a URL."""
    asked = urllib.request.Request(url, headers=fields)  # noqa: S310 - of a dashboard
    with urllib.request.urlopen(asked, timeout=10) as reply:  # noqa: S310
        return bytes(reply.read())


def get_json(url: str) -> dict[str, Any]:
    """Returns the JSON at a URL."""
    return dict(json.loads(get(url)))


def snapshot_at_rest(url: str) -> dict[str, Any]:
    """Returns the dashboard's snapshot once it no longer changes."""
    deadline = time.monotonic() + 30
    while True:
        found = get_json(f"{url}api/snapshot")
        if {name: found[name] for name in STILL} == STILL:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def status_at_rest(run: Run, dest: Path) -> dict[str, Any]:
    """Returns the job's status after the last commit window."""
    deadline = time.monotonic() + 30
    while True:
        found: dict[str, Any] = json.loads(run("status", dest, "--json").out)
        if found["fetched"] == STILL["fetched"]:
            return found
        assert time.monotonic() < deadline, found


def event(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """Returns the next event of this name on standard output."""
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == name:
            return found
    raise AssertionError(f"no event {name}: {process.stderr and process.stderr.read()}")


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    """Opens a browser."""
    folder = tmp_path / "browser"
    folder.mkdir()
    with open_tab(folder) as opened:
        yield opened


def figure(key: str) -> str:
    """Returns a JavaScript expression for a figure in the table."""
    return f"document.querySelector('#figures tr[data-figure=\"{key}\"] td')?.textContent"


def number(text: str) -> int:
    """Parses figures such as `1,234` and `400, and more`."""
    found = re.match(r"[0-9,]+", text)
    assert found, text
    return int(found[0].replace(",", ""))


def test_dashboard_page_shows_figures_of_job(start: Start, server: Serve, run: Run, tab: Tab, dest: Path) -> None:
    """In a real browser during a real job, figures equal the snapshot and the status. No other site is contacted."""
    job = start("get", server(synthetic=400, faults=FAULTS).url, dest, "--json", "--dashboard", "-j", "32")
    url = event(job, "dashboard")["url"]

    tab.open(url)
    snapshot = snapshot_at_rest(url)
    tab.wait_until(f"({figure('fetched')}) === '370' && ({figure('in-flight')}) === '10'")
    shown = {key: tab.value(figure(key)) for key in ("listed", "fetched", "absent", "failed", "skipped", "requests")}
    failures = tab.value("[...document.querySelectorAll('#failures td')].map(cell => cell.textContent)")
    tab.wait_until("document.querySelectorAll('canvas').length >= 3")
    status = status_at_rest(run, dest)

    assert {key: number(text) for key, text in shown.items()} == {
        **{key: snapshot[key] for key in ("listed", "fetched", "absent", "failed", "skipped")},
        "requests": snapshot["attempts"],
    }
    assert failures == ["10"]
    assert number(tab.value(figure("concurrency"))) == snapshot["concurrency"]
    assert {key: status[key] for key in ("listed", "fetched", "absent", "failed")} == {
        key: snapshot[key] for key in ("listed", "fetched", "absent", "failed")
    }
    assert "390 of 400 (97 %)" in tab.value("document.getElementById('done').textContent")
    assert tab.value("document.getElementById('state').textContent") == "running"
    assert tab.console == []
    assert [asked for asked in tab.requests if not asked.startswith(url)] == []
    for width in (390, 1280):
        tab.look(width, is_dark=width == 390)
        tab.wait_until("document.documentElement.scrollWidth", partial(operator.ge, width))
        tab.wait_until(
            "Math.max(...[...document.querySelectorAll('.uplot')].map(plot => plot.getBoundingClientRect().right))",
            partial(operator.ge, width),
        )


def test_dashboard_page_escapes_text_from_servers(tab: Tab) -> None:
    """Failure kinds, waits and limits on the page are never markup."""
    hostile = """<img src="http://fetched.test/x" onerror=alert(1)></td></script>"""
    wait = {"what": hostile, "since": "2026-11-22T12:00:01+00:00", "until": "2026-11-22T12:15:01+00:00"}
    latency = {"p50": 0.02, "p90": 0.5, "p99": 1.5, "max": 2.0}
    given = {
        "failures": {hostile: 7},
        "waits": [wait],
        "limited_by": {"kind": "server", "text": hostile},
        "origins": [{"origin": hostile, "replies_per_second": 1234, "latency": latency}],
    }
    with showing(StillJob([sample(1, failures={hostile: 7}), sample(2)], **given), dest=hostile) as dashboard:
        tab.open(dashboard.url)
        tab.wait_until(f"({figure('failed')}) === '7'")

        assert tab.value("document.querySelectorAll('img').length") == 0
        assert tab.value("document.querySelector('#failures th[scope=row]').textContent") == hostile
        assert tab.value("document.querySelector('#waits li').textContent") == f"waiting: {hostile}"
        assert tab.value("document.getElementById('limited').textContent") == f"limited by {hostile}"
        assert tab.value("document.querySelector('#origins th[scope=row]').textContent") == hostile
        assert tab.value("[...document.querySelectorAll('#origins td')].map(cell => cell.textContent)") == [
            "1,234/s",
            "20 ms",
            "1.5 s",
        ]
        assert tab.console == []
        assert [asked for asked in tab.requests if not asked.startswith(dashboard.url)] == []


def test_dashboard_page_computes_rates_gaps_and_units(tab: Tab) -> None:
    """Rates cover ten seconds, lines have a gap between two runs, and figures have units."""
    samples = [sample(number, settled=number) for number in range(1, 21)]
    samples += [sample(1000 + number, interval=2.0, settled=50) for number in (2, 4)]
    with showing(StillJob(samples)) as dashboard:
        tab.open(dashboard.url)
        tab.wait_until(f"({figure('failed')}) === '7'")
        given = json.dumps(samples)

        def reckon(expression: str) -> Any:  # noqa: ANN401
            return tab.value(f"import('./figures.js').then(figures => {expression})")

        assert reckon(f"figures.ratesOf({given}.slice(0, 20)).settled") == pytest.approx(sum(range(11, 21)) / 10)
        times, column = reckon(f"figures.columnsOf({given}, [each => each.settled / each.interval])")
        assert column == [*map(float, range(1, 21)), None, 25, 25]
        assert 1e9 + 20 < times[20] < 1e9 + 1000
        for call, text in (
            ("count(1234567)", "1,234,567"),
            ("count(null)", "-"),
            ("perSecond(0.347)", "0.35/s"),
            ("perSecond(12345.6)", "12,346/s"),
            ("bytes(1023)", "1,023 B"),
            ("bytes(1536)", "1.5 KiB"),
            ("bytes(2 ** 40 * 3)", "3 TiB"),
            ("latency(0.00085)", "850 us"),
            ("latency(0.0123)", "12.3 ms"),
            ("latency(2.5)", "2.5 s"),
            ("duration(59.4)", "59 s"),
            ("duration(200)", "3 min 20 s"),
            ("duration(7500)", "2 h 05 min"),
        ):
            assert reckon(f"figures.{call}") == text


def test_dashboard_page_reloads_samples_after_merge(tab: Tab) -> None:
    """If the job has merged samples, the page requests all of them again, because its own are finer."""
    job = StillJob([sample(number) for number in range(1, 5)])
    with showing(job) as dashboard:
        tab.open(dashboard.url)
        tab.wait_until(f"({figure('objects-rate')}) === '100/s'")
        job.sampled = [sample(number, interval=2.0, settled=100) for number in (2, 4, 6)]
        tab.wait_until(f"({figure('objects-rate')}) === '50/s'")

    assert len([asked for asked in tab.requests if asked.endswith("after=0")]) == 2


def test_samples_add_up_to_totals_of_job(start: Start, server: Serve, dest: Path) -> None:
    """The samples of the charts add up to the job's counts, and the metrics agree."""
    job = start("get", server(synthetic=400, faults=FAULTS).url, dest, "--json", "--dashboard", "-j", "32")
    url = event(job, "dashboard")["url"]
    snapshot = snapshot_at_rest(url)
    deadline = time.monotonic() + 20
    samples: list[dict[str, Any]] = []
    while sum(each["settled"] for each in samples) < 390:
        assert time.monotonic() < deadline, samples
        samples = get_json(f"{url}api/samples")["samples"]
    families = list(text_string_to_metric_families(get(f"{url}metrics").decode()))

    for name in ("settled", "fetched", "absent", "failed", "bytes"):
        expected = 390 if name == "settled" else snapshot[name]
        assert sum(each[name] for each in samples) == expected, name
    assert sum(sum(each["failures"].values()) for each in samples) == 10
    found = {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}
    assert found["fetchmill_objects_total", "fetched"] == 370
    assert found["fetchmill_failures_total", "status"] == 10
    assert found["fetchmill_in_flight",] == 10
    assert get_json(f"{url}api/samples?after={samples[-1]['time'] + 1000}") == {"samples": []}


def test_dashboard_shows_latency_of_each_origin(start: Start, server: Serve, dest: Path, tmp_path: Path) -> None:
    """For a job over many origins, the page and the metrics have the latency of each."""
    slow, prompt = server(synthetic=10_000, delay=(0.5, 0.5)), server(synthetic=10_000)
    urls = tmp_path / "urls.txt"
    urls.write_text(
        "".join(f"{each.url}/get/file-{number:012}\n" for number in range(10_000) for each in (slow, prompt))
    )
    options = ("--allow-private", "--rate", "100", "--json", "--dashboard")
    job = start("get", urls, dest, *options)
    url = event(job, "dashboard")["url"]
    deadline = time.monotonic() + 30
    while len(origins := get_json(f"{url}api/snapshot")["origins"]) < 2 or origins[0]["replies_per_second"] < 1:
        assert time.monotonic() < deadline, origins
        time.sleep(0.1)
    families = list(text_string_to_metric_families(get(f"{url}metrics").decode()))

    median = {each["origin"]: each["latency"]["p50"] for each in origins}
    assert median[slow.url] >= 0.45
    told = {tuple(each.labels.values()): each.value for family in families for each in family.samples}
    assert told[slow.url, "0.5"] >= 0.45
    assert {slow.url, prompt.url} <= {labels[0] for labels in told if len(labels) == 1}


def test_dashboard_page_reconnects_to_restarted_job(start: Start, server: Serve, tab: Tab, dest: Path) -> None:
    """The page says that the server is away, and continues once it is back. A reload changes nothing."""
    source = server(synthetic=400, faults=FAULTS).url
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = ("get", source, dest, "--json", "--dashboard-addr", address, "-j", "32")
    job = start(*command)
    url = event(job, "dashboard")["url"]
    tab.open(url)
    tab.wait_until(f"({figure('fetched')}) === '370'")
    job.kill()
    job.wait()

    tab.wait_until("document.getElementById('state').dataset.state === 'away'")
    assert "no answer since" in tab.value("document.getElementById('state').textContent")
    assert tab.value(figure("fetched")) == "370"
    again = start(*command)
    assert event(again, "dashboard")["url"] == url
    tab.wait_until("document.getElementById('state').dataset.state !== 'away'")
    tab.wait_until(f"({figure('fetched')}) === '370'")
    tab.call("Page.reload")
    tab.wait_until(f"({figure('fetched')}) === '370'")


def test_browser_logs_in_with_token(start: Start, server: Serve, tab: Tab, dest: Path, tmp_path: Path) -> None:
    """The token is the password. It comes from a file and is not in the process list."""
    (tmp_path / "token.txt").write_text(f"{TOKEN}\n")
    source = server(synthetic=400, faults=FAULTS).url
    job = start("get", source, dest, "--json", "--dashboard", "--dashboard-token", "token.txt", "-j", "32")
    url = event(job, "dashboard")["url"]

    with pytest.raises(urllib.error.HTTPError, match="401"):
        get_json(f"{url}api/snapshot")
    tab.open(url.replace("http://", f"http://me:{TOKEN}@"))
    tab.wait_until(f"({figure('fetched')}) === '370'")
    assert tab.console == []
    assert TOKEN not in Path(f"/proc/{job.pid}/cmdline").read_text()


def test_token_variable_sets_token(start: Start, server: Serve, dest: Path, environment: dict[str, str]) -> None:
    """FETCHMILL_DASHBOARD_TOKEN sets the token, also for a non-loopback address."""
    variables = {**environment, "FETCHMILL_DASHBOARD_TOKEN": TOKEN}
    source = server(synthetic=400, faults=FAULTS).url
    job = start("get", source, dest, "--json", "--dashboard-addr", "0.0.0.0:0", env=variables)
    port = event(job, "dashboard")["url"].rstrip("/").rpartition(":")[2]
    url = f"http://127.0.0.1:{port}/metrics"

    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(url)
    assert b"fetchmill_objects_total" in get(url, Authorization=f"Bearer {TOKEN}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", ["get", "check", "list"])
def test_each_command_serves_dashboard_until_it_ends(start: Start, server: Serve, tmp_path: Path, command: str) -> None:
    """A notice has the address, and nothing answers after the end of the command."""
    source = server(synthetic=2000, page_size=100, list_delay=(0.1, 0.1), delay=(0.02, 0.02))
    (tmp_path / "urls.txt").write_text("".join(f"{source.url}/get/file-{n:012}\n" for n in range(2000)))
    asked, options = {
        "get": ([source.url, "out"], ["-j", "20"]),
        "check": (
            ["urls.txt", "rows.csv"],
            ["--allow-private", "-j", "20", "--limit-per-host", "20", "--rate-per-host", "0"],
        ),
        "list": ([source.url, "names.csv"], []),
    }[command]
    job = start(command, *asked, "--dashboard", *options)
    assert job.stderr is not None
    line = job.stderr.readline()
    found = re.fullmatch(r"dashboard: (http://127\.0\.0\.1:[0-9]+/)\n", line)
    assert found, line + job.stderr.read()

    snapshot = get_json(f"{found[1]}api/snapshot")
    assert (snapshot["command"], snapshot["dest"]) == (command, asked[1])
    assert job.wait(60) == 0
    with pytest.raises(OSError, match="refused"):
        get_json(f"{found[1]}api/snapshot")


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["native", "threads", "asyncio", "processes"])
def test_python_job_has_dashboard_with_every_engine(
    server: Serve,
    dest: Path,
    engine: Literal["native", "threads", "asyncio", "processes"],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The address is printed to standard error. The dashboard ends with the call and leaves no thread."""
    source = server(synthetic=300, delay=(0.05, 0.05))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    before = {thread.name for thread in threading.enumerate()}
    seen: list[dict[str, Any]] = []

    def look() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (seen and seen[-1]["fetched"]):
            try:
                seen.append(get_json(f"http://{address}/api/snapshot"))
            except OSError:
                time.sleep(0.02)

    watcher = threading.Thread(target=look)
    watcher.start()
    report = fetchmill.get(source.url, dest, engine=engine, concurrency=4, dashboard=address)
    watcher.join()

    assert report.fetched == 300
    assert 0 < seen[-1]["fetched"] <= 300
    assert capfd.readouterr().err == f"fetchmill: dashboard: http://{address}/\n"
    assert {thread.name for thread in threading.enumerate()} == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=10)


def test_python_refuses_two_dashboard_addresses(tmp_path: Path) -> None:
    """`dashboard` and `dashboard_addr` must not give different addresses."""
    with pytest.raises(fetchmill.UsageError, match="dashboard and dashboard_addr give different addresses"):
        fetchmill.get("http://127.0.0.1:1", tmp_path / "out", dashboard="127.0.0.1:1", dashboard_addr="127.0.0.1:2")
    with pytest.raises(fetchmill.UsageError, match="dashboard must be True, False, or HOST:PORT"):
        fetchmill.get("http://127.0.0.1:1", tmp_path / "out", dashboard=5)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


STAMP = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def test_log_has_notices_and_summary(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Each line of a log has its time, and a second run appends. The terminal shows the same as without a log."""
    source = server(synthetic=20, faults=[Fault("status", status=404, match="file-000000000003")])
    plain = run("get", source.url, tmp_path / "plain")
    first = run("get", source.url, dest, "--log-file", "job.log")
    lines = (tmp_path / "job.log").read_text().splitlines()
    second = run("get", source.url, dest, "--log-file", "job.log", "--quiet")
    appended = (tmp_path / "job.log").read_text().splitlines()[len(lines) :]

    assert (first.code, second.code, second.err) == (3, 3, "")
    assert len(first.err.splitlines()) == len(plain.err.splitlines())
    assert all(re.match(rf"{STAMP} \S", line) for line in lines)
    assert [line.partition(" ")[2] for line in lines][-len(first.err.splitlines()) :] == first.err.splitlines()
    assert any("20 listed = 19 fetched + 1 absent" in line for line in lines)
    assert any("already complete" in line for line in appended)


def test_json_log_has_timed_events(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """A JSON log has the events of --json with their times, including an error."""
    source = server(synthetic=20)
    assert run("get", source.url, dest, "--log-file", "job.jsonl", "--log-format", "json").code == 0
    wrong = run("get", source.url, dest, "--format", "tar", "--log-file", "job.jsonl", "--log-format", "json")
    events = [json.loads(line) for line in (tmp_path / "job.jsonl").read_text().splitlines()]

    assert wrong.code == 2
    assert all(re.fullmatch(STAMP, each["time"]) for each in events)
    (report,) = (each for each in events if each["event"] == "report")
    assert (report["fetched"], report["failed"]) == (20, 0)
    assert events[-1]["event"] == "error"
    assert events[-1]["message"] in wrong.err


@pytest.mark.parametrize("command", ["check", "list"])
def test_other_commands_write_logs(run: Run, server: Serve, tmp_path: Path, command: str) -> None:
    """Logs of other commands have their summaries."""
    source = server(synthetic=20)
    (tmp_path / "urls.txt").write_text("".join(f"{source.url}/get/file-{n:012}\n" for n in range(20)))
    options = ["--allow-private"] if command == "check" else []
    for format, file in (("text", "a.log"), ("json", "b.log")):
        rows = tmp_path / f"{format}.csv"
        ended = run(command, "urls.txt", rows, *options, "--log-file", file, "--log-format", format)
        assert ended.code == 0, ended.err

    assert "20 " in (tmp_path / "a.log").read_text()
    report = json.loads((tmp_path / "b.log").read_text().splitlines()[-1])
    assert (report["event"], report["rows"]) == ("report", 20)


def test_secrets_are_not_logged(run: Run, tmp_path: Path) -> None:
    """Secrets are not in logs, neither in the report of a source nor in an error."""
    url = "http://user:pa55word@127.0.0.1:1/?sig=s1gnature"
    for format in ("text", "json"):
        run("get", url, "out", "--give-up-after", "0.2", "--log-file", f"{format}.log", "--log-format", format)
        logged = (tmp_path / f"{format}.log").read_text()
        assert "error" in logged
        assert "pa55word" not in logged
        assert "s1gnature" not in logged


def test_unwritable_log_is_reported_before_job(run: Run, tmp_path: Path) -> None:
    """The error comes before the job starts."""
    ended = run("get", "http://127.0.0.1:1", "out", "--log-file", "no/such/folder.log")
    alone = run("get", "http://127.0.0.1:1", "out", "--log-format", "json")

    assert (ended.code, alone.code) == (7, 2)
    assert "cannot write the log file no/such/folder.log: No such file or directory" in ended.err
    assert "--log-format needs --log-file FILE" in alone.err
    assert not (tmp_path / "out").exists()


def test_log_on_full_disk_does_not_end_job(run: Run, server: Serve, dest: Path) -> None:
    """A full disk under a log is reported once, and the job continues."""
    ended = run("get", server(synthetic=20).url, dest, "--log-file", "/dev/full")

    assert ended.code == 0
    assert ended.err.count("cannot write the log file /dev/full (No space left on device)") == 1
