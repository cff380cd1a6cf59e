"""File operations of job directories, which are the same in a folder and in a bucket."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from fetchmill._shared import folder_store
from fetchmill._shared.bucket_store import BucketStore
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.store import Store, open_store
from fetchmill.errors import StorageError, UsageError
from fetchmill.testing import S3Store, s3
from s3_gate import Request, S3Gate
from s3_requests import client
from shared_jobs import job_record

MakeStore = Callable[[], Store]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """Returns an S3 store. This process has its credentials."""
    with s3() as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        yield store


@pytest.fixture
def gate(fake: S3Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Gate]:
    """Returns a gate in front of the store that sees every request."""
    with S3Gate(fake.url) as gate:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", gate.url)
        yield gate


@pytest.fixture(params=["folder", "bucket"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Returns a function that creates another view of the same store."""
    if request.param == "folder":
        return lambda: open_store(tmp_path / "job")
    request.getfixturevalue("fake")
    return lambda: open_store("s3://bucket/some/job")


def test_files_are_written_read_and_removed(make_store: MakeStore) -> None:
    """Files may be empty or long, and every view of the store sees them."""
    store, other = make_store(), make_store()
    long = os.urandom(9 << 20)

    assert store.read("a") is None
    assert store.create("a", b"1")
    store.replace("commits/b", b"")
    store.replace("commits/c", long)
    assert other.read("a") == b"1"
    assert other.read("commits/b") == b""
    assert other.read("commits/c") == long
    store.replace("commits/c", b"short")
    assert other.read("commits/c") == b"short"
    assert sorted(other.names("commits")) == ["b", "c"]
    assert (other.names("claims"), other.contents("claims")) == ([], [])
    assert sorted(other.top()) == ["a", "commits"]
    store.remove("a")
    store.remove("a")
    assert other.read("a") is None


@pytest.mark.parametrize("size", [0, 20 << 20])
def test_added_file_is_read_completely(make_store: MakeStore, tmp_path: Path, size: int) -> None:
    """Another view of the store reads the whole file, whether it is empty or large."""
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)

    make_store().add_file("list/a.parquet", tmp_path / "file")

    assert make_store().read("list/a.parquet") == content
    assert make_store().names("list") == ["a.parquet"]


def test_local_copy_of_wrong_size_is_refused(fake: S3Store, tmp_path: Path) -> None:
    """The job directory knows the expected size of each file."""
    del fake
    store = BucketStore.open("s3://bucket/some/job", {})
    store.replace("list/a.parquet", b"1234")

    store.local_copy("list/a.parquet", 4, tmp_path / "whole")

    assert (tmp_path / "whole").read_bytes() == b"1234"
    with pytest.raises(StorageError, match="has 4 bytes instead of 5"):
        store.local_copy("list/a.parquet", 5, tmp_path / "other")


def test_second_creation_keeps_first_content(make_store: MakeStore) -> None:
    """The second creation fails."""
    store = make_store()

    assert store.create("commits/a", b"first")
    assert not make_store().create("commits/a", b"second")
    assert store.read("commits/a") == b"first"
    store.remove("commits/a")
    assert make_store().create("commits/a", b"second")


def test_simultaneous_creations_have_one_winner(make_store: MakeStore) -> None:
    """Threads with separate views try at the same time. Each file has the content of its creator."""
    with ThreadPool(4) as pool:
        made = pool.map(lambda number: create_all(make_store(), number), range(4))

    store = make_store()
    for file in range(25):
        (winner,) = [number for number, names in enumerate(made) if file in names]
        assert store.read(f"commits/{file}") == b"%d" % winner


def create_all(store: Store, number: int) -> list[int]:
    """Tries to create all files, and returns those that it created."""
    return [file for file in range(25) if store.create(f"commits/{file}", b"%d" % number)]


def test_contents_are_from_last_writer(make_store: MakeStore) -> None:
    """A changed file is read again, and a removed one is forgotten."""
    store, writer = make_store(), make_store()
    for content in (b"1", b"2"):
        writer.replace("workers/w", content)
        writer.replace("workers/v", b"same")
        assert {file.name: file.content for file in store.contents("workers")} == {"w": content, "v": b"same"}
    writer.remove("workers/v")
    assert [file.name for file in store.contents("workers")] == ["w"]


