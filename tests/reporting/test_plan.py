"""`fetchmill plan`: a probe of a few seconds predicts the cost of a job and leaves no files behind."""

import gzip
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pyarrow as pa
import pytest
from pyarrow import parquet

import fetchmill
from fetchmill._job.report import Snapshot
from fetchmill._options.plan import PlanOptions
from fetchmill._plan import probe, reckoning
from fetchmill._plan.plan import _estimate_notice, make_plan
from fetchmill._plan.probe import _is_over
from fetchmill._plan.windows import Estimate, found_since, looked_until, relative_error, steady_rate, warm_up
from fetchmill.testing import Fault, Server, s3
from small_disk import run_on_disk, small_disk
from wide_area import wide_area

Run = Callable[..., Any]
Serve = Callable[..., Server]

MIB = 1 << 20
# Long enough for these tests; the default is 10.
BRIEF = ("--probe-seconds", 2)
# Maximum error of a prediction, as a share of the actual time.
TOLERANCE = 0.25


@pytest.fixture
def temporary(tmp_path: Path, environment: dict[str, str]) -> Path:
    """Returns the only folder in which the command may create temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment["TMPDIR"] = str(folder)
    return folder


def planned(ended: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the plan that a command printed as JSON."""
    assert ended.code == 0, ended.err
    (line,) = ended.out.splitlines()
    event = json.loads(line)
    assert event.pop("event") == "plan"
    return event


