"""Options whose values are secrets, or code: they are never stored."""

from collections.abc import Mapping
from typing import Any

# Fields of requests that say nothing secret; the values of others are never stored.
OPEN_FIELDS = ("accept", "accept-language", "user-agent")
# Options whose values may be secrets, or commands that a destination must not make anybody run.
SECRETS = ("auth", "bearer", "bearer_command", "netrc", "proxy")
# Code, files with credentials, and who gets credentials or is trusted: a destination that comes from elsewhere must not
# name them.
PRIVATE = ("transform", "client_cert", "client_key", "cookies", "sse_c_key_file", "endpoint_url", "insecure_host")


def is_given(own: Mapping[str, Any], name: str) -> bool:
    """Whether a process has what must be given to it: an option, or `header NAME`."""
    kind, _, field = name.partition(" ")
    if kind == "header":
        return field.lower() in (given.lower() for given in own.get("headers") or {})
    return own.get(kind) not in (None, False)
