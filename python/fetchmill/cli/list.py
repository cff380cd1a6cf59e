"""`fetchmill list`: the earlier name of `fetchmill ls SOURCE`, whose argument is never a destination."""

import json
from typing import TYPE_CHECKING, Any

import click

from fetchmill._options.list import ListOptions
from fetchmill.cli.listing import first_option, list_source
from fetchmill.cli.log_file import log_options
from fetchmill.cli.options import TableCommand, gathered, options_of
from fetchmill.cli.streams import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fetchmill._job.list import ListedTarget

_EXAMPLES = """
fetchmill list s3://bucket/prefix manifest.parquet
fetchmill get manifest.parquet out/               now or later, anywhere
fetchmill list https://example.org/data/ names.csv
fetchmill list http://127.0.0.1:8080 --include '*.json' | head
fetchmill list http://127.0.0.1:8080 --json       all known details
fetchmill list urls.txt.gz urls.parquet           URLs in normalized form
"""

_HELP = """List the targets of SOURCE without fetching them. `fetchmill ls SOURCE [-o MANIFEST]` does the same.

\b
SOURCE is one of:
  http://HOST[:PORT][/PATH]  a server that lists its objects; also https://
  s3://BUCKET[/PREFIX]       a bucket
  FILE                       a list of URLs
  -                          a list on standard input

If SOURCE is the destination of a fetchmill job, `ls` lists the stored objects, but `list` lists the source itself: the
keys in the bucket, or the rows in a manifest.

MANIFEST is a .parquet, .csv or .jsonl file with one row per target. It appears when the listing is complete. Fetch its
targets with `fetchmill get MANIFEST DEST`. To resume after an interruption, run the same command again.

Without MANIFEST, names are written to standard output, one per line, and an interrupted listing starts over.
"""

_EPILOG = """Exit codes: 0 if the listing is complete; 3 if a folder could not be listed, and its objects are missing;
130 and 143 if stopped by SIGINT and SIGTERM after a checkpoint. For other codes, see `fetchmill help
exit-codes`.

For the columns of a row, see `fetchmill help manifests`.
"""


def _run(
    source: str,
    manifest: str | None,
    first: int | None,
    as_json: bool,
    quiet: bool,
    log_file: str | None,
    log_format: str | None,
    **options: Any,  # noqa: ANN401
) -> int:
    """Run the command and return the exit code."""
    listed = ListOptions(source=source, manifest=manifest, **gathered(options))
    to_lines = _lines_with(_event if as_json else _name)
    return list_source(
        listed,
        to_lines,
        first=first,
        with_events=as_json,
        quiet=quiet,
        log_file=log_file,
        log_format=log_format,
    )


command = TableCommand(
    "list",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=(
        "format",
        "column",
        "template",
        "include",
        "exclude",
        "listing",
        "headers",
        "bearer",
        "endpoint_url",
        "no_sign_request",
        "as_json",
        "dashboard",
    ),
    epilog=_EPILOG,
    short_help="List the targets of a source, like `fetchmill ls`.",
    params=[
        click.Argument(["source"], metavar="SOURCE"),
        click.Argument(["manifest"], metavar="[MANIFEST]", required=False, type=click.Path()),
        *options_of(ListOptions),
        first_option(),
        *log_options(),
        click.Option(["--json", "as_json"], is_flag=True, help="Write events as JSON lines to standard output."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show only names and errors."),
    ],
)


def _lines_with(to_line: "Callable[[ListedTarget], str]") -> "Callable[[Sequence[ListedTarget]], bytes]":
    """Return a function that converts a batch of targets to lines."""
    return lambda targets: "".join(f"{to_line(target)}\n" for target in targets).encode()


def _name(target: "ListedTarget") -> str:
    """Return the name of a target's object, or its URL if it has no name."""
    return escape(target.name or target.url or "")


def _event(target: "ListedTarget") -> str:
    """Return the event for a target, with all known details."""
    time = target.last_modified
    known = target._asdict() | {"last_modified": time and time.isoformat().replace("+00:00", "Z")}
    return json.dumps({"event": "target", **known})
