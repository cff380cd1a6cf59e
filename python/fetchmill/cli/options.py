"""Converts option tables to the command-line options of commands such as `get` and `check`."""

from dataclasses import Field, fields
from typing import Any

import click
from click.shell_completion import CompletionItem

from fetchmill._options.rows import default_text
from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.option_names import written
from fetchmill.cli.parameter_types import (
    ADDRESS,
    ANSWERS,
    BYTES,
    COLUMNS,
    CONCURRENCY,
    COUNT,
    DATE,
    HEADER,
    HINT,
    MAX_FAILED,
    NAME,
    NUMBER,
    SECONDS,
    STATUS,
    TOKEN,
    URL,
    Choice,
    GivenToken,
)

_TYPES: dict[str, click.ParamType[Any]] = {
    "text": click.STRING,
    "name": NAME,
    "url": URL,
    "path": click.Path(),
    "count": COUNT,
    "concurrency": CONCURRENCY,
    "seconds": SECONDS,
    "bytes": BYTES,
    "size": BYTES,
    "date": DATE,
    "number": NUMBER,
    "rate": NUMBER,
    "whole": COUNT,
    "texts": COLUMNS,
    "patterns": click.STRING,
    "headers": HEADER,
    "auth": click.STRING,
    "function": click.STRING,
    "share": MAX_FAILED,
    "answers": ANSWERS,
    "statuses": STATUS,
    "bandwidth": BYTES,
    "address": ADDRESS,
    "token": TOKEN,
}
# Options that only experts change. Help shows them as `--set NAME=VALUE`, but `--NAME VALUE` also works.
_SETTINGS = ("commit_window", "durability", "seal_after")
# Options whose value can be omitted. An omitted value means `any`.
_MAY_STAND_ALONE = ("retry-failed",)
# Aliases that also exist on the command line. `--limit` is refused because it is ambiguous.
_WRITTEN_ALIASES = ("timeout",)
# Kinds of options that can be repeated. Each use adds a value to the sequence or mapping that is passed to Python.
_REPEATED = ("headers", "patterns", "statuses")


class TableOption(click.Option):
    """An option from a table.

    Args:
        metadata: the row of the option.
        alias: another name for the option in Python and in options files.
    """

    def __init__(self, *arguments: Any, metadata: Any, alias: str | None, **settings: Any) -> None:  # noqa: ANN401 - passed on to click
        super().__init__(*arguments, **settings)
        self.metadata = metadata
        self.alias = alias

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the environment variable, which for a token is the token itself, not a path."""
        value = super().resolve_envvar_value(ctx)
        return GivenToken(value) if value is not None and self.metadata["kind"] == "token" else value

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option's help entry. An optional value is shown in brackets."""
        record = super().get_help_record(ctx)
        if record is None or self.metadata["kind"] != "answers":
            return record
        return f"{self.opts[0]}[=KINDS]", record[1]


class SettingsOption(click.Option):
    """`--set NAME=VALUE`, equivalent to `--NAME VALUE`.

    Args:
        options: the options that `--set` can set.
    """

    def __init__(self, options: list[click.Option]) -> None:
        self._names = [option.opts[-1].removeprefix("--") for option in options]
        described = " ".join(f"{name}: {_described(option)}" for name, option in zip(self._names, options, strict=True))
        super().__init__(
            ["set", "--set"],
            metavar="NAME=VALUE",
            multiple=True,
            expose_value=False,
            help=f"Set an expert option. {described}",
        )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name."""
        del ctx
        return [CompletionItem(f"{name}=") for name in self._names if f"{name}=".startswith(incomplete)]

    def expanded(self, args: list[str]) -> list[str]:
        """Return the arguments with each `--set` expanded to its option.

        Raises:
            UsageError: the option does not exist, or the value is missing.
        """
        found: list[str] = []
        rest = iter(args)
        for arg in rest:
            option, _, setting = arg.partition("=")
            if option != "--set":
                found.append(arg)
                continue
            setting = setting or next(rest, "")
            name, equals, value = setting.partition("=")
            name = name.replace("_", "-")
            if not equals:
                raise click.UsageError(f"--set {setting}: write --set NAME=VALUE, for example --set {self._names[0]}=5")
            if name not in self._names:
                raise click.UsageError(f"--set {name}: no such setting; choose {' or '.join(self._names)}")
            found += [f"--{name}", value]
        return found


def _described(option: click.Option) -> str:
    """Return an option's help, including its choices."""
    choices = f"  [{'|'.join(option.type.choices)}]" if isinstance(option.type, click.Choice) else ""
    return f"{option.help}{choices}"


