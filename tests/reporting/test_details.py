"""The detail of a failure is its cause, in rows, lists of failures, streams and the summary."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from certificates import Certificates, demanding
from check_results import read_rows
from lists import write_list
from raw_server import Behaviour, RawServer, bare_reply, reply, then_close

Run = Callable[..., Any]

# A secret value of a parameter.
HIDDEN = "s3cr3t-of-a-test"
DETAIL_BYTES_MAX = 1100
# Answer of the server, failure kind, and words of the detail.
ANSWERS: dict[str, tuple[Behaviour, str, str]] = {
    "unauthorized": (
        reply(status="401 Unauthorized").replace(b"\r\n", b'\r\nWWW-Authenticate: Basic realm="a\x1b[31m"\r\n', 1),
        "status",
        "401 Unauthorized; no credentials were given, see --bearer; the server requests Basic",
    ),
    "forbidden": (reply(status="403 No"), "status", "403 Forbidden; no credentials were given, see --bearer"),
    "bad-request": (reply(status="400 x"), "status", "400 Bad Request"),
    "unnamed": (reply(status="999 x"), "status", "status 999"),
    "error": (reply(status="502 x"), "server-error", "502 Bad Gateway"),
    "throttled": (
        reply(b"", "Retry-After: 1", status="503 x"),
        "throttled",
        "503 Service Unavailable; Retry-After: 1 s",
    ),
    "choices": (reply(status="300 x"), "redirect", "300 Multiple Choices"),
    "choice": (
        reply(b"", f"Location: /there?token={HIDDEN}", status="300 x"),
        "redirect",
        "300 Multiple Choices; Location: /there?token=***",
    ),
    "absent": (reply(status="404 x"), "absent", "404 Not Found"),
    "gone": (reply(status="410 x"), "absent", "410 Gone"),
    "loop": (reply(b"", "Location: /loop", status="302 x"), "redirect-loop", "redirect to /loop"),
    "ftp": (
        reply(b"", f"Location: ftp://h/?token={HIDDEN}", status="302 x"),
        "redirect-refused",
        "redirect to ftp://h/?token=***",
    ),
    "nowhere": (reply(status="302 x"), "redirect-refused", "has no Location header"),
    "lengths": (
        bare_reply("Content-Length: 1", "Content-Length: 2") + b"a",
        "framing",
        "the reply has two different Content-Length fields",
    ),
    "encoding": (bare_reply("Transfer-Encoding: gzip") + b"a", "framing", "Transfer-Encoding"),
    "ssh": (then_close(b"SSH-2.0-x\r\n"), "not-http", "HTTP/1.x"),
    "closed": (then_close(b""), "reset", "before the reply began"),
    "short": (then_close(reply(b"abc", length=10)), "truncated", "closed before the body was complete"),
    "endless": (then_close(bare_reply("Connection: close") + b"abc"), "unverified-length", "--allow-eof-bodies"),
    "large": (reply(b"x" * 100), "body-too-large", "--max-size"),
    "head": (bare_reply(*(f"X-{number}: x" for number in range(200))), "head-too-large", "128 header fields"),
    "gzip": (reply(b"no", "Content-Encoding: gzip"), "bad-encoding", "gzip"),
}
# A stream yields every complete reply, including redirects.
REPLIES = (
    "unauthorized",
    "forbidden",
    "bad-request",
    "unnamed",
    "error",
    "throttled",
    "choices",
    "choice",
    "absent",
    "gone",
)
OPTIONS = ("--attempts", 1, "--max-size", 50, "--allow-private", "--compressed")


@pytest.fixture
def answers(raw: Callable[..., RawServer]) -> dict[str, tuple[str, str, str]]:
    """Returns the URL of each answer with its failure kind and words of its detail."""
    server = raw({f"/{name}": behaviour for name, (behaviour, _, _) in ANSWERS.items()})
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refused = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    return {f"{server.url}/{name}": (name, kind, words) for name, (_, kind, words) in ANSWERS.items()} | {
        refused: ("refused", "refused", "refused"),
        "not a url": ("url", "url", "no scheme"),
    }


def without_throttled(answers: dict[str, tuple[str, str, str]]) -> dict[str, tuple[str, str, str]]:
    """Returns the answers without throttling, because a job waits for minutes before a throttled target fails."""
    return {url: answer for url, answer in answers.items() if answer[0] != "throttled"}


def assert_detail(name: str, detail: str | None, words: str) -> None:
    """Checks that a detail has these words, is printable, short, and free of secrets."""
    assert detail is not None, name
    assert words in detail, (name, detail)
    assert detail.isprintable(), (name, detail)
    assert len(detail.encode()) <= DETAIL_BYTES_MAX, name
    assert HIDDEN not in detail


@pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])
def test_each_failure_of_job_has_detail(
    engine: str, run: Run, answers: dict[str, tuple[str, str, str]], tmp_path: Path
) -> None:
    """Each failure in the list of failures has a detail; the native engine also says what was wrong."""
    answers = without_throttled(answers)
    dest = tmp_path / "out"
    of_engine = () if engine == "native" else ("--engine", engine)
    options = OPTIONS if engine == "native" else OPTIONS[:-1]

    ended = run(
        "get", write_list(tmp_path, [{"url": url} for url in answers]), dest, "--format", "jsonl", *options, *of_engine
    )

    found = {failure.name: failure for failure in fetchmill.failures(dest)}
    assert ended.code == 3, ended.err
    for url, (name, kind, words) in answers.items():
        failure = found.get(url) or found.get(f"line {list(answers).index(url) + 1}")
        if failure is None:
            assert (engine, name) != ("native", name), found
            continue
        is_told_alike = engine == "native" or name in REPLIES
        if is_told_alike:
            assert (failure.kind or failure.outcome) == kind, failure
        assert_detail(name, failure.detail, words if is_told_alike else "")
    if engine == "native":
        assert "401 Unauthorized: 1; no credentials were given, see --bearer" in ended.err.splitlines()
        assert "status 3" not in ended.err


def test_each_failed_row_has_detail(run: Run, answers: dict[str, tuple[str, str, str]], tmp_path: Path) -> None:
    """Each failed row of `check`, and of `--keep-failed`, has a detail."""
    checked = tmp_path / "checked.jsonl"
    listed = write_list(tmp_path, [{"url": url} for url in answers])
    run("check", listed, checked, "--attempts", 1, "--allow-private")
    failing = without_throttled(answers)
    (tmp_path / "job").mkdir()
    of_job = write_list(tmp_path / "job", [{"url": url} for url in failing])
    run("get", of_job, tmp_path / "out", "--format", "jsonl", "--keep-failed", *OPTIONS)

    rows = {row["url"]: row for row in read_rows(checked) if row["url"]}
    for url, (name, _, words) in answers.items():
        # A check does not decode bodies, and needs no length.
        if name in {"url", "gzip", "endless", "large"}:
            continue
        assert_detail(name, rows[url]["detail"], words)
    found = {failure.name: failure.detail for failure in fetchmill.failures(tmp_path / "out")}
    assert len(found) == len(failing)
    assert all(found.values()), found


def test_each_failure_of_stream_has_detail(answers: dict[str, tuple[str, str, str]]) -> None:
    """Each failure of a stream has the detail as the text of its error."""
    with fetchmill.stream(list(answers), attempts=1, max_size=50, compressed=True) as replies:
        for got in replies:
            name, _, words = answers[got.url]
            assert (got.error is None) == (name in REPLIES), name
            if got.error is not None:
                assert_detail(name, str(got.error), "" if name in {"url", "large", "endless"} else words)


def unusual(certificates: Certificates) -> ssl.SSLContext:
    """A TLS server whose only ciphers no client accepts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.good.chain, certificates.good.key)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA256")
    return context


