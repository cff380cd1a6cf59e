"""Secret and dangerous options, which a destination must not store or set."""

from collections.abc import Mapping
from typing import Any

# Header fields whose values are not secret. The values of all other fields are never stored.
OPEN_FIELDS = ("accept", "accept-language", "user-agent")
# Options whose values may be secrets or commands. A destination must never cause someone to run a command.
SECRETS = ("auth", "bearer", "bearer_command", "netrc", "proxy")
# Options that name code, files with credentials, or hosts that receive credentials or are trusted. A destination that
# comes from elsewhere must not set them.
PRIVATE = ("transform", "client_cert", "client_key", "cookies", "sse_c_key_file", "endpoint_url", "insecure_host")


def is_given(own: Mapping[str, Any], name: str) -> bool:
    """Return whether this process was given a required secret: an option, or a header as `header NAME`."""
    kind, _, field = name.partition(" ")
    if kind == "header":
        return field.lower() in (given.lower() for given in own.get("headers") or {})
    return own.get(kind) not in (None, False)
