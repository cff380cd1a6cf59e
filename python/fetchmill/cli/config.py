"""Reads options from the TOML file named by `--config` or by FETCHMILL_CONFIG. No other file is read.

The file can contain a table for each command, with the command's options as keys. The command line and environment
variables override the file, which overrides the defaults. Nothing in a file is ever executed, so options that name a
command or a function are refused.
"""

import re
from collections.abc import Collection, Mapping
from datetime import date
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Literal

import click

from fetchmill.errors import UsageError

VARIABLE = "FETCHMILL_CONFIG"
# Maximum file size in bytes. A larger file is probably not an options file, and parsing dotted keys takes quadratic
# time.
_BYTES_MAX = 1 << 16
# Options that name code to run, and options about the command line itself.
_COMMANDS_IN_FILES = {"transform", "contender", "bearer_command"}
_OF_THE_COMMAND_LINE = {"config", "help", "version", "set"}
# Options for a single run. If a file set them, each run would remove the previous job.
_OF_ONE_RUN = {"restart"}
# Parameters that exist only on the command line. `load_config` omits them.
_NOT_IN_PYTHON = {"as_json", "quiet", "dry_run", "no_redirects", "fail_on", "log_file", "log_format"}
_TABLE = r"\s*\[\s*([A-Za-z0-9_-]+)\s*\]"


