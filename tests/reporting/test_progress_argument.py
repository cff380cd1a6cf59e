"""The argument `progress`: what programs, terminals and notebooks see of a running job."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import fetchmill
from fetchmill.testing import Server

Serve = Callable[..., Server]

CELLS = (
    """
import fetchmill
from fetchmill.bounded import processes

def shout(replies):
    return [reply.body.upper() for reply in replies]

def double(number):
    return 2 * number
""",
    "report = fetchmill.get(URL, DEST, transform=shout)\nreport",
    "print(sorted(processes.map(double, range(3), limit=1)))",
)


class GivenUpError(Exception):
    """Raised by a progress function to end the job."""


def test_progress_function_gets_snapshots_including_final_one(server: Serve, dest: Path) -> None:
    """The last snapshot has the final counts."""
    seen: list[fetchmill.Snapshot] = []

    report = fetchmill.get(server(synthetic=300, delay=(0.3, 0.3)).url, dest, concurrency=100, progress=seen.append)

    assert len(seen) > 2
    assert [snapshot.settled for snapshot in seen] == sorted(snapshot.settled for snapshot in seen)
    assert (seen[-1].settled, seen[-1].fetched) == (300, report.fetched)


def test_job_resumes_after_exception_in_progress_function(server: Serve, dest: Path) -> None:
    """An exception in the function ends the job after a checkpoint, and the same call resumes it."""

    def give_up(snapshot: fetchmill.Snapshot) -> None:
        if snapshot.fetched >= 100:
            raise GivenUpError

    source = server(synthetic=1000, delay=(0.2, 0.2))
    with pytest.raises(GivenUpError):
        fetchmill.get(source.url, dest, concurrency=50, progress=give_up)
    before = fetchmill.status(dest).settled
    report = fetchmill.get(source.url, dest, concurrency=200, progress=False)

    assert 100 <= before < 1000
    assert (report.fetched, report.resumed) == (1000, True)
    assert source.stats()["get"] == 1000


@pytest.mark.parametrize("call", ["list", "sync", "check", "export", "resume"])
def test_each_call_shows_progress_at_least_once(server: Serve, dest: Path, tmp_path: Path, call: str) -> None:
    """Even a very short job shows its progress once, at its end."""
    url = server(synthetic=20).url
    seen: list[fetchmill.Snapshot] = []
    calls: dict[str, Callable[[], object]] = {
        "list": lambda: fetchmill.list(url, tmp_path / "list.csv", progress=seen.append),
        "sync": lambda: fetchmill.sync(url, dest, progress=seen.append),
        "check": lambda: fetchmill.check([f"{url}/a"], allow_private=True, progress=seen.append),
        "export": lambda: fetchmill.export(dest, tmp_path / "other", format="tar", progress=seen.append),
        "resume": lambda: fetchmill.resume(dest, progress=seen.append),
    }
    if call in ("export", "resume"):
        fetchmill.get(url, dest)
    calls[call]()

    assert isinstance(seen[-1], fetchmill.Snapshot)


def test_terminal_progress_line_is_removed_at_end(server: Serve, dest: Path) -> None:
    """A terminal shows one progress line on standard error, which is removed when the job ends."""
    program = "import sys, fetchmill; fetchmill.get(*sys.argv[1:3], concurrency=50, progress=True)"
    url = server(synthetic=300, delay=(0.2, 0.2)).url
    parent, child = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", program, url, dest], check=True, stderr=child, timeout=60)
        shown = os.read(parent, 100_000).decode()
    finally:
        os.close(parent)
        os.close(child)

    assert "objects/s" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[2K")


def test_notebook_shows_progress_and_runs_cell_functions(server: Serve, dest: Path) -> None:
    """A real notebook kernel shows progress by default."""
    url = server(synthetic=60, delay=(0.2, 0.2)).url
    setup = f"URL, DEST = {url!r}, {str(dest)!r}"
    v4: Any = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(text) for text in (setup, *CELLS)])

    nbclient.NotebookClient(notebook, timeout=120).execute()

    _, _, got, doubled = (cell.outputs for cell in notebook.cells)
    bar, report = got
    assert bar.output_type == "display_data"
    assert bar.data["text/html"].startswith("60 of 60 (100 %), ")
    assert "<th style='text-align:left'>fetched</th><td style='text-align:left'>60</td>" in report.data["text/html"]
    assert report.data["text/plain"].startswith("Report(source='http://")
    assert doubled[0].text == "[0, 2, 4]\n"
    with fetchmill.open(dest) as objects:
        assert all(body == body.upper() for body in objects.values())


def test_report_html_shows_counts_and_nonempty_values(server: Serve, dest: Path) -> None:
    """Empty values are left out, and values are escaped for HTML."""
    report = fetchmill.get(server(synthetic=3).url, dest)

    text = repr(report)
    assert "fetched=3, absent=0, failed=0" in text
    assert "failures" not in text
    assert "listed_at='20" in text
    assert "<td style='text-align:left'>&lt;b&gt;</td>" in type(report)(**{**vars(report), "dest": "<b>"})._repr_html_()
