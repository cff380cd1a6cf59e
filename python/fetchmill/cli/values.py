"""Values on the command line: numbers with units, as click types."""

from collections.abc import Callable
from typing import Any

import click

from fetchmill.units import parse_bytes, parse_count, parse_range, parse_seconds


class Quantity(click.ParamType[Any]):
    """Text that one of the readers of `fetchmill.units` understands."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The value; a default is one already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


BYTES = Quantity("bytes", parse_bytes)
SECONDS = Quantity("seconds", parse_seconds)
COUNT = Quantity("n", parse_count)
RANGE = Quantity("seconds", parse_range)


class Share(click.FloatRange):
    """A share of requests, 0 to 1."""

    name = "share"

    def __init__(self) -> None:
        super().__init__(0, 1)


SHARE = Share()
