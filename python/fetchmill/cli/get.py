"""`fetchmill get`: runs a job, shows its progress, and converts the result to an exit code."""

import shlex
import sys
from typing import Any, NamedTuple

import click

from fetchmill._job.other_job import is_solved_by_restart
from fetchmill._options.file_names import refuse_file_name
from fetchmill._options.get import GetOptions
from fetchmill._options.shared_parts import refuse_part_of_shared_job
from fetchmill._options.units import format_count_of
from fetchmill.cli.job_run import run_job
from fetchmill.cli.log_file import log_options
from fetchmill.cli.one_file import suggest_folder
from fetchmill.cli.options import TableCommand, gathered, import_from_working_folder, options_of
from fetchmill.cli.parameter_types import SECONDS
from fetchmill.cli.ray_jobs import check_workers, ray_options
from fetchmill.cli.streams import escape, say, write_line
from fetchmill.errors import UsageError

_EXAMPLES = """
fetchmill get https://example.org/data/ out/       a server's index pages
fetchmill get urls.txt out/ --format parquet       a list of URLs
fetchmill get s3://bucket/a/ out/ --strip-prefix a/    a/b becomes out/b
fetchmill get images.csv out/ --format tar --names '{index}.jpg' \\
    --image-max-side 256 --image-format jpeg --sidecar txt=caption \\
    --keep-columns caption                         webdataset
fetchmill get https://HOST/items out/ --listing json --store items \\
    --items-field data --next-page marker --next-field next \\
    --marker-param cursor --format parquet         an API with a cursor
fetchmill get https://HOST/items out/ --listing json --store items \\
    --items-field results --next-page url --next-field next \\
    --format parquet                               an API with next URLs
fetchmill get urls.txt out/ --dry-run              print the targets only
fetchmill get http://127.0.0.1:8080 null/ --format null     measure only
fetchmill get top.csv out/ --column 2 --template 'https://www.{}' \\
    --format parquet --keep-columns 1
fetchmill get ids.csv out/ --format jsonl --template https://HOST/items \\
    --data-json '{"id": "{id}"}'
fetchmill get s3://bucket out/ --no-sign-request   a public bucket
fetchmill get s3://bucket out/ --endpoint-url http://127.0.0.1:7070
fetchmill get s3://bucket out/ --include '*.json' --modified-from 2026-11-01
fetchmill get http://127.0.0.1:8080 s3://bucket/run/ --format parquet
fetchmill get urls.parquet /nfs/run --format tar --shared     many workers
fetchmill get urls.txt s3://bucket/run --format tar --shared  in a bucket
fetchmill get urls.parquet /nfs/run --format tar --on ray --workers 64
fetchmill get https://api.example.com out/ \\
    --bearer-command 'gcloud auth print-access-token'
zcat urls.gz | fetchmill get - out/ --rate 50 --bearer "$TOKEN" \\
    --credentials-for https://api.example.com
"""

_HELP = """Fetch every object listed by SOURCE into the folder or bucket DEST. To resume, run the same command again.
Bodies over 64 MiB fail (--max-size). To keep a folder up to date, use `fetchmill sync`. S3 stores: --endpoint-url.

\b
SOURCE is one of:
  http://HOST[:PORT][/PATH]  a server that lists its objects; also https://
  s3://BUCKET[/PREFIX]       a bucket
  FILE                       a list of URLs: txt, csv, tsv, jsonl or parquet,
                             also .gz and .zst
  -                          a list on standard input

DEST must be new, empty, or the destination of the same job. If a job is killed, resuming repeats at most the last
commit window.

Objects from a web server are named after their path below SOURCE, and objects from a bucket after their whole key.
Objects from a list are named after their URL, or after HOST/PATH with --format files. --strip-prefix shortens names,
and --names sets the names of a list's objects.

For parquet, tar, warc and jsonl shards, DEST can be s3://BUCKET/PREFIX/. In this case, the journal is in
./NAME.fetchmill, where NAME is the last part of PREFIX, or in --state DIR.
"""

_EPILOG = """Exit codes: 0 if all targets were fetched or skipped; 3 if some failed or were absent; 8 if stopped by
--max-failed, --max-duration or --max-bytes; 130 and 143 if stopped by SIGINT and SIGTERM. Runs that end with 8, 130
or 143 stop at a checkpoint. For other codes, see `fetchmill help exit-codes`.

Sizes can be written as 64KiB or 10MB, times as 1.5s, 50ms or 2m, and numbers as 1e6.
"""


_SHARED_HELP = """Make DEST (a folder or bucket) a shared job for many processes and machines. Run the same command in
each process: the first one creates the job, and the others join it. See `fetchmill help shared-jobs`."""

_LEASE_HELP = """Let other workers take over a worker's ranges after it has been silent for this long; needs --shared.
Default: 10 s."""


