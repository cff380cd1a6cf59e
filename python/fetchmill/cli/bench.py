"""`fetchmill bench`, from the fetchmill-bench package. An error explains how to install a missing package."""

from importlib import import_module

import click

from fetchmill.errors import UsageError

_PACKAGE = "fetchmill_bench"


@click.command(
    "bench",
    short_help="Compare ways to make requests on this machine.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _not_installed(arguments: tuple[str, ...]) -> None:
    del arguments
    raise UsageError(
        "bench is a separate package, which is not installed; pip install the fetchmill_bench wheel that was built "
        "with this fetchmill, or, in a clone, pip install ./packages/fetchmill-bench"
    )


def _found() -> click.Command:
    try:
        found: click.Command = import_module(f"{_PACKAGE}.command").command
    except ModuleNotFoundError as error:
        # If the package is installed but one of its dependencies is missing, raise the original error.
        if error.name != _PACKAGE:
            raise
        return _not_installed
    return found


command = _found()
