"""The metric tables in docs/guide/dashboard.md match the metrics that the code writes."""

import json
import re
from pathlib import Path

import pytest

from conftest import ROOT
from fetchmill._dashboard.metrics import LIMITS, metrics_text
from fetchmill._shared.metrics import metrics_of
from fetchmill._shared.status import SharedStatus, WorkerStatus

PAGE = ROOT / "docs/guide/dashboard.md"
WRITERS = [ROOT / "python/fetchmill" / path for path in ("_dashboard/metrics.py", "_shared/metrics.py")]
# A table row: name, labels, type, unit.
ROW = re.compile(r"^\| `(\w+)(?:\{([\w,]+)\})?` \| (\w+) \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
LATENCY = {"p50": 0.01, "p90": 0.02, "p99": 0.03, "max": 0.04}
COUNTS = {"listed": 9, "fetched": 5, "absent": 1, "failed": 2, "skipped": 1, "bytes": 10, "attempts": 12}
# Every metric has a sample, so that all labels appear.
SNAPSHOT = {
    **COUNTS,
    "failures": {"refused": 2},
    "listing_done": True,
    "in_flight": 3,
    "concurrency": 8,
    "waiting": 1,
    "limited_by": {"kind": LIMITS[0]},
    "latency": LATENCY,
    "origins": [{"origin": "http://127.0.0.1:9", "latency": LATENCY, "replies_per_second": 7.0}],
}
WORKER = WorkerStatus(name="w", state="working", age=1.0, ranges=(), objects_per_second=2.0)
STATUS = SharedStatus(
    source="urls.txt",
    dest="job",
    format="tar",
    ledger=COUNTS,
    failures={"refused": 2},
    in_progress=COUNTS,
    bytes_of_list=1,
    bytes_done=1,
    ranges_done=1,
    ranges_open=0,
    set_aside=(),
    worker_seconds=1.0,
    workers=(WORKER,),
    stopped=None,
)

Described = dict[str, tuple[str, frozenset[str]]]


def written(text: str) -> Described:
    """Returns the type and the labels of each metric, by name."""
    found: Described = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        samples = re.findall(rf"^{name}(?:\{{(.*)\}})? ", text, re.MULTILINE)
        assert samples, name
        found[name] = (kind, frozenset(re.findall(r'(\w+)="', samples[0])))
    return found


def documented(heading: str) -> tuple[Described, dict[str, str]]:
    """Returns the metrics in the page's tables, like `written`, and the unit of each metric."""
    table = PAGE.read_text().partition(f"| {heading} | type | unit | meaning |\n")[2].partition("\n\n")[0]
    rows = ROW.findall(table)
    assert len(rows) == table.count("\n"), "a row has another form"
    described = {name: (kind, frozenset(labels.split(",")) - {""}) for name, labels, kind, _ in rows}
    return described, {name: unit for name, _, _, unit in rows}


@pytest.mark.parametrize(
    ("heading", "text"),
    [("metric", metrics_text(SNAPSHOT, 1.0, "1")), ("metric of a shared job", metrics_of(STATUS))],
    ids=["dashboard", "shared job"],
)
def test_metrics_page_lists_every_metric_with_type_labels_unit(heading: str, text: str) -> None:
    """The page lists exactly the written metrics. A metric's name ends with its unit."""
    found, units = documented(heading)

    assert found == written(text)
    for name, unit in units.items():
        if name.endswith("_per_second"):
            assert unit.endswith(" per second"), name
        elif name.endswith("_seconds"):
            assert unit == "seconds", name
        elif name.endswith("_bytes_total"):
            assert unit == "bytes", name
        elif name.endswith("_info"):
            assert unit == "1", name
        else:
            assert unit in {"targets", "requests", "ranges", "workers", "0 or 1"}, name


def test_metrics_page_has_every_metric_of_source_code() -> None:
    """Every metric name in the source code is in one of the page's tables."""
    known = {*documented("metric")[0], *documented("metric of a shared job")[0]}
    named = {name for path in WRITERS for name in re.findall(r'"(fetchmill_\w+)"', path.read_text())}

    assert len(named) > 15
    assert named <= known


def test_grafana_dashboard_uses_only_existing_metrics() -> None:
    """A renamed metric would leave an empty panel in the dashboard."""
    path = ROOT / "docs/guide/grafana.json"
    used = set(re.findall(r"fetchmill_\w+", json.dumps(json.loads(Path(path).read_text()))))

    assert used
    assert used <= set(documented("metric")[0])
