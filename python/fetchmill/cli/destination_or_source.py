"""Determines whether the argument of `ls` is a destination or a source.

A place that a fetchmill job wrote is a destination. Any other folder, and any path that does not exist, is refused,
because it may be a typo or a destination whose journal is elsewhere. Everything else is a source.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fetchmill._options.sources import BUCKET_REACH, is_bucket, kind_of
from fetchmill.cli.streams import escape
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._destination.objects import Objects

# Options that also apply to a destination.
_OF_BOTH = ("is_long", "null", "first", "as_json", "quiet", "state", *BUCKET_REACH, "ca_file", "proxy")
# Phrases in errors that report a missing job.
_NO_JOB = ("holds no fetchmill job", "no job found in ", "cannot hold shards")
# Finds the bucket URL in the error about a job that stores its objects in a bucket.
_UPLOAD = re.compile(r"the objects of this job are in (s3://[^;]*);")
# Matches file names of manifests.
_MANIFEST = re.compile(r"[^*?\[\]/]+\.(parquet|(csv|jsonl)(\.gz|\.zst)?)")


def open_destination(place: str, options: Mapping[str, Any], *, writes_manifest: bool) -> "Objects | None":
    """Open the objects of a destination, or return None if the place is a source.

    Args:
        place: the destination or source.
        options: the options of the command.
        writes_manifest: whether the command writes a manifest, which needs a source.

    Raises:
        UsageError: the place is a folder without a job, or its job does not store objects.
    """
    if place == "-" or (kind_of(place) != "list" and not is_bucket(place)):
        return None
    if writes_manifest and _is_list(place):
        # The list is a source, because `ls` can filter it into another manifest.
        return None
    from fetchmill._destination.objects import Objects

    # With a manifest, `state` is the listing's journal folder.
    state = None if writes_manifest else options["state"]
    try:
        if state is None and _is_shared(place, options):
            return _open_shared(place, options)
        return Objects(place, state=state)
    except UsageError as error:
        if _is_about_another_job(str(error), place):
            if writes_manifest or is_bucket(place) or _is_list(place):
                return None
            error.hint = _hint_at_sources(place)
        elif "results of `fetchmill list`" in str(error):
            error.hint = f"list its rows: fetchmill list {quoted(place)}"
        raise


def refuse_options_of_sources(dest: str) -> None:
    """Refuse options that apply only to sources, because the place is a destination.

    Raises:
        UsageError: such an option was given.
    """
    ctx = click.get_current_context()
    for option in ctx.command.params:
        name = option.name or ""
        is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and option.expose_value and is_given and name not in _OF_BOTH:
            written = next(text for text in option.opts if text.startswith("--"))
            of_bucket = f"list the keys of the bucket: fetchmill list {quoted(dest)}"
            of_folder = f"list the names of its objects: fetchmill ls {quoted(dest)}"
            raise UsageError(
                f"{written} is for a SOURCE, but {escape(dest)} contains a fetchmill job",
                hint=of_bucket if is_bucket(dest) else of_folder,
            )


def refuse_misplaced(source: str, patterns: Sequence[str], output: str | None, state: str | None) -> None:
    """Refuse arguments and options that the user probably did not mean for listing a source.

    Raises:
        UsageError: such an argument or option was given.
    """
    if output is None:
        _refuse_without_manifest(source, patterns, state)
    files = [pattern for pattern in patterns if kind_of(source) == "list" and os.path.exists(pattern)]  # noqa: PTH110
    if files:
        raise UsageError(
            f"{escape(files[0])} would be a PATTERN here, but it is a file",
            hint="quote the glob so that fetchmill reads all files as one list",
        )


def _refuse_without_manifest(source: str, patterns: Sequence[str], state: str | None) -> None:
    if state is not None:
        raise UsageError(
            f"--state: {escape(state)} has no job for {escape(source)}; to list a source, --state needs -o MANIFEST"
        )
    if len(patterns) == 1 and _MANIFEST.fullmatch(patterns[0]):
        written = quoted(patterns[0])
        raise UsageError(
            f"{escape(patterns[0])} would be a PATTERN here, but it looks like a manifest",
            hint=f"to write it: fetchmill ls {quoted(source)} -o {written}; to list this name, use --include {written}",
        )


def quoted(text: str) -> str:
    """Quote text for a command that users can copy into a shell."""
    return shlex.quote(escape(text))


def _is_about_another_job(text: str, place: str) -> bool:
    """Return whether an error says that no job exists, or that the local journal belongs to another bucket."""
    upload = _UPLOAD.search(text)
    is_other = is_bucket(place) and upload is not None and upload[1].rstrip("/") != place.rstrip("/")
    return is_other or any(words in text for words in _NO_JOB)


def _is_list(place: str) -> bool:
    """Return whether a path is a file, a pipe, or a glob of list files."""
    if os.path.exists(place):  # noqa: PTH110 - pathlib is imported on demand
        return not os.path.isdir(place)  # noqa: PTH112 - pathlib is imported on demand
    return any(char in place for char in "*?[{")


def _hint_at_sources(place: str) -> str:
    if os.path.isdir(place):  # noqa: PTH112 - pathlib is imported on demand
        glob = quoted(f"{place.rstrip('/')}/*")
        return f"for a job started with --state, give --state DIR; for a folder of lists: fetchmill ls {glob}"
    return "for a source, give a URL, s3://BUCKET/PREFIX, or the path of a list"


def _is_shared(place: str, options: Mapping[str, Any]) -> bool:
    """Return whether a place is the directory of a shared job.

    A bucket that refuses the query counts as a source. Listing it either reports the reason or succeeds, because
    listing does not require permission to read objects.
    """
    from fetchmill._shared import is_shared_job
    from fetchmill._shared.stored_options import reach_of

    try:
        return is_shared_job(place, reach_of(options))
    except UsageError:
        return False


def _open_shared(place: str, options: Mapping[str, Any]) -> "Objects":
    from fetchmill._destination.shared_objects import SharedObjects
    from fetchmill._shared.stored_options import reach_of

    return SharedObjects(place, reach_of(options))