class ConfigOption(click.Option):
    """The `--config FILE` option of every command. Processed first so that the file's values replace defaults."""

    def __init__(self, commands: Collection[str]) -> None:
        self._commands = commands
        super().__init__(
            ["--config"],
            type=click.Path(),
            is_eager=True,
            expose_value=False,
            envvar=VARIABLE,
            callback=self._take,
            help=f"Read options from this command's table in a TOML file.  [{VARIABLE}]",
        )

    def _take(self, ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
        if path:
            ctx.default_map = read_config(path, ctx.command, self._commands)


def load_config(path: str | PathLike[str], command: Literal["get", "check", "list"]) -> dict[str, Any]:
    """Read a command's options from a TOML file, as keyword arguments.

    `--config` reads the same file (docs/reference/configuration.md). No other part of the Python interface reads an
    options file or the FETCHMILL_CONFIG variable.

    Args:
        path: the file.
        command: the table to read: `get`, `check` or `list`. Options that exist only on the command line, such as
            `json`, are omitted.

    Raises:
        UsageError: the file cannot be read, or contains an unknown option or an invalid value.

    Example:
        >>> options = fetchmill.load_config("fetchmill.toml", "get")  # doctest: +SKIP
        >>> fetchmill.get("http://127.0.0.1:8080", "out/", **options | {"concurrency": 128})  # doctest: +SKIP
    """
    from fetchmill.cli.main import COMMANDS
    from fetchmill.cli.options import gathered

    if command not in ("get", "check", "list"):
        raise UsageError(f"command must be get, check or list, not {command!r}")
    found = read_config(fspath(path), import_module(f"fetchmill.cli.{command}").command, COMMANDS)
    values = gathered({name: _as_given_often(value) for name, value in found.items()})
    return {name: value for name, value in values.items() if name not in _NOT_IN_PYTHON}


def _as_given_often(value: Any) -> Any:  # noqa: ANN401 - a value of any option
    return tuple(value) if isinstance(value, list) else value


def read_config(path: str, command: click.Command, commands: Collection[str]) -> dict[str, Any]:
    """Read the values of a command's options from a file, and return them by parameter name.

    Raises:
        UsageError: the file cannot be read, or contains an unknown option or an invalid value.
    """
    import tomllib  # only needed if there is a file

    text = _read(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not valid TOML ({error})") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply; an option's value can be at most a list of strings") from None
    for name, table in tables.items():
        if name not in commands or not isinstance(table, Mapping):
            what = f"command{_nearest(name, commands)}" if isinstance(table, Mapping) else "table"
            raise UsageError(
                f"{_place(path, text, None, name)}: {name} is not a {what}; put options "
                "into the table of their command, such as [get]"
            )
    values: dict[str, Any] = {}
    for key, given in tables.get(command.name or "", {}).items():
        option, value = _option(path, text, command, key, given)
        name = option.name or ""
        if name in values:
            raise UsageError(
                f"{_place(path, text, command.name, key)}: {key} is given twice, "
                "once under another name; remove one of them"
            )
        values[name] = value
    return values


def _read(path: str) -> str:
    from pathlib import Path

    try:
        with Path(path).open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        if len(content) > _BYTES_MAX:
            raise UsageError(f"{path}: larger than 64 KiB, which is too large for an options file")
        return content.decode()
    except OSError as error:
        raise UsageError(f"cannot read the options file {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML ({error})") from None


def _option(path: str, text: str, command: click.Command, key: str, given: object) -> tuple[click.Option, Any]:
    """Return the option that a key names, and its value."""
    place = _place(path, text, command.name, key)
    options = keys_in_files(command)
    written = key.replace("-", "_")
    if written in _COMMANDS_IN_FILES:
        raise UsageError(f"{place}: {key} runs code, so it cannot be set in a file; pass it on the command line")
    if written in _OF_ONE_RUN:
        raise UsageError(
            f"{place}: {key} removes the earlier job, so it cannot be set in a file; pass it on the command line"
        )
    if any(written == argument.name for argument in command.params if isinstance(argument, click.Argument)):
        raise UsageError(f"{place}: {key} is an argument of {command.name}, not an option; pass it on the command line")
    if written not in options:
        raise UsageError(f"{place}: {command.name} has no option {key}{_nearest(written, options)}")
    option = options[written]
    try:
        return option, _value(option, key, given)
    except click.BadParameter as error:
        raise UsageError(f"{place}: {key}: {error.message}") from None
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def keys_in_files(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by their names in files, which contain underscores."""
    options = [option for option in command.params if isinstance(option, click.Option)]
    refused = _COMMANDS_IN_FILES | _OF_THE_COMMAND_LINE | _OF_ONE_RUN
    return {key: option for option in options for key in _keys_of(option) if key not in refused}


def _keys_of(option: click.Option) -> list[str]:
    """Return an option's keys, which are its names with underscores. `--header` becomes the `headers` table."""
    if option.name == "headers":
        return ["headers"]
    long = [name for name in option.opts if name.startswith("--")] or option.opts
    alias = getattr(option, "alias", None)
    return [*(name.lstrip("-").replace("-", "_") for name in long), *([alias] if alias else [])]


def _value(option: click.Option, key: str, given: Any) -> Any:  # noqa: ANN401 - a value of any option
    """Convert a TOML value to an option's value. Text is parsed as on the command line."""
    metadata = getattr(option, "metadata", None) or {}
    may_be_bool = option.is_flag or metadata.get("kind") == "answers"
    if option.is_flag or isinstance(given, bool):
        if not (may_be_bool and isinstance(given, bool)):
            expected = "must be true or false" if option.is_flag else "cannot be true or false"
            raise UsageError(f"{key} {expected} ({_shown(given)})")
        return given
    if option.name == "headers":
        if not isinstance(given, Mapping):
            raise UsageError("headers must be a table of names and values")
        given = list(given.items())
    elif option.multiple and isinstance(given, str):
        given = [given]
    _require_text(option, key, given)
    takes_many = option.multiple or metadata.get("kind") in ("texts", "answers")
    if isinstance(given, Mapping) or (isinstance(given, list) and not takes_many):
        raise UsageError(f"{key} must be one value, not {_shown(given)}")
    is_read = isinstance(given, (list, date))
    value = given if is_read else option.type_cast_value(click.Context(click.Command("")), given)
    if metadata:
        from fetchmill._options.values import check_value

        check_value(key, dict(given) if option.name == "headers" else value, metadata)
    return value


def _require_text(option: click.Option, key: str, given: object) -> None:
    """Refuse non-strings that click would accept as text or a path. Click treats a number as an open descriptor."""
    from fetchmill.cli.parameter_types import TokenFile

    # Messages do not show the value, because it may be the token itself instead of the path of a token file.
    if isinstance(option.type, (click.Path, TokenFile)) and not isinstance(given, str):
        raise UsageError(f"{key} must be a string with the path of a file or folder")
    is_plain = not getattr(option, "metadata", None)
    if is_plain and isinstance(given, list) and not all(isinstance(each, str) for each in given):
        raise UsageError(f"{key} must be an array of strings")


def _shown(given: object) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, dict):
        return "a table"
    return "an array" if isinstance(given, list) else repr(given)


def _nearest(name: str, known: Collection[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _place(path: str, text: str, table: str | None, key: str) -> str:
    """Return the file that contains a key and, if it can be found, the key's line."""
    current: str | None = None
    written = re.compile(rf"\s*(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')\s*[=.]")
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(_TABLE, line):
            current = header[1]
            if table is None and current == key:
                return f"{path}, line {number}"
        elif current == table and written.match(line):
            return f"{path}, line {number}"
    return path