class _Destination(click.Path):
    """The parameter type of DEST. If DEST is missing, the error message shows an example."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:
        """Return a message with the command that the user probably meant."""
        del param
        source = ctx.params.get("source") if ctx else None
        return f"Give a folder, for example: fetchmill get {escape(shlex.quote(source))} out/" if source else None


def _run(
    source: str,
    dest: str,
    as_json: bool,
    quiet: bool,
    dry_run: bool,
    log_file: str | None,
    log_format: str | None,
    **options: Any,  # noqa: ANN401
) -> int:
    """Run the command and return the exit code."""
    if options["transform"]:
        import_from_working_folder()
    sharing = _Sharing(*(options.pop(name) for name in _Sharing._fields))
    checked = GetOptions(source=source, dest=dest, **gathered(options))
    _refuse_swapped(checked)
    refuse_part_of_shared_job(dest)
    try:
        if not dry_run and sharing.is_shared:
            return _work(checked, sharing, log_file, as_json=as_json, quiet=quiet)
        refuse_file_name(dest, checked.state)
    except UsageError as error:
        suggest_folder(error, "get", source, dest, checked.format)
        raise
    if dry_run:
        return _show_targets(checked)
    try:
        return run_job(checked, as_json=as_json, quiet=quiet, log_file=log_file, log_format=log_format)
    except UsageError as error:
        if is_solved_by_restart(error, checked):
            error.hint = "to remove that job's files and start over, add --restart"
        raise


command = TableCommand(
    "get",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=(
        "format",
        "column",
        "template",
        "names",
        "first",
        "include",
        "headers",
        "bearer",
        "concurrency",
        "rate",
        "allow_private",
        "dashboard",
    ),
    epilog=_EPILOG,
    short_help="Fetch every object that a source lists.",
    params=[
        click.Argument(["source"], metavar="SOURCE"),
        click.Argument(["dest"], metavar="DEST", type=_Destination()),
        *options_of(GetOptions),
        click.Option(["--dry-run"], is_flag=True, help="Print the targets of a list without making requests."),
        click.Option(["--shared"], is_flag=True, help=_SHARED_HELP),
        click.Option(["--lease"], type=SECONDS, help=_LEASE_HELP),
        *ray_options(),
        *log_options(),
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show only errors."),
    ],
)


class _Sharing(NamedTuple):
    """Options for running a job in several processes."""

    shared: bool
    lease: float | None
    on: str | None
    workers: int | None

    @property
    def is_shared(self) -> bool:
        """Whether several processes can fetch."""
        is_shared = self.shared or self.on is not None
        if self.lease is not None and not is_shared:
            raise click.UsageError("--lease needs --shared")
        check_workers(self.on, self.workers)
        return is_shared


def _refuse_swapped(options: GetOptions) -> None:
    """Refuse a list as DEST.

    Raises:
        UsageError: SOURCE and DEST are swapped.
    """
    from pathlib import Path

    source, dest = str(options.source), str(options.dest)
    if options.source_kind == "list" and Path(dest).is_file() and source != "-" and not Path(source).exists():
        raise UsageError(
            f"the list {escape(source)} does not exist, but {escape(dest)} is a file",
            hint="SOURCE comes first: fetchmill get " + " ".join(map(shlex.quote, (escape(dest), escape(source)))),
        )


def _work(options: GetOptions, sharing: _Sharing, log_file: str | None, *, as_json: bool, quiet: bool) -> int:
    """Create or join a shared job, run a worker, and return the exit code."""
    if log_file:
        raise click.UsageError(
            "--log-file cannot be used with a shared job; workers write their logs to the job directory"
        )
    from fetchmill._shared.creation import LEASE_SECONDS, create_or_join
    from fetchmill._shared.stored_options import own_values
    from fetchmill.cli.ray_jobs import run_shared

    return run_shared(
        str(options.dest),
        lambda say: create_or_join(options, sharing.lease or LEASE_SECONDS, say),
        own_values(options),
        on=sharing.on,
        workers=sharing.workers,
        as_json=as_json,
        quiet=quiet,
        tells_failures=False,
    )


def _show_targets(options: GetOptions) -> int:
    """Write the URL of each target in a list, and its name if different. Write the counts to standard error."""
    from fetchmill._native import ListTargets

    shown = skipped = bad = 0
    targets = ListTargets(options.to_json())
    while (page := targets.next_page()) is not None:
        rows, left_out = page
        skipped += left_out
        shown += len(rows)
        bad += sum(url is None for url, _ in rows)
        if rows and not write_line(sys.stdout, "\n".join(_target_line(url, name) for url, name in rows)):
            break
    would_be, lines = format_count_of(shown - bad, "target"), format_count_of(bad, "line")
    say(f"{would_be} would be fetched, {lines} without a URL, {skipped:,} left out")
    if bad:
        say("hint: to build URLs from other values, use --template, for example --template 'https://{}'")
    return 0


def _target_line(url: str | None, name: str) -> str:
    """Return a target's line in a dry run."""
    if url is None:
        return f"{escape(name)} is not a URL"
    return url if url == name else f"{url}\t{escape(name)}"
