"""The command of a job, stored in its journal for `resume`: the given options, without secrets or code.

A destination may be untrusted. A stored command therefore never names code, files with credentials, or places to write
to. The caller must pass these again.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from fetchmill._native import hide_secrets, job_command
from fetchmill._options.get import GetOptions, with_current_names
from fetchmill._options.rows import Options
from fetchmill._options.secrets import OPEN_FIELDS, PRIVATE, SECRETS, is_given
from fetchmill._options.shared_parts import refuse_part_of_shared_job
from fetchmill._options.sources import SourceKind, kind_of
from fetchmill.errors import SecurityError, UsageError

# Options that concern only one run or process: where it writes and what it shows.
_OF_A_RUN = (
    *("source", "dest", "state", "restart", "retry_failed", "dry_run", "limit", "first"),
    *("dashboard", "dashboard_addr", "dashboard_token", "dashboard_host"),
)
_NEVER = (*SECRETS, *PRIVATE, *_OF_A_RUN)


class StoredCommand(NamedTuple):
    """The stored command of a job.

    Attributes:
        source: the source of the targets, as an absolute path if it is a list; None if it cannot be stored.
        options: the given options.
        lacking: names of options that were given but are not stored.
    """

    source: str | None
    options: Mapping[str, Any]
    lacking: tuple[str, ...]

    def options_for(self, dest: str | os.PathLike[str], given: Mapping[str, Any]) -> GetOptions:
        """Return the options for a run that resumes the job.

        Args:
            dest: the destination of the job.
            given: options of this run, by name.

        Raises:
            UsageError: the source, or an option that is never stored, is missing.
        """
        if self.source is None:
            raise UsageError(
                f"{os.fspath(dest)}: cannot resume from the journal, because it does not store targets from standard "
                "input, a program or a URL with a secret",
                hint="run the same command or program again to resume",
            )
        missing = [name for name in self.lacking if not is_given(given, name)]
        if missing:
            raise UsageError(
                f"{os.fspath(dest)}: the job for {self.source!r} was started with {', '.join(missing)}, but "
                "secrets and code are never stored",
                hint=f"add {', '.join(_written(name) for name in missing)}",
            )
        headers = {**self.options.get("headers", {}), **(given.get("headers") or {})}
        merged = {**self.options, **given} | ({"headers": headers} if headers else {})
        return GetOptions(source=self.source, dest=dest, **merged)


def command_text(options: Options, lacking: Sequence[str] = ()) -> str:
    """Return the command of a job as text for its journal.

    Args:
        options: the options of the job.
        lacking: names of other arguments that are not stored, such as a program's functions.
    """
    stored, missing = {}, [*lacking]
    for option in fields(options):
        value = getattr(options, option.name)
        if not option.metadata or value == option.default or option.name in _OF_A_RUN:
            continue
        if option.name == "headers":
            missing += [f"header {name}" for name in value if name.lower() not in OPEN_FIELDS]
            value = {name: text for name, text in value.items() if name.lower() in OPEN_FIELDS}
        elif option.name in _NEVER or _has_secret(value):
            missing.append(option.name)
            continue
        elif option.metadata["kind"] == "path":
            value = str(Path(value).absolute())
        if value != {}:
            stored[option.name] = value
    source = None if "source" in lacking else _lasting_source(str(options.source))
    command = {"command": "get", "source": source, "options": stored, "lacking": missing}
    return json.dumps(command, default=str, sort_keys=True)


def job_json(options: GetOptions, kind: SourceKind | None = None, lacking: Sequence[str] = ()) -> str:
    """Return the options of a job for the native module, including its stored command.

    Args:
        options: the options of the job.
        kind: the kind of source, if it is not evident from the text.
        lacking: as for `command_text`.

    Raises:
        UsageError: as for `GetOptions.to_json`.
    """
    return json.dumps(json.loads(options.to_json(kind)) | {"command": command_text(options, lacking)})


def read_command(dest: str | os.PathLike[str], state: str | os.PathLike[str] | None) -> StoredCommand:
    """Read the stored command of a destination's job.

    Raises:
        UsageError: there is no job, its journal has no command, or it is a part of a shared job.
        SecurityError: the journal contains values that fetchmill never writes.
        JournalError: the journal cannot be read.
    """
    shown = os.fspath(dest)
    refuse_part_of_shared_job(dest)
    text = job_command(shown, None if state is None else os.fspath(state))
    if text is None:
        raise UsageError(
            f"{shown}: the journal does not contain the job's command",
            hint="run the same command or program again to resume",
        )
    try:
        values = json.loads(text)
        is_get = values["command"] == "get"
        options = with_current_names(dict(values["options"]))
        command = StoredCommand(values["source"], options, tuple(map(str, values["lacking"])))
    except (ValueError, KeyError, TypeError):
        raise SecurityError(f"{shown}: the command in the journal is damaged; do not use this journal") from None
    known = {option.name for option in fields(GetOptions) if option.metadata}
    wrong = [name for name in command.options if name not in known or name in _NEVER]
    wrong += [name for name in command.options.get("headers", {}) if name.lower() not in OPEN_FIELDS]
    wrong += [] if is_get else ["another command"]
    if wrong or not isinstance(command.source, str | None):
        raise SecurityError(
            f"{shown}: the journal contains {wrong[0] if wrong else 'an invalid source'}, which fetchmill never writes"
        )
    return command


def _lasting_source(source: str) -> str | None:
    """Return a source that does not depend on the working folder; None if it cannot be stored."""
    if source == "-" or hide_secrets(source) != source:
        return None
    return str(Path(source).absolute()) if kind_of(source) == "list" else source


def _has_secret(value: object) -> bool:
    """Return whether a value is text that contains a URL with a token or a password."""
    return isinstance(value, str) and hide_secrets(value) != value


def _written(name: str) -> str:
    """Return a missing option as it is written on the command line."""
    kind, _, field = name.partition(" ")
    return f"--header '{field}: ...'" if kind == "header" else f"--{name.replace('_', '-')}"
