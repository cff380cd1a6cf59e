"""The command line: flags become plain options, errors become one line and an exit code."""

from fetchmill.cli.main import main

__all__ = ["main"]
