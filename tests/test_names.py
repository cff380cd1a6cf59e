"""Hosts are looked up wherever one is named: real-looking names over TLS, in a network of the test's own.

`versitygw` stands where `some-bucket.s3.us-east-1.amazonaws.com` leads to. Its certificate is signed by an authority of
the test's own.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet
import pytest

from certificates import issued_for
from conftest import COMMAND, Ended
from network import Network, network
from s3_stores import ENVIRONMENT, named_versitygw

S3_HOST = "s3.us-east-1.amazonaws.com"
BUCKET = "some-bucket"
STORE, TOKENS, SITE, PROXY = "198.51.100.10", "198.51.100.11", "198.51.100.12", "198.51.100.13"
HOSTS = {
    S3_HOST: STORE,
    f"*.{S3_HOST}": STORE,
    "sts.us-east-1.amazonaws.com": TOKENS,
    "files.example.com": SITE,
    "proxy.example.net": PROXY,
}
OBJECTS = {f"p/{index:03}": f"object {index}".encode() * (index % 7) for index in range(120)}
SITE_OBJECTS = 200
TESTS = Path(__file__).parent
# What `unshare` leaves of the person's settings: none of a proxy, and of AWS only what a test gives.
CLEAN = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
KEYS = CLEAN | {name: value for name, value in ENVIRONMENT.items() if name.startswith("AWS_")}
NO_KEYS = {name: value for name, value in KEYS.items() if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
# A look-up that fails is tried again for as long; without a bound a job would wait for an outage to end.
SOON = ("--give-up-after", "2s")


@dataclass(frozen=True)
class Cloud:
    """A network with a store, a site and a proxy in it."""

    network: Network
    bucket: Path
    ca_file: Path
    proxied: Path
    tokens: Path

    def run(self, *arguments: object, environment: dict[str, str] = KEYS) -> Ended:
        """Runs the command line where all these names are."""
        return self.network.fetchmill(*arguments, "--ca-file", self.ca_file, environment=environment)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Everything that the tests of this module ask for."""
    folder = tmp_path_factory.mktemp("cloud")
    ca_file, leaf = issued_for(folder, S3_HOST, f"*.{S3_HOST}", "sts.us-east-1.amazonaws.com")
    bucket = folder / "store" / BUCKET
    (bucket / "p").mkdir(parents=True)
    for name, body in OBJECTS.items():
        (bucket / name).write_bytes(body)
    keys = (ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"])
    tokens = (TOKENS, leaf.chain, leaf.key, *keys)
    store = named_versitygw(bucket.parent, S3_HOST, STORE, leaf)
    site = ("serve", "--synthetic", SITE_OBJECTS, "--host", SITE, "--port", 80)
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(network(folder, HOSTS))
        stack.enter_context(inside.running(*store, ready=443, HOME=str(folder)))
        issued = stack.enter_context(inside.running(sys.executable, TESTS / "sts_server.py", *tokens))
        stack.enter_context(inside.running(*COMMAND, *site, ready=80))
        proxied = stack.enter_context(inside.running(sys.executable, TESTS / "forward_proxy.py", PROXY, 3128))
        yield Cloud(inside, bucket, ca_file, Path(proxied.name), Path(issued.name))


def stored(folder: Path) -> dict[str, bytes]:
    """The objects of a job of format parquet."""
    rows = [row for file in sorted(folder.glob("*.parquet")) for row in pyarrow.parquet.read_table(file).to_pylist()]
    return {row["name"]: row["body"] for row in rows}


@pytest.mark.parametrize("engine", ["native", "threads", "asyncio"])
def test_a_bucket_is_fetched_at_its_own_name(cloud: Cloud, tmp_path: Path, engine: str) -> None:
    """Virtual addressing, as AWS has it: the bucket is part of the name."""
    ended = cloud.run("get", f"s3://{BUCKET}/p", tmp_path / "out", "--format", "parquet", "--engine", engine, "--quiet")
    assert ended.code == 0, ended.err
    assert stored(tmp_path / "out") == OBJECTS


def test_a_bucket_is_fetched_below_the_name_of_its_store(cloud: Cloud, tmp_path: Path) -> None:
    """Path addressing at an endpoint that is named."""
    options = ("--addressing-style", "path", "--endpoint-url", f"https://{S3_HOST}", "--format", "parquet", "--quiet")
    ended = cloud.run("get", f"s3://{BUCKET}/p", tmp_path / "out", *options)
    assert ended.code == 0, ended.err
    assert stored(tmp_path / "out") == OBJECTS


def test_a_bucket_is_listed_at_its_own_name(cloud: Cloud, tmp_path: Path) -> None:
    """`list` asks the same names."""
    ended = cloud.run("list", f"s3://{BUCKET}/p", tmp_path / "manifest.parquet", "--quiet")
    assert ended.code == 0, ended.err
    rows = pyarrow.parquet.read_table(tmp_path / "manifest.parquet").to_pylist()
    assert {row["url"]: row["size"] for row in rows} == {
        f"s3://{BUCKET}/{name}": len(body) for name, body in OBJECTS.items()
    }


@pytest.mark.parametrize(("server", "code"), [("127.0.0.1", 0), ("127.0.0.99", 4)])
def test_a_list_asks_the_name_server_that_it_is_given(cloud: Cloud, tmp_path: Path, server: str, code: int) -> None:
    """Nobody answers at the second address."""
    ended = cloud.run("list", f"s3://{BUCKET}/p", tmp_path / "manifest.csv", "--resolver", server, "--quiet")
    assert ended.code == code, ended.err


@pytest.mark.parametrize(("server", "code"), [("127.0.0.1", 0), ("127.0.0.99", 4)])
@pytest.mark.parametrize("verb", ["get", "list"])
def test_a_server_s_own_host_is_asked_of_the_name_server_that_is_given(
    cloud: Cloud, tmp_path: Path, verb: str, server: str, code: int
) -> None:
    """Nobody answers at the second address; the system's own look-up would find the host."""
    dest = [tmp_path / "out", "--format", "null"] if verb == "get" else [tmp_path / "manifest.csv"]
    ended = cloud.run(verb, "http://files.example.com", *dest, "--resolver", server, "--quiet")
    assert ended.code == code, ended.err
    assert ("cannot look up the host files.example.com" in ended.err) == (code == 4)


def test_a_list_of_a_bucket_s_objects_is_fetched_at_its_own_name(cloud: Cloud, tmp_path: Path) -> None:
    """A list leads to the names of its buckets."""
    (tmp_path / "list.txt").write_text("".join(f"s3://{BUCKET}/{name}\n" for name in OBJECTS))
    options = ("--allow-private", "--format", "parquet", "--quiet")
    ended = cloud.run("get", tmp_path / "list.txt", tmp_path / "out", *options)
    assert ended.code == 0, ended.err
    assert sorted(stored(tmp_path / "out").values()) == sorted(OBJECTS.values())


def test_shards_go_to_a_bucket_at_its_own_name(cloud: Cloud, tmp_path: Path) -> None:
    """A destination is found by name, and so is the source beside it."""
    state = tmp_path / "state"
    dest = f"s3://{BUCKET}/{tmp_path.name}/"
    options = ("--format", "parquet", "--state", state, "--quiet")
    ended = cloud.run("get", "http://files.example.com", dest, *options)
    assert ended.code == 0, ended.err
    assert len(stored(cloud.bucket / tmp_path.name)) == SITE_OBJECTS


def test_a_stream_finds_a_bucket_by_name(cloud: Cloud) -> None:
    """`fetchmill.stream` looks names up on the thread that fetches."""
    program = f"""
import fetchmill, json
urls = [f"s3://{BUCKET}/p/{{index:03}}" for index in range(120)]
with fetchmill.stream(urls, ca_file={str(cloud.ca_file)!r}) as replies:
    print(json.dumps(sorted(reply.body.decode() for reply in replies)))
"""
    ended = cloud.network.python(program, environment=KEYS)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == sorted(body.decode() for body in OBJECTS.values())


def test_a_role_s_credentials_come_from_the_token_service_s_name(cloud: Cloud, tmp_path: Path) -> None:
    """STS is found by name, over TLS."""
    (tmp_path / "token").write_text("who-i-am")
    role = {
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/reader",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
    }
    options = ("--format", "parquet", "--quiet")
    ended = cloud.run("get", f"s3://{BUCKET}/p", tmp_path / "out", *options, environment=NO_KEYS | role)
    assert "sts.us-east-1.amazonaws.com AssumeRoleWithWebIdentity who-i-am" in cloud.tokens.read_text()
    # versitygw knows no session tokens: that it refuses this one shows that the credentials have arrived.
    assert (ended.code, "InvalidToken" in ended.err) == (4, True), ended.err


@pytest.mark.parametrize("source", ["bucket", "site", "list"])
def test_a_proxy_is_found_by_name(cloud: Cloud, tmp_path: Path, source: str) -> None:
    """What stands behind a proxy is asked for there; the proxy itself is looked up."""
    (tmp_path / "list.txt").write_text("".join(f"http://files.example.com/get/file-{n:012}\n" for n in range(50)))
    sources = {"bucket": f"s3://{BUCKET}/p", "site": "http://files.example.com", "list": tmp_path / "list.txt"}
    counts = {"bucket": len(OBJECTS), "site": SITE_OBJECTS, "list": 50}
    before = len(cloud.proxied.read_text())
    options = ("--proxy", "http://proxy.example.net:3128", "--format", "parquet", "--limit", "4", "--quiet")
    ended = cloud.run("get", sources[source], tmp_path / "out", *options)
    assert ended.code == 0, ended.err
    assert len(stored(tmp_path / "out")) == counts[source]
    host = {"bucket": f"CONNECT {BUCKET}.{S3_HOST}:443"}.get(source, "http://files.example.com/")
    assert host in cloud.proxied.read_text()[before:]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param("s3://no-such-host/p", 4, id="bucket"),
        pytest.param("http://nowhere.example.com", 4, id="server"),
    ],
)
def test_a_name_that_is_not_there_ends_the_job(tmp_path: Path, source: str, code: int) -> None:
    """One line, in seconds, and no panic."""
    started = time.monotonic()
    with network(tmp_path, {"files.example.com": SITE}) as inside:
        for verb in (
            ("get", source, tmp_path / "out", "--format", "null", *SOON),
            ("list", source, tmp_path / "m.csv"),
        ):
            ended = inside.fetchmill(*verb, "--quiet", environment=KEYS)
            assert (ended.code, ended.err.count("\n")) == (code, 1), (verb, ended.err)
            assert "panicked" not in ended.err
    assert time.monotonic() - started < 40


