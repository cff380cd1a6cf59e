"""Click types for values on the command line, such as numbers with units."""

from collections.abc import Callable, Collection
from typing import Any

import click

from fetchmill._options.dates import parse_date
from fetchmill._options.units import parse_bytes, parse_count, parse_range, parse_seconds

# Key in a context's `meta` for a hint about what the user probably meant.
HINT = "fetchmill.hint"


class Quantity(click.ParamType[Any]):
    """Text that is parsed by a function such as `units.parse_bytes`, which raises ValueError for invalid text."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return the parsed value. Defaults are already parsed."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Choice(click.Choice[str]):
    """One of several words. If the user enters a word from another tool, the error contains a hint.

    Args:
        choices: the words.
        refused: words that help omits. The command itself refuses them and gives the reason.
    """

    def __init__(self, choices: Collection[str], refused: Collection[str] = ()) -> None:
        super().__init__(choices)
        self._refused = refused

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Return the word."""
        return str(value) if value in self._refused else super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Return the error message, and store the hint in the context."""
        from fetchmill.cli.suggestions import suggest_value

        hint = suggest_value(str(value), self.choices)
        if ctx is not None and hint:
            ctx.meta[HINT] = hint
        return super().get_invalid_choice_message(value, ctx)


def _parse_columns(text: str) -> list[str]:
    """Parse comma-separated names or numbers. A name in double quotes can contain a comma."""
    import csv

    return next(csv.reader([text], skipinitialspace=True))


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _parse_concurrency(text: str) -> int | str:
    return text if text == "auto" else parse_count(text)


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ValueError("a header must be 'Name: value'")
    return name.strip(), value.strip()


def _parse_answers(text: str) -> bool | list[str]:
    """Parse comma-separated answers. Return True for `any`, which means all failures."""
    answers = [answer.strip() for answer in text.split(",")]
    return answers == ["any"] or answers


def _parse_status(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not a status such as 403")
    return int(text)


class Word(click.types.StringParamType):
    """Text with a custom metavar in help."""

    def __init__(self, name: str) -> None:
        self.name = name


class GivenToken(str):
    """A token, not the path of a token file."""

    __slots__ = ()


class TokenFile(click.ParamType[str]):
    """A file that contains a token. A token given as an argument would appear in process lists."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Return the token. Messages do not show the value, because it may be the token itself instead of the path."""
        if isinstance(value, GivenToken):
            return str(value)
        from pathlib import Path

        try:
            with Path(value).open("rb") as file:
                content = file.read(_TOKEN_FILE_BYTES_MAX + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a valid file name"
            self.fail(f"cannot read the token file ({reason})", param, ctx)
        if len(content) > _TOKEN_FILE_BYTES_MAX:
            self.fail("the token file is larger than 4 KiB", param, ctx)
        return content.decode(errors="replace").strip()


_TOKEN_FILE_BYTES_MAX = 4096

BYTES = Quantity("bytes", parse_bytes)
SECONDS = Quantity("seconds", parse_seconds)
COUNT = Quantity("n", parse_count)
CONCURRENCY = Quantity("n|auto", _parse_concurrency)
COLUMNS = Quantity("columns", _parse_columns)
HEADER = Quantity("header", _parse_header)
ANSWERS = Quantity("kinds", _parse_answers)
STATUS = Quantity("status", _parse_status)
NUMBER = Quantity("x", _parse_number)
RANGE = Quantity("seconds", parse_range)
DATE = Quantity("date", parse_date)
URL = Word("url")
NAME = Word("name")
ADDRESS = Word("host:port")
TOKEN = TokenFile()
MAX_FAILED = Word("n|p%")


class Share(click.FloatRange):
    """A share of requests, from 0 to 1."""

    name = "share"

    def __init__(self) -> None:
        super().__init__(0, 1)


SHARE = Share()
