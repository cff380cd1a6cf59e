"""The JSON Schema of a configuration file, made of the options of the commands."""

import json
from collections.abc import Iterable
from typing import Any

import click

from command_texts import CommandText
from fetchmill import __version__
from fetchmill.cli.config import keys_in_files
from fetchmill.cli.main import command as group

SCHEMA = "fetchmill.schema.json"

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_FLAG: _Schema = {"type": "boolean"}
_TEXTS: _Schema = {"type": "array", "items": _TEXT}
_TEXT_OR_TEXTS: _Schema = {"anyOf": [_TEXT, _TEXTS]}
# A number, or a text with a unit.
_COUNT: _Schema = {"type": ["integer", "string"]}
_NUMBER: _Schema = {"type": ["number", "string"]}
# By the kind of an option of the table. A number is as good as its text where any text is.
_OF_KINDS: dict[str, _Schema] = {
    **dict.fromkeys(("text", "name", "share", "address"), _NUMBER),
    **dict.fromkeys(("url", "path", "auth", "function", "token"), _TEXT),
    **dict.fromkeys(("count", "whole", "concurrency", "bytes", "size"), _COUNT),
    **dict.fromkeys(("seconds", "number", "rate", "bandwidth"), _NUMBER),
    "patterns": _TEXT_OR_TEXTS,
    "texts": _TEXT_OR_TEXTS,
    "flag": _FLAG,
    "dashboard": _FLAG,
    "answers": {"anyOf": [_FLAG, _TEXT, _TEXTS]},
    "statuses": {"type": "array", "items": {"type": "integer"}},
    "headers": {"type": "object", "additionalProperties": _TEXT},
    # A date of TOML is a text to validators.
    "date": _TEXT,
}


def schema_text(texts: Iterable[CommandText]) -> str:
    """The schema as JSON."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Options of fetchmill {__version__}",
        "type": "object",
        "properties": {text.name: _table(text) for text in texts},
        "additionalProperties": False,
    }
    return json.dumps(schema, indent=1) + "\n"


def _table(text: CommandText) -> _Schema:
    """The table of a command: each key with hyphens and with underscores."""
    command = group.get_command(click.Context(group), text.name)
    properties: _Schema = {}
    for key, option in keys_in_files(command).items() if command else ():
        value = _value(option) | {"description": option.help or ""}
        properties |= dict.fromkeys((key.replace("_", "-"), key), value)
    return {"type": "object", "description": text.short, "properties": properties, "additionalProperties": False}


def _value(option: click.Option) -> _Schema:
    """What the value of an option may be."""
    kind = (getattr(option, "metadata", None) or {}).get("kind")
    if isinstance(option.type, click.Choice):
        return {"enum": list(option.type.choices)}
    if kind is not None:
        return _OF_KINDS[kind]
    if option.is_flag:
        return _FLAG
    if option.multiple:
        return _TEXT_OR_TEXTS
    return _TEXT if isinstance(option.type, click.Path) else _NUMBER