@pytest.fixture
def secured(certificates: Certificates) -> Iterator[dict[str, str]]:
    """Returns URLs of servers, and words in the detail of a request for each."""
    contexts = {
        demanding(
            certificates, ssl.TLSVersion.TLSv1_2
        ): "TLS alert handshake_failure: the server requires a client certificate; see --client-cert",
        demanding(certificates, ssl.TLSVersion.TLSv1_3): "the server requires a client certificate; see --client-cert",
        unusual(certificates): "TLS alert handshake_failure",
    }
    with ExitStack() as stack:
        yield {
            stack.enter_context(RawServer({"/": reply(b"x")}, tls=context)).url + "/": words
            for context, words in contexts.items()
        }


def test_tls_alert_is_reported_by_name(
    run: Run, secured: dict[str, str], certificates: Certificates, tmp_path: Path
) -> None:
    """The detail says that the server requires a client certificate, with TLS 1.2 and 1.3."""
    listed = write_list(tmp_path, [{"url": url} for url in secured])

    run(
        "get",
        listed,
        tmp_path / "out",
        "--format",
        "jsonl",
        "--allow-private",
        "--attempts",
        2,
        "--ca-file",
        certificates.ca_file,
    )

    found = {failure.name: failure for failure in fetchmill.failures(tmp_path / "out")}
    for url, words in secured.items():
        assert_detail(url, found[url].detail, words)
        assert (found[url].kind, found[url].attempts) == ("tls", 1)