def of_format(plan: Any, name: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the plan's estimate for a format."""
    (found,) = (each for each in plan["formats"] if each["format"] == name)
    return found


@pytest.mark.thorough
def test_plan_estimates_all_resources_and_leaves_no_files(run: Run, server: Serve, dest: Path, temporary: Path) -> None:
    """Each estimate is for the number of listed objects and lies within its own range. No file is left behind."""
    served = server(synthetic=1_000_000, size=300)

    plan = planned(run("plan", served.url, dest, "--json", *BRIEF))

    assert (plan["objects"], plan["objects_from"]) == (1_000_000, "told")
    for name in ("objects_per_second", "seconds", "object_requests", "listing_requests", "body_bytes", "network_bytes"):
        assert 0 < plan[name]["low"] <= plan[name]["value"] <= plan[name]["high"], name
    assert plan["object_requests"]["value"] == pytest.approx(1_000_000, rel=0.01)
    assert plan["listing_requests"]["value"] == pytest.approx(1000, rel=0.01)
    assert plan["body_bytes"]["value"] == 300_000_000
    assert plan["network_bytes"]["low"] > 300_000_000
    assert [each["format"] for each in plan["formats"]] == ["files", "parquet", "tar", "jsonl", "warc", "null"]
    assert not dest.exists()
    assert list(temporary.iterdir()) == []


def test_plan_prints_table_for_people(run: Run, server: Serve, dest: Path) -> None:
    """The table goes to standard output; a log file gets one additional line."""
    served = server(synthetic=50_000)

    ended = run("plan", served.url, dest, *BRIEF)

    assert ended.code == 0, ended.err
    assert ended.err == f"probing {served.url} for 2.00 s; nothing is stored\n"
    rows = dict(re.findall(r"^(\w[\w ]*?) {2,}(\S.*)$", ended.out, re.MULTILINE))
    assert rows["objects"].startswith("50,000 (")
    assert {"time", "rate", "requests", "network", "format", "files", "parquet", "null"} <= rows.keys()
    assert rows["files"].endswith("fits")
    assert "free at " in ended.out


@pytest.mark.one_in(3)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "tar", "parquet", "jsonl", "warc"])
def test_plan_predicts_bytes_and_inodes_of_each_format(run: Run, server: Serve, memory_path: Path, format: str) -> None:
    """The predicted bytes and inodes match those of a job of 20,000 objects in folders.

    `files` is measured on a file system with blocks.
    """
    count = 20_000
    dest = memory_path / "out"
    served = server(synthetic=count, size=700)

    plan = planned(run("plan", served.url, dest, "--json", "--probe-seconds", 3, "--format", format))
    assert run("get", served.url, dest, "--format", format, "--quiet").code == 0

    found, files = of_format(plan, format), list(dest.rglob("*"))
    output = [path for path in files if path.is_file() and (".fetchmill" not in path.parts or "manifest" in path.name)]
    block = plan["room"]["block"] if format == "files" else 1
    size = sum(-(-path.stat().st_size // block) * block for path in output)
    # The prediction includes the journal at its maximum size.
    assert size + 64 * count == pytest.approx(found["disk_bytes"]["value"], rel=0.15)
    assert found["disk_bytes"]["low"] <= size + 64 * count <= found["disk_bytes"]["high"]
    if format == "files":
        assert count < found["inodes"]["value"] < 1.2 * count
    else:
        # Some of the journal's files have been removed by now.
        assert found["inodes"]["low"] - 6 <= len(files) <= found["inodes"]["high"] + 6


@pytest.mark.thorough
def test_plan_counts_lists_and_reads_sizes_from_manifests(run: Run, server: Serve, tmp_path: Path) -> None:
    """The number of targets in a list, and the sizes in a manifest, are known before anything is fetched."""
    served = server(synthetic=300_000, size=150, delay=(0.02, 0.02))
    urls, rows = tmp_path / "urls.txt", tmp_path / "rows.csv"
    names = [f"{served.url}/get/file-{number:012}" for number in range(300_000)]
    urls.write_text("\n".join(names))
    head = "name,url,size,etag,last_modified\n"
    rows.write_text(head + "".join(f"n{number},{url},150,,\n" for number, url in enumerate(names)))

    for source in (urls, rows):
        plan = planned(run("plan", source, "--allow-private", "--json", *BRIEF))
        assert (plan["objects"], plan["objects_from"]) == (300_000, "listed")
        assert plan["listing_requests"]["value"] == 0
        assert plan["body_bytes"]["value"] == 300_000 * 150
        assert plan["room"] is None


class PastTheBound:
    """A clock that passes the time limit for counting after some parts of the list."""

    def __init__(self) -> None:
        self._parts = 0

    def monotonic(self) -> float:
        """Returns a time that is 31 s later once enough parts were counted."""
        return 31.0 if self._parts >= 20 else 0.0

    def note(self, *_: object) -> None:
        """Records that a part was counted."""
        self._parts += 1


@pytest.mark.parametrize("kind", ["txt", "txt.gz", "jsonl", "parquet", "folder"])
def test_plan_extrapolates_lists_too_long_to_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """The total is extrapolated from the share of bytes or rows that were read."""
    count = 400_000
    # These names hardly compress, so a block of the compressed list, which is read as a whole, has few lines.
    rng = random.Random(1)
    lines = [f"http://127.0.0.1/{rng.randbytes(16).hex()}" for _ in range(count)]
    path = tmp_path / f"urls.{kind}"
    match kind:
        case "txt":
            path.write_text("\n".join(lines))
        case "txt.gz":
            path.write_bytes(gzip.compress("\n".join(lines).encode(), 1))
        case "jsonl":
            path.write_text("".join(f'{{"url":"{line}"}}\n' for line in lines))
        case "parquet":
            parquet.write_table(pa.table({"url": lines}), path)
        case _:
            path.mkdir()
            (path / "1.txt").write_text("\n".join(lines[:1000]))
            (path / "2.txt").write_text("\n".join(lines[1000:]))
    clock = PastTheBound()
    monkeypatch.setattr(probe, "time", clock)

    listing = probe.list_alone(PlanOptions(source=path), tmp_path / "state", clock.note)

    assert listing is not None
    assert not listing.is_complete
    assert 0 < listing.share < 1
    assert listing.estimate == pytest.approx(count, rel=0.2)
    found = cast("reckoning.ProbeResults", SimpleNamespace(listing=listing, last=SimpleNamespace(listing_done=False)))
    assert reckoning.count_objects(PlanOptions(source=path), found) == (listing.estimate, "estimated")
    assert re.match("the number of objects is an estimate: [0-9,]+ targets were counted", _estimate_notice(listing))


def test_planned_warc_time_includes_indexes() -> None:
    """Fetching limits this job, so only the indexes add time. A bucket destination and `--no-cdxj` have no indexes."""
    states = [SimpleNamespace(asked_for=0, busy=0.0), SimpleNamespace(asked_for=10, busy=0.0)]
    rate = SimpleNamespace(first=0, seconds_for=lambda count: Estimate.exactly(count / 1000))
    rate.body_bytes = Estimate.exactly(10_000)
    fetching = SimpleNamespace(is_finished=False, snapshots=states, processors=states)
    found = cast(
        "reckoning.ProbeResults",
        SimpleNamespace(listing=None, stored={}, replies=None, fetched_share=0.5, rate=rate, fetching=fetching),
    )

    def seconds(**options: Any) -> dict[str, Estimate]:  # noqa: ANN401 - options
        chosen = PlanOptions(source="urls.txt", format="warc", **options)
        return {each.format: each.seconds for each in reckoning.formats(chosen, found, 1_000_000, None)}

    indexed, bare, bucket = seconds(), seconds(cdxj=False), seconds(dest="s3://bucket/x/")

    assert bare["warc"] == bucket["warc"] == bare["null"] == Estimate.exactly(1000)
    assert indexed["tar"] == Estimate.exactly(1000)
    more = indexed["warc"].value - 1000
    assert more == pytest.approx(0.5 * (4.6 + 17))
    assert (indexed["warc"].low, indexed["warc"].high) == pytest.approx((1000 + more / 2, 1000 + 2 * more))


@pytest.mark.one_in(3)
def test_plan_of_bucket_includes_request_costs(run: Run, environment: dict[str, str]) -> None:
    """The plan has one LIST request per thousand keys and one GET request per key, at the given prices."""
    with s3(synthetic=20_000, size=100) as store:
        prices = ("--price-list", 5, "--price-get", 0.4, "--price-gb", 100)
        own = environment | store.environment()
        plan = planned(run("plan", f"s3://{store.bucket}", *prices, "--json", *BRIEF, env=own))

    assert (plan["objects"], plan["objects_from"]) == (20_000, "listed")
    assert 20 <= plan["listing_requests"]["value"] < 60
    assert plan["body_bytes"]["value"] == 2_000_000
    lists = plan["listing_requests"]["value"]
    assert plan["cost"]["value"] == pytest.approx(lists / 1000 * 5 + 20 * 0.4 + 0.2, rel=0.01)


@pytest.mark.one_in(3)
def test_plan_objects_option_sets_number_of_objects(run: Run, server: Serve) -> None:
    """`--objects` sets the number of objects. The default is a million if the total is unknown."""
    served = server(synthetic=5000)

    plan = planned(run("plan", served.url, "--objects", "2e9", "--json", *BRIEF))

    assert (plan["objects"], plan["objects_from"]) == (2_000_000_000, "given")
    assert plan["object_requests"]["value"] == 2_000_000_000


@pytest.mark.one_in(3)
def test_plan_counts_retries_as_requests(run: Run, server: Serve) -> None:
    """Retries count as requests, and an absent object takes no space."""
    faults = [Fault("status", status=404, rate=0.25), Fault("status", status=500, rate=0.2, times=1)]
    served = server(synthetic=1_000_000, faults=faults)

    plan = planned(run("plan", served.url, "--json", "--rate", 4000, *BRIEF))

    assert plan["object_requests"]["value"] == pytest.approx(1_150_000, rel=0.1)
    assert plan["absent_share"] == pytest.approx(0.25, abs=0.05)
    assert plan["body_bytes"]["value"] == pytest.approx(75_000_000, rel=0.1)
    assert of_format(plan, "files")["inodes"]["value"] == pytest.approx(750_000, rel=0.1)


@pytest.mark.parametrize(
    ("faults", "code", "message"),
    [
        ([Fault("status", status=403)], 5, "none of the first .* could be fetched; the first: .*403"),
        ([Fault("status", status=404)], 5, "none of the first .* could be fetched"),
    ],
)
def test_plan_fails_when_source_returns_no_objects(
    run: Run, server: Serve, temporary: Path, faults: Sequence[Fault], code: int, message: str
) -> None:
    """The error is one line that contains the reason."""
    served = server(synthetic=5000, faults=faults)

    ended = run("plan", served.url, *BRIEF, "--quiet")

    assert (ended.code, ended.out) == (code, "")
    assert re.fullmatch(rf"fetchmill: error: {re.escape(served.url)}: {message}.*\n", ended.err), ended.err
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        # The connection is refused. On a busy machine, the connect timeout or the probe may end first.
        ("http://127.0.0.1:1", None, "refused|connect-timeout|nothing was listed"),
        ("-", 2, "save the list to a file"),
        ("missing.txt", 2, "missing.txt"),
    ],
)
def test_plan_fails_when_source_is_unreachable(
    run: Run, temporary: Path, source: str, code: int | None, message: str
) -> None:
    """The error is one line, and no temporary folder is left."""
    started = time.monotonic()
    ended = run("plan", source, *BRIEF, "--quiet")

    # Either the job has given up, or the probe has ended first.
    assert ended.code in ((code,) if code else (4, 5)), ended.err
    assert re.fullmatch(r"fetchmill: error: [^\n]+\n", ended.err), ended.err
    assert re.search(message, ended.err)
    assert time.monotonic() - started < 20
    assert list(temporary.iterdir()) == []


