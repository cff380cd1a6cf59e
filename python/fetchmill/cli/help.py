"""`fetchmill help`: shows pages of the documentation that is included in the package."""

import sys
from importlib.resources import files
from importlib.resources.abc import Traversable

import click

from fetchmill._options.nearest import nearest_spelling
from fetchmill.cli.help_texts import WIDTH, CliCommand
from fetchmill.cli.streams import escape, write_line
from fetchmill.errors import UsageError

_EXAMPLES = """
fetchmill help               list the topics
fetchmill help listings      show how servers list objects
fetchmill help exit-codes    show exit codes and failure kinds
fetchmill help get           show a command's options
"""


@click.command("help", cls=CliCommand, examples=_EXAMPLES, short_help="Show a guide, or list the guides.")
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.pass_context
def command(context: click.Context, topic: str | None) -> None:
    """Show a page of the documentation, or list the topics."""
    pages = {page.name.removesuffix(".md"): page for page in (files("fetchmill") / "_docs").iterdir()}
    if topic is None:
        width = max(map(len, pages)) + 2
        lines = [f"{name:<{width}}{_title(pages[name])}" for name in sorted(pages)]
        write_line(sys.stdout, "\n".join([*lines, "", "Show one: fetchmill help TOPIC."]))
    elif topic in pages:
        _show(pages[topic].read_text())
    else:
        write_line(sys.stdout, _help_of_command(context, topic, pages))


def _title(page: Traversable) -> str:
    """Return the first heading of a page."""
    lines = page.read_text().splitlines()
    return next((line.lstrip("#").strip() for line in lines if line.startswith("#")), "")


def _help_of_command(context: click.Context, topic: str, pages: dict[str, Traversable]) -> str:
    """Return the help text of the command with this name.

    Raises:
        UsageError: no command has this name.
    """
    group = context.parent
    if group is None or not isinstance(group.command, click.Group):
        raise UsageError("help works only as part of the fetchmill command")
    found = group.command.get_command(group, topic)
    if found is None:
        names = [*pages, *group.command.list_commands(group)]
        close = nearest_spelling(topic, names)
        raise UsageError(
            f"{escape(topic)} is not a help topic",
            hint=f"did you mean `fetchmill help {close}`?" if close else "list the topics: fetchmill help",
        )
    with found.make_context(topic, [], parent=group, resilient_parsing=True) as made:
        return found.get_help(made)


def _show(text: str) -> None:
    """Show a page in a pager if the output is a terminal; otherwise print it unchanged."""
    if not sys.stdout.isatty():
        write_line(sys.stdout, text.rstrip("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(Console().width, WIDTH), force_terminal=True)
    with console.capture() as capture:
        console.print(Markdown(text, hyperlinks=False))
    click.echo_via_pager(capture.get(), color=True)
