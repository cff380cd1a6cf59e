"""Runs an existing job, for `resume` and `retry`."""

from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.get import GetOptions
from fetchmill.cli.options import import_from_working_folder, options_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_shared(dest: str, own: "Mapping[str, Any]") -> bool:
    """Return whether a destination is the directory of a shared job."""
    from fetchmill._shared.job_directory import JobDirectory
    from fetchmill._shared.stored_options import reach_of

    return JobDirectory.at(dest, reach_of(own)).exists()


def resume_job(dest: str, own: "Mapping[str, Any]", *, as_json: bool, quiet: bool) -> int:
    """Resume a job that is not shared, and return the exit code.

    Args:
        dest: the destination.
        own: options for this run, which override the stored options.
        as_json: whether to write events as JSON.
        quiet: whether to show only errors.
    """
    if own.get("transform"):
        import_from_working_folder()
    # Imported here because help does not need them.
    from fetchmill._job.stored_command import read_command
    from fetchmill.cli.job_run import run_job

    options = read_command(dest, own.get("state")).options_for(dest, own)
    return run_job(options, as_json=as_json, quiet=quiet)


def run_options(*left_out: str) -> list[click.Parameter]:
    """Return the options for running an existing job. They are the options of `get`, most of which can change."""
    return [option for option in options_of(GetOptions, shows_defaults=False) if option.name not in left_out]


def output_options() -> list[click.Parameter]:
    """Return the `--json` and `--quiet` options."""
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show only errors."),
    ]
