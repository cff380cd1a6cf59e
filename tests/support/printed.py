"""Pages whose commands and programs are run as printed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from conftest import Ended

# A fenced block, or lines with the indentation of code.
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^    [^\n]*\n|^\n(?=    ))+)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code.

    Args:
        language: language of a fenced block; `bash` for indented lines.
        text: its lines, without indentation.
    """

    language: str
    text: str


def blocks(text: str) -> list[Block]:
    """Returns the blocks of a page in order."""
    found = []
    for language, fenced, indented in _BLOCK.findall(text):
        lines = re.sub(r"^    ", "", indented, flags=re.MULTILINE).strip("\n")
        found.append(Block("bash", lines) if lines else Block(language, fenced))
    return [block for block in found if block.text.strip()]


@dataclass(frozen=True)
class PrintedShell:
    """A shell in a folder, for the commands and programs of a page.

    Args:
        folder: their working folder.
        environment: environment of commands, which find the package's own.
        ports: printed ports, and the ports that are used instead.
    """

    folder: Path
    environment: Mapping[str, str]
    ports: Mapping[str, str] = field(default_factory=dict)

    def run(self, line: str, **more: str) -> Ended:
        """Runs a line to its end."""
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self._moved(line)],
            cwd=self.folder,
            env=self._environment() | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)

    def run_program(self, text: str) -> Ended:
        """Runs a Python program."""
        (self.folder / "program.py").write_text(self._moved(text))
        return self.run("python program.py")

    @contextmanager
    def served(self, line: str) -> Iterator[None]:
        """Runs a line that ends with `&` until it listens, and ends it after use."""
        command = self._moved(line).removesuffix("&").split()
        with subprocess.Popen(
            command, cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline()
                yield
            finally:
                process.kill()

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**self.environment, "PATH": path}

    def _moved(self, text: str) -> str:
        """Replaces the ports in a text."""
        for printed, used in self.ports.items():
            text = text.replace(printed, used)
        return text
