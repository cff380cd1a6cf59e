"""Derives a source's kind from its text, and checks that the options fit this kind."""

import re
from collections.abc import Collection, Container
from dataclasses import fields
from typing import Any, Literal

from fetchmill._options.dates import seconds_of
from fetchmill._options.values import require
from fetchmill.errors import UsageError

# Kinds of sources: a server that lists its objects, a list in a file, an iterable in a program, or a bucket.
SourceKind = Literal["server", "list", "iterable", "s3"]

_API_ONLY = ("list_path", "names_field", "marker_field", "total_field", "marker_param", "get_path")
# Options in `_API_ONLY` that also apply to `listing` json.
_API_OR_JSON = ("total_field", "marker_param")
_JSON_ONLY = (
    *("items_field", "url_field", "name_field", "size_field", "modified_field"),
    *("next_page", "next_field", "page_param", "offset_param", "store"),
)
_LIST_ONLY = (
    "list_format",
    "column",
    "template",
    "csv_header",
    "delimiter",
    "quote",
    "key_column",
    "keep_columns",
    "sample",
    "names",
)
_REQUESTS = ("method", "data", "data_json", "idempotent", "offset_column", "length_column", "coalesce", "hash_column")
_FILTERS = ("size_from", "size_to", "modified_from", "modified_to", "storage_class")
# Options for accessing a bucket.
BUCKET_REACH = (
    *("endpoint_url", "region", "profile", "no_sign_request", "addressing_style", "requester_pays"),
    *("use_fips_endpoint", "use_dualstack_endpoint", "use_accelerate_endpoint"),
)
# Options for accessing a bucket and reading its objects.
BUCKET_ACCESS = (*BUCKET_REACH, "sse_c_key_file")
# Options that are refused for a bucket, because bucket requests are signed and never lead to another host.
_UNSIGNED = (
    *("redirects", "headers", "user_agent", "auth", "bearer", "bearer_command", "netrc"),
    *("credentials_for", "allow_private"),
)
# Groups of options, the kinds of source that accept them, and the names of these kinds in messages.
_MEANT: tuple[tuple[tuple[str, ...], Container[SourceKind], str], ...] = (
    (("robots",), ("server", "list"), "servers and lists of URLs"),
    (("listing", *_API_ONLY, *_JSON_ONLY), ("server",), "servers that list their objects"),
    ((*_LIST_ONLY, *_REQUESTS), ("list",), "lists of URLs"),
    (_FILTERS, ("s3",), "buckets (s3://BUCKET/PREFIX)"),
    (BUCKET_ACCESS, ("s3", "list"), "buckets, and lists that lead to buckets"),
    (_UNSIGNED, ("server", "list"), "servers and lists of URLs"),
)


def names_not_for(kind: SourceKind) -> tuple[str, ...]:
    """Return the names of the options that do not apply to a kind of source."""
    return tuple(name for names, kinds, _ in _MEANT if kind not in kinds for name in names)


def values_for(table: Any, options: Any, left_out: Collection[str]) -> dict[str, Any]:  # noqa: ANN401 - option classes
    """Return a job's source, and those of the job's options that also exist in another options class.

    Args:
        table: the other options class.
        options: the job's options.
        left_out: names of options to leave out.
    """
    own = {option.name for option in fields(options)}
    refused = {*left_out, *names_not_for(options.source_kind)}
    names = {option.name for option in fields(table) if option.metadata and option.name in own} - refused
    return {"source": options.source} | {name: getattr(options, name) for name in names}


_LIKE_S3 = ("s3:", "s3a:", "s3n:")
_BUCKET = r"[A-Za-z0-9._-]{1,255}"


def kind_of(source: str) -> SourceKind:
    """Return the kind of a source. Text such as `s3:bucket` counts as a bucket so that the typo is reported."""
    if source[:4].lower().startswith(_LIKE_S3):
        return "s3"
    return "server" if "://" in source else "list"


def leads_anywhere(options: Any, kind: SourceKind) -> bool:  # noqa: ANN401 - a dataclass
    """Return whether target URLs come from someone else and can therefore lead to any origin."""
    return kind == "list" or (kind == "server" and options.listing == "json")


def is_bucket(destination: str) -> bool:
    """Return whether objects are stored in a bucket."""
    return destination.startswith("s3://")


def check_source(options: Any) -> None:  # noqa: ANN401 - a dataclass
    """Check a source and the options for reading it.

    Raises:
        UsageError: the source or an option is invalid, or an option is for another kind of source.
    """
    kind, source = kind_of(options.source), options.source
    if kind == "s3":
        _check_bucket(source)
        if getattr(options, "list_format", None) == "inventory":
            raise UsageError(
                f"{source}: cannot read an inventory from a bucket; download the inventory's whole folder with "
                "`aws s3 sync` or `fetchmill get`, and give the path of its manifest.json"
            )
    given = {option.name for option in fields(options) if getattr(options, option.name) != option.default}
    for names, kinds, meant in _MEANT:
        wrong = [name for name in names if name in given and kind not in kinds]
        if wrong and not (names is BUCKET_ACCESS and is_bucket(str(getattr(options, "dest", "")))):
            raise UsageError(f"{wrong[0]} is for {meant}, which {source} is not", options=[wrong[0]])
    _check_api(options, given)
    _check_ranges(options)


def _check_bucket(source: str) -> None:
    """Check `s3://BUCKET`, `s3://BUCKET/` or `s3://BUCKET/PREFIX`. Everything after `BUCKET/` is the prefix."""
    if not source.startswith("s3://"):
        raise UsageError(f"{source} is not a bucket; write s3://BUCKET/PREFIX, or ./{source} for a file of that name")
    bucket = source.removeprefix("s3://").partition("/")[0]
    if not bucket:
        raise UsageError(f"{source}: the bucket name is missing; write s3://BUCKET/PREFIX")
    if not re.fullmatch(_BUCKET, bucket) or not bucket.strip("."):
        raise UsageError(
            f"{bucket} is not a valid bucket name; write s3://BUCKET/PREFIX, "
            "and set endpoint_url to the address of a store"
        )


def _check_api(options: Any, given: Container[str]) -> None:  # noqa: ANN401 - a dataclass
    for name in _API_ONLY:
        meant = ("auto", "api", "json") if name in _API_OR_JSON else ("auto", "api")
        if name in given and options.listing not in meant:
            kinds = " or ".join(meant[1:])
            raise UsageError(f"{name} requires listing {kinds}, not {options.listing}", options=[name, "listing"])
    for name in _JSON_ONLY:
        if name in given and options.listing != "json":
            raise UsageError(f"{name} requires listing json, not {options.listing}", options=[name, "listing"])
    require(options.list_path.startswith("/"), "list_path", "a path that starts with /", options.list_path)
    require(options.get_path.startswith("/"), "get_path", "a path that starts with /", options.get_path)
    require(options.get_path.count("{name}") == 1, "get_path", "a path with exactly one {name}", options.get_path)


def _check_ranges(options: Any) -> None:  # noqa: ANN401 - a dataclass
    """Refuse empty size and time ranges."""
    if None not in (options.size_from, options.size_to) and options.size_from >= options.size_to:
        raise UsageError(
            f"size_to must be above size_from ({options.size_from}), not {options.size_to}",
            options=["size_to", "size_from"],
        )
    ends = (options.modified_from, options.modified_to)
    if None not in ends and seconds_of(ends[0]) >= seconds_of(ends[1]):
        raise UsageError(
            f"modified_to must be after modified_from ({ends[0]}), not {ends[1]}",
            options=["modified_to", "modified_from"],
        )
