"""Shared fixtures: a server, the real command, and a view of the disk."""

import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import faults
import fetchmill
from canary import Canary
from certificates import Certificates
from command_server import CommandServer, can_fork
from fetchmill.testing import Server, serve
from foreign import SUFFIXES
from forward_proxy import ForwardProxy
from nginx import Nginx, serving
from raw_server import Behaviour, RawServer
from s3_stores import ENVIRONMENT, Moto, Versitygw, moto_serving, versitygw_serving
from system_calls import Traced, trace

# Selection of tests, and handling of failures.
pytest_plugins = ("selection", "failures")

COMMAND = (sys.executable, "-m", "fetchmill")
ROOT = Path(__file__).resolve().parents[1]
# Modules and programs that several tests share.
SUPPORT = ROOT / "tests" / "support"
# A job of one second has several shards, even in a format that sends no receipt before a shard is sealed.
PACK_OPTIONS = ("--shard-size", "64KiB", "--seal-after", "300ms")

MEMORY = Path("/dev/shm")  # noqa: S108 - folders with names of their own are made in it

Tree = dict[str, bytes | None]


def pytest_collection_finish() -> None:
    """Excludes thousands of tests, which live as long as the run, from garbage collection."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: the signal that killed it) and its output."""

    code: int
    out: str
    err: str


def example(name: str) -> Path:
    """Returns an example program of the workspace.

    Builds it unless `make test` did, where it would wait for Clippy's lock.
    """
    program = ROOT / "target/debug/examples" / name
    if "FETCHMILL_EXAMPLES_BUILT" not in os.environ or not program.exists():
        # Use the features of the whole workspace: with others, everything would be built again.
        command = ("cargo", "build", "--quiet", "--workspace", "--example", name)
        subprocess.run(command, cwd=ROOT, check=True, timeout=280)
    return program


def format_options(format: str) -> tuple[str, ...]:
    """Returns the options of a job with this format; packs have small shards."""
    return ("--format", format, *(PACK_OPTIONS if format in SUFFIXES else ()))


