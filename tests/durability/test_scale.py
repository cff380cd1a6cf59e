"""`make hundred-million` with fewer objects: killed twice, stopped, resumed, balanced."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCALE = (sys.executable, "-m", "own_bench.scale")


def started(root: Path, folder: Path, count: int) -> subprocess.Popen[str]:
    """Starts the measurement as the make target does."""
    command = (*SCALE, "--count", str(count), "--folder", folder, "--look", "0.05")
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.thorough
def test_twice_killed_measurement_balances_its_ledger(root: Path, tmp_path: Path) -> None:
    """The sums show the cost of the kills. A second start shows them again."""
    count = 300_000

    first = started(root, tmp_path, count)
    said, _ = first.communicate(timeout=100)
    again, _ = started(root, tmp_path, count).communicate(timeout=120)
    sums = json.loads((tmp_path / "sums.json").read_text())
    result = json.loads((tmp_path / "result.json").read_text())

    assert first.returncode == 0, said
    assert (result["objects"], result["kills"], result["balances"]) == (count, 2, True)
    assert said.count("killed with SIGKILL at") == 2
    assert "300,000 listed = 300,000 fetched + 0 absent + 0 failed + 0 skipped + 0 pending\n" in said
    assert said.endswith("the ledger balances\n")
    assert [run["ended"] for run in sums["runs"]] == ["killed", "killed", "done"]
    assert sum(sums["gets"]) >= count
    assert all(run["seconds"] > 0 and run["cpu"] > 0 and run["peak_mib"] > 0 for run in sums["runs"])
    assert again == said[said.index("objects          ") :]


@pytest.mark.thorough
def test_interrupted_measurement_resumes(root: Path, tmp_path: Path) -> None:
    """Ctrl-C ends client and server. The same command resumes the job, and the sums include both runs."""
    count = 100_000

    first = started(root, tmp_path, count)
    assert first.stdout is not None
    while " objects, " not in first.stdout.readline():
        assert first.poll() is None
    first.send_signal(signal.SIGINT)
    stopped, _ = first.communicate(timeout=120)
    second, _ = started(root, tmp_path, count).communicate(timeout=100)
    sums = json.loads((tmp_path / "sums.json").read_text())

    assert first.returncode == 130, stopped
    assert second.endswith("the ledger balances\n")
    assert sums["runs"][0]["ended"] == "stopped"
    assert sums["runs"][-1]["ended"] == "done"
    assert len(sums["gets"]) == 2
