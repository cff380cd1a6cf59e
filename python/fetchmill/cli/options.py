"""Tables of options as options of a command: what `get` and `check` have in common."""

from dataclasses import fields
from typing import Any

import click

from fetchmill.cli.values import BYTES, COLUMNS, COUNT, HEADER, NUMBER, SECONDS
from fetchmill.options import default_text

_TYPES: dict[str, click.ParamType[Any]] = {
    "text": click.STRING,
    "path": click.Path(),
    "count": COUNT,
    "seconds": SECONDS,
    "bytes": BYTES,
    "number": NUMBER,
    "rate": NUMBER,
    "whole": COUNT,
    "texts": COLUMNS,
    "patterns": click.STRING,
    "headers": HEADER,
    "auth": click.STRING,
    "function": click.STRING,
}
# Options that may be repeated, and what they are called then.
_REPEATED = {
    "headers": "header",
    "include": "include",
    "exclude": "exclude",
    "insecure_host": "insecure-host",
    "resolver": "resolver",
}
# What should not stand where every user of the machine can read it.
_FROM_ENVIRONMENT = {"auth": "FETCHMILL_AUTH", "bearer": "FETCHMILL_BEARER", "proxy": "FETCHMILL_PROXY"}


def options_of(table: Any) -> list[click.Parameter]:  # noqa: ANN401 - a dataclass
    """The fields of a table that are options, in their order."""
    options: list[click.Parameter] = []
    for field in fields(table):
        if not field.metadata:
            continue
        kind, shown = field.metadata["kind"], default_text(field.metadata["kind"], field.default)
        value: dict[str, Any] = {"is_flag": True} if kind == "flag" else {"type": _TYPES.get(kind)}
        if kind == "choice":
            value = {"type": click.Choice(field.metadata["choices"])}
        if field.name in _REPEATED:
            value["multiple"] = True
        envvar = _FROM_ENVIRONMENT.get(field.name)
        hint = f"  [{envvar}]" if envvar else ""
        options.append(
            click.Option(
                [*_declarations(field.name, is_on=field.default is True)],
                default=None if field.name in _REPEATED else field.default,
                help=field.metadata["help"] + (f"  [default: {shown}]" if shown else hint),
                envvar=envvar,
                **value,
            )
        )
    return options


def _declarations(name: str, *, is_on: bool) -> list[str]:
    """How an option is written, and the field that it sets; a flag that is on can only be taken back."""
    written = _REPEATED.get(name, name.replace("_", "-"))
    return [name, f"--{written}/--no-{written}" if is_on else f"--{written}"]


def gathered(options: dict[str, Any]) -> dict[str, Any]:
    """Options that were repeated, as the values that the tables take."""
    for name in _REPEATED.keys() & options.keys():
        values = options[name]
        options[name] = (dict(values) if name == "headers" else list(values)) if values else None
    return options
