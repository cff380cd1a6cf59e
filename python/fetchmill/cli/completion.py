"""`fetchmill completion`: prints a shell completion script for commands, options and their values."""

import sys

import click
from click.shell_completion import get_completion_class

from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.parameter_types import Choice
from fetchmill.cli.streams import write_line
from fetchmill.errors import InternalError

_EXAMPLES = """
eval "$(fetchmill completion bash)"          in ~/.bashrc
eval "$(fetchmill completion zsh)"           in ~/.zshrc, after compinit
fetchmill completion fish | source           in ~/.config/fish/config.fish
"""
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=CliCommand, examples=_EXAMPLES, short_help="Print a shell completion script.")
@click.argument("shell", type=Choice(SHELLS), metavar="SHELL")
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and values in SHELL: bash, zsh or fish."""
    found = get_completion_class(shell)
    if found is None:
        raise InternalError(f"no completion for {shell}")
    root = context.find_root()
    # The last argument is the environment variable that the command group checks when it starts.
    write_line(sys.stdout, found(root.command, {}, "fetchmill", "_FETCHMILL_COMPLETE").source().strip("\n"))
