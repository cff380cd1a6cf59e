"""Parses the head of a dashboard request strictly. Everything after the head is ignored."""

import re
from dataclasses import dataclass

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t]*)")


class HeadError(Exception):
    """An invalid head."""


@dataclass(frozen=True)
class RequestHead:
    """The head of a request.

    Args:
        method: the method in upper case.
        path: the path without the query.
        query: the part after the question mark.
        host: the Host field.
        authorization: the Authorization field, if present.
    """

    method: str
    path: str
    query: str
    host: str
    authorization: str | None


def parse_head(head: bytes) -> RequestHead:
    """Parse a head from which the final empty line has been removed.

    Raises:
        HeadError: the head is not HTTP/1, is not ASCII, or does not contain exactly one Host field.
    """
    first, *lines = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise HeadError
    path, _, query = match[2].decode().partition("?")
    fields: dict[str, list[str]] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise HeadError
        fields.setdefault(found[1].decode().lower(), []).append(found[2].decode().strip())
    hosts, authorizations = fields.get("host", []), fields.get("authorization", [])
    if len(hosts) != 1 or len(authorizations) > 1:
        raise HeadError
    return RequestHead(match[1].decode(), path, query, hosts[0], authorizations[0] if authorizations else None)
