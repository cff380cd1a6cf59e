"""Jobs over many hosts, in a simulated world of sites with known answers: every host gets its share, and no more."""

import random
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from check_results import read_rows, write_urls
from fetchmill._native import FAILURE_KINDS
from fetchmill.testing import Server, world
from fetchmill.world import BEHAVIOURS, Site, World
from ports import free_ports

Run = Callable[..., Any]
Serve = Callable[..., Server]
Row = dict[str, Any]

TIMEOUT = 3
# Hosts with so few requests that no limit per host matters.
COUNT = 1500
# Failure kinds that no site of a check can cause, with their causes.
ELSEWHERE = {
    "checksum": "tests/s3/test_s3_checksums.py: of a store of S3",
    "dns": "look-ups that are malformed: crates/fetchmill-net/src/dns/tests",
    "unreachable": "the table of errors: crates/fetchmill-net/src/errno.rs",
    "tls-certificate": "tests/http/test_https.py",
    "proxy": "tests/http/test_proxy.py",
    "proxy-refused": "tests/http/test_proxy.py",
    "idle-timeout": "tests/http/test_framing.py: a check has one time for the whole attempt",
    "unverified-length": "tests/http/test_framing.py: a check takes bodies that end with the connection",
    "body-too-large": "tests/http/test_framing.py: a check reads no body to its end",
    "url": "tests/check/test_check.py",
    "function": "tests/engines/test_engine_functions.py: a function of a program",
    "worker": "tests/engines/test_engine_functions.py: a process of an engine in Python",
    "transform": "tests/engines/test_transform.py",
    "name": "tests/listings/test_bad_names.py: a check stores nothing",
    "name-taken": "tests/listings/test_bad_names.py",
    "listing": "tests/listings/test_mirror_nginx.py",
    "changed": "tests/s3/test_s3_source.py: a check has no listing that says what an object was",
    "credentials": "tests/s3/test_s3_source.py: a list of s3:// URLs",
    "range-ignored": "tests/lists/test_ranges.py: a check asks for whole objects",
    "range-unsatisfied": "tests/lists/test_ranges.py",
    "bad-range": "tests/lists/test_ranges.py",
    "bad-encoding": "tests/http/test_compressed.py: a check asks for bodies as they are",
    "unexpected-type": "tests/http/test_accept.py",
    # The result of a complete reply is its status.
    "server-error": "status",
    "throttled": "status",
    "redirect": "status",
    "status": "status",
}


def trust(folder: Path, whole: World) -> tuple[str, ...]:
    """Returns the options that a command needs for this world."""
    (folder / "ca.pem").write_text(whole.ca_pem)
    options = ("--resolver", whole.dns, "--allow-private", "--ca-file", "ca.pem", "--timeout", str(TIMEOUT))
    return (*options, "--redirects", "20")


def check(run: Run, folder: Path, whole: World, urls: list[str], *options: str) -> list[Row]:
    """Returns the rows of a check of these sites."""
    ended = run("check", write_urls(folder, urls), "rows.jsonl", *trust(folder, whole), "--quiet", *options)
    assert (ended.code, ended.err) == (0, "")
    return read_rows(folder / "rows.jsonl")


def is_right(site: Site, row: Row) -> bool:
    """Returns whether a row agrees with its site."""
    if site.expected.status is not None:
        return row.get("kind") is None and row.get("status") == site.expected.status
    return row.get("kind") in site.expected.kinds


def begun(rows: list[Row]) -> list[float]:
    """Returns when the attempts of rows began, in seconds, in order."""
    return sorted(datetime.fromisoformat(row["started_at"]).timestamp() for row in rows)


