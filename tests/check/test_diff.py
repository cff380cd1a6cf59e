"""`fetchmill diff OLD NEW`: the differences between two checks, in any of their formats."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from fetchmill.testing import Fault, Server

Run = Callable[..., Any]
Serve = Callable[..., Server]

COLUMNS = ("url", "key", "status", "kind")


def write_results(path: Path, answers: dict[str, str]) -> Path:
    """Writes results for the given sites; an answer is a status or a kind."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for site, answer in answers.items():
            writer.writerow((site, "", *((answer, "") if answer.isdecimal() else ("", answer))))
    return path


@pytest.fixture
def checked(run: Run, server: Serve, tmp_path: Path) -> tuple[str, str]:
    """Writes results of two checks: one site was removed, one was added, and two have another answer."""
    faults = [
        Fault("status", status=500, match="file-000000000001", times=1),
        Fault("reset", match="file-000000000002", times=1),
    ]
    source = server(synthetic=10, faults=faults)
    urls = [f"{source.url}/get/file-{index:012}" for index in range(10)]
    (tmp_path / "old.txt").write_text("\n".join(urls[:-1]))
    (tmp_path / "new.txt").write_text("\n".join(urls[1:]))
    assert run("check", "old.txt", "old.parquet", "--allow-private").code == 0
    assert run("check", "new.txt", "new.jsonl.zst", "--allow-private").code == 0
    return "old.parquet", "new.jsonl.zst"


def test_diff_reports_changed_added_and_removed_sites(run: Run, checked: tuple[str, str]) -> None:
    """The formats of the results may differ; the exit code is 3 if there are differences."""
    ended = run("diff", *checked)

    assert (ended.code, ended.err) == (3, "")
    assert ended.out.splitlines()[:3] == [
        "6 unchanged, 2 changed, 1 added, 1 removed",
        "  1  500 -> 200",
        "  1  reset -> 200",
    ]
    assert "/get/file-000000000001  500 -> 200" in ended.out
    assert "/get/file-000000000009  new -> 200" in ended.out
    assert "/get/file-000000000000  200 -> gone" in ended.out


def test_diff_of_check_with_itself_finds_no_changes(run: Run, checked: tuple[str, str]) -> None:
    """Without differences, the exit code is 0."""
    ended = run("diff", checked[0], checked[0])

    assert (ended.code, ended.out) == (0, "9 unchanged, 0 changed, 0 added, 0 removed\n")


def test_diff_json_lists_up_to_given_number_of_changes(run: Run, tmp_path: Path) -> None:
    """With 0, all changes are listed. The counts are always complete."""
    old = write_results(tmp_path / "old.csv", {f"https://a.test/{number}": "200" for number in range(2500)})
    new = write_results(tmp_path / "new.csv", {f"https://a.test/{number}": "dns" for number in range(2500)})

    some, whole = run("diff", old, new, "--json", "--limit", 3), run("diff", old, new, "--json", "--limit", 0)
    same = json.loads(run("diff", old, old, "--json").out)

    assert (some.code, len(json.loads(some.out)["changes"])) == (3, 3)
    found = json.loads(whole.out)
    assert [change["site"] for change in found["changes"]] == [f"https://a.test/{number}" for number in range(2500)]
    assert found["changes"][0] == {"site": "https://a.test/0", "before": "200", "after": "dns"}
    assert found["transitions"] == [{"before": "200", "after": "dns", "count": 2500}]
    assert (found["changed"], found["old_rows"], same["changes"], same["unchanged"]) == (2500, 2500, [], 2500)


def test_python_diff_returns_counts_and_changes(tmp_path: Path) -> None:
    """Transitions are also returned; the number of changes has a limit."""
    old = write_results(tmp_path / "old.csv", {"a": "200", "b": "200", "c": "refused"})
    new = write_results(tmp_path / "new.csv", {"a": "200", "b": "404", "d": "200"})

    report = fetchmill.diff(old, new)

    assert (report.unchanged, report.changed, report.added, report.removed, report.same) == (1, 1, 1, 1, False)
    assert report.transitions == {("200", "404"): 1}
    assert report.changes == (
        fetchmill.Change("b", "200", "404"),
        fetchmill.Change("d", None, "200"),
        fetchmill.Change("c", "refused", None),
    )
    assert fetchmill.diff(old, new, limit=1).changes == report.changes[:1]
    assert fetchmill.diff(old, old).same


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.csv", "url,rank\nhttps://a/,1\n"),
        ("r.jsonl", '{"url": "https://a/"}\n'),
        ("r.parquet", "not Parquet"),
        ("r.csv.gz", "not gzip"),
        ("r.zip", ""),
        (None, None),
    ],
)
def test_diff_of_other_file_is_usage_error(run: Run, tmp_path: Path, name: str | None, content: str | None) -> None:
    """The error is one line with the file's name."""
    old = write_results(tmp_path / "old.csv", {"a": "200"})
    if name and content is not None:
        (tmp_path / name).write_text(content)

    refused = run("diff", old, name or "nothing.csv")

    assert (refused.code, refused.out) == (2, "")
    assert len(refused.err.splitlines()) == 1
    assert (name or "nothing.csv") in refused.err


def test_diff_output_contains_no_terminal_escapes(run: Run, tmp_path: Path) -> None:
    """Site names are untrusted, because lists may come from anyone."""
    old = write_results(tmp_path / "old.csv", {"a\x1b[31m": "200"})
    new = write_results(tmp_path / "new.csv", {"a\x1b[31m": "404"})

    assert "\x1b" not in run("diff", old, new).out
