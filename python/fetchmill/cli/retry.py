"""`fetchmill retry`: retries the failed or absent targets of a job."""

from typing import Any

import click

from fetchmill.cli.options import TableCommand
from fetchmill.cli.parameter_types import ANSWERS
from fetchmill.cli.resuming import is_shared, output_options, resume_job, run_options
from fetchmill.cli.shared_jobs import given
from fetchmill.errors import UsageError

_EXAMPLES = """
fetchmill retry out/                               retry all of them
fetchmill retry out/ '5xx,dns*,reset'              retry some of them
fetchmill retry out/ 429 --rate 20                 slower than before
"""

_HELP = """Retry the failed and absent targets of the job in DEST. KINDS is a comma-separated list of failure kinds
(reset, 'dns*') or statuses (404, 5xx). Default: all. The job keeps its options; pass secrets such as --bearer again.

`fetchmill help exit-codes` explains all failure kinds. `fetchmill status DEST --failures` lists the job's failures. If
the job was interrupted, its remaining targets are also fetched. `fetchmill get SOURCE DEST --retry-failed[=KINDS]` does
the same. The default of each option below is the job's own value. See `fetchmill resume --help`.
"""
_EPILOG = """Exit codes: the same as for `fetchmill get`.
"""


def _run(dest: str, answers: Any, as_json: bool, quiet: bool, **own: Any) -> int:  # noqa: ANN401
    mine = given(own)
    if is_shared(dest, mine):
        raise UsageError(f"{dest} is a shared job; its ranges are final and cannot be retried")
    return resume_job(dest, mine | {"retry_failed": answers or True}, as_json=as_json, quiet=quiet)


command = TableCommand(
    "retry",
    callback=_run,
    help=_HELP,
    examples=_EXAMPLES,
    matters=("bearer", "headers", "concurrency", "rate", "state", "quiet"),
    epilog=_EPILOG,
    short_help="Retry failed and absent targets.",
    params=[
        click.Argument(["dest"], metavar="DEST", type=click.Path()),
        click.Argument(["answers"], metavar="[KINDS]", required=False, type=ANSWERS),
        *run_options("retry_failed", "restart"),
        *output_options(),
    ],
)