class TableCommand(CliCommand):
    """A command whose options come from a table."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments. An optional value must follow `=`."""
        alone = {f"--{name}" for name in _MAY_STAND_ALONE}
        behind = args.index("--") if "--" in args else len(args)
        args = [f"{arg}=any" if arg in alone and at < behind else arg for at, arg in enumerate(args)]
        written = list(args)
        settings = next((each for each in self.params if isinstance(each, SettingsOption)), None)
        if settings is not None and not ctx.resilient_parsing:
            args = settings.expanded(args[:behind]) + args[behind:]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            ctx.meta[HINT] = _hint_of_stray_value(written, error) or ctx.meta.get(HINT)
            raise


def _hint_of_stray_value(args: list[str], error: click.UsageError) -> str | None:
    """Return a hint if an option's value is given without the required `=`."""
    for name in _MAY_STAND_ALONE:
        at = args.index(f"--{name}=any") + 1 if f"--{name}=any" in args else len(args)
        if at < len(args) and f"({args[at]})" in error.format_message():
            return f"did you mean --{name}={args[at]}?"
    return None


def options_of(table: Any, *, shows_defaults: bool = True) -> list[click.Parameter]:  # noqa: ANN401 - a dataclass
    """Return the command-line options for the fields of a table, in order.

    Args:
        table: the class with the fields.
        shows_defaults: whether help shows the defaults, which do not apply to an existing job.
    """
    options: list[click.Parameter] = []
    aliases = {field.metadata["alias_of"]: field.name for field in fields(table) if field.metadata.get("alias_of")}
    for field in fields(table):
        if not field.metadata or field.metadata["alias_of"]:
            continue
        kind, shown = field.metadata["kind"], default_text(field.metadata["kind"], field.default)
        value: dict[str, Any] = {"is_flag": True} if kind in ("flag", "dashboard") else {"type": _TYPES.get(kind)}
        if kind == "choice":
            value = {"type": Choice(field.metadata["choices"], field.metadata["refused"])}
        is_repeated = kind in _REPEATED
        if is_repeated:
            value["multiple"] = True
        envvar = field.metadata["envvar"]
        if isinstance(field.default, bool) and kind == "flag":
            shown = "on" if field.default else "off"
        hint = f"  [{envvar}]" if envvar else ""
        options.append(
            TableOption(
                _declarations(field, aliases.get(field.name)),
                default=None if is_repeated else field.default,
                help=field.metadata["help"] + (f"  [default: {shown}]" if shown and shows_defaults else hint),
                envvar=envvar,
                metadata=field.metadata,
                alias=aliases.get(field.name),
                hidden=field.name in _SETTINGS,
                **value,
            )
        )
    settings = [option for option in options if isinstance(option, click.Option) and option.hidden]
    return [*options, SettingsOption(settings)] if settings else options


def _declarations(field: Field[Any], alias: str | None) -> list[str]:
    """Return the field that an option sets, and its names. A flag that can be on by default also has a `--no-` name."""
    may_be_on = field.metadata["kind"] == "flag" and field.default is not False
    option = written(field.name)
    names = [f"{option}/--no-{option.removeprefix('--')}" if may_be_on else option]
    short = field.metadata["short"]
    also = [f"--{alias}"] if alias in _WRITTEN_ALIASES else []
    return [field.name, *([short] if short else []), *names, *also]


def import_from_working_folder() -> None:
    """Make modules in the working folder importable, as `python -m` does."""
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path.cwd()))


def gathered(options: dict[str, Any]) -> dict[str, Any]:
    """Convert the values of repeated options to the types that the tables expect."""
    for name, values in options.items():
        if isinstance(values, tuple):
            options[name] = (dict(values) if name == "headers" else list(values)) if values else None
    return options