def wait_for_rows(results: Path, count: int) -> None:
    """Waits until the given number of rows of a list or a check are durable."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if fetchmill.status(results).settled >= count:
                return
        except fetchmill.FetchmillError:
            pass
        time.sleep(0.01)
    raise AssertionError(f"{count} rows did not come")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds this project's switches."""
    parser.addoption(
        "--update-help",
        action="store_true",
        help="write tests/cli/help/, tests/cli/hints.txt and the table of odd replies instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keeps the fast suite's files in memory if there is room; other suites use the disk.

    AWS clients in this process and its children contact no cloud service and use nobody's account. A shell that starts
    the tests in the background makes them ignore Ctrl-C, and their children would inherit this.
    """
    if config.getoption("--suite") == "fast" and has_memory_for_files(4 << 30):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name.startswith("AWS_")})


@pytest.fixture
def root() -> Path:
    """Returns the project's folder."""
    return ROOT


@pytest.fixture
def server() -> Iterator[Callable[..., Server]]:
    """Starts servers, with the arguments of `fetchmill.testing.serve`; they end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(serve(*arguments, **options))


@pytest.fixture
def raw() -> Iterator[Callable[[Mapping[str, Behaviour]], RawServer]]:
    """Starts scripted servers, with routes as in `raw_server`; they end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda routes: stack.enter_context(RawServer(routes))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority and what it, and others, have signed."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """Returns the folder that the `nginx` sites serve."""
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


@pytest.fixture
def nginx(served: Path, tmp_path: Path) -> Iterator[Callable[..., Nginx]]:
    """Starts Debian's nginx with sites by name: `nginx(one=Site(leaf=certificates.good))`."""
    with contextlib.ExitStack() as stack:
        yield lambda **sites: stack.enter_context(serving(served, tmp_path / "nginx", sites))


@pytest.fixture
def proxy() -> Iterator[Callable[..., ForwardProxy]]:
    """Starts proxies, with the arguments of `ForwardProxy`; they end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(ForwardProxy(*arguments))


@pytest.fixture
def versitygw(memory_path: Path) -> Iterator[Versitygw]:
    """Starts an S3-compatible store with an empty bucket."""
    with versitygw_serving(memory_path / "versitygw") as store:
        yield store


@pytest.fixture(scope="session")
def motos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Moto]]:
    """Creates buckets in one moto server, which takes seconds to start."""
    numbers = itertools.count(1)
    with contextlib.ExitStack() as stack:
        endpoint = stack.enter_context(moto_serving(tmp_path_factory.mktemp("moto") / "log"))

        def make() -> Moto:
            bucket = Moto(endpoint, f"bucket-{next(numbers)}")
            stack.callback(bucket.close)
            return bucket

        yield make


@pytest.fixture
def moto(motos: Callable[[], Moto]) -> Moto:
    """Starts an S3-compatible store that accepts any key, with an empty bucket."""
    return motos()


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Canary]:
    """Creates a destination inside a tree of files, and checks at the end that the tree is unchanged."""
    folder = tmp_path / "around"
    folder.mkdir()
    canary = Canary(folder)
    yield canary
    canary.assert_untouched()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Returns the environment of commands: no settings of the user, and a fixed width."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    own = {"COLUMNS": "80", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    # Do not search for a cloud's metadata service: the requests would leave this machine.
    return kept | own | {"AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    """Starts the process from which `run` forks commands."""
    with CommandServer() as server:
        yield server


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Ended]:
    """Runs a command to its end, in its own folder: `run("get", url, "out")`.

    It is forked from a process that has imported the package. The exceptions are tests with the mark `entry_point`, and
    `subprocess.run` arguments that a fork does not support.
    """
    may_fork = request.node.get_closest_marker("entry_point") is None
    # This must not be in the call: tests call it in their own threads, and pytest creates fixtures in one thread only.
    server = request.getfixturevalue("command_server") if may_fork else None

    def run_command(*arguments: object, timeout: float = 240, **options: Any) -> Ended:  # noqa: ANN401
        texts = [str(argument) for argument in arguments]
        settings = {"cwd": tmp_path, "env": environment, "stdin": subprocess.DEVNULL, **options}
        if server is not None and can_fork(settings):
            ended = Ended(*server.run(texts, timeout=timeout, **settings))
        else:
            started = [*COMMAND, *texts]
            done = subprocess.run(started, capture_output=True, text=True, timeout=timeout, check=False, **settings)
            ended = Ended(done.returncode, done.stdout, done.stderr)
        faults.note_end(ended.code, ended.err)
        return ended

    return run_command


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the real command without waiting; a command that still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start_command(*arguments: object, **options: Any) -> subprocess.Popen[str]:  # noqa: ANN401
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        settings = {"cwd": tmp_path, "env": environment, **pipes, **options}
        texts = [str(argument) for argument in arguments]
        started.append(subprocess.Popen([*COMMAND, *texts], text=True, **settings))
        return started[-1]

    yield start_command
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def traced(environment: dict[str, str], tmp_path: Path) -> Callable[..., Traced]:
    """Runs the real command under strace: `traced("get", url, "out", slow={"syncfs": 0.2})`."""
    return lambda *arguments, slow=None, **extra: trace(
        [*COMMAND, *map(str, arguments)], tmp_path, environment | extra, slow
    )


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    """Returns a destination that does not exist yet."""
    return tmp_path / "out"


def has_memory_for_files(room: int) -> bool:
    """Returns whether the in-memory file system has room for these bytes."""
    return MEMORY.is_dir() and os.statvfs(MEMORY).f_bavail * os.statvfs(MEMORY).f_frsize > room


@contextlib.contextmanager
def folder_in_memory(otherwise: Path, room: int = 2 << 30) -> Iterator[Path]:
    """Creates a temporary folder, in memory if there is room; removing thousands of files is slow on some disks."""
    if has_memory_for_files(room):
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            yield Path(folder)
    else:
        yield otherwise


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """Returns such a folder for a test."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


@pytest.fixture
def tree() -> Callable[..., Tree]:
    """Reads a folder into a dict."""
    return take_tree


def take_tree(folder: Path, *, with_state: bool = False) -> Tree:
    """Returns a dict from relative paths to bytes, or None for folders.

    The job's own folder is left out unless requested.
    """
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if with_state or relative.parts[0] != ".fetchmill":
            found[relative.as_posix()] = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    return found
