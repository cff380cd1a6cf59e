"""A hint for users who stored a single page of a JSON API but probably wanted the items on all pages."""

import json
from typing import Any

from fetchmill._job.report import Report
from fetchmill._options.get import GetOptions
from fetchmill._options.sources import is_bucket
from fetchmill.cli.streams import escape
from fetchmill.errors import FetchmillError

# Maximum size of an object that is read again.
_BYTES_MAX = 1 << 20
# Fields that lead to the next page in common APIs.
_NEXT_FIELDS = (
    *("next", "next_page", "next_url", "next_link", "next_cursor", "next_page_token", "next_token"),
    *("nextPage", "nextUrl", "nextLink", "nextCursor", "nextPageToken", "nextToken", "@odata.nextLink"),
)


def json_page_lines(report: Report, options: GetOptions) -> list[str]:
    """Return a line if the only object is a JSON page with a link to the next page."""
    is_one = report.listed == report.fetched == 1 and report.bytes <= _BYTES_MAX
    is_readable = options.format != "null" and not is_bucket(str(options.dest))
    if not (is_one and is_readable and options.source_kind == "server" and options.listing == "auto"):
        return []
    field = _next_field(_only_body(options))
    if field is None:
        return []
    line = (
        f"the object is a JSON page with an array and the field {escape(field)}; to fetch its items, use --listing json"
    )
    return [f"{line} and another destination (see fetchmill help listings)"]


def _only_body(options: GetOptions) -> bytes:
    """Return the stored object, or b"" if it cannot be read."""
    from fetchmill._destination import objects as destination

    try:
        with destination.open(options.dest, state=options.state) as objects:
            return next(iter(objects.values()), b"")
    except FetchmillError:
        return b""


def _next_field(body: bytes) -> str | None:
    """Return the field that leads to the next page, if the body is a page that contains an array."""
    try:
        page: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(page, dict) or not any(isinstance(value, list) for value in page.values()):
        return None
    return next((name for name in _NEXT_FIELDS if isinstance(page.get(name), str) and page[name]), None)
