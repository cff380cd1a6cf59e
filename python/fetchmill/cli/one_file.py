"""Suggests the command that the user probably meant if a destination is named like a file."""

import shlex

from fetchmill._options.file_names import NOT_ONE_FILE, FileName, file_name_of
from fetchmill._options.sources import is_bucket, kind_of
from fetchmill.cli.destination_or_source import quoted
from fetchmill.errors import UsageError

# Files that other commands write, with one row per target and no bodies.
_OF_ROWS = (".csv.gz", ".csv")


def suggest_folder(error: UsageError, command: str, source: str, dest: str, format: str) -> None:
    """Replace the hint of an error that was raised because the destination is named like a file.

    Args:
        error: the error.
        command: the command: get, sync or export.
        source: the command's first argument.
        dest: the destination.
        format: the chosen format. `files` may mean that no format was chosen.
    """
    found = file_name_of(dest)
    if found is None or NOT_ONE_FILE not in str(error):
        return
    is_export = command == "export"
    written = found.kind.format if format == "files" and not is_export else format
    # The destination of an export may be named after the exported one.
    is_taken = is_export and found.folder.rstrip("/") == source.rstrip("/")
    folder = f"{found.folder.rstrip('/')}-{written}/" if is_taken else found.folder
    options = "" if written == "files" and not is_export else f" --format {written}"
    next_step = _next_step(found, folder) if written == found.kind.format else ""
    rows = "" if is_export or found.suffix not in _OF_ROWS else _rows(source, found.name)
    error.hint = f"fetchmill {command} {quoted(source)} {quoted(folder)}{options}{next_step}{rows}"


def _next_step(found: FileName, folder: str) -> str:
    """Return instructions for joining the shards into one file, if a simple command can do it."""
    joining = found.kind.joining
    # In a bucket, only DuckDB can read the shards. The commands contain unquoted paths.
    if joining is None or shlex.quote(found.name) != found.name:
        return ""
    if is_bucket(found.name) and not joining.startswith("duckdb -c"):
        return ""
    return f"; then, for one file: {joining.format(folder, found.name)}"


def _rows(source: str, name: str) -> str:
    """Return instructions for writing a file with one row per target."""
    command = f"check {quoted(source)} " if kind_of(source) == "list" else f"ls {quoted(source)} -o "
    return f"; for one file of rows without bodies: fetchmill {command}{quoted(name)}"
