"""The command `fetchmill`: finds the subcommand, and is the one place where errors become exit codes."""

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from fetchmill.cli.streams import flush_or_silence, open_missing, say, write_event
from fetchmill.errors import FetchmillError, InternalError

# Loaded when they are asked for: `fetchmill --version` needs none of them.
_COMMANDS = ("bench", "cat", "check", "diff", "export", "get", "list", "ls", "serve", "status", "verify")
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _LazyGroup(click.Group):
    """A group whose commands are modules beside this one, each with its command as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = import_module(f"fetchmill.cli.{cmd_name}").command
        return found


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from fetchmill import __version__

    click.echo(f"fetchmill {__version__}")
    ctx.exit()


@click.group(
    cls=_LazyGroup,
    context_settings=_HELP,
    epilog="Exit codes: 0 all fetched, 1 internal error, 2 usage, 3 finished with failed or absent targets (check: "
    "what --fail-on names; diff: something differs; list: a folder is missing), 4 listing, 5 temporary, 6 security, "
    "7 local storage, "
    "9 job in use, 10 journal damaged, 130 and 143 stopped by SIGINT and SIGTERM after a checkpoint.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def command() -> None:
    """Fetch huge numbers of small HTTP objects: crash-safe, in flat memory."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and exits.

    Args:
        arguments: without the program's name; those of the process if not given.
    """
    open_missing()
    code = _run(arguments)
    flush_or_silence()
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    """The exit code."""
    try:
        return int(command.main(arguments, prog_name="fetchmill", standalone_mode=False) or 0)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the native module is no Exception
        return _fail(error)


def _fail(error: BaseException) -> int:
    """One line for people, and one for machines where they asked for it; gives the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(error.format_message())
        return error.exit_code
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "fetchmill"
        code, message = error.exit_code, f"{error.format_message()} (see {where} --help)"
    elif isinstance(error, click.ClickException):
        code, message = error.exit_code, error.format_message()
    elif isinstance(error, FetchmillError):
        code, message = error.exit_code, str(error)
    elif os.environ.get("FETCHMILL_TRACEBACK"):
        raise error
    else:
        code, message = InternalError.exit_code, _describe_bug(error)
    line = " ".join(message.split())
    say(f"fetchmill: error: {line}")
    if "--json" in sys.argv[1:]:
        write_event("error", {"exit_code": code, "message": line})
    return code


def _describe_bug(error: BaseException) -> str:
    return (
        f"internal error: {type(error).__name__}: {error}; this is a bug in fetchmill "
        "(FETCHMILL_TRACEBACK=1 shows where), the job can be resumed"
    )
