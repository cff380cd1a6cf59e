"""No space, inodes or descriptors, and failing storage: the job stops cleanly, says so, and resumes."""

import contextlib
import os
import random
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import COMMAND, format_options
from fetchmill.testing import Fault, Server, serve
from foreign import SUFFIXES
from independent import Expected, find_problems, find_unbalanced, find_wrong, has_journal, synthetic
from process_limits import low_descriptors
from small_disk import run_on_disk, small_disk

Run = Callable[..., Any]
Serve = Callable[..., Server]

KIB, MIB = 1 << 10, 1 << 20
# The preflight would stop the job before the storage fails.
WINDOW = ("--commit-window", "50ms", "--no-preflight")
STORAGE = 7


@pytest.fixture
def disk() -> Iterator[Callable[[int, int], Path]]:
    """Creates a file system with this number of bytes and inodes, or slightly more: ext4 for root, else a tmpfs."""
    with contextlib.ExitStack() as stack:
        yield lambda size, inodes: stack.enter_context(small_disk(size, inodes))


@pytest.fixture
def dest(memory_path: Path) -> Path:
    """Returns a destination with enough room."""
    return memory_path / "out"


@pytest.fixture
def run(run: Run, environment: dict[str, str]) -> Run:
    """Runs a command, and shows a path into a small disk."""
    return run_on_disk(run, environment)


def fill(ballast: Path, left: int) -> None:
    """Uses all space except the given number of bytes."""
    free = os.statvfs(ballast.parent)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - left))


def take_inodes(ballast: Path, left: int) -> None:
    """Uses all inodes except the given number."""
    ballast.mkdir()
    for index in range(os.statvfs(ballast).f_favail - left):
        (ballast / str(index)).touch()


def assert_stopped(ended: Any, *words: str) -> None:  # noqa: ANN401
    """Checks for exit code 7, and a last line that says what failed and what to do."""
    assert ended.code == STORAGE, ended.err
    last = ended.err.splitlines()[-1]
    assert last.startswith("fetchmill: error: cannot ")
    for word in (*words, "run the same command again to resume"):
        assert word in last
    assert ended.err.count("error: ") == 1
    assert "Traceback" not in ended.err
    assert "panicked" not in ended.err


def assert_consistent(dest: Path, expected: Expected, format: str = "files") -> None:
    """Checks that the stored objects are intact and the journal balances; there may have been no room for a folder."""
    if not dest.exists():
        return
    assert find_wrong(dest, expected, format) == []
    if has_journal(dest):
        assert find_unbalanced(dest) == []


def assert_resumes(
    run: Run, source: Server, dest: Path, expected: Expected, *options: object, format: str = "files"
) -> None:
    """Checks that the same command finishes the job without lost or doubled objects."""
    ended = run("get", source.url, dest, *options, *format_options(format))

    assert ended.code == (3 if expected.failures else 0), ended.err
    assert find_problems(dest, expected, format) == []


ROOM = [
    *(("files", left) for left in (0, 40 * KIB, 200 * KIB, 1 * MIB)),
    *((format, left) for format in SUFFIXES for left in (200 * KIB, 1 * MIB)),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("format", "left"), ROOM, ids=[f"{format}-{left // KIB}KiB" for format, left in ROOM])
def test_full_disk_stops_job_until_space_is_free(
    run: Run, server: Serve, disk: Callable[..., Path], format: str, left: int
) -> None:
    """The disk is full from the start, for the journal, the stage, a shard, or the folders of names."""
    where = disk(24 * MIB, 4000)
    expected = synthetic(1500, size=5000)
    source = server(synthetic=1500, size=5000, page_size=100, delay=(0.0, 0.02))
    dest = where / "out"
    fill(where / "ballast", left)

    ended = run("get", source.url, dest, *WINDOW, *format_options(format))
    assert_stopped(ended, "No space left", "free some space or inodes (df -h, df -i)")
    if dest.exists():
        assert_consistent(dest, expected, format)
    (where / "ballast").unlink()
    assert_resumes(run, source, dest, expected, *WINDOW, format=format)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", *SUFFIXES])