def test_a_destination_whose_store_is_not_there_ends_the_job(cloud: Cloud, tmp_path: Path) -> None:
    """The same for a destination."""
    dest = ("s3://some-bucket/run/", "--endpoint-url", "https://nowhere.example.com")
    options = ("--state", tmp_path / "state", "--format", "parquet", "--quiet", *SOON)
    ended = cloud.run("get", "http://files.example.com", *dest, *options)
    assert (ended.code, ended.err.count("\n")) == (5, 1), ended.err


def test_questions_that_get_lost_are_asked_again(tmp_path: Path) -> None:
    """A lost datagram costs a moment, not the job."""
    with network(tmp_path, {"files.example.com": SITE, "proxy.example.net": PROXY}, "--lose", "2") as inside:
        site = inside.running(*COMMAND, "serve", "--synthetic", SITE_OBJECTS, "--host", SITE, "--port", 80, ready=80)
        proxy = inside.running(sys.executable, TESTS / "forward_proxy.py", PROXY, 3128)
        with site, proxy:
            options = ("--proxy", "http://proxy.example.net:3128", "--format", "parquet", "--limit", "2", "--quiet")
            ended = inside.fetchmill("get", "http://files.example.com", tmp_path / "out", *options, environment=CLEAN)
    assert ended.code == 0, ended.err
    assert len(stored(tmp_path / "out")) == SITE_OBJECTS


@pytest.mark.parametrize("verb", ["get", "list", "upload"])
def test_sigint_ends_a_job_that_waits_for_a_name(tmp_path: Path, verb: str) -> None:
    """A name server that never answers does not keep a job from its end."""
    commands = {
        "get": ("get", "s3://some-bucket/p", tmp_path / "out", "--format", "null"),
        "list": ("list", "s3://some-bucket/p", tmp_path / "m.csv"),
        "upload": (
            "get",
            "http://files.example.com",
            "s3://some-bucket/run/",
            "--format",
            "tar",
            "--state",
            tmp_path / "s",
        ),
    }
    with network(tmp_path, {"files.example.com": SITE}, "--lose", "100000") as inside:
        command = inside.command(*COMMAND, *commands[verb], "--quiet")
        with subprocess.Popen(command, env=KEYS, stderr=subprocess.PIPE, text=True) as job:
            time.sleep(2)
            job.send_signal(signal.SIGINT)
            started = time.monotonic()
            code = job.wait(30)
            assert (code, time.monotonic() - started < 7) == (130, True), job.stderr and job.stderr.read()
