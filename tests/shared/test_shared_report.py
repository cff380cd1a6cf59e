"""`report` and `status --metrics` of shared jobs: the whole job, each worker, and repeated requests."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

import fetchmill.shared_jobs
from conftest import Ended
from fetchmill.testing import Server
from shared_jobs import write_list

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

COUNT = 4_000
OPTIONS = ("--shared", "--allow-private", "--format", "parquet", "-j", "8", "--lease", "2s")


def metrics(text: str) -> dict[str, float]:
    """Returns the values by name and labels."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {f"{sample.name} {' '.join(sample.labels.values())}".strip(): sample.value for sample in samples}


def test_shared_report_sums_all_workers(
    server: Callable[..., Server], run: Run, start: Start, dest: Path, tmp_path: Path
) -> None:
    """One of two workers is killed. Its outcomes are discarded, but the report shows what both did over time."""
    served = server(synthetic=COUNT, delay=(0.0, 0.02))
    write_list(tmp_path / "urls.txt", served, COUNT)
    workers = [start("get", "urls.txt", dest, *OPTIONS) for _ in range(2)]
    while not (dest / "commits").exists() or not list((dest / "commits").iterdir()):
        time.sleep(0.05)
    workers[1].send_signal(signal.SIGKILL)
    running = metrics(run("status", dest, "--metrics").out)
    assert workers[0].wait(60) == 0

    text = run("report", dest).out
    found = fetchmill.shared_jobs.history(dest)
    page = tmp_path / "report.html"
    assert run("report", dest, "--html", page).code == 0
    finished = metrics(run("status", dest, "--metrics").out)

    assert (running["fetchmill_finished"], finished["fetchmill_finished"]) == (0, 1)
    assert finished["fetchmill_objects_total fetched"] == COUNT
    assert finished["fetchmill_workers ended"] + finished["fetchmill_workers lost"] == 2
    status = found.status
    assert finished["fetchmill_discarded"] == status.discarded
    assert sum(worker.fetched for worker in status.workers) == COUNT
    assert f"discarded    {status.discarded:,} target" in text or not status.discarded
    for worker in status.workers:
        assert f"{worker.name}: " in text
    # Attempts shorter than a second have no samples.
    assert 0 < sum(sample["fetched"] for sample in found.samples) <= COUNT
    times = [sample["time"] for sample in found.samples]
    assert times == sorted(set(times))
    assert json.loads(run("report", dest, "--json").out)["status"]["finished"] is True
    assert str(dest) in page.read_text()


def test_metrics_option_is_refused_for_unshared_jobs(server: Callable[..., Server], run: Run, dest: Path) -> None:
    """The error says that `--metrics` works only with shared jobs."""
    assert run("get", server(synthetic=10).url, dest).code == 0

    refused = run("status", dest, "--metrics")
    combined = run("status", dest, "--metrics", "--watch")

    assert (refused.code, "is not a shared job; --metrics works only with shared jobs" in refused.err) == (2, True)
    assert (combined.code, "cannot be combined" in combined.err) == (2, True)
