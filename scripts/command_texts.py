"""The help of each command in parts: manual pages and the documentation site are made of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from fetchmill.cli.help_texts import CliCommand, in_sections
from fetchmill.cli.main import command as group

# As a summary in one line may be.
_SUMMARY_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class OptionText:
    """An option of a command.

    Attributes:
        option: the option itself.
        written: its names and its value, as help has them: `--shard-size BYTES`.
        help: what it does, with its default.
    """

    option: click.Option
    written: str
    help: str


@dataclass(frozen=True)
class CommandText:
    """The help of a command.

    Attributes:
        name: the command.
        usage: the line to type, with the names of the arguments.
        short: one line.
        summary: the first paragraph.
        details: the other paragraphs; one that begins with a line of a backspace is kept as it is.
        sections: the options, by the headings of help.
        exit_codes: the last paragraphs.
        examples: lines to type.
    """

    name: str
    usage: str
    short: str
    summary: str
    details: str
    sections: Mapping[str, list[OptionText]]
    exit_codes: str
    examples: list[str]


def group_epilog() -> str:
    """The exit codes that `fetchmill --help` lists, one a line."""
    return (group.epilog or "").removeprefix("\b\nExit codes:\n")


def command_texts() -> Iterator[CommandText]:
    """Yields the help of each command, in the order of the names."""
    context = click.Context(group, info_name="fetchmill")
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, CliCommand):
            yield _text(found, name, context)


def _text(command: CliCommand, name: str, parent: click.Context) -> CommandText:
    context = click.Context(command, info_name=name, parent=parent)
    summary, _, details = (command.help or "").partition("\n\n")
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    sections = {
        heading: [OptionText(option, *record) for option in of_section if (record := option.get_help_record(context))]
        for heading, of_section in in_sections(options).items()
    }
    return CommandText(
        name=name,
        usage=" ".join(command.get_usage(context).removeprefix("Usage: ").split()),
        short=command.get_short_help_str(_SUMMARY_CHARACTERS_MAX),
        summary=" ".join(summary.split()),
        details=details,
        sections=sections,
        exit_codes=command.epilog or "",
        examples=command.examples,
    )
