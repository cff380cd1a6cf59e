"""`fetchmill bench`: short runs of real programs against real servers; no figure is asserted."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchmill.errors import ListingError, StorageError, UsageError
from fetchmill.testing import Server, World, world
from fetchmill_bench.answers import differences
from fetchmill_bench.comparison import run_bench
from fetchmill_bench.contender_result import ContenderResult, read_result
from fetchmill_bench.contender_table import CONTENDERS
from fetchmill_bench.dns_client import resolve
from fetchmill_bench.measurement import Bounds, Measurement, measure
from fetchmill_bench.options import BenchOptions, Store
from fetchmill_bench.plan import Run, duration, plan_runs
from fetchmill_bench.published import PUBLISHED
from fetchmill_bench.scenarios import SCENARIOS
from fetchmill_bench.signals import defer_signals
from fetchmill_bench.summary import results_of, spread
from fetchmill_bench.tables import format_duration

pytestmark = pytest.mark.of_files("packages/fetchmill-bench")

MIB = 1 << 20
CONTENDER_MODULES = Path(__file__).parents[2] / "packages/fetchmill-bench/fetchmill_bench/contenders"
# A user's own program: URLs from a file, one connection each.
OWN = (
    "import sys, urllib.request as r; [r.urlopen(u.strip()).read() for u in list(open(sys.argv[1]))[:int(sys.argv[2])]]"
)
QUICK: dict[str, Any] = {"seconds": 0.6, "warm_up": False}


def python(program: str, *arguments: str) -> str:
    """Returns a contender's command line: a short program in this Python."""
    return shlex.join([sys.executable, "-c", program, *arguments])


OWN_COMMAND = python(OWN, "{urls}", "{count}")