def test_plan_fails_when_listing_is_empty(run: Run, server: Serve, tmp_path: Path) -> None:
    """The exit code and the message say that there is nothing to plan."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.txt").touch()
    for source in (server(tmp_path / "empty").url, "empty.txt"):
        ended = run("plan", source, *BRIEF, "--quiet")
        assert (ended.code, ended.out) == (4, "")
        assert f"error: {source} lists no objects" in ended.err


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [0.7, 1.5, 3.0])
def test_signal_ends_plan_immediately(
    start: Callable[..., Any], server: Serve, dest: Path, temporary: Path, number: signal.Signals, after: float
) -> None:
    """A signal ends the probe immediately in each of its phases. No temporary folder is left."""
    served = server(synthetic=100_000, delay=(0.05, 0.05))
    process = start("plan", served.url, dest, "--probe-seconds", 30)
    while not list(temporary.iterdir()):
        time.sleep(0.01)
    time.sleep(after)

    process.send_signal(number)
    started = time.monotonic()
    out, err = process.communicate(timeout=60)

    assert time.monotonic() - started < 5
    assert (process.returncode, out) == (128 + number, "")
    assert "Traceback" not in err
    assert list(temporary.iterdir()) == []
    assert not dest.exists()


@pytest.mark.thorough
@pytest.mark.alone
def test_plan_probe_sends_no_more_requests_than_get(run: Run, server: Serve) -> None:
    """With the same options, the probe opens as many connections as a job and stays within its rate."""
    served = server(synthetic=100_000)
    # Replies are held for up to a second, so a probe of four seconds measured a tenth too little.
    plan = planned(run("plan", served.url, "--rate", 200, "-j", 8, "--json", "--probe-seconds", 8))
    stats = served.stats()

    assert plan["objects_per_second"]["value"] == pytest.approx(200, rel=0.1)
    assert stats["get"] <= 200 * 8 * 1.3
    alone = server(synthetic=100_000)
    assert run("get", alone.url, "null", "--rate", 200, "-j", 8, "--format", "null", "--max-duration", 8).code == 8
    # The probe makes two runs one after the other, and each run starts with a few extra connections.
    assert stats["connections"] <= 2 * alone.stats()["connections"] + 8


@pytest.fixture
def disk() -> Iterator[Callable[[int, int], Path]]:
    """Creates a file system with at least this number of bytes and inodes."""
    with ExitStack() as stack:
        yield lambda size, inodes: stack.enter_context(small_disk(size, inodes))


@pytest.mark.one_in(3)
def test_plan_reports_insufficient_disk_space(
    run: Run, server: Serve, disk: Callable[..., Path], environment: dict[str, str]
) -> None:
    """The plan is still printed. The exit code reports the lack of space, and the message suggests another format."""
    served = server(synthetic=1_000_000)
    dest = disk(256 * MIB, 2000) / "out"

    ended = run_on_disk(run, environment)("plan", served.url, dest, *BRIEF, "--quiet")

    assert ended.code == 7
    assert re.search(r"^files .*does not fit$", ended.out, re.MULTILINE)
    assert re.search(r"^parquet .* fits$", ended.out, re.MULTILINE)
    assert re.fullmatch(
        r"fetchmill: error: 1,000,000 objects as files do not fit into \S+: [\d,]+ inodes needed, [\d,]+ free; "
        r"--format parquet would fit\n",
        ended.err,
    ), ended.err


@pytest.mark.thorough
def test_python_plan_returns_same_figures_as_command(server: Serve, tmp_path: Path) -> None:
    """`fetchmill.plan` and the command agree on every figure."""
    served = server(synthetic=30_000)

    plan = fetchmill.plan(served.url, tmp_path / "out", format="parquet", probe_seconds=2)

    assert isinstance(plan, fetchmill.Plan)
    assert (plan.objects, plan.format) == (30_000, "parquet")
    assert plan.seconds == plan.of_format("parquet").seconds
    assert json.loads(json.dumps(plan.to_dict()))["seconds"] == plan.seconds.to_dict()
    with pytest.raises(KeyError):
        plan.of_format("zip")
    with pytest.raises(fetchmill.UsageError, match="engine must be native, not threads"):
        fetchmill.plan(served.url, engine="threads")


def counted(rates: Sequence[float], *, body: int = 100) -> list[Snapshot]:
    """Returns snapshots of a run with these rates, one rate per second and ten snapshots per second."""
    snapshots, settled = [], 0
    for number in range(10 * len(rates) + 1):
        settled += int(rates[(number - 1) // 10] / 10) if number else 0
        values: dict[str, Any] = {
            "listed": settled,
            "fetched": settled,
            "bytes": body * settled,
            "seconds": number / 10,
        }
        zero: dict[str, Any] = dict.fromkeys(
            ("absent", "failed", "skipped", "in_flight", "waiting", "start_settled"), 0
        )
        rest: dict[str, Any] = {"listing_done": False, "failures": {}, "phase": "fetching", "resumed": False}
        snapshots.append(Snapshot(**zero, **rest, **values))
    return snapshots


def test_steady_rate_excludes_warm_up() -> None:
    """The steady rate ignores the warm-up, but the predicted time includes its cost."""
    rate = steady_rate(counted([50, 200, 600, *([1000, 1020, 980] * 3)]))

    assert rate is not None
    assert rate.objects.value == pytest.approx(1000, rel=0.02)
    assert rate.seconds_for(100_000).value == pytest.approx(3 + (100_000 - 850) / 1000, rel=0.02)
    assert not rate.is_growing


def test_steady_rate_excludes_search_for_concurrency() -> None:
    """Objects fetched while the concurrency is being searched for do not count, however long the search takes."""
    numbers = [32, 128, 512, 2048, 4096, 4096, 1024, 900, 1100, 1000]
    rates = [100, 400, 2000, 4000, 3000, 2500, 9000, 10000, 10000, 10000]
    snapshots = [
        replace(each, concurrency=numbers[max(index - 1, 0) // 10]) for index, each in enumerate(counted(rates))
    ]

    rate = steady_rate(snapshots)

    assert rate is not None
    assert rate.objects.value == pytest.approx(10_000, rel=0.06)


def test_end_of_concurrency_search_comes_from_snapshots() -> None:
    """The job's snapshots say how long it searches. Being near the final concurrency does not end the search."""
    snapshots = [
        replace(each, concurrency=32 if index <= 10 else 256, tries_concurrency=index <= 60)
        for index, each in enumerate(counted([1000] * 10))
    ]

    assert (found_since(snapshots), looked_until(snapshots)) == (11, 60)
    assert looked_until(counted([1000] * 10)) == 0


