"""Job directories: the first creation of a file wins."""

import multiprocessing
from pathlib import Path

import pytest

from fetchmill._shared.folder_store import FolderStore
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.local_state import make_folder, remove_folder
from fetchmill._shared.ranges import Range
from fetchmill._shared.records import CommitRecord, empty_ledger
from fetchmill.errors import SecurityError
from shared_jobs import job_record

NO_NAMES: dict[str, dict[str, int]] = {"failures": {}, "failed_statuses": {}, "skipped_by": {}}


def record(attempt: str) -> CommitRecord:
    """Returns a commit record of the only range."""
    return CommitRecord(
        job="j",
        range=Range(file=0, start=0, end=9),
        attempt=attempt,
        worker=f"w{attempt}",
        ledger=empty_ledger(),
        named=NO_NAMES,
    )


def job_directory(path: Path) -> JobDirectory:
    """Creates a job directory with a job of one range."""
    directory = JobDirectory.at(path)
    directory.create(job_record())
    return directory


def test_first_commit_record_is_kept(tmp_path: Path) -> None:
    """A later attempt learns which attempt has won, even if it asks again."""
    directory = job_directory(tmp_path)

    assert directory.commit(record("a")).attempt == "a"
    assert directory.commit(record("b")).attempt == "a"
    assert JobDirectory.at(tmp_path).job().id == "j"
    other = JobDirectory.at(tmp_path)
    other.job()
    assert [each.attempt for each in other.commits()] == ["a"]
    assert other.open_ranges(other.job()) == []


def test_simultaneous_creators_create_file_once(tmp_path: Path) -> None:
    """Several processes try at the same time. Each file has the content of the process that created it."""
    with multiprocessing.get_context("fork").Pool(4) as pool:
        made = pool.starmap(create_all, [(tmp_path, number) for number in range(4)])

    for file in range(50):
        (winner,) = [number for number, names in enumerate(made) if file in names]
        assert (tmp_path / f"{file}").read_bytes() == b"%d" % winner
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def create_all(folder: Path, number: int) -> list[int]:
    """Tries to create all files, and returns those that it created."""
    store = FolderStore(folder)
    return [file for file in range(50) if store.create(f"{file}", b"%d" % number)]


def test_claim_belongs_to_one_worker(tmp_path: Path) -> None:
    """A released claim can be taken again. Claims of dead workers are kept."""
    directory = job_directory(tmp_path)
    whole = Range(file=0, start=0, end=9)

    claim = directory.claim(whole, "w1", 1)
    assert claim is not None
    assert directory.claim(whole, "w2", 1) is None
    assert directory.claimant(f"{whole.id}.1") == "w1"
    assert directory.claim(whole, "w2", 2) is not None
    assert directory.claims() == {whole.id: {f"{whole.id}.1": "w1", f"{whole.id}.2": "w2"}}
    directory.release(claim)
    assert directory.claims() == {whole.id: {f"{whole.id}.2": "w2"}}
    # The reply to the claim may have been lost, but the file shows who holds it.
    assert directory.claim(whole, "w2", 2) is not None


def test_journal_folder_survives_simultaneous_join_and_exit(tmp_path: Path) -> None:
    """The last worker removes the journal folder, and the next worker creates it again."""
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.starmap(come_and_go, [(tmp_path / "job", number) for number in range(4)]) == [True] * 4


def come_and_go(parent: Path, number: int) -> bool:
    """Creates and removes a folder many times."""
    for turn in range(200):
        folder = make_folder(parent, f"host-{number}-{turn}")
        if not folder.is_dir():
            return False
        remove_folder(folder)
    return True


def test_links_out_of_job_directory_are_refused(tmp_path: Path) -> None:
    """Objects below `data` are removed at the end, so links must not lead elsewhere."""
    directory = job_directory(tmp_path / "job")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "job" / "data").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(SecurityError, match="is a link"):
        directory.job()


def test_only_attempt_folders_are_removed(tmp_path: Path) -> None:
    """All other files below `data` are kept, because they do not belong to the job."""
    directory = job_directory(tmp_path)
    for name in ("export", "00000-00000000000000-0123456789abcdef", "00000-0-x"):
        (tmp_path / "data" / name).mkdir(parents=True)

    assert directory.attempts() == ["00000-00000000000000-0123456789abcdef"]