def test_repeatedly_full_disk_loses_no_object(
    run: Run, server: Serve, memory_path: Path, disk: Callable[..., Path], format: str
) -> None:
    """Space is freed in small steps, and the job stops at a different place each time."""
    where = disk(24 * MIB, 4000)
    folder = memory_path / "content"
    rng = random.Random(1)
    bodies = {f"{index % 50}/{index % 7}/{index}": rng.randbytes(2400) for index in range(1500)}
    for name, body in bodies.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    expected = Expected(bodies)
    source = server(folder, page_size=100)
    dest = where / "out"
    ballasts = [where / f"ballast{index}" for index in range(12)]
    for ballast in ballasts:
        fill(ballast, 0) if ballast is ballasts[-1] else ballast.write_bytes(bytes(700 * KIB))

    stops = 0
    for ballast in ballasts:
        ended = run("get", source.url, dest, *WINDOW, *format_options(format))
        if ended.code == 0:
            break
        assert_stopped(ended, "No space left")
        assert_consistent(dest, expected, format)
        stops += 1
        ballast.unlink()

    assert stops > 3
    # The job may have ended with the last free byte.
    for ballast in ballasts:
        ballast.unlink(missing_ok=True)
    assert_resumes(run, source, dest, expected, *WINDOW, format=format)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("left", [0, 5, 100, 330])
def test_missing_inodes_stop_job_until_inodes_are_free(
    run: Run, server: Serve, disk: Callable[..., Path], left: int
) -> None:
    """The message suggests `df -i`."""
    where = disk(16 * MIB, 1200)
    expected = synthetic(400)
    source = server(synthetic=400, page_size=50, delay=(0.0, 0.05))
    dest = where / "out"
    take_inodes(where / "ballast", left)

    assert_stopped(run("get", source.url, dest, *WINDOW), "No space left", "df -i")
    if dest.exists():
        assert_consistent(dest, expected)
    shutil.rmtree(where / "ballast")
    assert_resumes(run, source, dest, expected, *WINDOW)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", ["files", "null", "tar"])
@pytest.mark.parametrize("left", [0, 150 * KIB, 400 * KIB], ids=lambda left: f"{left // KIB}KiB")
def test_full_journal_disk_stops_job(
    run: Run, server: Serve, disk: Callable[..., Path], dest: Path, left: int, format: str
) -> None:
    """The state may be on another file system than the objects."""
    where = disk(16 * MIB, 400)
    expected = synthetic(4000)
    # Such slow replies become certain one by one, not once per second, so there are many windows.
    source = server(synthetic=4000, page_size=40, delay=(0.16, 0.2))
    state = where / "state"
    settings = ("--state", state, "--commit-window", "5ms", "--concurrency", "256", *format_options(format))
    fill(where / "ballast", left)

    assert_stopped(run("get", source.url, dest, *settings), "No space left", "free some space")
    if dest.exists():
        assert find_wrong(dest, expected, format) == []
    (where / "ballast").unlink()

    ended = run("get", source.url, dest, *settings)
    assert ended.code == 0, ended.err
    assert find_problems(dest, expected, format, state) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("format", "count", "size"), [("files", 20, 900_000), *((format, 2000, 2500) for format in SUFFIXES)]
)
def test_short_writes_leave_no_partial_files(
    run: Run, server: Serve, dest: Path, format: str, count: int, size: int
) -> None:
    """A file size limit (`ulimit -f`) makes the write that reaches it short, and the next one fails."""
    limit = 512 * KIB + 77
    expected = synthetic(count, size=size)
    source = server(synthetic=count, size=size, page_size=100, delay=(0.0, 0.01))
    settings = (*WINDOW, "--threads", 1, "--format", format)

    stopped = run(
        "get", source.url, dest, *settings, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )
    assert_stopped(stopped, "File too large")
    assert_consistent(dest, expected, format)
    ended = run("get", source.url, dest, *settings)

    assert ended.code == 0, ended.err
    assert find_problems(dest, expected, format) == []


def test_too_little_address_space_is_refused(run: Run, server: Serve, dest: Path) -> None:
    """A failed allocation would end the process in the middle of the job."""
    limit = 900 * MIB
    low = run(
        *("get", server(synthetic=10).url, dest, "--threads", 8),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )

    assert low.code == 2
    assert re.fullmatch(
        r"fetchmill: error: only 900 MiB of address space are allowed, but --threads 8 needs [\d,]+ MiB; raise the "
        r"limit \(ulimit -v\), or use fewer threads\n",
        low.err,
    )
    assert not has_journal(dest)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize("count", [70, 90, 128])