@pytest.mark.one_in(3)
def test_check_reports_every_site_behaviour(run: Run, tmp_path: Path) -> None:
    """Every behaviour is reported correctly, over http and https."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    with world(timeout=TIMEOUT) as whole:
        mix = dict.fromkeys(BEHAVIOURS, 1.0)
        sites = {site.url: site for site in whole.sites(COUNT, mix=mix, seed=seed, patient=False)}
        rows = check(run, tmp_path, whole, list(sites))

    assert sorted(row["url"] for row in rows) == sorted(sites)
    assert not [
        (sites[row["url"]], row) for row in rows if not row.get("suspect") and not is_right(sites[row["url"]], row)
    ]
    assert sum(row.get("suspect", False) for row in rows) <= COUNT * 0.01
    answered = [row for row in rows if row.get("status") == 200 and row["url"].startswith("https")]
    for phase in ("queue_ms", "dns_ms", "connect_ms", "tls_ms", "first_byte_ms", "total_ms"):
        assert all(row[phase] >= 0 for row in answered), phase
    assert {row["http_version"] for row in answered} == {"1.1", "2"}
    assert all(row["address"].startswith("127.") for row in answered)


def test_every_failure_kind_is_covered() -> None:
    """A kind that never occurs would be useless, and a new one needs a test."""
    met = {kind for expected in BEHAVIOURS.values() for kind in expected.kinds}

    assert met | set(ELSEWHERE) >= set(FAILURE_KINDS)
    assert met <= set(FAILURE_KINDS)
    assert set(ELSEWHERE) <= set(FAILURE_KINDS)


def test_retry_after_pauses_only_its_host(run: Run, tmp_path: Path) -> None:
    """After a 429 with `Retry-After`, the host gets no request for that time, and then all. Other hosts continue."""
    names = ("busy-000001.test", "good-000001.test")
    with world(timeout=TIMEOUT, retry_after=2, watched=names) as whole:
        busy, good = ([f"http://{name}:{whole.http_port}/?{n}" for n in range(30)] for name in names)
        options = (*trust(tmp_path, whole)[:5], "--format", "null", "--quiet", "--limit-per-host", "1")
        ended = run(
            "get", write_urls(tmp_path, [url for pair in zip(busy, good, strict=True) for url in pair]), "out", *options
        )
        seen = whole.stats()["watched"]

    assert ended.code == 0
    of_busy, of_good = (seen[name]["requests_ms"] for name in names)
    assert len(of_busy) == 31
    assert of_busy[1] - of_busy[0] >= 2000
    assert len(of_good) == 30
    assert of_good[-1] < of_busy[1]


def test_dead_host_costs_few_attempts(run: Run, tmp_path: Path) -> None:
    """Other targets of a dead host fail without an attempt, with the kind that revealed the dead host."""
    with world(timeout=TIMEOUT) as whole:
        dead, good = (f"http://{name}-000001.test:{whole.http_port}/" for name in ("dead", "good"))
        started = time.monotonic()
        rows = check(run, tmp_path, whole, [f"{url}?{n}" for n in range(100) for url in (dead, good)])

    assert time.monotonic() - started < 5 * TIMEOUT
    of_dead = [row for row in rows if row["url"].startswith(dead)]
    assert {row["kind"] for row in of_dead} == {"connect-timeout"}
    tried = sum(row["attempts"] for row in of_dead)
    assert 5 <= tried <= 5 + 4
    assert sum(row["attempts"] == 0 for row in of_dead) == 100 - tried
    assert sum(row.get("status") == 200 for row in rows) == 100


def test_targets_of_dead_host_wait_and_then_fail(tmp_path: Path) -> None:
    """The host is probed again, because two attempts are allowed. Each target has its outcome in the end."""
    with world() as whole:
        refusing, good = (f"http://{name}-000001.test:{whole.http_port}/" for name in ("refusing", "good"))
        urls = [f"{url}?{n}" for n in range(50) for url in (refusing, good)]
        dest = tmp_path / "out"
        report = fetchmill.get(urls, dest, format="null", resolver=[whole.dns], attempts=2)

    assert (report.fetched, report.failures) == (50, {"refused": 50})
    failed = list(fetchmill.failures(dest))
    assert {failure.kind for failure in failed} == {"refused"}
    assert sum(failure.attempts == 0 for failure in failed) >= 30


def test_host_connections_and_rate_stay_within_limits(run: Run, tmp_path: Path) -> None:
    """Connections, and requests per second, stay within the limits of each host."""
    name = "slow-000003.test"
    with world(timeout=TIMEOUT, watched=(name,)) as whole:
        urls = [f"http://{name}:{whole.http_port}/?{n}" for n in range(40)]
        check(run, tmp_path, whole, urls, "--limit-per-host", "3")
        most = whole.stats()["watched"][name]["connections_max"]
        quick = [f"http://good-000009.test:{whole.http_port}/?{n}" for n in range(60)]
        (tmp_path / "rows.jsonl").unlink()
        rows = check(run, tmp_path, whole, quick, "--rate-per-host", "30", "--state", "again")

    assert 1 <= most <= 3
    times = begun(rows)
    assert times[-1] - times[0] >= 60 / 30 - 0.3


def test_large_host_does_not_delay_other_hosts(run: Run, tmp_path: Path) -> None:
    """The large host keeps its rate, too, even for targets that did not fit into memory."""
    with world(timeout=TIMEOUT) as whole:
        hot = f"http://good-999999.test:{whole.http_port}/"
        others = [site.url for site in whole.sites(30, mix={"good": 1}, https=0.5)]
        urls = [line for n, url in enumerate(others) for line in (*(f"{hot}?{n}.{k}" for k in range(99)), url)]
        rows = check(run, tmp_path, whole, urls, "--rate-per-host", "400")

    assert len(rows) == len(urls)
    assert all(row["status"] == 200 for row in rows)
    of_hot, of_others = (
        begun([row for row in rows if row["url"].startswith(hot) is is_hot]) for is_hot in (True, False)
    )
    assert of_hot[-1] - of_hot[0] > 6
    assert of_others[-1] - of_others[0] < 3


def test_unresolved_names_do_not_delay_other_hosts(run: Run, tmp_path: Path) -> None:
    """Silent names do not cause delays even if they come first and outnumber the fast slots."""
    with world(timeout=TIMEOUT) as whole:
        silent = [site.url for site in whole.sites(1000, mix={"nodns": 1})]
        good = [site.url for site in whole.sites(300, mix={"good": 1}, https=0)]
        rows = check(run, tmp_path, whole, silent + good)

    of_good = [row for row in rows if row.get("status") == 200]
    of_silent = [row for row in rows if row.get("kind") == "dns-timeout"]
    assert (len(of_good), len(of_silent)) == (300, 1000)
    first = min(begun(of_silent))
    assert begun(of_good)[-1] - first < 3


def test_recheck_finds_recovered_sites(run: Run, server: Serve, tmp_path: Path) -> None:
    """Sites that seem dead are checked again later, even those whose circuit breaker was open."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/get/file-000000000000"
    back: list[Server] = []
    timer = threading.Timer(5, lambda: back.append(server(synthetic=10, port=port)))
    timer.start()
    try:
        options = ("--second-look", "--allow-private", "--quiet")
        urls = [f"{url}?{n}" for n in range(12)]
        ended = run("check", write_urls(tmp_path, [*urls, "http://127.0.0.1:9/"]), "rows.jsonl", *options)
    finally:
        timer.join()

    assert ended.code == 0
    rows = {row["url"]: row for row in read_rows(tmp_path / "rows.jsonl")}
    dead = rows.pop("http://127.0.0.1:9/")
    assert (dead["kind"], dead["second_look"], dead["attempts"]) == ("refused", True, 2)
    assert {(row.get("status"), row["second_look"]) for row in rows.values()} == {(200, True)}
    # The last targets were not attempted, because the circuit breaker was open.
    assert {row["attempts"] for row in rows.values()} == {1, 2}


@pytest.mark.parametrize("options", [{}, {"resolver": ["system"]}])
def test_public_only_restricts_urls_of_program(server: Serve, options: dict[str, Any]) -> None:
    """A program may restrict its URLs to public addresses. Names are looked up in both cases."""
    source = server(synthetic=1)
    url = source.url.replace("127.0.0.1", "localhost") + "/get/file-000000000000"

    [open_reply] = fetchmill.stream([url], **options)
    [reply] = fetchmill.stream([url], public_only=True, **options)

    assert open_reply.status == 200
    assert reply.error is not None
    assert reply.error.kind == "private-address"
    assert source.stats()["get"] == 1