def test_steady_rate_excludes_concurrency_trials() -> None:
    """Objects fetched during trials do not count, even if the tried concurrency is close to the final one.

    The probe continues after the trials, but not forever.
    """
    snapshots = [
        replace(each, concurrency=256, tries_concurrency=index <= 60)
        for index, each in enumerate(counted([500] * 6 + [1000] * 4))
    ]

    rate = steady_rate(snapshots)

    assert rate is not None
    assert rate.objects.value == pytest.approx(1000, rel=0.02)
    assert not _is_over(snapshots[:90], 9.0, 8.0)
    assert _is_over(snapshots, 10.0, 8.0)
    assert _is_over(snapshots[:60], 24.0, 8.0)


@pytest.mark.thorough
def test_job_reports_whether_it_searches_for_concurrency(server: Serve) -> None:
    """With `auto`, the job searches until it has found a number. With a fixed number, it never searches."""
    served = server(synthetic=20_000, delay=(0.01, 0.01))
    said: dict[int | Literal["auto"], set[bool]] = {"auto": set(), 8: set()}
    for number, tries in said.items():
        options = PlanOptions(source=served.url, concurrency=number, probe_seconds=2)

        def note(_phase: str, _seconds: float, snapshot: Snapshot | None, tries: set[bool] = tries) -> None:
            tries.update([snapshot.tries_concurrency] if snapshot else [])

        make_plan(options, note)

    assert True in said["auto"]
    assert said[8] == {False}