def test_file_ages_are_accurate_to_two_seconds(make_store: MakeStore) -> None:
    """An age is never overestimated."""
    store = make_store()
    written = store.replace("workers/w", b"1")
    (file,) = store.contents("workers")
    assert abs(file.written_at - written) <= 2
    time.sleep(1.2)
    now = store.now()
    assert now >= written
    assert now - file.written_at <= 1.2 + 1


def test_store_clock_is_used_for_file_ages(fake: S3Store) -> None:
    """Ages do not depend on this machine's clock."""
    fake.change(clock_offset=5_000.0, max_skew=10_000.0)
    store = open_store("s3://bucket/job")
    written = store.replace("workers/w", b"1")
    (file,) = store.contents("workers")

    assert written > time.time() + 4_000
    assert abs(file.written_at - written) <= 2
    assert abs(store.now() - written) <= 2


def test_log_keeps_appended_lines(make_store: MakeStore) -> None:
    """The lines are those that one process appends."""
    store = make_store()
    store.replace("job.json", b"{}")
    store.append("logs/a.log", "one\n")
    store.append("logs/a.log", "two\n")

    assert make_store().read("logs/a.log") == b"one\ntwo\n"


def test_attempts_are_published_and_removed(make_store: MakeStore, tmp_path: Path) -> None:
    """The journal is stored next to the objects, without files that only a running attempt needs."""
    store = make_store()
    names = [f"00000-00000000000000-{letter * 16}" for letter in "ab"]
    for name in names:
        state = tmp_path / name
        (state / "failures").mkdir(parents=True)
        for file in ("job.sqlite", "lock", "token", "failures/0"):
            (state / file).write_bytes(b"x")
        if not isinstance(store, BucketStore):
            Path(store.destination(name), ".fetchmill").mkdir(parents=True)
        store.publish(name, state)
    assert sorted(store.attempts()) == names
    for file, content in (("job.sqlite", b"x"), ("failures/0", b"x"), ("lock", None), ("token", None)):
        assert store.read(f"data/{names[0]}/.fetchmill/{file}") == content
    store.remove_attempt(names[0])
    assert store.attempts() == names[1:]
    assert store.read(f"data/{names[1]}/.fetchmill/job.sqlite") == b"x"


@pytest.mark.parametrize("status", [409, 500, 503])
@pytest.mark.parametrize("moment", ["before", "behind"])
def test_creation_without_clear_reply_is_checked_by_reading(gate: S3Gate, status: int, moment: str) -> None:
    """One content exists in the end, and its writer knows that it won.

    It does not matter whether the store executed or refused the request.
    """
    told: list[str] = []

    def fail_once(request: Request, when: str) -> int | None:
        if request.kind == "put" and when == moment and not told:
            told.append(when)
            return status
        return None

    gate.hook = fail_once

    assert open_store("s3://bucket/job").create("commits/a", b"mine")
    assert told == [moment]
    assert not open_store("s3://bucket/job").create("commits/a", b"other")
    assert open_store("s3://bucket/job").read("commits/a") == b"mine"


def test_lost_creation_reply_counts_as_success(gate: S3Gate) -> None:
    """The store has created the object, and the connection breaks before the reply."""
    lost: list[str] = []

    def lose_once(request: Request, when: str) -> int | None:
        if request.kind == "put" and when == "behind" and not lost:
            lost.append(request.key)
            return S3Gate.LOST
        return None

    gate.hook = lose_once

    assert open_store("s3://bucket/job").create("commits/a", b"mine")
    assert lost == ["job/commits/a"]


def test_lost_creation_reply_is_failure_when_other_was_first(gate: S3Gate, fake: S3Store) -> None:
    """The refusal does not show who was first, but the existing object does."""

    def steal(request: Request, when: str) -> int | None:
        if request.kind == "put" and when == "before":
            fake.put("job/commits/a", b"theirs")
            return 503
        return None

    gate.hook = steal

    assert not open_store("s3://bucket/job").create("commits/a", b"mine")


