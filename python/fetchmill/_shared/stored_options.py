"""The options of a shared job: those stored in its directory, and those that each process sets for itself."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fetchmill._options.get import GetOptions
from fetchmill._options.list import ListOptions
from fetchmill._options.secrets import OPEN_FIELDS, SECRETS
from fetchmill._options.sources import BUCKET_REACH, kind_of, names_not_for
from fetchmill._shared.store import is_bucket
from fetchmill.errors import SecurityError

# The format of the list that is created from a source.
LISTED_FORMAT = "jsonl"
# Options that a process may choose, such as its number of threads.
_CHOSEN = ("threads", "concurrency", "concurrency_max")
# Options of a single process, such as its folders and its dashboard. They are not part of the job.
_OF_A_PROCESS = (
    *("source", "dest", "state", "dashboard", "dashboard_addr", "dashboard_token", "dashboard_host", "limit"),
    *_CHOSEN,
)
# Connections to a job directory's bucket also use these options.
_CONNECTIONS = ("ca_file", "proxy")
# Paths of files that each worker reads. They are stored as absolute paths, because workers run in different folders.
_PATHS = ("ca_file", "client_cert", "client_key", "cookies", "sse_c_key_file")
# Options that select objects while a source is listed. They are not applied again to the resulting list.
_FILTERS = ("include", "exclude")
# Options that provide credentials for a source.
_CREDENTIALS = ("auth", "bearer", "bearer_command", "netrc", "client_cert", "client_key")
# Options that have a different meaning for a list of rows.
_OF_ROWS = ("format",)


def shared_options(options: GetOptions) -> dict[str, Any]:
    """Return the options to store in the job directory: those that differ from their defaults, without secrets."""
    own = _never_stored(options.dest)
    values = {
        option.name: _stored(option.name, getattr(options, option.name))
        for option in fields(options)
        if option.metadata and option.name not in own and getattr(options, option.name) != option.default
    }
    if "headers" in values:
        kept = {name: value for name, value in values["headers"].items() if name.lower() in OPEN_FIELDS}
        values["headers"] = kept
    return {name: value for name, value in values.items() if value != {}}


def own_values(options: GetOptions) -> dict[str, Any]:
    """Return the options that apply to this process alone, such as secrets, access to a bucket, and `threads`."""
    names = (*SECRETS, *BUCKET_REACH, "state", *_CHOSEN)
    defaults = {option.name: option.default for option in fields(options)}
    own = {name: getattr(options, name) for name in names if getattr(options, name) != defaults[name]}
    return own | ({"headers": dict(options.headers)} if options.headers else {})


def reach_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a process that are needed to connect to a job directory's bucket."""
    return {name: own[name] for name in (*BUCKET_REACH, *_CONNECTIONS) if own.get(name) is not None}


def with_own(stored: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored options of a job together with those of this process."""
    headers = {**stored.get("headers", {}), **own.get("headers", {})}
    return {**stored, **own, **({"headers": headers} if headers else {})}


def secrets_of(options: GetOptions) -> tuple[str, ...]:
    """Return the names of the secrets that must be passed to each worker."""
    named = [name for name in SECRETS if getattr(options, name) not in (None, False)]
    return (*named, *(f"header {name}" for name in options.headers or () if name.lower() not in OPEN_FIELDS))


def check_stored(place: str, dest: str, stored: Mapping[str, Any], refused: tuple[str, ...] = ()) -> None:
    """Refuse options that fetchmill never stores, such as commands and secrets. Anyone may have created the file.

    Args:
        place: the file with the options, for messages.
        dest: the job directory.
        stored: the options in the file.
        refused: options that no shared job can have.

    Raises:
        SecurityError: the file contains such an option.
    """
    known = {option.name for option in fields(GetOptions) if option.metadata}
    # A job in a bucket must not choose the endpoint either, because the endpoint receives the bucket's credentials.
    never = (*_never_stored(dest), *refused)
    wrong = [name for name in stored if name not in known or name in never]
    wrong += [name for name in stored.get("headers", {}) if name.lower() not in OPEN_FIELDS]
    if wrong:
        raise SecurityError(
            f"{place} contains {wrong[0]}, which fetchmill never stores there; do not use this job directory"
        )


# The list that is created from a source.


def options_of_listed(options: GetOptions) -> GetOptions:
    """Return a job's options for fetching the objects listed by its source.

    Args:
        options: options of a job whose source is a server or a bucket.
    """
    defaults = {option.name: option.default for option in fields(options)}
    reset = {name: defaults[name] for name in (*names_not_for("list"), *_FILTERS)}
    own: dict[str, Any] = {"source": f"list.{LISTED_FORMAT}"}
    if options.source_kind == "server" and options.listing != "json":
        # All URLs have the origin of the source, and the user named the source.
        own["allow_private"] = True
        if any(getattr(options, name) for name in _CREDENTIALS) or options.headers:
            own["credentials_for"] = options.credentials_for or _origin(str(options.source))
    return replace(options, **reset, **own)


def listing_options(options: GetOptions) -> dict[str, Any]:
    """Return the options for listing the source that are stored in the job directory."""
    never = (*_never_stored(options.dest), *_CREDENTIALS, "headers", *_OF_ROWS)
    names = {option.name for option in fields(ListOptions)}.difference(never)
    found = {
        option.name: _stored(option.name, getattr(options, option.name))
        for option in fields(options)
        if option.name in names and getattr(options, option.name) != option.default
    }
    return {name: json.loads(json.dumps(value)) for name, value in found.items() if value not in ({}, (), [])}


def list_options(source: str, listing: Mapping[str, Any], mine: Mapping[str, Any]) -> ListOptions:
    """Return the options with which this process lists a source.

    Args:
        source: the source, with its secrets.
        listing: the stored options for listing, from `listing_options`.
        mine: the options of the job together with those of this process.

    Raises:
        UsageError: an option is invalid.
    """
    names = {option.name for option in fields(ListOptions)}.difference(names_not_for(kind_of(source)))
    own = (*SECRETS, *_CREDENTIALS, *BUCKET_REACH, *_CHOSEN, "headers")
    values = {name: mine[name] for name in own if name in mine and name in names}
    return ListOptions(source=source, **{**values, **listing})


def _never_stored(dest: object) -> tuple[str, ...]:
    return (*_OF_A_PROCESS, *SECRETS, *(BUCKET_REACH if is_bucket(str(dest)) else ()))


def _stored(name: str, value: Any) -> Any:  # noqa: ANN401 - the value of any option
    return str(Path(value).absolute()) if name in _PATHS else value


def _origin(source: str) -> str:
    scheme, _, rest = source.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
