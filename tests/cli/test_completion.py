"""Completion in a real shell."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
# Loads the script as a user does, and completes the last word as Bash does on Tab.
COMPLETE = """
eval "$(fetchmill completion bash)"
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_fetchmill_completion fetchmill "${{COMP_WORDS[COMP_CWORD]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("fetchmill", "sy"), ["sync"]),
        (("fetchmill", "get", "--retry"), ["--retry-failed", "--retry-status"]),
        (("fetchmill", "get", "a", "b", "--format", "pa"), ["parquet"]),
        (("fetchmill", "check", "--csv-header", ""), ["auto", "yes", "no"]),
    ],
)
def test_bash_completes_commands_options_and_values(
    words: tuple[str, ...], expected: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    """The script runs in a real Bash."""
    path = f"{Path(sys.executable).parent}:{environment.get('PATH', '/usr/bin:/bin')}"
    script = COMPLETE.format(words=shlex.join(words))
    command = ["bash", "--noprofile", "--norc", "-c", script]

    ended = subprocess.run(
        command, cwd=tmp_path, env=environment | {"PATH": path}, capture_output=True, text=True, check=True
    )

    assert (ended.stdout.splitlines(), ended.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_completion_script(shell: str, run: Run) -> None:
    """The script calls the command with the variable that turns on completion."""
    shown = run("completion", shell)

    assert (shown.code, shown.err) == (0, "")
    assert f"_FETCHMILL_COMPLETE={shell}_complete" in shown.out


def test_completion_refuses_unknown_shell(run: Run) -> None:
    """The error lists the known shells."""
    refused = run("completion", "tcsh")

    assert refused.code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in refused.err
