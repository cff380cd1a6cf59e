"""The command line. It converts flags to options, and errors to a one-line message and an exit code."""

from fetchmill.cli.main import main

__all__ = ["main"]
