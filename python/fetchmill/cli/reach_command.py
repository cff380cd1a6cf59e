"""Bucket access options for commands that read a destination, which can be a shared job in a bucket.

They are loaded on demand, because most destinations are folders, and these commands must start quickly.
"""

import os
from collections.abc import Mapping
from typing import Any

import click

from fetchmill.cli.config import VARIABLE
from fetchmill.cli.help_texts import CliCommand


class ReachCommand(CliCommand):
    """A command with bucket access options, of which `-h` shows only the most important ones."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401 - passed on to click
        self.own: list[click.Parameter] = []
        # The parameters in `own`, and the bucket access options. Click temporarily adds an option of its own.
        self._all: list[click.Parameter] = []
        self._is_parsing_own = False
        super().__init__(*arguments, **settings)

    @property
    def params(self) -> list[click.Parameter]:
        """The parameters, without bucket access options while arguments that do not name a bucket are parsed."""
        if self._is_parsing_own:
            return self.own
        if not self._all or any(each not in self._all for each in self.own):
            from fetchmill.cli.shared_jobs import MINOR, reach_options

            self._all, self._minor = [*self.own, *reach_options()], MINOR
        return self._all

    @params.setter
    def params(self, params: list[click.Parameter]) -> None:
        self.own = params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments."""
        self._is_parsing_own = not ctx.resilient_parsing and self._are_own(args)
        try:
            return super().parse_args(ctx, args)
        finally:
            self._is_parsing_own = False

    def _are_own(self, args: list[str]) -> bool:
        """Return whether neither the arguments nor an options file can contain bucket access options."""
        known = {text for each in self.own for text in (*each.opts, *each.secondary_opts)} - {"--config"}
        may_be_own = (
            arg.partition("=")[0] in known if arg.startswith("--") else not arg.startswith(("s3://", "-h"))
            for arg in args
        )
        return not os.environ.get(VARIABLE) and all(may_be_own)


def given_reach(options: dict[str, Any]) -> Mapping[str, Any]:
    """Return the bucket access options that were given."""
    if not options:
        return {}
    from fetchmill.cli.shared_jobs import given

    return given(options)