def test_replies_arriving_together_do_not_widen_rate_range() -> None:
    """If a second's replies arrive together, the rate is not less certain."""
    rate = steady_rate([each for each in counted([1000] * 9) for _ in range(3)])
    steps = counted([1000] * 9)
    held = [replace(each, fetched=steps[number // 10 * 10].fetched) for number, each in enumerate(steps)]
    of_steps = steady_rate(held[:-5])

    assert rate is not None
    assert of_steps is not None
    assert of_steps.objects.value == pytest.approx(1000, rel=0.01)
    assert of_steps.objects.high == pytest.approx(rate.objects.high, rel=0.02)


def test_varying_rate_has_wider_range() -> None:
    """A rate that is still growing is reported, too."""
    even, uneven = (steady_rate(counted(rates)) for rates in ([1000] * 9, [500, 500, 1500, 1500] * 3))
    growing = steady_rate(counted([100 * 1.5**number for number in range(12)]))

    assert even is not None
    assert uneven is not None
    assert growing is not None
    assert even.objects.high / even.objects.value == pytest.approx(1.1, abs=0.01)
    assert uneven.objects.high > 1.2 * uneven.objects.value
    assert growing.is_growing
    assert steady_rate(counted([0] * 10)) is None
    assert warm_up([1.0, 5.0, 5.0, 5.0, 5.0, 5.0]) == 1
    assert relative_error([3.0, 3.0, 3.0]) == 0


def compare(plan: Any, report: Any) -> None:  # noqa: ANN401 - JSON
    """Compares the predicted time with the actual time."""
    predicted, took = plan["seconds"]["value"], report["seconds"]
    print(f"predicted {predicted:.1f} s, took {took:.1f} s: {predicted / took - 1:+.1%}")  # noqa: T201 - for the reader
    assert took / (1 + TOLERANCE) <= predicted <= took * (1 + TOLERANCE)


def reported(ended: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the report that a job printed as JSON."""
    assert ended.code == 0, ended.err
    return json.loads(ended.out.splitlines()[-1])


@pytest.mark.alone
@pytest.mark.parametrize(
    ("serving", "options"),
    [
        # A slow server, and a listing that is slower than fetching.
        ({"synthetic": 20_000, "delay": (0.02, 0.03)}, ("-j", 100)),
        ({"synthetic": 20_000, "list_delay": (0.2, 0.2), "delay": (0.005, 0.005)}, ("-j", 64)),
    ],
    ids=["slow replies", "slow listing"],
)
def test_plan_predicts_time_of_local_job(
    run: Run, server: Serve, dest: Path, serving: dict[str, Any], options: tuple[object, ...]
) -> None:
    """A four-second probe predicts the time of a job of 20,000 objects within 25 %."""
    served = server(**serving)
    common = (*options, "--format", "parquet", "--json")

    plan = planned(run("plan", served.url, dest, *common, "--probe-seconds", 4))

    compare(plan, reported(run("get", served.url, dest, *common)))


@pytest.mark.thorough
@pytest.mark.alone
def test_plan_predicts_time_over_distant_network(tmp_path: Path, dest: Path) -> None:
    """The server is 50 ms away, is reached over TLS, and some packets are lost."""
    content = {"synthetic": {"count": 30_000, "size": 100}}
    with (
        wide_area(tmp_path, round_trip=0.05, loss=0.001) as area,
        area.serving(content=content, page_size=5000) as site,
    ):
        common = ("-j", 200, "--format", "parquet", "--json")
        plan = planned(area.fetchmill("plan", site.url, dest, *common, "--probe-seconds", 8))
        compare(plan, reported(area.fetchmill("get", site.url, dest, *common)))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "network", [{"round_trip": 0.01}, {"round_trip": 0.05, "loss": 0.005}, {"round_trip": 0.05, "megabits": 10.0}]
)
def test_plan_predicts_time_of_million_objects(tmp_path: Path, memory_path: Path, network: dict[str, Any]) -> None:
    """A probe of ten seconds is compared with the job in three networks."""
    dest = memory_path / "out"
    content = {"synthetic": {"count": int(os.environ.get("FETCHMILL_PLAN_COUNT", "1000000")), "size": 100}}
    with wide_area(tmp_path, **network) as area, area.serving(content=content, page_size=10_000) as site:
        common = ("-j", "auto", "--format", "parquet", "--json")
        plan = planned(area.fetchmill("plan", site.url, dest, *common))
        compare(plan, reported(area.fetchmill("get", site.url, dest, *common, timeout=1000)))
