"""The tutorial runs from top to bottom in an empty folder."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import ROOT
from ports import free_ports
from printed import Block, PrintedShell, blocks

PAGE = (ROOT / "docs/guide/tutorial.md").read_text()
# Beginnings of lines whose exit code is not 0, as the page says.
CODES = {"timeout -s KILL": -9, "fetchmill get urls.txt pages/ --format parquet --allow-private\n": 3}
# This line stops servers of the shell; the test has started them itself.
CLEANING = "kill $(jobs -p)"


def expected_code(line: str) -> int:
    """Returns the exit code of a line."""
    return next((code for beginning, code in CODES.items() if f"{line}\n".startswith(beginning)), 0)


@pytest.mark.of_files("docs/guide/tutorial.md", "tests/support/printed.py", "python/fetchmill/cli")
def test_tutorial_works_as_printed(environment: dict[str, str], tmp_path: Path) -> None:
    """Blocks run in order, and each text block shows the output of the block before it. Only the ports differ."""
    ports = ("8080", "8081", "8082")
    shell = PrintedShell(tmp_path, environment, dict(zip(ports, map(str, free_ports(3)), strict=True)))
    printed = ""
    ran = 0
    with ExitStack() as servers:

        def run(block: Block) -> str:
            """Returns the output of a block."""
            if block.language == "python":
                ended = shell.run_program(block.text)
                assert ended.code == 0, ended.err
                return ended.out + ended.err
            shown = ""
            for line in block.text.splitlines():
                if line.endswith("&"):
                    servers.enter_context(shell.served(line))
                elif line != CLEANING:
                    ended = shell.run(line)
                    assert ended.code == expected_code(line), f"{line}: {ended.err}"
                    shown += ended.out + ended.err
            return shown

        for block in blocks(PAGE):
            if block.language == "text":
                missing = [line for line in block.text.splitlines() if line not in printed]
                assert missing == [], printed
            else:
                printed = run(block)
                ran += 1

    assert ran == PAGE.count("```python") + 11
    assert CLEANING in PAGE