def bench(**options: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of BenchOptions
    """Compares contenders for half a second each, without a warm-up."""
    return run_bench(BenchOptions(**{**QUICK, **options}))


def only_run(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the run of a document with a single run."""
    (run,) = document["runs"]
    found: dict[str, Any] = run
    return found


def row(**values: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns a run in the form of the document."""
    usual = {"scenario": "billion", "contender": "one", "way": "w", "row": None, "requests": 100, "limit": 8}
    ended = {"sites": None, "repeat": 1, "status": "ok", "reason": None, "done": 100, "failures": 0, "seconds": 1.0}
    took = {"requests_per_second": 100.0, "steady_per_second": None, "cpu_seconds": 0.5, "peak_mib": 10.0}
    return {**usual, **ended, **took, "set_up_seconds": None, "server_cpu_seconds": 0.1, "differs": None, **values}


def commands_with(*texts: str) -> list[str]:
    """Returns the command lines of running processes that contain all of these texts."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if all(text in line for text in texts):
                found.append(line)
    return found


def own_count() -> str:
    """Returns a number of objects that no concurrent test uses, which identifies a server's command line."""
    return str(10_000 + os.getpid() % 10_000)


def wait_until(condition: Callable[[], bool], seconds: float = 200.0) -> bool:
    """Returns whether the condition became true in time."""
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def sites() -> Iterator[World]:
    """Yields a world of sites in this process."""
    with world() as started:
        yield started


def test_bench_compares_engines_published_ways_and_programs(run: Callable[..., Any]) -> None:
    """The table goes to standard output, and progress to standard error."""
    own = ("--contender", OWN_COMMAND, "--only", "native,a_asyncio", "--count", "200")
    ended = run("bench", *own, "--seconds", "20s", "--repeat", "2")

    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("billion: ")
    assert [line.split()[0].rstrip(".") for line in lines[2:5]] == ["native", "a_asyncio", sys.executable[:37]]
    assert "days for 1e9*" in lines[1]
    assert "* extrapolated" in ended.out
    assert ended.err.startswith("6 runs: about ")
    assert len(re.findall(r"^\d/6 billion: .+: 200 requests in .+ requests/s$", ended.err, re.MULTILINE)) == 6


def test_bench_json_output_is_one_complete_document(run: Callable[..., Any]) -> None:
    """Nothing else is on standard output, and the document has all data for a report."""
    options = ("--only", "native", "--count", "300", "--seconds", "20", "--no-warm-up", "--json")
    ended = run("bench", "--contender", OWN_COMMAND, *options)
    document = json.loads(ended.out)

    assert document["format"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["started"])
    assert document["machine"].keys() == {"processors", "memory_mib", "system"}
    assert (document["scenario"], document["published_mode"]) == ("billion", False)
    assert document["settings"]["contender"] == [OWN_COMMAND]
    assert [found["contender"] for found in document["results"]] == ["native", OWN_COMMAND]
    for found in document["runs"]:
        assert (found["status"], found["done"], found["failures"]) == ("ok", 300, 0)
        assert found["requests_per_second"] == pytest.approx(300 / found["seconds"], rel=0.01)
        assert found["cpu_seconds"] > 0
        assert found["server_cpu_seconds"] >= 0
        assert found["peak_mib"] > 5
    assert document["runs"][0].keys() == row().keys()
    assert document["results"][0].keys() == results_of([row()], by_requests=False)[0].keys()


def test_bench_document_contains_all_published_rows() -> None:
    """Each row has its figures, even if its contender does not run."""
    document = bench(only=["native"], count=10)

    assert len(document["published"]) == len(PUBLISHED)
    assert {found["table"] for found in document["published"]} == set("ABCDE")
    assert all(found["figures"] for found in document["published"])


def test_contender_stopped_at_time_limit_counts_finished_work() -> None:
    """This holds for an engine, a published way, and a program whose progress only the server knows."""
    # On a busy machine, half a second may pass before a program has begun.
    count = 1_000_000
    document = bench(only=["native", "a_sync"], contender=[OWN_COMMAND], count=count, seconds=3)

    for found in document["runs"][1:]:
        assert (found["status"], found["reason"]) == ("stopped", None)
        assert 0 < found["done"] < count
    assert document["runs"][0]["done"] > 0


def test_engine_stops_at_time_limit() -> None:
    """Requests in flight are drained; the rest of the listing is not fetched."""
    found = only_run(bench(only=["native"]))

    assert found["status"] == "stopped"
    assert 0 < found["done"] < found["requests"]
    assert found["seconds"] < 10


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (python("import sys; sys.exit('no such luck')"), r"exit code 1: no such luck"),
        (python("import os; os.abort()"), r"signal 6"),
        ("no-such-program {count}", r"no-such-program cannot be started: No such file or directory"),
        (python("import time; time.sleep(60)"), r"no request in 3 s"),
    ],
    ids=["fails", "dies", "missing", "hangs"],
)
def test_broken_contender_fails_and_others_continue(command: str, reason: str) -> None:
    """The failed contender has a reason, but neither a rate nor a ratio."""
    document = bench(contender=[command, OWN_COMMAND], only=[], count=20, seconds=3 if "sleep" in command else 5)

    broken, good = document["results"]
    assert (broken["status"], good["status"]) == ("failed", "ok")
    assert re.fullmatch(reason, broken["reason"])
    assert (broken["seconds_a_request"], broken["ratio_to_best"]) == (None, None)
    assert good["ratio_to_best"] == 1.0


def test_program_ignoring_signal_is_killed_with_children(tmp_path: Path) -> None:
    """Children that have left the process group are killed as well."""
    mark = f"fetchmill-bench-mark-{os.getpid()}"
    child = f"import time; time.sleep(600)  # {mark}"
    program = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"for apart in (False, True): subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=apart)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program]
    found = measure(command, Bounds(seconds=1.0, grace=0.5), folder=tmp_path, environment=os.environ)

    assert (found.stopped, found.killed, found.code) == (True, True, -signal.SIGKILL)
    assert found.seconds < 15
    assert wait_until(lambda: commands_with(mark) == [])


def test_leftover_child_processes_end_with_program(tmp_path: Path) -> None:
    """A child that keeps standard output open does not delay the measurement."""
    mark = f"fetchmill-bench-left-{os.getpid()}"
    child = f"import time; time.sleep(600)  # {mark}"
    program = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(0.5)"
    command = [sys.executable, "-c", program]
    found = measure(command, Bounds(seconds=60), folder=tmp_path, environment=os.environ)

    assert (found.code, found.stopped, found.killed) == (0, False, False)
    assert found.seconds < 30
    assert wait_until(lambda: commands_with(mark) == [])


