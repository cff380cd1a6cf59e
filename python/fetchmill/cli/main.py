"""The `fetchmill` command. It finds the subcommand, and converts all errors to exit codes."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

import click

from fetchmill.cli.config import ConfigOption
from fetchmill.cli.help_texts import SETTINGS, WIDTH, Context, brief_option, own_params, write_examples
from fetchmill.cli.streams import give_up, open_missing, output_error, say, write_event, write_line
from fetchmill.errors import FetchmillError, InternalError, StorageError

# Commands are imported only when they are needed. For example, `fetchmill --version` needs none of them.
GROUPS = {
    "Fetch": ("get", "resume", "retry", "sync", "check", "list", "plan"),
    "Inspect": ("status", "report", "verify", "diff"),
    "Read objects": ("ls", "cat", "export", "serve"),
    "Shared jobs": ("join", "extend", "stop", "set", "emit"),
    "More": ("help", "completion", "bench", "torture"),
}
COMMANDS = tuple(sorted(name for names in GROUPS.values() for name in names))
# Earlier names of commands. They still work, but the list of commands omits them.
_EARLIER_NAMES = ("list",)
# Groups whose commands `-h` lists without descriptions.
_NAMED_IN_BRIEF = ("Shared jobs", "More")
_EXAMPLES = (
    "fetchmill get https://example.org/data/ out/      fetch what a server lists",
    "fetchmill get urls.txt out/ --format parquet      fetch a list of URLs",
    "fetchmill sync s3://bucket/prefix mirror/         mirror or update a folder",
    "fetchmill check urls.txt results.csv              check which URLs answer",
    "fetchmill status out/                             show a job's progress",
)
# Exit code of a command that finished but reports failures or differences.
_FINISHED_WITH_DIFFERENCES = 3


class _LazyGroup(click.Group):
    """A command group. Each command is the `command` attribute of a module in this package."""

    context_class = Context

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters of the group, and `-h`."""
        return [*super().get_params(ctx), brief_option(self.get_brief)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples first, and commands grouped by task."""
        self._format_beginning(ctx, formatter)
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(self._records(ctx, names))
        self.format_options(ctx, formatter)
        self.format_epilog(ctx, formatter)

    def get_brief(self, ctx: click.Context) -> str:
        """Return the text that `-h` shows."""
        formatter = ctx.make_formatter()
        self._format_beginning(ctx, formatter)
        formatter.write_paragraph()
        for heading, names in GROUPS.items():
            formatter.write(f"{heading}: {', '.join(names)}\n" if heading in _NAMED_IN_BRIEF else f"{heading}:\n")
            if heading not in _NAMED_IN_BRIEF:
                formatter.indent()
                formatter.write_dl(self._records(ctx, names))
                formatter.dedent()
        formatter.write("\nOptions of a command: fetchmill COMMAND -h. Exit codes: fetchmill --help.")
        return formatter.getvalue()

    def _format_beginning(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_examples(formatter, _EXAMPLES)

    def _records(self, ctx: click.Context, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return commands and their descriptions. Names are padded to the same width in all groups."""
        width = max(map(len, COMMANDS))
        found = ((name, self.get_command(ctx, name)) for name in names if name not in _EARLIER_NAMES)
        return [(name.ljust(width), each.get_short_help_str(WIDTH)) for name, each in found if each]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write only the options, because `format_help` writes the commands."""
        click.Command.format_options(self, ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(f"fetchmill.cli.{cmd_name}").command
        own = own_params(found)
        if not any(isinstance(parameter, ConfigOption) for parameter in own):
            own.append(ConfigOption(COMMANDS))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command to run. Pass its name to the function in `ctx.obj`."""
        found = super().resolve_command(ctx, args)
        if ctx.obj is not None and found[0] is not None:
            ctx.obj(found[0])
        return found


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from fetchmill import __version__

    write_line(sys.stdout, f"fetchmill {__version__}")
    ctx.exit()


@click.group(
    cls=_LazyGroup,
    context_settings=SETTINGS,
    epilog="\b\n"
    "Exit codes:\n"
    "   0  all fetched\n"
    "   1  internal error\n"
    "   2  usage error\n"
    "   3  finished with failed or absent targets (check: --fail-on; diff: changes;\n"
    "      ls: a folder could not be listed)\n"
    "   4  listing failed\n"
    "   5  temporary failure, or --give-up-after reached\n"
    "   6  security problem\n"
    "   7  local storage problem\n"
    "   8  stopped by --max-failed, --max-duration or --max-bytes\n"
    "   9  another process is running the job\n"
    "  10  journal or objects are damaged\n"
    "  11  sync would remove more than --max-delete\n"
    "  12  the server refuses all requests\n"
    " 130  SIGINT, after a checkpoint (143: SIGTERM)",
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
    """Fetch huge numbers of small HTTP objects in constant memory, even across crashes."""


def main(
    arguments: list[str] | None = None,
    *,
    on_command: Callable[[str], object] | None = None,
) -> NoReturn:
    """Run the command line and exit.

    Args:
        arguments: arguments without the program's name; by default, the process's own arguments.
        on_command: called with the command's name after the command has been loaded and before it runs.
    """
    open_missing()
    code = _run(arguments, on_command)
    if (reason := output_error()) is not None:
        say(f"fetchmill: error: {reason}")
        # Keep the command's exit code unless it would indicate success.
        code = StorageError.exit_code if code in (0, _FINISHED_WITH_DIFFERENCES) else code
    sys.exit(code)


def _run(arguments: list[str] | None, on_command: Callable[[str], object] | None) -> int:
    """Run the command line and return the exit code."""
    found: list[str] = []

    def note(name: str) -> None:
        found.append(name)
        if on_command is not None:
            on_command(name)

    try:
        return int(command.main(arguments, prog_name="fetchmill", standalone_mode=False, obj=note) or 0)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except SystemExit:
        raise
    except OSError as error:
        import traceback

        if not any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
            return _fail(error, found)
        # The output is a help text, which click itself writes.
        give_up(sys.stdout, error)
        return 0
    except BaseException as error:  # noqa: BLE001 - a panic in the native module is not an Exception
        return _fail(error, found)


def _fail(error: BaseException, found: list[str]) -> int:
    """Show an error in one line, with a hint if any, and return the exit code. With --json, also write an event."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(command.get_brief(error.ctx))
        return error.exit_code
    hint: str | None = None
    if isinstance(error, click.UsageError):
        # If the arguments cannot be parsed, the error does not have a context, but `found` still names the command.
        where = error.ctx.command_path if error.ctx else " ".join(["fetchmill", *found])
        message, hint = _explain_usage(error)
        code, message = error.exit_code, message if hint else f"{message} (see {where} --help)"
    elif isinstance(error, click.ClickException):
        code, message = error.exit_code, error.format_message()
    elif isinstance(error, FetchmillError):
        code, message, hint = error.exit_code, _with_own_names(error), error.hint
    elif os.environ.get("FETCHMILL_TRACEBACK"):
        raise error
    else:
        code, message = InternalError.exit_code, _describe_bug(error)
    line = " ".join(message.split())
    say(f"fetchmill: error: {line}")
    if hint:
        say(f"hint: {hint}")
    if "--json" in sys.argv[1:]:
        write_event("error", {"exit_code": code, "message": line, "hint": hint})
    return code


def _with_own_names(error: FetchmillError) -> str:
    """Return the text of an error, with Python option names replaced by command-line options."""
    from fetchmill.cli.option_names import written

    text = str(error)
    for name in getattr(error, "options", ()):
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", written(name), text, count=1)
    return text


def _explain_usage(error: click.UsageError) -> tuple[str, str | None]:
    """Return the message of a usage error, and a hint about what the user probably meant."""
    from fetchmill.cli.parameter_types import HINT
    from fetchmill.cli.suggestions import suggest_command, suggest_option

    if isinstance(error, click.NoSuchCommand):
        meant = suggest_command(error.command_name, COMMANDS)
        return error.message.rstrip(
            "."
        ), f"did you mean `fetchmill {meant}`?" if meant else "list the commands: fetchmill -h"
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error.format_message(), error.ctx.meta.get(HINT) if error.ctx else None
    from fetchmill._options.elsewhere import describe_elsewhere

    command, name = error.ctx.command, error.option_name.lstrip("-")
    # `ls` accepts the options of `list`.
    call = "list" if command.name == "ls" else command.name or ""
    elsewhere = describe_elsewhere(call, name.replace("-", "_"))
    if elsewhere:
        return f"{error.option_name}: not an option of {command.name}: {elsewhere}", None
    known = [text.lstrip("-") for each in command.params for text in (*each.opts, *each.secondary_opts)]
    return error.message.rstrip("."), suggest_option(name, known)


def _describe_bug(error: BaseException) -> str:
    return (
        f"internal error: {type(error).__name__}: {error}; this is a bug in fetchmill "
        "(FETCHMILL_TRACEBACK=1 shows where); the job can be resumed"
    )
