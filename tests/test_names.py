"""What objects are called: by a template of a list's columns, by what their replies say, without a leading path."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.errors import UsageError
from fetchmill.testing import Server
from lists import write_list
from stored import FORMATS, find_wrong, read_objects

Run = Callable[..., Any]
Serve = Callable[..., Server]

BODIES = {"one": b"1", "two": b"22", "three": b"333", "empty": b""}


@pytest.fixture
def served(server: Serve, tmp_path: Path) -> str:
    """The URL below which the objects are."""
    folder = tmp_path / "objects"
    folder.mkdir()
    for name, body in BODIES.items():
        (folder / name).write_bytes(body)
    return f"{server(folder).url}/get"


def rows(served: str, *columns: tuple[str, str]) -> list[dict[str, str]]:
    """A row for each object, with columns by its number: a pair of a column's name and its value's format."""
    return [
        {"url": f"{served}/{name}"} | {column: value.format(index) for column, value in columns}
        for index, name in enumerate(BODIES)
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_a_name_is_made_of_columns(run: Run, served: str, dest: Path, tmp_path: Path, format: str) -> None:
    """Of any, by their names or numbers, and of the number of the row; verify and readers have these names."""
    listed = write_list(tmp_path, rows(served, ("id", "{}"), ("group", "g {}")), "csv")
    names = "{group}/{2}-{index}.jpg"
    done = run("get", listed, dest, "--format", format, "--names", names, "--column", "url", "--allow-private")
    assert done.code == 0, done.err

    expected = {f"g {index}/{index}-{index:09}.jpg": body for index, body in enumerate(BODIES.values())}
    assert find_wrong(dest, format, expected) == []
    assert run("verify", dest).code == 0
    assert sorted(run("ls", dest).out.splitlines()) == sorted(expected)
    other = run("get", listed, dest, "--format", format, "--names", "{group}", "--column", "url", "--allow-private")
    assert (other.code, "its names is" in other.err) == (2, True)


@pytest.mark.parametrize("format", ["files", "tar"])
def test_a_value_leads_nowhere_and_hides_nothing(
    run: Run, served: str, dest: Path, tmp_path: Path, format: str
) -> None:
    """It stays in its segment; with an empty one there would be no name."""
    values = ["../../escaped", "..", ".hidden", "a/b\nc\t\u202e%2e", "/etc/x", "", "é" * 200, "nul\0"]
    made = [{"url": f"{served}/one", "id": value} for value in values]
    listed = write_list(tmp_path, made, "jsonl")
    before = set(tmp_path.rglob("*"))
    done = run("get", listed, dest, "--names", "d/{id}", "--format", format, "--allow-private")

    assert done.code == 3, done.err
    beside = {path for path in tmp_path.rglob("*") if path != dest and dest not in path.parents}
    assert beside == before
    stored = [name for name, _ in read_objects(dest, format)]
    assert all(name.startswith("d/") and name.count("/") == 1 and name[2] != "." for name in stored)
    assert {"d/%2E.%2F..%2Fescaped", "d/%2E.", "d/%2Ehidden", "d/%2Fetc%2Fx"} <= set(stored)
    assert len(stored) == (5 if format == "files" else 7)
    assert not [path for path in dest.rglob("*") if path.name[0] == "." and path.name != ".fetchmill"]
    assert run("verify", dest).code == 0


def test_a_raw_value_makes_folders_within_the_destination(
    run: Run, served: str, dest: Path, tmp_path: Path
) -> None:
    """What leads elsewhere has failed, without a request."""
    values = ["a/b", "../x", "/y", "a/./z"]
    listed = write_list(tmp_path, [{"url": f"{served}/one", "id": value} for value in values], "jsonl")
    done = run("get", listed, dest, "--names", "{id!r}.txt", "--allow-private")

    assert done.code == 3, done.err
    assert [name for name, _ in read_objects(dest, "files")] == ["a/b.txt"]
    assert not (tmp_path / "x.txt").exists()


@pytest.mark.parametrize(("format", "code", "count"), [("files", 3, 1), ("parquet", 0, 4)])
def test_rows_with_one_name_are_told_as_ever(
    run: Run, served: str, dest: Path, tmp_path: Path, format: str, code: int, count: int
) -> None:
    """One of them is a file; packs keep all, by their sequence numbers."""
    listed = write_list(tmp_path, rows(served, ("id", "x")), "csv")
    done = run("get", listed, dest, "--format", format, "--names", "{id}", "--allow-private")

    assert done.code == code, done.err
    assert [name for name, _ in read_objects(dest, format)] == ["x"] * count
    if format == "files":
        assert "name-taken" in done.err + done.out


def test_items_of_a_program_have_a_name_and_a_number(served: str, dest: Path) -> None:
    """And no other column."""
    pairs = [(f"{served}/{name}", name.upper()) for name in BODIES]
    report = fetchmill.get(pairs, dest, format="tar", names="{index}-{name}.txt")

    assert report.fetched == 4
    expected = {f"{index:09}-{name.upper()}.txt": body for index, (name, body) in enumerate(BODIES.items())}
    assert find_wrong(dest, "tar", expected) == []
    with pytest.raises(UsageError, match=r"--names \{\}, \{name\} and \{index\}"):
        fetchmill.get(pairs, dest.with_name("other"), names="{id}")


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("{id", "brace"),
        ("name", "all objects the same"),
        ("../{id}", "segment . or .."),
        ("/{id}", "starts with a slash"),
        ("{id}/", "folders"),
    ],
)
def test_a_template_that_makes_no_names_is_refused(
    run: Run, dest: Path, tmp_path: Path, names: str, why: str
) -> None:
    """In one line, before anything is made."""
    listed = write_list(tmp_path, rows("http://127.0.0.1:1", ("id", "{}")), "csv")
    refused = run("get", listed, dest, "--names", names)

    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--names" in refused.err
    assert why in refused.err
    assert not dest.exists()


def test_two_ways_to_name_are_refused(run: Run, dest: Path, tmp_path: Path) -> None:
    """And names for a server, which has its own."""
    listed = write_list(tmp_path, rows("http://127.0.0.1:1", ("id", "{}")), "csv")
    both = run("get", listed, dest, "--names", "{id}", "--key-column", "id")
    server = run("get", "http://127.0.0.1:1", dest, "--names", "{id}")

    assert (both.code, "give one of them" in both.err) == (2, True)
    assert (server.code, "names is for lists of URLs" in server.err) == (2, True)


def test_a_missing_column_is_told(run: Run, served: str, dest: Path, tmp_path: Path) -> None:
    """A list without it would be all failures."""
    listed = write_list(tmp_path, rows(served, ("id", "{}")), "csv")
    refused = run("get", listed, dest, "--names", "{key}.jpg", "--allow-private")

    assert refused.code != 0
    assert "key" in refused.err
