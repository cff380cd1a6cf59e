"""`fetchmill ls`: lists the names in a destination, or the targets of a source."""

from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.list import ListOptions
from fetchmill.cli.destination_or_source import open_destination, refuse_misplaced, refuse_options_of_sources
from fetchmill.cli.listing import first_option, list_source
from fetchmill.cli.log_file import log_options
from fetchmill.cli.name_lines import Form, Named, to_line
from fetchmill.cli.options import TableCommand, gathered, options_of

if TYPE_CHECKING:
    from fetchmill._job.list import ListedTarget

_EXAMPLES = """
fetchmill ls out/                            names of stored objects
fetchmill ls out/ '2026/*.json' --long       show size, status, time and name
fetchmill ls s3://bucket/prefix --long       objects in a bucket or server
fetchmill ls s3://bucket/prefix -o manifest.parquet
fetchmill get manifest.parquet out/          now or later, anywhere
fetchmill ls https://example.org/data/ --include '*.json' | head
fetchmill ls urls.txt.gz -o urls.parquet     URLs in normalized form
fetchmill ls out/ -0 | xargs -0 -n 100 fetchmill cat out/
fetchmill ls out/ --json | jq .bytes
"""
_HELP = """List the names of the objects in DEST or of the targets in SOURCE, one per line.

\b
SOURCE is one of:
  http://HOST[:PORT][/PATH]  a server that lists its objects; also https://
  s3://BUCKET[/PREFIX]       a bucket
  FILE                       a list of URLs
  -                          a list on standard input

DEST is a folder or bucket that contains the objects of a fetchmill job. Everything else is a SOURCE, whose objects are
listed but not fetched. The job for a bucket can be in the bucket itself (a shared job), in ./NAME.fetchmill, or in
--state DIR. To list the keys in such a bucket instead, use `fetchmill list`. For a folder of lists, write a glob, such
as 'parts/*'.

With -o, the targets of SOURCE are written to MANIFEST, a .parquet, .csv or .jsonl file with one row per target. It
appears when the listing is complete. Fetch its targets with `fetchmill get MANIFEST DEST`. To resume after an
interruption, run the same command again.

Without -o, control characters and backslashes in names are escaped with a backslash. DEST is read in place, in storage
order, and each name is listed once. While its job is running, the objects sealed so far are listed. With --long, `-`
means an unknown value: `files` and `tar` do not store the status and time, and a SOURCE reports only sizes and
modification times, if any.

In a PATTERN, `*` matches any characters, `?` any single character (both also match `/`), and `[abc]` one of the
listed characters. For a SOURCE, a PATTERN is the same as --include PATTERN.
"""
_EPILOG = """Exit codes: 0 on success; 3 if a pattern has no match, or a folder of SOURCE could not be listed; 130
and 143 if stopped by SIGINT and SIGTERM. For other codes, see `fetchmill help exit-codes`.

For the columns of a manifest, see `fetchmill help manifests`.
"""
_HELP_IN_LS = {
    "format": "Format of MANIFEST. Default: from the file extension; .csv and .jsonl can be followed by .gz or .zst.",
    "state": "Journal folder, if the job in DEST was started with --state. With -o: journal folder of the listing, on "
    "a local disk. Default: MANIFEST.fetchmill.",
}


def _run(
    place: str,
    patterns: tuple[str, ...],
    output: str | None,
    first: int | None,
    quiet: bool,
    log_file: str | None,
    log_format: str | None,
    **options: Any,  # noqa: ANN401
) -> int:
    """Run the command and return the exit code."""
    form = Form(*(options.pop(name) for name in Form._fields))
    if form.null and (form.is_long or form.as_json):
        raise click.UsageError("--null cannot be combined with --long or --json.")
    if output is not None and (form.is_long or form.null):
        raise click.UsageError("--output cannot be combined with --long or --null: a manifest contains all details.")
    objects = open_destination(place, options, writes_manifest=output is not None)
    if objects is not None:
        from fetchmill.cli.stored_names import show_names

        with objects:
            refuse_options_of_sources(place)
            return show_names(objects, patterns, form, first=first)
    refuse_misplaced(place, patterns, output, options["state"])
    options["include"] = (*options["include"], *patterns)
    listed = ListOptions(source=place, manifest=output, **gathered(options))
    return list_source(
        listed,
        lambda targets: b"".join(to_line(_named(target), form) for target in targets),
        first=first,
        with_events=form.as_json and output is not None,
        quiet=quiet,
        log_file=log_file,
        log_format=log_format,
    )


def _options() -> list[click.Parameter]:
    """Return the options of `list`, with help texts that cover sources and destinations."""
    options = options_of(ListOptions)
    for option in options:
        if isinstance(option, click.Option) and option.name in _HELP_IN_LS:
            option.help = _HELP_IN_LS[option.name]
    return options


command = TableCommand(
    "ls",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=(
        "is_long",
        "null",
        "as_json",
        "output",
        "column",
        "include",
        "first",
        "listing",
        "headers",
        "endpoint_url",
        "no_sign_request",
        "state",
    ),
    epilog=_EPILOG,
    short_help="List the names in a destination or source.",
    params=[
        click.Argument(["place"], metavar="SOURCE|DEST", type=click.Path(allow_dash=True)),
        click.Argument(["patterns"], metavar="[PATTERN]...", nargs=-1),
        click.Option(["--long", "is_long"], is_flag=True, help="Show size, status, time and name, separated by tabs."),
        click.Option(
            ["-0", "--null"], is_flag=True, help="End each name with NUL instead of a newline, and do not escape it."
        ),
        click.Option(
            ["-o", "--output"],
            metavar="MANIFEST",
            type=click.Path(),
            help="Write the targets of SOURCE to this file; nothing is written to standard output.",
        ),
        *_options(),
        first_option(),
        *log_options(),
        click.Option(
            ["--json", "as_json"],
            is_flag=True,
            help="Write JSON lines; with --long, include all known details. With -o, write events.",
        ),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show only names and errors."),
    ],
)


def _named(target: "ListedTarget") -> Named:
    facts = {
        "url": target.url,
        "etag": target.etag,
        "last_modified": target.last_modified,
        "columns": target.columns or None,
    }
    return Named(target.name or target.url or "", target.size, None, target.last_modified, facts)