def test_low_descriptor_limit_lowers_concurrency(run: Run, server: Serve, dest: Path, count: int, threads: int) -> None:
    """With a low `ulimit -n`, the job reports the lowered concurrency, and is completed."""
    expected = synthetic(2000)
    source = server(synthetic=2000)

    ended = run(
        "get",
        source.url,
        dest,
        *WINDOW,
        "--concurrency",
        100,
        "--threads",
        threads,
        preexec_fn=low_descriptors(count),
    )

    assert ended.code == 0, ended.err
    lowered = re.search(r"--concurrency 100 was lowered to (\d+), because only (\d+) open files are", ended.err)
    assert lowered is not None
    assert int(lowered[2]) == count
    limit = int(lowered[1])
    # Some connections are paused, and two are for listing.
    assert source.stats()["connections"] <= limit + max(1, limit // 2) + 2
    assert find_problems(dest, expected) == []


def test_job_starts_only_with_enough_descriptors(run: Run, server: Serve, dest: Path) -> None:
    """A job with too few descriptors could never be completed."""
    expected = synthetic(500)
    source = server(synthetic=500)

    refused = run("get", source.url, dest, *WINDOW, preexec_fn=low_descriptors(40))
    assert refused.code == 2
    assert re.fullmatch(
        r"fetchmill: error: only 40 open files are allowed, but at least \d+ are needed; "
        r"raise the limit \(ulimit -n\)\n",
        refused.err,
    )
    assert not dest.exists()
    assert_resumes(run, source, dest, expected, *WINDOW)


def test_descriptor_exhaustion_loses_no_object(run: Run, server: Serve, dest: Path) -> None:
    """Names are in many folders, and a destination keeps a bounded number of folders open."""
    expected = Expected({f"{index % 97}/{index % 11}/f{index}": b"x" * (index % 50) for index in range(2000)})
    folder = dest.parent / "content"
    for name, body in expected.bodies.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    source = server(folder, page_size=100)

    ended = run("get", source.url, dest, *WINDOW, "--threads", 8, preexec_fn=low_descriptors(110))

    assert ended.code == 0, ended.err
    assert find_problems(dest, expected) == []


# Calls of the sink, the journal or the failures: the number of the failing call in a thread, and its error.
INJECTED = [
    ("fsync", "EIO", (1, 2, 4, 6, 9, 12)),
    ("fdatasync", "EIO", (1, 2)),
    ("syncfs", "EIO", (1, 2, 3)),
    ("syncfs", "ENOSPC", (2,)),
    ("renameat2", "EIO", (1, 40)),
    ("renameat2", "ENOSPC", (1, 7, 100)),
    ("mkdirat", "ENOSPC", (1, 2, 5)),
    ("pwrite64", "ENOSPC", (3, 60, 75, 100)),
    ("pwrite64", "EIO", (30, 80)),
    ("ftruncate", "ENOSPC", (1,)),
    ("unlinkat", "EIO", (1,)),
    ("rmdir", "EIO", (1,)),
]
# The same for packs: a failing checkpoint, a shard that cannot be renamed, and a journal that cannot be written.
INJECTED_INTO_PACKS = [
    ("fsync,fdatasync,syncfs", "EIO", (1, 2, 3, 5)),
    ("fsync,fdatasync,syncfs", "ENOSPC", (2, 4)),
    ("rename,renameat,renameat2", "EIO", (1, 2)),
    ("pwrite64", "EIO", (30, 60)),
]
# The same for a staged file, which is identified by its sequence number.
INJECTED_INTO_STAGED = [
    ("write", "ENOSPC"),
    ("write", "EIO"),
    ("close", "EIO"),
    ("close", "EDQUOT"),
    ("openat", "EIO"),
]


@pytest.fixture
def content(memory_path: Path) -> Expected:
    """Serves files in folders; some requests get a 404."""
    bodies = {f"{index % 5}/{index}": f"{index}\n".encode() * 20 for index in range(300)}
    for name, body in bodies.items():
        (memory_path / "content" / name).parent.mkdir(parents=True, exist_ok=True)
        (memory_path / "content" / name).write_bytes(body)
    refused = frozenset(name for name in bodies if name.startswith("3/3"))
    return Expected({name: body for name, body in bodies.items() if name not in refused}, refused)


@pytest.fixture
def fail_once(run: Run, environment: dict[str, str], content: Expected, memory_path: Path) -> Callable[..., int]:
    """Runs a job with one failing call, checks what is left, and lets the next run complete it."""

    def fail_call(dest: Path, call: str, *rules: str, format: str = "files") -> int:
        faults = [Fault("status", status=404, match="3/3*")]
        options = (*WINDOW, *format_options(format))
        traced = ["strace", "-f", "-o", os.devnull, "-e", f"trace={call}"]
        for rule in rules:
            traced += ["-e", rule] if rule.startswith("inject=") else ["-P", rule]
        with serve(memory_path / "content", page_size=50, delay=(0.0, 0.1), faults=faults) as source:
            ended = subprocess.run(
                [*traced, *COMMAND, "get", source.url, str(dest), *options],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            where = f"{call} {rules} {ended.stderr}"
            assert ended.returncode in {STORAGE, 3}, where
            if ended.returncode == STORAGE:
                assert ended.stderr.splitlines()[-1].startswith("fetchmill: error: cannot "), where
                assert "run the same command again to resume" in ended.stderr.splitlines()[-1], where
            if (dest / ".fetchmill").exists():
                assert_consistent(dest, content, format)
            again = run("get", source.url, dest, *options)
            assert again.code == 3, f"{where}{again.err}"
            assert find_problems(dest, content, format) == [], where
        return ended.returncode

    return fail_call


def fail_at(
    fail_once: Callable[..., int], folder: Path, call: str, error: str, moments: tuple[int, ...], format: str
) -> list[int]:
    """Runs a job for each moment. Returns how they ended."""
    with ThreadPoolExecutor(3) as pool:
        return list(
            pool.map(
                lambda at: fail_once(
                    folder / f"out{at}", call, f"inject={call}:error={error}:when={at}", format=format
                ),
                moments,
            )
        )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("call", "error", "moments"), INJECTED, ids=[f"{call}-{error}" for call, error, _ in INJECTED])
def test_failed_system_call_stops_job_until_next_run(
    fail_once: Callable[..., int], memory_path: Path, call: str, error: str, moments: tuple[int, ...]
) -> None:
    """The exit code is 7, unless the call was not reached. The result is never wrong."""
    codes = fail_at(fail_once, memory_path, call, error, moments, "files")

    if call not in {"unlinkat", "rmdir", "fdatasync"}:
        assert STORAGE in codes


def test_full_folder_is_named_when_disk_has_space(
    server: Serve, environment: dict[str, str], content: Expected, memory_path: Path
) -> None:
    """ext4 returns ENOSPC if a folder cannot hold another name."""
    source, dest = server(memory_path / "content"), memory_path / "out"
    assert content.listed
    traced = ["strace", "-f", "-o", os.devnull, "-e", "trace=renameat2", "-P", "3", "-P", "1"]
    traced += ["-e", "inject=renameat2:error=ENOSPC"]

    ended = subprocess.run(
        [*traced, *COMMAND, "get", source.url, str(dest), *WINDOW],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ended.returncode == STORAGE
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"fetchmill: error: cannot move a finished file to {dest}/")
    assert ": the folder cannot hold more names, although " in last
    assert "tune2fs -O large_dir" in last


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format", SUFFIXES)
@pytest.mark.parametrize(
    ("call", "error", "moments"),
    INJECTED_INTO_PACKS,
    ids=[f"{call.partition(',')[0]}-{error}" for call, error, _ in INJECTED_INTO_PACKS],
)
def test_failed_system_call_loses_no_pack_object(
    fail_once: Callable[..., int], memory_path: Path, format: str, call: str, error: str, moments: tuple[int, ...]
) -> None:
    """After a failed checkpoint, the next run fetches the objects again, and each is stored once."""
    assert STORAGE in fail_at(fail_once, memory_path, call, error, moments, format)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("call", "error"), INJECTED_INTO_STAGED)
def test_unwritable_staged_file_stops_job(fail_once: Callable[..., int], dest: Path, call: str, error: str) -> None:
    """The error may be one that only close reports."""
    name = f"{100 // 64}/100"
    paths = [f"{dest}/.fetchmill/stage/{worker}/{name}" for worker in range(os.cpu_count() or 1)]

    assert fail_once(dest, call, f"inject={call}:error={error}:when=1", name, *paths) == STORAGE
