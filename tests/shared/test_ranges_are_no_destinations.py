"""A range in a shared job's data looks like a destination, but only the shared job may change it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from fetchmill.testing import Server
from shared_jobs import write_list

Run = Callable[..., Ended]

COUNT = 20
COMMANDS = [
    ("get", "other.txt", "RANGE", "--format", "tar"),
    ("get", "other.txt", "RANGE", "--format", "tar", "--restart"),
    ("get", "other.txt", "RANGE/below", "--format", "tar"),
    ("get", "other.txt", "RANGE", "--format", "tar", "--shared"),
    ("sync", "urls.txt", "RANGE", "--format", "tar"),
    ("export", "job", "RANGE", "--format", "jsonl"),
    ("resume", "RANGE"),
    ("retry", "RANGE"),
]


@pytest.fixture
def attempt(run: Run, server: Callable[..., Server], tmp_path: Path) -> Path:
    """Returns the folder of a finished shared job's only range. Its list and another list are next to the job."""
    served = server(synthetic=COUNT)
    write_list(tmp_path / "urls.txt", served, COUNT)
    (tmp_path / "other.txt").write_text(f"{served.url}/get/file-{1:012}\n")
    assert run("get", "urls.txt", "job", "--shared", "--allow-private", "--format", "tar").code == 0
    (found,) = (tmp_path / "job/data").iterdir()
    return found


def content(folder: Path) -> dict[Path, bytes]:
    """Returns the content of all files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_commands_refuse_to_change_range(run: Run, attempt: Path, tmp_path: Path) -> None:
    """The error says what the folder is, and the hint does not suggest removing it."""
    before = content(tmp_path / "job")
    place = attempt.relative_to(tmp_path).as_posix()
    for words in COMMANDS:
        refused = run(*(word.replace("RANGE", place) for word in words))

        assert refused.code == 2, words
        below = "/below" if "RANGE/below" in words else ""
        assert refused.err == (
            f"fetchmill: error: {place}{below} is part of the shared job in {tmp_path}/job, which other commands "
            f"must not change\nhint: choose another destination, or join the shared job: fetchmill join {tmp_path}/job"
            "\n"
        ), words
        assert content(tmp_path / "job") == before, words


def test_python_calls_refuse_range(attempt: Path, tmp_path: Path) -> None:
    """They also refuse a link to the range's folder."""
    (tmp_path / "link").symlink_to(attempt)
    calls: list[Callable[[], object]] = [
        lambda: fetchmill.get(tmp_path / "other.txt", attempt, format="tar", restart=True),
        lambda: fetchmill.get(["http://127.0.0.1:9/"], tmp_path / "link", format="tar"),
        lambda: fetchmill.sync(tmp_path / "urls.txt", attempt, format="tar"),
        lambda: fetchmill.export(tmp_path / "job", attempt, format="jsonl"),
        lambda: fetchmill.resume(attempt),
    ]
    for call in calls:
        with pytest.raises(fetchmill.UsageError, match="is part of the shared job in") as caught:
            call()
        assert caught.value.hint == (
            f"choose another destination, or join the shared job: fetchmill join {tmp_path}/job"
        )


def test_range_in_bucket_is_recognized_by_name(run: Run, tmp_path: Path) -> None:
    """No request is needed, because no other prefix has a name of this form."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:9/\n")
    name = f"s3://bucket/run/data/00000-{0:014}-{0:016x}/"

    refused = run("get", "urls.txt", name, "--format", "tar")

    assert refused.code == 2
    assert f"{name} is part of the shared job in s3://bucket/run, which" in refused.err


def test_copied_range_is_accepted_as_destination(run: Run, attempt: Path, tmp_path: Path) -> None:
    """A copy outside the job directory may be changed. Commands that only read accept any range."""
    shutil.copytree(attempt, tmp_path / "data" / attempt.name)

    assert run("verify", attempt).code == 0
    assert run("export", attempt, "files", "--format", "files").code == 0
    refused = run("get", "other.txt", f"data/{attempt.name}", "--format", "tar", "--allow-private")

    assert "\nhint: to remove that job's files and start over, add --restart\n" in refused.err
