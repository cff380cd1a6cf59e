"""`fetchmill report` and `fetchmill.history`: a job's activity over time as text, JSON and an HTML page."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from browser_tab import open_tab
from fetchmill.testing import Fault, Server

pytestmark = pytest.mark.of_files("packages/fetchmill-bench")

Run = Callable[..., Any]
Serve = Callable[..., Server]

# Of 300 objects, ten are absent and ten fail; the job takes three seconds.
FAULTS = [
    Fault("status", status=404, match="file-00000000002*"),
    Fault("status", status=403, match="file-00000000003*"),
]


@pytest.fixture
def finished(server: Serve, run: Run, tmp_path: Path) -> Path:
    """A job that was stopped by a rule and then resumed. Its destination's name would end a script element."""
    dest = tmp_path / "a <b></script><script>throw 1</script>"
    served = server(synthetic=300, delay=(0.1, 0.1), faults=FAULTS)
    command = ("get", served.url, dest, "-j", 10, "--quiet")
    assert run(*command, "--max-duration", "1.5s").code == 8
    time.sleep(1)
    assert run(*command).code == 3
    return dest


def test_report_covers_all_runs_of_job(finished: Path, run: Run) -> None:
    """The samples add up to the journal's counts, and the pause between the two runs is excluded."""
    found = fetchmill.history(finished)

    assert found.status.finished
    assert sum(sample["fetched"] for sample in found.samples) == found.status.fetched == 280
    assert sum(sample["absent"] for sample in found.samples) == found.status.absent == 10
    assert {
        kind: sum(sample["failures"].get(kind, 0) for sample in found.samples) for kind in found.status.failures
    } == {"status": 10}
    assert sum(sample["bytes"] for sample in found.samples) == found.status.bytes
    # At most the first run's requests in flight are repeated.
    assert 300 <= found.attempts <= 320
    assert (found.runs, 2.5 < found.seconds < 60) == (2, True)
    assert sum(found.limits.values()) == pytest.approx(1)
    lines = run("report", finished).out
    assert re.search(r"^time +[\d.]+ s in 2 runs$", lines, re.MULTILINE)
    assert re.search(r"^limited by +\w+ \d+ %.* of the time$", lines, re.MULTILINE)
    given = json.loads(run("report", finished, "--json").out)
    assert given["samples"] == list(found.samples)
    assert (given["runs"], given["status"]["fetched"]) == (2, 280)


def test_report_page_is_one_self_contained_file(finished: Path, run: Run, tmp_path: Path) -> None:
    """The page shows the journal's data and loads nothing else. Names in it are escaped."""
    file = tmp_path / "report.html"

    ended = run("report", finished, "--html", file)

    assert (ended.code, ended.out, ended.err) == (0, "", f"written: {file}\n")
    with open_tab(tmp_path) as tab:
        tab.open(file.as_uri())
        tab.wait_until("document.querySelectorAll('#charts canvas').length", lambda canvases: canvases == 6)
        shown = {
            name: tab.value(f"document.querySelector('#figures [data-figure={name}] td').textContent")
            for name in ("listed", "fetched", "absent", "failed", "requests")
        }
        failures = tab.value("document.querySelector('#failures tbody').textContent")
        job = tab.value("document.getElementById('job').textContent")
        state = tab.value("document.getElementById('state').textContent")
        limited = tab.value("document.getElementById('limited').textContent")
        tab.look(1000, is_dark=False)
        tab.picture(tmp_path / "report.png")
        assert tab.console == []
        assert [url for url in tab.requests if not url.startswith("data:")] == [file.as_uri()]
    attempts = fetchmill.history(finished).attempts
    assert shown == {"listed": "300", "fetched": "280", "absent": "10", "failed": "10", "requests": f"{attempts}"}
    assert failures == "status10"
    assert job.endswith(f"→ {finished}")
    assert state == "done"
    assert limited.startswith("limited by ")


def test_report_page_works_without_samples(server: Serve, run: Run, dest: Path, tmp_path: Path) -> None:
    """The charts say that there are no samples."""
    assert run("get", server(synthetic=3).url, dest, "--quiet", "--max-duration", "0.001s").code in (0, 8)
    # A job of an older release has no samples.
    found = fetchmill.JobHistory(status=fetchmill.status(dest), samples=[])

    assert (found.seconds, found.runs, found.limits, found.attempts) == (0.0, 0, {}, 0)
    file = tmp_path / "page.html"
    file.write_text(found.to_html())
    with open_tab(tmp_path) as tab:
        tab.open(file.as_uri())
        tab.wait_until("document.getElementById('done')?.textContent ?? ''", lambda text: " of " in text)
        assert tab.value("document.querySelectorAll('#charts canvas').length") == 0
        assert tab.console == []


def test_unwritable_report_page_is_one_line_error(finished: Path, run: Run, tmp_path: Path) -> None:
    """No part of the page is left behind."""
    ended = run("report", finished, "--html", tmp_path / "not-there" / "report.html")

    assert (ended.code, ended.out) == (7, "")
    assert ended.err == f"fetchmill: error: cannot write {tmp_path}/not-there/report.html: No such file or directory\n"
    nothing = run("report", tmp_path / "nothing")
    assert nothing.code == 2
    assert nothing.err.startswith("fetchmill: error: ")
