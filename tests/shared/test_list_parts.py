"""Parts of a source's list in a shared job: new rows, the right to add parts, and working folders."""

import json
import os
from pathlib import Path

import pytest

from fetchmill._options.get import GetOptions
from fetchmill._options.list import ListOptions
from fetchmill._shared.folder_store import FolderStore
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.listed_rows import ListedRows
from fetchmill._shared.local_state import remove_folder
from fetchmill._shared.ranges import ListFile, Range
from fetchmill._shared.records import AddedList, JobRecord, ListingTotals
from fetchmill._shared.source_lister import NewJob, OpenJob, Part, SourceLister
from fetchmill._shared.stored_options import (
    list_options,
    listing_options,
    options_of_listed,
    own_values,
    shared_options,
    with_own,
)
from fetchmill.errors import ListingError, StorageError, UsageError


def row(name: str | None, url: str = "http://a/") -> bytes:
    """Returns a line of a manifest."""
    return json.dumps({"name": name, "url": url}).encode() + b"\n"


def part(number: int) -> Part:
    """Returns a part of 9 bytes."""
    file = ListFile(path=f"/list/{number}", size=9, modified=0, has_lines=True)
    return Part(file=file, ranges=(Range(file=0, start=0, end=9),))


def record(first: Part, job: str = "j") -> JobRecord:
    """Returns the record of a job that begins with this part."""
    return JobRecord(
        id=job,
        options={},
        secrets=(),
        source="http://a",
        files=(first.file,),
        list_format="jsonl",
        ranges=first.ranges,
        lease=1.0,
        listing={},
    )


@pytest.fixture
def directory(tmp_path: Path) -> JobDirectory:
    """Returns an empty job directory."""
    return JobDirectory(FolderStore(tmp_path / "job"))


def test_each_added_row_removes_one_row(tmp_path: Path) -> None:
    """Names may occur several times. A row without a name is identified by its URL."""
    rows = ListedRows(tmp_path)
    rows.add([row("a"), row("b"), row("b"), row(None, "http://a/x")])

    lines = [row("a"), row("b"), row("b"), row("b"), row("c"), row(None, "http://a/x"), row("a")]

    assert list(rows.new(lines)) == [row("b"), row("c"), row("a")]
    assert list(rows.new([row("c")])) == [row("c")]


def test_source_that_changes_all_names_is_refused(tmp_path: Path) -> None:
    """If no row of the first thousand is known, new and old rows cannot be distinguished."""
    rows = ListedRows(tmp_path)
    rows.add(row(None, f"http://a/{number}?signature=1") for number in range(2_000))

    with pytest.raises(ListingError, match="use --name-field"):
        list(rows.new([row(None, f"http://a/{number}?signature=2") for number in range(2_000)]))


def test_only_one_of_two_listers_can_add_parts(directory: JobDirectory) -> None:
    """If both know the same parts, the first one to add a part continues, and only that one can end the list."""
    first = NewJob(directory, record, "http://a")
    assert first.add(part(0))
    one, other = (OpenJob(directory, directory.job()) for _ in range(2))

    assert one.add(part(1))
    assert not other.add(part(2))
    assert not other.end(ListingTotals(skipped={}, failed_folders=0))
    assert not first.add(part(3))
    assert one.end(ListingTotals(skipped={"filter": 2}, failed_folders=1))

    job = directory.job()
    assert ([file.path for file in job.files], job.is_listed, job.added) == (["/list/0", "/list/1"], True, ())
    assert job.totals == ListingTotals(skipped={"filter": 2}, failed_folders=1)
    assert [each.file for each in job.ranges] == [0, 1]


def test_creator_does_not_adopt_parts_of_another_lister(
    directory: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The creator was frozen while it created the job, and another process has added a part."""
    create = directory.create

    def slow(job: JobRecord) -> JobRecord:
        create(job)
        assert OpenJob(JobDirectory(directory.store), create(job)).add(part(1))
        return directory.job()

    monkeypatch.setattr(directory, "create", slow)
    first = NewJob(directory, record, "http://a")

    assert first.add(part(0))
    assert not first.add(part(2))
    assert len(directory.job().files) == 2


def test_second_creator_adds_nothing(directory: JobDirectory) -> None:
    """Both have listed the same source, and the job already has the list of the first creator."""
    assert NewJob(directory, record, "http://a").add(part(0))
    second = NewJob(directory, lambda first: record(first, "other"), "http://a")

    assert not second.add(part(1))
    assert second.is_created.is_set()
    with pytest.raises(UsageError, match="no object that matches"):
        NewJob(directory, record, "http://a").end(ListingTotals(skipped={}, failed_folders=0))


def test_lister_without_working_folder_removes_nothing(
    directory: JobDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder cannot be created because the parent is a file.

    The current folder is kept, and the claim is released.
    """
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "kept").touch()
    (tmp_path / "parent").touch()
    monkeypatch.chdir(tmp_path / "work")
    claim = directory.claim_listing("host-1-abc", 1)
    assert claim is not None
    options = ListOptions(source="http://127.0.0.1:9")
    job = NewJob(directory, record, "http://a")
    lister = SourceLister(directory, "host-1-abc", options, job, claim, tmp_path / "parent", {})

    lister.start()
    lister.join(30)

    assert isinstance(lister.failure, StorageError)
    assert os.listdir() == ["kept"]
    assert directory.store.names("claims") == []
    with pytest.raises(StorageError, match="is not the folder of a worker"):
        remove_folder(Path())


def test_only_open_headers_are_stored_in_job_directory() -> None:
    """Secret headers stay with the process. Options for other kinds of sources are left out."""
    headers = {"Accept": "text/html", "X-Api-Key": "secret"}
    options = GetOptions(source="http://127.0.0.1:9", dest="s3://bucket/run", format="tar", headers=headers)
    shared = shared_options(options_of_listed(options))
    own = own_values(options) | {"endpoint_url": "http://127.0.0.1:8"}

    listing = listing_options(options)
    listed = list_options("http://127.0.0.1:9", listing, with_own(shared, own))

    assert "secret" not in json.dumps([shared, listing])
    assert listed.headers == headers
    assert listed.endpoint_url is None


def test_no_list_is_read_after_listing_totals(directory: JobDirectory) -> None:
    """The totals end the list."""
    assert NewJob(directory, record, "http://a").add(part(0))
    assert OpenJob(directory, directory.job()).end(ListingTotals(skipped={}, failed_folders=0))
    more = AddedList(job="j", source=None, first_file=1, files=(part(1).file,), ranges=())

    assert directory.add_record(1, more)

    assert len(JobDirectory(directory.store).job().files) == 1
