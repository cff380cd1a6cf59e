"""The command line: converts flags to options, and errors to one line and an exit code."""

from fetchmill.cli.main import main

__all__ = ["main"]