@pytest.mark.timing
def test_memory_and_cpu_time_cover_all_processes(tmp_path: Path) -> None:
    """Two processes use 60 MiB and half a second of CPU time each, and the parent does not wait for its child."""
    work = "import time\nkept = b'x' * (60 << 20)\nwhile time.process_time() < 0.5: pass\ntime.sleep(0.5)\n"
    program = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {work!r}])\n{work}"
    command = [sys.executable, "-c", program]
    found = measure(command, Bounds(seconds=60), folder=tmp_path, environment=os.environ)

    assert found.code == 0
    assert 120 < found.peak_mib < 200
    assert 0.9 < found.cpu_seconds < 3


@pytest.mark.timing
def test_shared_memory_of_processes_is_counted_once(tmp_path: Path) -> None:
    """A process of 100 MiB that forks into four does not count as 400 MiB."""
    program = "import os, time\nkept = b'x' * (100 << 20)\nfor _ in range(2): os.fork()\ntime.sleep(1)"
    found = measure([sys.executable, "-c", program], Bounds(seconds=60), folder=tmp_path, environment=os.environ)

    assert 100 < found.peak_mib < 200


def test_long_program_output_keeps_only_its_end(tmp_path: Path) -> None:
    """A program that writes a lot does not wait for a reader."""
    program = (
        "import sys\nfor n in range(400_000): print('x' * 100, file=(sys.stdout, sys.stderr)[n % 2])\nprint('last')"
    )
    found = measure([sys.executable, "-c", program], Bounds(seconds=60), folder=tmp_path, environment=os.environ)

    assert found.code == 0
    assert found.output.endswith("x\nlast\n")
    assert len(found.output) <= 16 * MIB
    assert len(found.errors) <= 64 << 10


def test_command_placeholders_are_replaced_with_run_values(server: Callable[..., Server]) -> None:
    """Other texts in braces stay unchanged."""
    check = "import sys; sys.exit(' '.join(sys.argv[1:]))"
    own = server(synthetic=30)
    command = python(check, "{count}", "{url}", "{limit}", "{other}", "a{count}b")
    found = only_run(bench(contender=[command], only=[], url=f"{own.url}/", count=20, limit=7, seconds=5))

    assert found["reason"] == f"exit code 1: 20 {own.url} 7 {{other}} a20b"


def test_given_url_is_measured_and_no_server_is_started(server: Callable[..., Server]) -> None:
    """If the server has fewer objects than requested, all of them are fetched."""
    own = server(synthetic=30)
    document = bench(url=own.url, only=["native", "a_sync", "callback_as_completed"], count=1000, seconds=5)

    assert [(found["status"], found["done"]) for found in document["runs"]] == [("ok", 30)] * 3
    assert all(found["server_cpu_seconds"] is None for found in document["runs"])
    assert own.stats()["get"] == 90


def test_unreachable_server_is_reported_as_listing_error(run: Callable[..., Any]) -> None:
    """The error names the listing's URL, and nothing is measured."""
    ended = run("bench", "--url", "http://127.0.0.1:1", "--only", "native", "--no-warm-up")

    assert ended.code == ListingError.exit_code
    assert "fetchmill: error: http://127.0.0.1:1/list cannot be read" in ended.err


