"""`--robots` for a list: each robots.txt is requested once, and forbidden targets are skipped with the rule."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from opt_out_hosts import OptOutHosts
from raw_server import RawServer, reply

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]
Start = Callable[..., "subprocess.Popen[str]"]

FORBIDS = reply(b"User-agent: *\nDisallow: /a\n")
OBEYS = ("--allow-private", "--robots", "--opt-out")


@pytest.fixture
def hosts() -> Iterator[OptOutHosts]:
    """Serves all hosts."""
    with OptOutHosts() as served:
        yield served


def verdict(row: dict[str, str | None]) -> str | None:
    """Returns a row's verdict in the form of the golden table."""
    return row["kind"] or row["detail"]


@pytest.mark.parametrize("command", ["check", "get"])
def test_robots_verdicts_of_200_hosts_match_golden_table(
    run: Run, hosts: OptOutHosts, tmp_path: Path, command: str
) -> None:
    """Each host gets one additional request, and none that its rules forbid."""
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{url}\n" for url in hosts.expected))
    dest = tmp_path / ("out.jsonl" if command == "check" else "out")
    words = (
        ("--timeout", "2s") if command == "check" else ("--format", "jsonl", "--keep-failed", "--head-timeout", "2s")
    )

    ended = run(command, urls, dest, *OBEYS, *words)

    assert ended.code in (0, 3), ended.err
    files = dest.glob("*.jsonl") if command == "get" else [dest]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    found = {row.get("url") or row["name"]: verdict(row) for row in rows}
    assert found == hosts.expected
    assert set(hosts.asked.values()) == {1}
    forbidden = Counter(
        url[: url.index("/", 7)] for url, why in hosts.expected.items() if (why or "").startswith("robots.txt:")
    )
    assert f"robots.txt: {forbidden.total()} on {len(forbidden)} hosts: " in ended.out + ended.err
    for url, why in hosts.expected.items():
        name, path = url.removeprefix("http://").split("/", 1)
        if why is not None and why.startswith("robots.txt:"):
            assert hosts.requests[name, f"/{path}"] == (1 if path == "go" else 0), url


@pytest.fixture
def forbidding(raw: Raw, tmp_path: Path) -> tuple[RawServer, Path]:
    """Serves a host that forbids a part of its own list."""
    server = raw({"/robots.txt": FORBIDS, **{f"/{name}": reply(name.encode()) for name in ("a", "b", "c", "d")}})
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{server.url}/{name}\n" for name in ("a", "b", "c", "d")))
    return server, urls


def test_robots_skips_agree_in_summary_python_and_next_run(
    run: Run, forbidding: tuple[RawServer, Path], dest: Path
) -> None:
    """A finished job sends no more requests."""
    server, urls = forbidding
    report = fetchmill.get(urls, dest, format="null", allow_private=True, robots=True)
    assert (dict(report.skipped_by), report.fetched) == ({"opted-out": 1}, 3)
    assert (dict(report.opted_out_by), dict(report.forbidding_hosts)) == ({"robots.txt": 1}, {server.url: 1})
    again = run("get", urls, dest, "--format", "null", "--allow-private")
    assert again.code == 2
    assert "robots" in again.err
    assert (server.count("/robots.txt"), server.count("/a")) == (1, 0)


