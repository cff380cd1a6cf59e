"""Recognizes the error for a destination that belongs to another job."""

from fetchmill._options.get import GetOptions
from fetchmill._options.sources import is_bucket
from fetchmill.errors import UsageError

# A phrase that this error contains.
_OF_ANOTHER_JOB = "belongs to another job"


def is_solved_by_restart(error: UsageError, options: GetOptions) -> bool:
    """Return whether the option `restart` would remove the other job. Objects in a bucket are never removed."""
    is_refused = is_bucket(str(options.dest)) or bool(options.retry_failed)
    return _OF_ANOTHER_JOB in str(error) and not is_refused
