"""The report of the bench in a real browser: plots, tables, and untrusted text that is shown verbatim."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from browser import Page, open_page, picture_of
from fetchmill_bench.html import write_report
from fetchmill_bench.report import figures
from fetchmill_bench.report.published import entries, published_seconds
from fetchmill_bench.report.scale import Scale

pytestmark = pytest.mark.of_files("packages/fetchmill-bench")

HOSTILE = """</script></title></svg><img src="http://fetched.test/x" onerror=alert(1)>"'&lt;\x00\udcff"""
WAYS = ("native", "asyncio", "semaphore_gather", "task_pool")
CONSOLE_PAGE = '<title>t</title><script>nothing()</script><img src="http://fetched.test/x">'


def result(scenario: str, contender: str, requests: int, limit: int, **known: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns a result as the bench writes it; without a rate, it has failed."""
    rate, peak = known.pop("rate", 0.0), known.pop("peak", 0.0)
    return {
        "scenario": scenario,
        "contender": contender,
        "way": f"{contender}, as built",
        "row": None,
        "requests": requests,
        "limit": limit,
        "sites": None,
        "repeats": 3,
        "status": "ok" if rate else "failed",
        "reason": None,
        "requests_per_second": {"median": rate, "least": rate * 0.9, "most": rate * 1.1},
        "steady_per_second": None,
        "seconds_a_request": 1 / rate if rate else None,
        "days_for_a_billion": 1e9 / rate / 86400 if rate else None,
        "set_up_seconds": None,
        "cpu_us_a_request": 31.4 if rate else None,
        "server_cpu_us_a_request": 15.7 if rate else None,
        "peak_mib": {"median": peak, "least": peak, "most": peak},
        "failures": 0,
        "ratio_to_best": 2.5 if rate else None,
        "differs": None,
        **known,
    }


def published(table: str, way: str, contender: str | None, counts: tuple[int, ...], **known: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns a published row as the bench writes it."""
    figures_of = known.pop("figures")
    row = {"table": table, "title": f"The text {table}", "way": way, "contender": contender, "counts": counts}
    return {**row, "figures": figures_of, "limit": known.get("limit")}


PUBLISHED = [
    published("A", "10 threads", "a_threads", (10**9,), figures={"s a request": 0.0036}, limit=10),
    published("A", "100 threads", "a_threads", (10**9,), figures={"s a request": 0.0042}, limit=100),
    published("A", "16 processes", "a_processes", (10**9,), figures={"s a request": 0.00032}, limit=16),
    published("B", "asyncio", None, (30_000,), figures={"s": "about 90"}),
    published("C", "TaskPool", "task_pool", (100_000,), figures={"memory KB": 58_188, "s": 153.4}, limit=1000),
    published(
        "D",
        "semaphore, all tasks first",
        "semaphore_gather",
        (10, 10_000, 10**6, 10**8),
        figures={"s for 10": 3.1, "MB for 10,000": 78.0, "s for 1 million": 1544.0, "100 million": "killed"},
        limit=1000,
    ),
    published("E", "8 processes", "e_pool", (10, 1000), figures={"s for 10 sites": 0.95, "s for 1000 sites": 86.07}),
]


def document() -> dict[str, Any]:
    """Returns a comparison with everything that a report can show."""
    slow = [
        result(
            "slow", way, count, limit, rate=limit / 1.6, peak=20 + count / 1e3 * number, steady_per_second=limit / 1.5
        )
        for number, way in enumerate(WAYS)
        for count, limit in ((100, 1000), (10_000, 1000), (100_000, 1000), (100_000, 10), (100_000, 100))
    ]
    billion = [
        result("billion", "a_threads", 100_000, 10, rate=430.0, peak=64.0, status="stopped"),
        result("billion", "a_threads", 100_000, 100, rate=380.0, peak=88.0),
        result("billion", f"python {HOSTILE}", 100_000, 64, reason=f"exit code 1: {HOSTILE}"),
    ]
    differs = {"rows": 7, "examples": [[f"https://h1.test/{HOSTILE}", "200", "timeout"]]}
    sites = [result("sites", "e_pool", 10, 8, sites=10, rate=10.5, peak=210.0, differs=differs)]
    return {
        "format": 1,
        "fetchmill": "0.1.0",
        "python": "3.11.9",
        "machine": {"processors": 2, "memory_mib": 24105, "system": "Linux 6.1 x86_64"},
        "started": "2026-11-22T01:02:03Z",
        "scenario": "all",
        "published_mode": True,
        "interrupted": False,
        "settings": {"seconds": 5, "repeat": 3, "limit": None, "contender": [f"python {HOSTILE}"]},
        "runs": [],
        "results": [*billion, *slow, *sites],
        "published": PUBLISHED,
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes the report of `document`."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(document(), path)
    return path


@pytest.fixture(scope="module")
def opened(report: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, Sequence[str], Sequence[str]]:
    """Returns the page in the browser, its console, and its network requests."""
    found = open_page(report, tmp_path_factory.mktemp("browser"))
    return Page(found.dom), found.console, found.asked


def test_browser_fixture_reports_errors_and_requests(tmp_path: Path) -> None:
    """The browser reports errors and requests; without this, the next tests would prove nothing."""
    page = tmp_path / "page.html"
    page.write_text(CONSOLE_PAGE)

    found = open_page(page, tmp_path)

    assert any("nothing is not defined" in line for line in found.console)
    assert any("fetched.test" in line for line in found.asked)


def test_report_page_logs_nothing_to_console(opened: tuple[Page, Sequence[str], Sequence[str]]) -> None:
    """The page's content security policy has nothing to refuse."""
    assert opened[1] == []


def test_report_page_sends_no_requests(report: Path, opened: tuple[Page, Sequence[str], Sequence[str]]) -> None:
    """The report is a single file, and its links lead only to itself."""
    page, _, asked = opened
    links = [value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")]

    assert [line for line in asked if "fetched.test" in line] == []
    assert links == []
    assert set(re.findall(r"url\((.*?)\)", report.read_text(encoding="utf-8"))) == {"#hatch"}


def test_report_shows_untrusted_text_verbatim(opened: tuple[Page, Sequence[str], Sequence[str]]) -> None:
    """Names, reasons, settings and addresses are shown verbatim, except for characters that HTML cannot represent."""
    page = opened[0]
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\udcff", "\ufffd")

    assert {name for name, _ in page.elements} & {"script", "img"} == set()
    assert [name for _, attributes in page.elements for name in attributes if name.startswith("on")] == []
    for text in (
        f"python {shown}",
        f"failed: exit code 1: {shown}",
        f"https://h1.test/{shown}",
        f"contender python {shown}",
    ):
        assert text in page.text


def test_report_plot_has_bars_and_marks_of_each_way(opened: tuple[Page, Sequence[str], Sequence[str]]) -> None:
    """Bars show the largest common size, and hatched bars published figures. Each size and limit has a mark."""
    marks = opened[0].marks

    assert marks["Time per request by way, 100,000 requests"] == {
        "a_threads": 4,  # two limits, both published
        **dict.fromkeys(WAYS, 1),
        "task_pool": 2,
    }
    assert marks["Memory by number of requests"] == dict.fromkeys(WAYS, 3)
    assert marks["Requests per second by concurrency"] == {"a_threads": 2, **dict.fromkeys(WAYS, 3)}


def test_report_tables_contain_all_figures(opened: tuple[Page, Sequence[str], Sequence[str]]) -> None:
    """The figures are those of results, sites and published texts, including texts without a contender."""
    text = opened[0].text

    for shown in ("2026-11-22 01:02:03 UTC", "24,105 MiB", "fetchmill 0.1.0, Python 3.11.9", "extrapolated", "stopped"):
        assert shown in text
    for shown in (
        "2.33 ms",
        "26.9",
        "check says 200, this way timeout",
        "The text B",
        "about 90",
        "no contender",
        "58,188",
    ):
        assert shown in text


def test_report_pictures_have_title_and_description(opened: tuple[Page, Sequence[str], Sequence[str]]) -> None:
    """Pictures that are only decoration are exceptions."""
    elements = opened[0].elements
    pictures = [place for place, (name, attributes) in enumerate(elements) if name == "svg" and "role" in attributes]

    assert len(pictures) == 6
    assert {tuple(name for name, _ in elements[place + 1 : place + 3]) for place in pictures} == {("title", "desc")}


@pytest.mark.parametrize(("is_dark", "shade"), [(False, (255, 255, 255)), (True, (21, 24, 28))])
def test_report_page_follows_colour_scheme_and_fits_phone(
    report: Path, tmp_path: Path, is_dark: bool, shade: tuple[int, int, int]
) -> None:
    """On a phone, nothing is cut off at the right edge."""
    with Image.open(picture_of(report, tmp_path, width=400, is_dark=is_dark)) as picture:
        edge = {picture.convert("RGB").getpixel((397, y)) for y in range(picture.height)}

    assert edge == {shade}


def test_report_is_written_when_all_contenders_failed(tmp_path: Path) -> None:
    """The report has the reason of the failure, and empty plots."""
    failed = result("billion", "native", 100, 64, reason="it hangs")
    write_report({**document(), "results": [failed], "published": []}, tmp_path / "report.html")

    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "failed: it hangs" in page.text
    assert page.marks == {}


@pytest.mark.parametrize("interrupted", [False, True])
def test_report_says_when_comparison_was_interrupted(tmp_path: Path, interrupted: bool) -> None:
    """The report of a complete comparison does not say so."""
    write_report({**document(), "interrupted": interrupted}, tmp_path / "report.html")

    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert ("before all contenders had run" in text) is interrupted


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (result("billion", "a_threads", 500, 100, rate=1.0), 0.0042),
        (result("billion", "a_threads", 500, 50, rate=1.0), None),
        (result("billion", "a_processes", 500, 2, rate=1.0), 0.00032),
        (result("slow", "task_pool", 100_000, 1000, rate=1.0), 153.4 / 100_000),
        (result("slow", "task_pool", 10_000, 1000, rate=1.0), None),
        (result("slow", "semaphore_gather", 1_000_000, 1000, rate=1.0), 1544.0 / 1_000_000),
        (result("slow", "semaphore_gather", 10_000, 1000, rate=1.0), None),
        (result("slow", "semaphore_gather", 10, 1, rate=1.0), None),
        (result("sites", "e_pool", 1000, 8, rate=1.0, sites=1000), 86.07 / 1000),
        (result("slow", "native", 10, 1, rate=1.0), None),
    ],
)
def test_published_figure_matches_way_count_and_limit(asked: dict[str, Any], seconds: float | None) -> None:
    """Processes and rates are exceptions.

    The number of processes depends on the machine, and rates hold for any number.
    """
    assert published_seconds(entries(PUBLISHED))(asked) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (figures.duration, 0.0000303, "30.3 us"),
        (figures.duration, 0.0009999, "1.00 ms"),
        (figures.duration, 0.9996, "1.00 s"),
        (figures.duration, 150_213.0, "150,213 s"),
        (figures.duration, None, "-"),
        (figures.mebibytes, 57.46, "57.5 MiB"),
        (figures.mebibytes, 3800.0, "3.71 GiB"),
        (figures.figure, 0.3472, "0.347"),
        (figures.figure, 99.96, "100"),
        (figures.tick_count, 1_000_000, "1M"),
        (figures.tick_count, 10_000, "10k"),
        (figures.tick_count, 5000, "5,000"),
        (figures.tick_duration, 1e-5, "10 us"),
    ],
)
def test_report_figures_have_three_digits_and_unit(
    write: Callable[[float | None], str], value: float, text: str
) -> None:
    """Values of any size are formatted in this way."""
    assert write(value) == text


@pytest.mark.parametrize("values", [[7.0], [38.0, 41.0], [1e-6, 3.0], [10, 50, 100, 1000], [1e-9, 1e9]])
def test_axis_fits_values_and_has_two_to_seven_labels(values: list[float]) -> None:
    """There may be one value or many, over less than one decade or over eighteen."""
    for scale in (Scale.around(values, 0, 100), Scale.of_bars(values, 0, 100)):
        assert all(0 <= scale.at(value) <= 100 for value in values)
        assert 2 <= len(scale.ticks()) <= 7
        assert all(0 <= scale.at(tick) <= 100 for tick in scale.ticks())
