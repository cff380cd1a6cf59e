"""Values on the command line: numbers with units, as click types."""

from collections.abc import Callable
from typing import Any

import click

from fetchmill._options.dates import parse_date
from fetchmill._options.units import parse_bytes, parse_count, parse_range, parse_seconds

# Where a context has a hint at what was probably meant.
HINT = "fetchmill.hint"


class Quantity(click.ParamType[Any]):
    """Text that a reader understands, such as one of `fetchmill._options.units`: it raises ValueError otherwise."""

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


class Choice(click.Choice[str]):
    """One of some words. A word of another tool has a hint."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Also leaves the hint in the context."""
        from fetchmill.cli.suggestions import suggest_value

        hint = suggest_value(str(value), self.choices)
        if ctx is not None and hint:
            ctx.meta[HINT] = hint
        return super().get_invalid_choice_message(value, ctx)


def _parse_columns(text: str) -> list[str]:
    """Names or numbers with commas between them; in double quotes a name may have a comma."""
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
    """Answers with commas between them; `any` is all that failed."""
    answers = [answer.strip() for answer in text.split(",")]
    return answers == ["any"] or answers


def _parse_status(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not a status such as 403")
    return int(text)


class Word(click.types.StringParamType):
    """Text that help calls by a name of its own."""

    def __init__(self, name: str) -> None:
        self.name = name


class GivenToken(str):
    """A token itself, not the name of a file with it."""

    __slots__ = ()


class TokenFile(click.ParamType[str]):
    """A file with a token: an argument would stand in the list of processes."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """The token. No message shows the value: somebody may have given the token in place of its file."""
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
    """A share of requests, 0 to 1."""

    name = "share"

    def __init__(self) -> None:
        super().__init__(0, 1)


SHARE = Share()
