"""The commands of the README run from top to bottom in an empty folder; its tables, chart and recording are current."""

import html
import re
from pathlib import Path

import fetchmill
from conftest import ROOT
from fetchmill.testing import s3
from own_bench.report import CHART, PAGES, RESULTS, chart, filled, load
from ports import free_ports
from printed import PrintedShell

KILLED = -9  # bash is replaced by the only command of the line
README = (ROOT / "README.md").read_text()


def lines_below(heading: str) -> list[str]:
    """Returns the commands below a heading, as printed."""
    found = re.search(rf"^## {heading}\n(.*?)^## ", README, re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r"^    (.*)$", re.sub(r"```.*?```", "", found[1], flags=re.DOTALL), re.MULTILINE)


def test_readme_commands_work_as_printed(environment: dict[str, str], tmp_path: Path) -> None:
    """The four commands, the two for the user's data, and the program run; only the port differs."""
    shell = PrintedShell(tmp_path, environment, {"8080": (port := str(free_ports(1)[0]))})
    serve, kill, resume, verify, *own = lines_below("Try it")

    with shell.served(serve):
        assert shell.run(kill).code == KILLED
        resumed, verified = shell.run(resume), shell.run(verify)
        assert (resumed.code, verified.code) == (0, 0), resumed.err + verified.err
        assert "200,000 listed = 200,000 fetched + 0 absent + 0 failed + 0 skipped" in verified.out + verified.err
        (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        ran = shell.run_program(program)
        assert (ran.code, len(ran.out.splitlines())) == (0, 1001), ran.err
        urls = [f"http://127.0.0.1:{port}/get/file-{number:012}\n" for number in range(5)]
        (tmp_path / "urls.txt").write_text("".join(urls))
        listed = shell.run(own[0] + " --allow-private")
        assert listed.code == 0, listed.err
    with s3({"prefix/a": b"1", "prefix/b": b"2"}) as store:
        got = shell.run(own[1].replace("bucket", store.bucket), **store.environment())
        assert got.code == 0, got.err
    assert len(own) == 2
    assert len(fetchmill.open(tmp_path / "theirs")) == 2


def test_readme_chart_and_tables_match_last_measurement() -> None:
    """They come from the last measurement, through `make bench-report`."""
    assert CHART.read_text() == chart(load(RESULTS))
    for page in PAGES:
        assert filled(page.read_text(), load(RESULTS)) == page.read_text(), page


def test_readme_recording_shows_four_commands() -> None:
    """The recording by `make recording` shows a job that was killed, resumed and verified."""
    shown = [html.unescape(text) for text in re.findall(r">([^<]*)</text>", (ROOT / "docs/plots/demo.svg").read_text())]

    for line in lines_below("Try it")[:4]:
        assert f"$ {line}" in shown
    assert {"Killed", "200,000 listed = 200,000 fetched + 0 absent + 0 failed + 0 skipped"} <= set(shown)
