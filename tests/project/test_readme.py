"""The README, from top to bottom, in an empty folder; and its chart."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fetchmill
from conftest import ROOT, Ended
from fetchmill.testing import s3
from own_bench.report import CHART, RESULTS, chart, load
from ports import free_ports

KILLED = -9  # bash becomes the only command of its line
README = (ROOT / "README.md").read_text()


def lines_below(heading: str) -> list[str]:
    """The commands below a heading, as they are printed."""
    found = re.search(rf"^## {heading}\n(.*?)^## ", README, re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r"^    (.*)$", re.sub(r"```.*?```", "", found[1], flags=re.DOTALL), re.MULTILINE)


@contextmanager
def served(command: str, folder: Path, env: dict[str, str]) -> Iterator[None]:
    """Runs a line that ends with `&`, until it listens and for as long as it is needed."""
    with subprocess.Popen(
        command.removesuffix("&").split(), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield
        finally:
            process.kill()


def test_the_readme_works_as_printed(environment: dict[str, str], tmp_path: Path) -> None:
    """The four lines, the two for one's own data, and the program; only the port is another one."""
    port = str(free_ports(1)[0])
    env = environment | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    serve, kill, resume, verify, *own = [line.replace("8080", port) for line in lines_below("Try it")]

    def shell(line: str, **more: str) -> Ended:
        ended = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=env | more, capture_output=True, text=True, check=False, timeout=300
        )
        return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)

    with served(serve, tmp_path, env):
        assert shell(kill).code == KILLED
        resumed, verified = shell(resume), shell(verify)
        assert (resumed.code, verified.code) == (0, 0), resumed.err + verified.err
        assert "200,000 listed = 200,000 fetched + 0 absent + 0 failed + 0 skipped" in verified.out + verified.err
        (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        (tmp_path / "program.py").write_text(program.replace("8080", port))
        ran = shell("python program.py")
        assert (ran.code, len(ran.out.splitlines())) == (0, 1001), ran.err
        urls = [f"http://127.0.0.1:{port}/get/file-{number:012}\n" for number in range(5)]
        (tmp_path / "urls.txt").write_text("".join(urls))
        listed = shell(own[0] + " --allow-private")
        assert listed.code == 0, listed.err
    with s3({"prefix/a": b"1", "prefix/b": b"2"}) as store:
        got = shell(own[1].replace("bucket", store.bucket), **store.environment())
        assert got.code == 0, got.err
    assert len(own) == 2
    assert len(fetchmill.open(tmp_path / "theirs")) == 2


def test_the_chart_has_the_figures_of_the_tables() -> None:
    """`make bench-report` has drawn it from the last measurement."""
    assert CHART.read_text() == chart(load(RESULTS))