def test_store_that_ignores_condition_is_refused(fake: S3Store) -> None:
    """Otherwise, two workers could both believe that they were first."""
    fake.change(ignore_conditions=True)

    with pytest.raises(UsageError, match="lets two processes create the same file"):
        JobDirectory.at("s3://bucket/job").create(job_record())
    assert fake.objects() == {}


def test_store_without_conditional_puts_is_refused(gate: S3Gate, fake: S3Store) -> None:
    """Such a store answers 501."""
    gate.hook = lambda request, when: 501 if request.kind == "put" and when == "before" else None

    with pytest.raises(UsageError, match="does not support If-None-Match"):
        JobDirectory.at("s3://bucket/job").create(job_record())
    assert fake.objects() == {}


def test_prefix_with_other_objects_is_refused(fake: S3Store) -> None:
    """A job directory must start without keys."""
    fake.put("job/thesis.tex", b"")
    fake.put("job2/other", b"")

    with pytest.raises(UsageError, match=r"is not empty \(thesis.tex\)"):
        JobDirectory.at("s3://bucket/job").create(job_record())


def test_only_names_below_prefix_are_visible(fake: S3Store) -> None:
    """Files in nested folders are not listed as files of the outer folder."""
    fake.put("job2/commits/a", b"")
    fake.put("job/commits/deep/a", b"")
    fake.put("job/commits/b", b"")

    store = open_store("s3://bucket/job")
    assert store.names("commits") == ["b"]
    assert [file.name for file in store.contents("commits")] == ["b"]
    assert store.attempts() == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "give credentials"),
        ({"AWS_ACCESS_KEY_ID": "other"}, "does not know the access key"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "belongs to this access key"),
    ],
)
def test_wrong_store_credentials_are_reported(
    change: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one line and comes with the first request."""
    for name, value in change.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(UsageError, match=message):
        open_store("s3://bucket/job").read("job.json")


@pytest.mark.usefixtures("fake")
def test_missing_job_bucket_is_reported() -> None:
    """A missing bucket is not treated as an empty job directory."""
    with pytest.raises(UsageError, match="check the bucket name other"):
        open_store("s3://other/job").read("job.json")


def test_download_of_wrong_size_is_refused(fake: S3Store, tmp_path: Path) -> None:
    """A shorter, a longer and a missing object are refused. The object with the listed size is copied."""
    assert fake.bucket == "bucket"
    store = open_store("s3://bucket/some/job")
    assert isinstance(store, BucketStore)
    store.replace("data/A/shard", b"12345")
    (size,) = store.objects("A").values()

    store.download("A", "shard", size, tmp_path / "whole")
    for number, content in enumerate((b"123", b"1234567", None)):
        if content is None:
            store.remove("data/A/shard")
        else:
            store.replace("data/A/shard", content)
        with pytest.raises(StorageError, match=f"instead of {size}"):
            store.download("A", "shard", size, tmp_path / str(number))

    assert (tmp_path / "whole").read_bytes() == b"12345"


def test_uploads_on_all_pages_are_aborted(fake: S3Store) -> None:
    """A page has at most 1,000 uploads. Uploads outside the prefix are kept."""
    with closing(client(fake)) as boto:
        for key in [f"job/data/{number % 700:04}" for number in range(1_050)] + ["job/lists/x"]:
            boto.create_multipart_upload(Bucket="bucket", Key=key)
        store = open_store("s3://bucket/job")

        store.abort_uploads()

        assert [each["Key"] for each in boto.list_multipart_uploads(Bucket="bucket")["Uploads"]] == ["job/lists/x"]


def test_failed_copy_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, the next attempt needs the space."""

    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(folder_store, "sync_file", fail)
    (tmp_path / "part").write_text("part")

    with pytest.raises(StorageError, match="No space left"):
        open_store(tmp_path / "job").add_file("list/part", tmp_path / "part")

    assert not list((tmp_path / "job" / "list").iterdir())