def test_summary_counts_failures_by_status_over_runs(run: Run, raw: Callable[..., RawServer], tmp_path: Path) -> None:
    """After a retry run, the failures of retried targets are not counted."""
    routes: dict[str, Behaviour] = {f"/a{number}": reply(status="401 x") for number in range(3)}
    routes |= {f"/b{number}": reply(status="500 x") for number in range(2)}
    server = raw(routes)
    listed, dest = write_list(tmp_path, [{"url": server.url + path} for path in routes]), tmp_path / "out"
    job = ("get", listed, dest, "--format", "jsonl", "--allow-private", "--attempts", 1)

    first = run(*job)
    counted = fetchmill.status(dest).failed_statuses
    for number in range(2):
        server.routes[f"/b{number}"] = reply(b"found")
    server.routes["/a0"] = reply(status="403 x")
    bearer = ("--header", "Authorization: Bearer x", "--credentials-for", server.url)
    again = run(*job, "--retry-failed", *bearer)

    assert counted == {"401 Unauthorized": 3, "500 Internal Server Error": 2}
    assert "failed: 401 Unauthorized 3, 500 Internal Server Error 2" in first.err.splitlines()
    assert fetchmill.status(dest).failed_statuses == {"401 Unauthorized": 2, "403 Forbidden": 1}
    assert "401 Unauthorized: 2; credentials were refused" in again.err.splitlines()
    assert {failure.detail for failure in fetchmill.failures(dest)} == {
        "401 Unauthorized; credentials were refused",
        "403 Forbidden; credentials were refused",
    }


def test_sync_counts_failures_by_status(run: Run, raw: Callable[..., RawServer], tmp_path: Path) -> None:
    """`sync` counts failures by status like `get`, with the reason of a 401, also in Python."""
    server = raw(
        {"/a": reply(b"a"), "/b": reply(status="401 x"), "/c": reply(status="401 x"), "/d": reply(status="451 x")}
    )
    listed = write_list(tmp_path, [{"url": f"{server.url}/{name}"} for name in "abcd"])

    ended = run("sync", listed, tmp_path / "out", "--allow-private")

    said = ended.out + ended.err
    assert "failed: 401 Unauthorized 2, 451 Unavailable For Legal Reasons 1\n" in said
    assert "401 Unauthorized: 2; no credentials were given, see --bearer\n" in said
    report = fetchmill.sync(listed, tmp_path / "out", allow_private=True)
    assert (report.fetched, report.unchanged, report.failed, dict(report.failures)) == (1, 0, 3, {"status": 3})
    assert dict(report.failed_statuses) == {"401 Unauthorized": 2, "451 Unavailable For Legal Reasons": 1}
    assert report.to_dict()["failed_statuses"] == dict(report.failed_statuses)
