"""The options of the function `fetchmill.sync` and the command `fetchmill sync`."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fetchmill._options.credentials import origin_of
from fetchmill._options.dates import seconds_of
from fetchmill._options.get import GetOptions
from fetchmill._options.list import ListOptions
from fetchmill._options.rows import Options, option_class
from fetchmill._options.sources import SourceKind, check_source, is_bucket, kind_of, leads_anywhere
from fetchmill._options.table import SYNC
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._options.keywords import SyncKeywords

# Options that determine which objects a source has, and how they are named.
_FILTERS = (
    *("list_format", "column", "template", "csv_header", "delimiter", "quote", "key_column", "include", "exclude"),
    *("size_from", "size_to", "modified_from", "modified_to", "storage_class"),
    *("list_path", "names_field", "marker_field", "marker_param", "get_path"),
    *("items_field", "url_field", "name_field", "size_field", "modified_field"),
    *("next_page", "next_field", "page_param", "offset_param"),
)
# Options for listing, which the fetching job does not need because it reads sync's own list of requests.
_OF_LISTING = ("listing", "robots", "total_field", *_FILTERS)
# Options that must not change between passes.
_LASTING = ("format", *_FILTERS)
_COLUMN = re.compile(r"\{\w*(?:!r)?\}")
# Header fields that are not sent if their column is empty.
_CONDITIONS = {"If-None-Match": "{if_none_match}", "If-Modified-Since": "{if_modified_since}"}
_PERCENT = 100


@option_class(SYNC)
class SyncOptions(Options):
    """The validated, immutable options of a sync.

    Args:
        source: the source of the targets, as for `get`.
        dest: the folder to synchronize with the source.

    Raises:
        UsageError: a value is invalid.

    The other options:
    """

    source: str | os.PathLike[str]
    dest: str | os.PathLike[str]

    if TYPE_CHECKING:

        def __init__(
            self, *, source: str | os.PathLike[str], dest: str | os.PathLike[str], **options: Unpack[SyncKeywords]
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_bucket(str(self.dest)):
            raise UsageError(
                f"{self.dest} is a bucket, but sync needs a local folder; give a folder, or use `fetchmill get`"
            )
        check_source(self)
        self._check_format()
        allowed_removals(self.max_delete, 0)
        if self.delete and self.listing == "links":
            raise UsageError(
                "--delete cannot be used with --listing links, because linked pages do not always list every object; "
                "leave out --delete, use --listing html, autoindex, sitemap, json or api, or sync from a list or bucket"
            )
        for name, value in (self.headers or {}).items():
            if _COLUMN.search(value):
                raise UsageError(
                    f"header {name}: contains a column placeholder, which sync does not fill in; give a fixed value"
                )

    def _check_format(self) -> None:
        if self.format == "null":
            raise UsageError("sync cannot use format null, which discards objects; choose another format")
        for name in ("check_local", "overwrite_local"):
            if self.format != "files" and getattr(self, name):
                raise UsageError(f"{name} needs format files, not {self.format}; leave it out", options=[name])

    @property
    def source_kind(self) -> SourceKind:
        """The kind of source, derived from its text."""
        return kind_of(str(self.source))

    @property
    def filters(self) -> str:
        """The options that determine the objects in DEST, their names and their format, as comparable text."""
        given = {name: value for name, value in self._given().items() if name in _LASTING}
        for name in ("modified_from", "modified_to"):
            if name in given:
                given[name] = seconds_of(given[name])
        return json.dumps(given, sort_keys=True)

    def list_json(self, manifest: str, *, is_iterable: bool = False) -> str:
        """Return the native module's options for the job that lists the source into a manifest.

        Args:
            manifest: the file for the rows.
            is_iterable: whether the targets come from an iterable.

        Raises:
            UsageError: the origin for the credentials is unknown, or ~/.netrc does not contain it.
        """
        options = self._of(ListOptions)
        options.pop("format", None)  # for a list, this is the format of its rows
        values = json.loads(ListOptions(source=self.source, manifest=manifest, **options).to_json())
        return json.dumps(values | ({"source_kind": "iterable"} if is_iterable else {}))

    def get_json(
        self, requests: str, dest: str, next_numbers: Mapping[str, Any] | None, *, is_iterable: bool = False
    ) -> str:
        """Return the native module's options for the job that fetches new and changed objects.

        Args:
            requests: a manifest with one row per request.
            dest: the folder for fetched objects.
            next_numbers: the numbers of the next shards, after all existing ones; None for the format `files`.
            is_iterable: whether the targets come from an iterable.

        Raises:
            UsageError: the origin for the credentials is unknown, or ~/.netrc does not contain it.
        """
        values = json.loads(self._for_get(requests, dest, is_iterable=is_iterable).to_json())
        if self.listing == "json":
            values["named_origin"] = origin_of(str(self.source))
        return json.dumps(values | ({"pass": dict(next_numbers)} if next_numbers else {}))

    def _for_get(self, requests: str, dest: str, *, is_iterable: bool) -> GetOptions:
        values = self._of(GetOptions)
        for name in _OF_LISTING:
            values.pop(name, None)
        is_open = leads_anywhere(self, self.source_kind)
        if not is_open:
            values["redirects"] = self.redirects or 0
        if not is_open or is_iterable:
            # The URLs come from the origin that the user named, or from the calling program.
            values["allow_private"] = not self.public_only
        if self.source_kind == "server":
            values["credentials_for"] = self.credentials_for or origin_of(str(self.source))
        if self.source_kind != "s3":
            values["headers"] = {**(self.headers or {}), **_CONDITIONS}
        return GetOptions(source=requests, dest=dest, server_times=True, **values)

    def _given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        options = {option.name: option.default for option in fields(self) if option.metadata}
        return {name: getattr(self, name) for name, default in options.items() if getattr(self, name) != default}

    def _of(self, table: type[Options]) -> dict[str, Any]:
        """Return the given options that also exist in another options class."""
        known = {option.name for option in fields(table) if option.metadata}
        return {name: value for name, value in self._given().items() if name in known}


def lasting_source(source: str | os.PathLike[str]) -> str:
    """Return a source in the form stored in a destination, where the path of a list is absolute."""
    text = os.fspath(source)
    return str(Path(text).absolute()) if kind_of(text) == "list" and text not in ("", "-") else text


def allowed_removals(max_delete: int | str, objects: int) -> int:
    """Return how many of the `objects` a pass is allowed to remove.

    Raises:
        UsageError: `max_delete` is neither a number nor a percentage.
    """
    text = str(max_delete).strip()
    share = text.removesuffix("%")
    try:
        value = Decimal(share)
        is_known = value.is_finite() and value >= 0 and (share != text or value == int(value))
    except InvalidOperation:
        is_known = False
    if not is_known:
        raise UsageError(
            f"max_delete must be a number of objects, or a percentage such as '10%', not {max_delete!r}",
            options=["max_delete"],
        )
    return int(value * objects / _PERCENT) if share != text else int(value)