def test_resumed_run_requests_robots_txt_again(run: Run, start: Start, raw: Raw, tmp_path: Path) -> None:
    """Rules are not in the journal, so the run after a kill requests them again.

    The journal does keep the counts, which include each target once.
    """
    reserved = reply(b"o", "X-Robots-Tag: noai")
    server = raw({"/robots.txt": FORBIDS, "/o": reserved, "/b": lambda exchange: exchange.stall()})
    down = raw({"/robots.txt": reply(b"", status="500 Internal Server Error")})
    urls, dest = tmp_path / "urls.txt", tmp_path / "out"
    forbidden = [f"{server.url}/a{number}" for number in range(3)] + [f"{down.url}/a"]
    urls.write_text("".join(f"{url}\n" for url in (*forbidden, f"{server.url}/o", f"{server.url}/b")))
    command = ("get", urls, dest, *OBEYS, "--format", "jsonl")
    killed = start(*command)
    while not (server.count("/b") and skipped_so_far(dest) == 5):
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    server.routes["/b"] = reply(b"b")

    ended = run(*command)

    assert (ended.code, server.count("/robots.txt"), server.count("/a0")) == (0, 2, 0), ended.err
    said = ended.out + ended.err
    assert "opted out: 5: robots.txt 3, X-Robots-Tag noai 1, robots.txt error 1\n" in said
    assert f"robots.txt: 4 on 2 hosts: {server.url} 3, {down.url} 1\n" in said
    listed = run("status", dest, "--skipped", "--json").out.splitlines()
    assert {"reason": "opted-out", "count": 3, "host": server.url} in map(json.loads, listed)
    (found,) = fetchmill.skipped(dest)
    assert list(found.hosts.items()) == [(server.url, 3), (down.url, 1)]


def skipped_so_far(dest: Path) -> int:
    """Returns the number of skipped targets that a running job has committed."""
    try:
        return fetchmill.status(dest).skipped
    except fetchmill.UsageError:
        return 0


def test_workers_share_robots_txt_of_host(run: Run, raw: Raw, tmp_path: Path) -> None:
    """Hosts of all workers redirect to one host, whose robots.txt is requested only once."""
    target = raw({"/robots.txt": FORBIDS, "/a": reply(b"a"), "/b": reply(b"b")})
    hosts = [
        raw({"/": reply(b"", f"Location: {target.url}/{'ab'[number % 2]}", status="302 Found")}) for number in range(8)
    ]
    urls, dest = tmp_path / "urls.txt", tmp_path / "out.jsonl"
    urls.write_text("".join(f"{host.url}/\n" for host in hosts))

    ended = run("check", urls, dest, *OBEYS)

    assert ended.code == 0, ended.err
    details = [json.loads(line)["detail"] for line in dest.read_text().splitlines()]
    assert sorted(filter(None, details)) == ["robots.txt: Disallow: /a"] * 4
    assert (target.count("/robots.txt"), target.count("/a"), target.count("/b")) == (1, 0, 4)
    assert [host.count("/robots.txt") for host in hosts] == [1] * 8


def test_robots_txt_request_obeys_address_policy(run: Run, forbidding: tuple[RawServer, Path], dest: Path) -> None:
    """If a host's address is not allowed for objects, its robots.txt is not requested either."""
    server, urls = forbidding
    ended = run("get", urls, dest, "--format", "null", "--robots")
    assert ended.code == 3
    assert "private-address 4" in ended.out + ended.err
    assert server.count("/robots.txt") == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [("get", ("--engine", "threads")), ("list", ()), ("sync", ())],
)
def test_robots_is_refused_by_commands_without_support(
    run: Run, forbidding: tuple[RawServer, Path], dest: Path, command: str, words: tuple[str, ...]
) -> None:
    """Commands that do not obey robots.txt refuse `--robots` for a list instead of ignoring it."""
    server, urls = forbidding
    ended = run(command, urls, dest.with_suffix(".csv") if command == "list" else dest, "--robots", *words)
    assert ended.code == 2, ended.err
    assert "--robots" in ended.err
    assert server.requests == []


def test_stream_refuses_robots_by_name(forbidding: tuple[RawServer, Path]) -> None:
    """A stream requests all URLs that the program passes."""
    server, _ = forbidding
    with pytest.raises(fetchmill.UsageError, match=r"robots: not an option of stream: .*your program passes"):
        fetchmill.stream([f"{server.url}/a"], robots=True)  # type: ignore[call-arg]
    assert server.requests == []