def test_stored_files_are_removed_after_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison with `format="files"` leaves nothing in the temporary folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    document = bench(only=["native", "a_sync"], count=50, seconds=5, format="files", warm_up=True)

    assert [found["status"] for found in document["runs"]] == ["ok", "ok"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_contender_and_server(number: signal.Signals, start: Callable[..., subprocess.Popen[str]]) -> None:
    """The exit code is that of the signal."""
    mark = f"fetchmill-bench-{number.name}-{os.getpid()}"
    command = python(f"import time; time.sleep(600)  # {mark}")
    bench = start(
        *("bench", "--only", "native", "--contender", command, "--seconds", "60", "--no-warm-up"),
        *("--count", own_count()),
    )
    assert wait_until(lambda: len(commands_with(mark)) > 1 or bench.poll() is not None)
    assert bench.poll() is None, bench.communicate()
    bench.send_signal(number)
    bench.communicate(timeout=120)

    assert bench.returncode == 128 + number
    assert wait_until(lambda: commands_with(mark) == [])
    assert wait_until(lambda: not commands_with(f'"synthetic": {own_count()},'))


def test_signal_is_deferred_while_process_starts() -> None:
    """Otherwise, the new process would be unknown and could not be ended."""
    reached = []
    with pytest.raises(KeyboardInterrupt), defer_signals():  # noqa: PT012 - the end of the block raises
        signal.raise_signal(signal.SIGINT)
        reached.append("the end of the block")

    assert reached == ["the end of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupted_comparison_shows_finished_runs(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """The exit code is 130."""
    begun = tmp_path / "begun"
    command = python("import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)", str(begun))
    options = ("--count", "10", "--seconds", "60", "--no-warm-up", "--json")
    bench = start("bench", "--only", "native", "--contender", command, *options)
    assert wait_until(lambda: begun.exists() or bench.poll() is not None)
    assert bench.poll() is None, bench.communicate()
    bench.send_signal(signal.SIGINT)
    out, err = bench.communicate(timeout=120)
    document = json.loads(out)

    assert bench.returncode == 130
    assert "stopped after 1 of 2 runs" in err
    assert document["interrupted"]
    assert [found["contender"] for found in document["results"]] == ["native"]


def test_undrained_job_counts_with_last_progress_event() -> None:
    """On a slow disk, a job may be stopped before it writes its report."""
    (run,) = plan_runs(BenchOptions(only=["native"]))
    counts = {"absent": 1, "failed": 2}
    lines = [{"event": "progress", "seconds": 1.0 * n, "fetched": 100 * n, **counts} for n in (1, 2)]
    output = "".join(json.dumps(line) + "\n" for line in lines)
    ended: dict[str, Any] = {
        "code": 130,
        "killed": False,
        "seconds": 9.0,
        "cpu_seconds": 1.0,
        "peak_mib": 9.0,
        "errors": "",
    }

    stopped = read_result(run, 1000, Measurement(stopped=True, output=output, **ended), None)
    assert (stopped.status, stopped.done, stopped.seconds) == ("stopped", 203, 2.0)
    broken = read_result(run, 1000, Measurement(stopped=False, output=output, **ended), None)
    assert (broken.status, broken.reason) == ("failed", "exit code 130")


def test_unwritable_report_is_refused_before_first_run(run: Callable[..., Any], tmp_path: Path) -> None:
    """The error comes immediately, not after an hour of measurements."""
    for place in (tmp_path / "nowhere" / "report.html", tmp_path):
        ended = run("bench", "--html", place)

        assert (ended.code, ended.out) == (2, "")
        assert re.fullmatch(r"fetchmill: error: --html: .* cannot be written .*\n", ended.err)


def test_killed_bench_leaves_no_server(
    start: Callable[..., subprocess.Popen[str]], environment: dict[str, str], tmp_path: Path
) -> None:
    """The server ends when its standard input is closed; only a temporary folder is left."""
    options = ("--only", "a_sync", "--seconds", "3", "--no-warm-up", "--count", own_count())
    contender = ("fetchmill_bench.contender_entry a_sync", f'"count": {own_count()},')
    bench = start("bench", *options, env=environment | {"TMPDIR": str(tmp_path)})
    assert wait_until(lambda: len(commands_with(*contender)) > 0)
    bench.kill()
    bench.communicate(timeout=120)

    assert wait_until(lambda: not commands_with(f'"synthetic": {own_count()},'))
    assert wait_until(lambda: not commands_with(*contender))


@pytest.mark.timing
def test_slow_scenario_reports_steady_rate_and_ceiling(run: Callable[..., Any]) -> None:
    """The steady rate excludes the first and the last 3 s; the ceiling follows from Little's law."""
    options = ("--only", "callback_as_completed,native", "--limit", "50", "--seconds", "8", "--no-warm-up", "--json")
    ended = run("bench", "slow", *options)
    document = json.loads(ended.out)

    assert "slow: 50 in flight, replies after 1.5 s on average: at most 33 requests/s" in ended.err
    for found in document["runs"]:
        assert found["failures"] == 0
        assert 10 < found["steady_per_second"] < 60


def test_sites_scenario_classifies_hosts_like_check() -> None:
    """The hosts are good, dead, refusing or redirecting. Only ways that do not follow redirects may differ."""
    # The addresses of hosts are only in a file, where other Python programs find them. One of the twelve hosts does not
    # exist, and raises.
    program = (
        "import contextlib, socket, sys, urllib.parse\n"
        "found = []\n"
        "for url in open(sys.argv[1]):\n"
        "    with contextlib.suppress(socket.gaierror):\n"
        "        found.append(socket.getaddrinfo(urllib.parse.urlsplit(url).hostname, 443))\n"
        "sys.exit(0 if len(found) == 11 else repr(found))\n"
    )
    good = {"scenario": "sites", "only": ["check", "native", "e_gather"], "count": 12, "seconds": 20}
    document = bench(**good, contender=[python(program, "{urls}")])

    checked, native, gathered, own = document["runs"]
    assert [found["status"] for found in document["runs"]] == ["ok"] * 4
    assert [found["done"] for found in document["runs"]] == [12] * 4
    assert own["differs"] is None
    assert checked["differs"] is None
    assert native["differs"] == {"rows": 0, "examples": []}
    assert gathered["differs"]["rows"] <= 2
    assert checked["failures"] == native["failures"]
    assert {found["sites"] for found in document["results"]} == {12}


@pytest.mark.parametrize("store", ["replay", "versitygw"])
def test_s3_scenario_compares_clients_over_local_store(store: Store) -> None:
    """Each client reads the whole bucket. The results have the server's time and, if known, the set-up time."""
    document = run_bench(
        BenchOptions(
            scenario="s3",
            store=store,
            only=["boto3_threads", "obstore", "s5cmd"],
            contender=["sh -c 'test -n \"$AWS_ACCESS_KEY_ID\" && test {bucket}-{count} = bucket-120'"],
            count=120,
            limit=10,
            # Enough for a machine where clients start slowly.
            seconds=120,
            warm_up=False,
        )
    )

    assert [(run["status"], run["done"], run["failures"], run["reason"]) for run in document["runs"]] == [
        ("ok", 120, 0, None)
    ] * 4
    set_up = {result["contender"]: result["set_up_seconds"] for result in document["results"]}
    assert all(set_up[name] > 0 for name in ("boto3_threads", "obstore"))
    assert set_up["s5cmd"] is None
    assert all(result["server_cpu_us_a_request"] is not None for result in document["results"])


def test_missing_s3_store_error_names_install_script(run: Callable[..., Any], environment: dict[str, str]) -> None:
    """The error says which script builds the store."""
    environment["PATH"] = "/usr/bin:/bin"

    ended = run("bench", "s3", "--store", "versitygw", "--only", "s5cmd", "--count", "10")

    assert ended.code == StorageError.exit_code
    assert "versitygw is missing; build it with scripts/install-versitygw" in ended.err


def test_differences_are_counted_among_common_sites() -> None:
    """Each example has the site, the answer of the check, and that of the way."""
    answers = {"a.test": "200", "b.test": "timeout", "c.test": "200"}
    checked = {"a.test": "200", "b.test": "200", "d.test": "404"}

    assert differences(answers, checked) == {"rows": 1, "examples": [["https://b.test", "200", "timeout"]]}


def test_resolver_follows_aliases_and_omits_missing_hosts(sites: World) -> None:
    """Hosts are also looked up over TCP; names without an address are left out."""
    behaviours = ("good", "cname", "many", "tc", "dual", "dead", "slowdns", "nxdomain", "servfail", "nodata", "nodns")
    found = resolve(sites.dns, [f"{behaviour}-000001.test" for behaviour in behaviours])

    assert {name.partition("-")[0] for name in found} == set(behaviours[:7])
    assert all(address.startswith("127.77.") for address in found.values())


def test_results_have_median_spread_and_ratio_of_repeats() -> None:
    """A failed run is shown, but does not count as a measurement."""
    runs = [
        row(requests_per_second=rate, cpu_seconds=0.1 * number) for number, rate in enumerate((300.0, 100.0, 200.0), 1)
    ]
    runs += [row(contender="two", requests_per_second=50.0), row(contender="two", status="failed", reason="r", done=0)]
    runs += [row(contender="three", status="failed", reason="broken", done=0, requests_per_second=0.0)]
    one, two, three = results_of(runs, by_requests=False)

    assert one["requests_per_second"] == {"median": 200.0, "least": 100.0, "most": 300.0}
    assert (one["repeats"], one["seconds_a_request"], one["ratio_to_best"]) == (3, 0.005, 1.0)
    assert one["days_for_a_billion"] == pytest.approx(1e9 / 200 / 86_400)
    assert one["cpu_us_a_request"] == pytest.approx(2000)
    assert (two["status"], two["reason"], two["ratio_to_best"]) == ("failed", "r", 4.0)
    assert (three["seconds_a_request"], three["ratio_to_best"], three["cpu_us_a_request"]) == (None, None, None)
    assert spread([3.0, 1.0]) == {"median": 2.0, "least": 1.0, "most": 3.0}


def test_ratio_compares_equal_request_counts_when_grouped() -> None:
    """A way that is the best with ten requests may not be the best with a million."""
    runs = [row(requests=count, requests_per_second=rate) for count, rate in ((10, 5.0), (1000, 50.0))]
    runs += [row(contender="two", requests=10, requests_per_second=10.0)]

    assert [found["ratio_to_best"] for found in results_of(runs, by_requests=True)] == [2.0, 1.0, 1.0]
    assert [found["ratio_to_best"] for found in results_of(runs, by_requests=False)] == [10.0, 1.0, 5.0]


def test_steady_rate_excludes_start_and_end() -> None:
    """The run takes ten seconds, and begins and ends slowly."""
    (run,) = plan_runs(BenchOptions(scenario="slow", only=["native"], seconds=10))
    points = [(0.0, 0.0), (3.0, 30.0), (7.0, 430.0), (10.0, 440.0)]

    assert ContenderResult(status="stopped", done=440, seconds=12.0, points=points).steady_rate(run) == 100.0
    assert ContenderResult(status="ok", done=440, seconds=6.5, points=points).steady_rate(run) is None


def test_bench_list_shows_scenarios_and_row_of_contenders(run: Callable[..., Any]) -> None:
    """Each contender module has its contender in the list."""
    ended = run("bench", "--list")

    assert ended.code == 0
    assert {path.stem for path in CONTENDER_MODULES.glob("[a-z]*.py")} == {
        c.name for c in CONTENDERS if c.kind == "module"
    }
    assert all(re.search(rf"^{contender.name} ", ended.out, re.MULTILINE) for contender in CONTENDERS)
    assert re.search(r"^a_threads .* billion +A: 10 / 100 threads$", ended.out, re.MULTILINE)
    assert re.search(r"^boto3_threads .* s3 +B: threads$", ended.out, re.MULTILINE)


def test_published_mode_runs_all_published_contenders() -> None:
    """The runs include the counts and limits of the published texts."""
    runs = plan_runs(BenchOptions(published=True))

    def has(contender: str, **wanted: int) -> bool:
        return any(
            run.contender.name == contender and all(getattr(run, name) == value for name, value in wanted.items())
            for run in runs
        )

    assert {found.contender for found in PUBLISHED if found.contender} <= {run.contender.name for run in runs}
    assert all(has("a_threads", limit=limit) for limit in (1, 10, 50, 100, 1000))
    assert all(has("semaphore_gather", requests=count, limit=1000) for count in (10, 100, 10_000, 100_000))
    assert all(has("e_sync", sites=count) for count in (10, 100, 500, 1000))
    assert not has("semaphore_gather", requests=1_000_000)
    full = plan_runs(BenchOptions(published=True, full=True))
    assert any(run.requests == 1_000_000 and run.contender.name == "semaphore_gather" for run in full)


def test_default_bench_is_planned_within_two_minutes() -> None:
    """Each contender of the scenario `billion` runs once, for at most five seconds."""
    runs = plan_runs(BenchOptions())

    _, most = duration(runs, warm_up=True)
    assert most < 120
    assert all(run.seconds <= 5 and run.scenario is SCENARIOS["billion"] for run in runs)
    names = [run.contender.name for run in runs]
    assert names[:6] == ["native", "sync", "threads", "processes", "asyncio", "combo"]


def test_full_s3_plan_has_all_counts_and_limits() -> None:
    """Without `full`, the plan has three counts at one limit; published mode has those of the text."""
    usual = plan_runs(BenchOptions(scenario="s3", only=["native", "s5cmd"]))
    full = plan_runs(BenchOptions(scenario="s3", only=["native", "s5cmd"], full=True))
    published = plan_runs(BenchOptions(scenario="s3", published=True))

    assert [(run.requests, run.limit) for run in usual[::2]] == [(100, 50), (1000, 50), (30_000, 50)]
    each = {(count, limit) for count in (100, 1000, 30_000, 100_000) for limit in (10, 50, 100, 200)}
    assert {(run.requests, run.limit) for run in full} == each
    assert len(full) == 2 * len(each)
    assert {(100, 10), (100, 100), (30_000, 50), (100_000, 50)} == {(run.requests, run.limit) for run in published}
    assert {run.contender.name for run in published} == {
        *("native", "boto3_threads", "aiobotocore", "aiobotocore_all", "obstore", "s5cmd")
    }


def test_repeats_alternate_between_contenders() -> None:
    """A machine that becomes slower thus affects all contenders equally."""
    runs = plan_runs(BenchOptions(only=["native", "a_sync"], repeat=2))

    assert [(run.contender.name, run.repeat) for run in runs] == [
        ("native", 1),
        ("a_sync", 1),
        ("native", 2),
        ("a_sync", 2),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenario": "fast"}, "'fast' is not a scenario; the scenarios are billion, slow, sites, s3"),
        ({"scenario": "s3", "url": "http://127.0.0.1:1"}, "url cannot be used with the scenario s3"),
        ({"scenario": "s3", "only": ["a_sync"]}, "the contender a_sync cannot run in the scenario s3"),
        ({"only": ["boto3_threads"]}, "the contender boto3_threads cannot run in the scenario billion"),
        ({"scenario": "s3", "store": "minio"}, "store must be one of replay, versitygw, not 'minio'"),
        ({"only": ["natif"]}, "'natif' is not a contender; the contenders are check, native"),
        ({"count": 0}, "count must be a whole number of at least 1"),
        ({"repeat": 0}, "repeat must be"),
        ({"seconds": 0}, "seconds must be above 0"),
        ({"contender": [" "]}, "contender must be a non-empty command"),
        ({"full": True}, "full can be used only with published or with the scenario s3"),
        ({"published": True, "limit": 5}, "limit cannot be used with published"),
        ({"scenario": "sites", "url": "http://127.0.0.1:1"}, "url cannot be used with the scenario sites"),
        ({"format": "tar"}, "format must be one of files, null"),
    ],
)
def test_invalid_bench_options_are_refused(options: dict[str, Any], message: str) -> None:
    """The error comes before anything runs."""
    with pytest.raises(UsageError, match=re.escape(message)):
        BenchOptions(**options)


def test_unparsable_contender_command_is_refused() -> None:
    """The command has an unclosed quotation mark."""
    with pytest.raises(UsageError, match=r"contender .* cannot be read"):
        BenchOptions(contender=["python 'my.py"])


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34e-6, "12.3 us"), (0.004563, "4.56 ms"), (1.2, "1.20 s"), (None, "-")]
)
def test_time_per_request_is_formatted_with_unit(seconds: float | None, text: str) -> None:
    """Times have three significant digits."""
    assert format_duration(seconds) == text


def test_slow_run_duration_is_estimated_from_delays() -> None:
    """The estimate follows from Little's law, and includes the last reply."""
    (run,) = plan_runs(BenchOptions(scenario="slow", only=["native"], seconds=60))

    assert isinstance(run, Run)
    assert run.expected_seconds == pytest.approx(10_000 / (1000 / 1.5) + 3)
