"""Help texts: `--help` shows all options in sections, and `-h` shows the most important options on one screen."""

import re
from collections.abc import Callable, Container, Iterable, Sequence
from inspect import cleandoc
from typing import Any

import click

from fetchmill.cli.streams import write_line

# Maximum width of a line, even on wider terminals.
WIDTH = 80
# Replaces hyphens while lines are wrapped, so that the names of options and pages are not broken across lines.
_KEPT_HYPHEN = "\N{NON-BREAKING HYPHEN}"
SETTINGS = {"help_option_names": ["--help"], "max_content_width": WIDTH}
# Commands with at most this many options are shown without sections.
_OPTIONS_WITHOUT_SECTIONS_MAX = 24
_EXAMPLES_IN_BRIEF = 5
# Length of the longest metavar that `-h` shows.
_METAVAR_MAX = 9


class Formatter(click.HelpFormatter):
    """Formats help with line breaks only between words."""

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        super().write_text(text.replace("-", _KEPT_HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names with their descriptions."""
        kept = [(name, text.replace("-", _KEPT_HYPHEN)) for name, text in rows]
        super().write_dl(kept, col_max, col_spacing)

    def getvalue(self) -> str:
        """Return the text written so far."""
        return super().getvalue().replace(_KEPT_HYPHEN, "-")


class Context(click.Context):
    """The context of fetchmill's commands."""

    formatter_class = Formatter


class CliCommand(click.Command):
    """A command with full and brief help.

    Args:
        examples: commands to type, one per line. Continuation lines start with a space.
        matters: names of the options that `-h` shows, in order; by default, all options.
        minor: names of options that `-h` omits if `matters` is empty.
    """

    context_class = Context

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - passed on to click
        examples: str = "",
        matters: Sequence[str] = (),
        minor: Container[str] = (),
        **settings: Any,  # noqa: ANN401
    ) -> None:
        settings["context_settings"] = SETTINGS | (settings.get("context_settings") or {})
        super().__init__(*arguments, **settings)
        self.examples = examples.strip("\n").splitlines()
        self._matters = matters
        self._minor = minor

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters of the command, with `-h` before `--help`."""
        *own, of_help = super().get_params(ctx)
        return [*own, brief_option(self.get_brief), of_help]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the `--help` option, under its name in the table of sections."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.name, option.help = "help", "Show all options."
        return option

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples first, and the options before the exit codes."""
        summary, _, details = cleandoc(self.help or "").partition("\n\n")
        self.format_usage(ctx, formatter)
        _write_text(formatter, summary)
        write_examples(formatter, self.examples)
        _write_text(formatter, details)
        self.format_options(ctx, formatter)
        _write_text(formatter, self.epilog or "", indent=0)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options in the sections of the table, or in a single section if the command has few options."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option) and not option.hidden]
        for heading, of_section in in_sections(options).items():
            records = (option.get_help_record(ctx) for option in of_section)
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record])

    def get_brief(self, ctx: click.Context) -> str:
        """Return the text for `-h`."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        _write_text(formatter, cleandoc(self.help or "").partition("\n\n")[0])
        write_examples(formatter, _first_examples(self.examples))
        options = {option.name: option for option in self.get_params(ctx) if isinstance(option, click.Option)}
        shown = [name for name in options if name not in self._minor]
        with formatter.section("Options"):
            formatter.write_dl([_brief_record(options[name], ctx) for name in self._matters or shown])
        formatter.write(f"\nAll options: {ctx.command_path} --help. Guides: fetchmill help.\n")
        return formatter.getvalue().rstrip("\n")


def own_params(command: click.Command) -> list[click.Parameter]:
    """Return a command's parameters, except those that are loaded on demand."""
    own: list[click.Parameter] = getattr(command, "own", None) or command.params
    return own


def brief_option(get_brief: Callable[[click.Context], str]) -> click.Option:
    """Return the `-h` option.

    Args:
        get_brief: returns the text for `-h`.
    """

    def show(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            import sys

            write_line(sys.stdout, get_brief(ctx))
            ctx.exit()

    return click.Option(
        ["brief", "-h"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the most important options.",
    )


def write_examples(formatter: click.HelpFormatter, lines: Sequence[str]) -> None:
    """Write a section that contains these lines unchanged."""
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"  {line}\n")


def first_clause(help: str) -> str:
    """Return the first clause of an option's help."""
    return re.split(r"; |\. |  \[", help)[0].rstrip(".")


def _first_examples(lines: Sequence[str]) -> list[str]:
    """Return the lines of the first examples."""
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    end = starts[_EXAMPLES_IN_BRIEF] if len(starts) > _EXAMPLES_IN_BRIEF else len(lines)
    return list(lines[:end])


def _write_text(formatter: click.HelpFormatter, text: str, *, indent: int = 2) -> None:
    """Write paragraphs."""
    if text:
        formatter.write_paragraph()
        formatter.current_indent += indent
        formatter.write_text(text)
        formatter.current_indent -= indent


def in_sections(options: Sequence[click.Option]) -> dict[str, list[click.Option]]:
    """Return the options grouped by section heading. Sections and options are in table order."""
    if len(options) <= _OPTIONS_WITHOUT_SECTIONS_MAX:
        return {"Options": list(options)}
    # Imported here because only help needs it.
    from fetchmill._options.table import SECTIONS

    by_name = {option.name: option for option in options}
    found = {"Options": [option for option in options if not any(option.name in names for names in SECTIONS.values())]}
    for heading, names in SECTIONS.items():
        found[heading] = [by_name[name] for name in names if name in by_name]
    return {heading: of_section for heading, of_section in found.items() if of_section}


def _brief_record(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    """Return an option and its brief description, which are shown on one line."""
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in option.opts if name.startswith("--")][:1]
    metavar = "" if option.is_flag else option.make_metavar(ctx).split("|")[0].strip("[]")
    if isinstance(option.type, click.Choice) or len(metavar) > _METAVAR_MAX:
        metavar = long[0].rpartition("-")[2].upper()
    written = f"{', '.join([*short, *long])} {metavar}".rstrip()
    record = option.get_help_record(ctx) or (written, "")
    return record[0] if "[=" in record[0] else written, _brief_help(option, record[1])


def _brief_help(option: click.Option, help: str) -> str:
    """Return a description of an option in one clause, with its choices and its default."""
    clause = first_clause(option.help or "")
    if isinstance(option.type, click.Choice):
        clause += f" ({', '.join(option.type.choices)})"
    default = re.search(r"\[default: .*\]$", help)
    return f"{clause} {default[0]}" if default and not option.is_flag else clause
