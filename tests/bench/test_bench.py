"""The benchmark's own code, with runs too short for meaningful figures; no figure is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import example
from fetchmill_bench.contender_table import CONTENDERS
from own_bench import report
from own_bench.streamers import STREAMERS

pytestmark = pytest.mark.of_files("packages/fetchmill-bench")

CLIENTS = ("h2load", "fetchmill")


def numbers(value: Any) -> list[float]:  # noqa: ANN401 - what JSON holds
    """Yields all numbers inside a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """Runs each scenario once, in a folder instead of a file system. Returns the figures and the output."""
    folder = tmp_path_factory.mktemp("bench")
    root = Path(__file__).resolve().parents[2]
    example("bare_files")
    # The kernel counts CPU time in steps of 10 ms, so a server must work for several of them.
    short = ("--rounds", "1", "--seconds", "0.3", "--levels", "4", "--files", "500", "--replies", "8000", "--no-mount")
    places = ("--folder", folder / "work", "--output", folder / "latest.json")
    command = (sys.executable, "-m", "own_bench.run", *short, *places)
    env = os.environ | {"FETCHMILL_PROFILE": "debug"}
    ended = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not (folder / "work").exists()
    return json.loads((folder / "latest.json").read_text()), ended.stdout


def test_each_scenario_reports_bars_and_cpu_time(measured: tuple[dict[str, Any], str]) -> None:
    """Each scenario also has commands that anyone can repeat."""
    results, shown = measured
    scenarios = results["scenarios"]

    assert scenarios.keys() == {"null", "in_flight", "files", "packs", "pipelined", "servers", "stream", "https"}
    bars = {"null": 2, "files": 2, "packs": 3, "pipelined": 3, "servers": 3, "stream": 4}
    assert {name: len(scenarios[name]["bars"]) for name in bars} == bars
    assert scenarios["in_flight"]["levels"][0]["connections"] == 4
    assert all(scenarios["null"][client]["server_us"] > 0 for client in ("wrk", "fetchmill"))
    assert all(scenarios[name]["commands"] for name in bars)
    assert shown.count("| CPU per object /") == 2
    assert scenarios["stream"]["clients"].keys() == {"wrk", "null", *STREAMERS}
    assert [found["version"] for found in scenarios["https"]["versions"]] == ["HTTP/1.1", "HTTP/2"]
    # While other tests run, a server may work for less than one of these steps.
    assert all(found[client]["server_us"] >= 0 for found in scenarios["https"]["versions"] for client in CLIENTS)
    assert scenarios["packs"]["disk"].keys() == {"parquet", "tar", "jsonl", "warc"}


def test_committed_results_name_no_host_or_path(measured: tuple[dict[str, Any], str], root: Path) -> None:
    """The committed results do not identify the machine that was measured."""
    results, _ = measured
    text = json.dumps(results)

    assert str(root) not in text
    assert "/tmp" not in text  # noqa: S108 - looked for
    assert results["machine"].keys() >= {"processor", "kernel", "nginx", "wrk", "h2load"}
    assert len(results["commit"]) == 40
    assert all(number >= 0 for number in numbers(results))


def test_tables_between_page_markers_are_replaced(measured: tuple[dict[str, Any], str]) -> None:
    """A second run changes nothing, and missing measurements are marked."""
    results, _ = measured
    page = "a\n<!-- bench:null -->\nold\n<!-- /bench:null -->\nb\n<!-- bench:scale -->\n<!-- /bench:scale -->\n"

    once = report.filled(page, results)

    assert "old" not in once
    assert "| wrk " in once
    assert "Not measured yet." in once
    assert report.filled(once, results) == once


def test_readme_comparison_covers_each_way_and_s3_client(measured: tuple[dict[str, Any], str]) -> None:
    """Each way has its row, and each named S3 client is one that `fetchmill bench s3` runs."""
    figures = {
        "limit": 50,
        "requests_per_second": {"median": 1e4},
        "cpu_us_a_request": 50.0,
        "peak_mib": {"median": 7.0},
    }
    clients = [{"contender": name, **figures} for name in report.BUCKET_WAYS]

    shown = report.render("readme", {**measured[0], "s3": {"results": clients}})

    ways = [*(way for way, *_ in report.WAYS), *(way for way, _ in report.BUCKET_WAYS.values())]
    assert [way for way in ways if f"| {way} " not in shown] == []
    assert shown.count("| one ") == 2
    assert report.BUCKET_WAYS.keys() <= {contender.name for contender in CONTENDERS if contender.may_run("s3")}


@pytest.mark.parametrize("page", report.PAGES, ids=lambda page: page.name)
def test_committed_page_markers_name_existing_tables(page: Path) -> None:
    """A marker with any other name would never be filled."""
    assert "Not measured yet." in report.filled(page.read_text(), {"scenarios": {}})
