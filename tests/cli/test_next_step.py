"""Messages after an error name the correct cause and a useful next step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from engines import ENGINES, WITH_LISTS, engine_options
from fetchmill.testing import Fault, Server
from ports import closed_port
from s3_stores import Moto

Run = Callable[..., Any]
Serve = Callable[..., Server]


def write_urls(folder: Path, *urls: str) -> str:
    """Writes a list by its name."""
    (folder / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    return "urls.txt"


def test_unreachable_proxy_is_named_as_cause(run: Run, server: Serve, dest: Path) -> None:
    """The server is not blamed."""
    source = server(synthetic=3)

    with closed_port() as port:
        ended = run("get", source.url, dest, "--proxy", f"http://user:secret@127.0.0.1:{port}")

    assert ended.code == 4
    assert "failed (proxy)" in ended.err
    assert f"requests go through the proxy 127.0.0.1:{port}; check that it is running and --proxy is right" in ended.err
    assert "check that the server is running" not in ended.err
    assert "secret" not in ended.err
    assert source.stats()["get"] == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("engine", WITH_LISTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_targets_fail_because_of_unreachable_proxy(
    run: Run, dest: Path, tmp_path: Path, scheme: str, engine: str
) -> None:
    """Their hosts are never contacted."""
    urls = write_urls(tmp_path, f"{scheme}://a.test/1", f"{scheme}://b.test/2")

    with closed_port() as port:
        proxy = ("--proxy", f"http://127.0.0.1:{port}", "--attempts", "1")
        ended = run("get", urls, dest, *proxy, *engine_options(engine))

    assert ended.code == 3, ended.err
    assert {failure.kind for failure in fetchmill.failures(dest)} == {"proxy"}


def test_https_to_http_port_suggests_http(run: Run, server: Serve, dest: Path) -> None:
    """The suggestion contains the corrected URL."""
    url = server(synthetic=3).url

    ended = run("get", url.replace("http:", "https:"), dest)

    assert ended.code == 4
    assert (
        f"check that this is an https server and the port is right; for a plain http server, write {url}" in ended.err
    )


def test_source_without_objects_is_reported(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """An empty server is not an error. If filters exclude everything, the exit code is 3: a glob may be wrong."""
    empty, full = server(synthetic=0), server(synthetic=5)

    nothing = run("get", empty.url, dest)
    left_out = run("get", full.url, tmp_path / "b", "--include", "other*")
    some = run("get", full.url, tmp_path / "c", "--exclude", "*4")

    assert (nothing.code, left_out.code, some.code) == (0, 3, 0)
    assert f"nothing was listed: {empty.url} contains no targets\n" in nothing.err
    assert "nothing was fetched (5 listed): 5 excluded by filters\n" in left_out.err
    assert "nothing" not in some.err
    assert any("nothing was listed" in notice for notice in fetchmill.get(empty.url, tmp_path / "d").notices)


def test_prefix_without_keys_is_reported(run: Run, moto: Moto, dest: Path, environment: dict[str, str]) -> None:
    """The message has the prefix, which is probably misspelt."""
    moto.put("data/1", b"1")
    settings = {"env": environment | moto.environment()}

    ended = run("get", f"s3://{moto.bucket}/dtaa/", dest, "--endpoint-url", moto.endpoint, **settings)

    assert ended.code == 3, ended.err
    assert f'nothing was listed: the bucket {moto.bucket} has no key that begins with "dtaa/"' in ended.err


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("get", "http://127.0.0.1:1", "out", "--bearer"), "get"),
        (("check", "urls.txt", "--proxy"), "check"),
        (("status", "out", "--state"), "status"),
    ],
)
def test_option_without_value_points_to_its_own_help(run: Run, arguments: tuple[str, ...], command: str) -> None:
    """The message does not point to the general help."""
    ended = run(*arguments)

    assert ended.code == 2
    assert f"Option '{arguments[-1]}' requires an argument. (see fetchmill {command} --help)" in ended.err


def test_suggested_command_fetches_private_addresses(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """The list was first fetched without `--allow-private`."""
    source = server(synthetic=3)
    urls = write_urls(tmp_path, *(f"{source.url}/get/file-{number:012}" for number in range(3)))

    refused = run("get", urls, dest)
    again = run("get", urls, dest, "--allow-private")
    fetched = run("retry", dest, "private-address", "--allow-private")

    assert (refused.code, again.code, fetched.code) == (3, 3, 0)
    hint = f"fetch them: fetchmill retry {dest} private-address --allow-private"
    assert hint in refused.err
    assert "failed and absent targets were not requested again\n" in again.err
    assert hint in again.err
    why = "an earlier run without --allow-private refused these targets, and this run did not request them again"
    assert f"private-address: {why}; {hint}\n" in again.err
    assert fetchmill.status(dest).fetched == 3


def test_retry_is_suggested_only_for_retryable_failures(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Failures that a retry cannot fix have a separate line."""
    source = server(synthetic=3, size=100, faults=(Fault("status", match="file-000000000002", status=403),))
    names = ("file-000000000000", "file-000000000002", "absent")
    urls = write_urls(tmp_path, *(f"{source.url}/get/{name}" for name in names), "no url")
    command = ("get", urls, dest, "--allow-private")

    ended = run(*command, "--max-size", "50")
    larger = run("retry", dest, "body-too-large", "--max-size", "1KB")

    assert (ended.code, larger.code) == (3, 3)
    lines = ended.err.splitlines()
    assert (
        f"body-too-large: larger than --max-size; fetch them: fetchmill retry {dest} body-too-large --max-size BYTES"
        in lines
    )
    assert (
        "url: these lines do not contain a URL; fix them or use --template 'https://{}', and choose another destination"
        in lines
    )
    assert f"fetch the others again: fetchmill retry {dest} status,404,410" in lines
    assert not [line for line in lines if line.endswith(f"retry {dest}")]
    assert "body-too-large" not in larger.err
    assert fetchmill.status(dest).fetched == 1


def test_retry_is_suggested_when_targets_are_only_absent(run: Run, server: Serve, dest: Path) -> None:
    """Absent targets may exist later, so a retry is suggested."""
    source = server(synthetic=3, faults=[Fault("status", match="file-000000000002", status=404)])

    ended = run("get", source.url, dest)

    assert (ended.code, fetchmill.status(dest).absent) == (3, 1)
    assert f"fetch them again: fetchmill retry {dest}\n" in ended.err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
def test_failure_of_too_large_body_shows_limit(engine: str, run: Run, server: Serve, dest: Path) -> None:
    """The limit is in the list of failures."""
    source = server(synthetic=2, size=100)

    assert run("get", source.url, dest, "--max-size", "50", *engine_options(engine)).code == 3

    details = {failure.detail for failure in fetchmill.failures(dest) if failure.kind == "body-too-large"}
    assert details == {"above --max-size (50 bytes)"}
    assert "fetchmill" not in run("status", dest, "--failures").err


def test_summary_shows_rate_of_fetched_objects(run: Run, server: Serve, dest: Path, tmp_path: Path) -> None:
    """Without fetched objects, no rate is shown. One object is written in the singular."""
    source = server(synthetic=1)
    broken = server(synthetic=3, faults=(Fault("status", status=403),))

    one = run("get", source.url, dest)
    none = run("get", broken.url, tmp_path / "b")

    assert "\n1 object in " in f"\n{one.err}"
    assert "objects/s" in one.err
    assert "3 objects in " in none.err
    assert "objects/s" not in none.err
