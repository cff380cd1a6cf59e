"""`get` and `resume`: run a job in one blocking call."""

import warnings
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, cast

from fetchmill._job.async_input import close_iterator, from_async
from fetchmill._job.first_target import list_first_target, take_first_item
from fetchmill._job.other_job import is_solved_by_restart
from fetchmill._job.progress import ProgressChoice, shown
from fetchmill._job.report import Report
from fetchmill._job.run import run_to_end
from fetchmill._job.stored_command import job_json, read_command
from fetchmill._job.tables import ArrowTable, take_table
from fetchmill._job.with_dashboard import JobDashboard
from fetchmill._native import Job, Request
from fetchmill._options.file_names import refuse_file_name
from fetchmill._options.get import GetOptions
from fetchmill._options.keywords import GetKeywords
from fetchmill._options.shared_parts import refuse_part_of_shared_job
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill.engines.engine_job import EngineJob


# A URL or request, optionally with the name of its object. None is a failed target.
GetItem = str | Request | tuple[str, str] | tuple[Request, str] | None
# The user's `fetch`, `on_start` and `on_done`.
OwnFunctions = tuple[Callable[..., Any] | None, Callable[[], Any] | None, Callable[[Any], object] | None]


def get(
    source: str | PathLike[str] | Iterable[GetItem] | AsyncIterable[GetItem] | ArrowTable,
    dest: str | PathLike[str],
    *,
    fetch: Callable[..., Any] | None = None,
    on_start: Callable[[], Any] | None = None,
    on_done: Callable[[Any], object] | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[GetKeywords],
) -> Report:
    """Fetch all objects from a source into a destination. Resume a job that an earlier call began.

    The call blocks until the job has ended, and releases the GIL while it waits. On KeyboardInterrupt (or any other
    exception that a signal handler raises), requests in flight are drained for up to 5 s. Then a checkpoint is written
    and the exception is raised. A second interrupt ends the job immediately. In both cases, repeating the call resumes
    the job.

    Args:
        source: the source of the targets, one of:

            - `http://host:port[/path]` or `https://...`: a server that lists its objects.
            - `s3://bucket[/prefix]`: a bucket.
            - The path of a list of URLs. A folder or a glob of list files is one list.
            - An iterable or async iterable, possibly endless. An item is a URL, a `fetchmill.Request`, either of these
              paired with a name, or `None` for a failed target. Items are read ahead on a separate thread, up to a
              limit. To resume a job, the iterable must yield the same items in the same order. Finished items are
              skipped, and a different item stops the job.
            - An Arrow table or stream, or a Polars or pandas data frame. `column` (default `url`) names the column with
              the URLs, and `key_column` the column with the names.
        dest: the destination: a folder that is missing, is empty or belongs to the same job; or `s3://BUCKET/PREFIX/`,
            which accepts only shards. The job's state is then in `./NAME.fetchmill`, or in `state`.
        fetch: your own function to use instead of fetchmill's requests. It requires an `engine` written in Python.
            `fetch(target)` returns the bytes of an object, or a reply: an object with `status` and `body`, or a
            `requests.Response`. A target has the members `url`, `name`, `sequence`, `attempt` and `headers()`. It need
            not be a URL. For `asyncio` and `combo`, `fetch` must be a coroutine function; for `processes` and `combo`,
            a module-level function. If `fetch` raises, the target fails with the kind `function` and is retried as
            after any other failure.
        on_start: called once by each worker (a thread, a process or an event loop). Its return value becomes the second
            argument of `fetch`. It can be a coroutine function if `fetch` is one.
        on_done: called once by each worker when it ends, with the return value of `on_start` (None without `on_start`).
        progress: True shows the progress on standard error, or below the notebook cell. A function is called with a
            `Snapshot` four times a second and at the end; if it raises, the job ends after a checkpoint. None, the
            default, means True in a notebook and False elsewhere.
        **options: the fields of `GetOptions`, which documents their units and defaults.

    Returns:
        The ledger, which also counts absent and failed targets. These do not raise an exception.

    Raises:
        UsageError: an option is invalid, or the destination already contains something else; nothing was changed.
        ListingError: the listing failed, is incomplete or never ends.
        TemporaryError: no request to the origin succeeded for `give_up_after` seconds.
        SecurityError: the listing led to another origin, or the certificate of the only server is not trusted.
        Exception: any exception that the iterable, `on_start` or `on_done` raises, after a checkpoint.
        StorageError: the local storage failed.
        BusyError: another process is running this job.
        JournalError: the journal and the output contradict each other.

    Example:
        >>> report = fetchmill.get("http://127.0.0.1:8080", "out/", concurrency=128)  # doctest: +SKIP
        >>> report.listed == report.fetched + report.absent + report.failed + report.skipped  # doctest: +SKIP
        True
    """
    own = (fetch, on_start, on_done)
    if isinstance(source, (str, PathLike)):
        checked = GetOptions(source=source, dest=dest, **options)
        # A function cannot be stored, and `resume` must not fetch without it. If the source is not stored either,
        # `resume` refuses the job.
        lacking = ["source"] if fetch is not None else []
        with _suggesting_restart(checked):
            return _run(checked, job_json(checked, lacking=lacking), own, None, progress)
    rows, given = take_table(source, options)
    checked = GetOptions(source="an iterable", dest=dest, **cast("GetKeywords", given))
    iterator: Iterator[Any] = from_async(rows) if isinstance(rows, AsyncIterable) else iter(rows)
    refusal = _refusal_of_requests(checked)
    if refusal is not None:
        iterator = _without_requests(iterator, refusal)
    try:
        with _suggesting_restart(checked):
            return _run(checked, job_json(checked, "iterable", ["source"]), own, iterator, progress)
    finally:
        close_iterator(iterator)


def resume(dest: str | PathLike[str], *, progress: ProgressChoice = None, **options: Unpack[GetKeywords]) -> Report:
    """Resume the job of a destination with its original options.

    The journal stores these options, but no secrets and no code. If the job was started with secrets or functions, pass
    them again. If the targets come from standard input or an iterable, call `get` again instead.

    Args:
        dest: the destination of the job.
        progress: as for `get`.
        **options: fields of `GetOptions` that replace the stored ones for this run, such as `bearer` and
            `concurrency`. `retry_failed` tries failed and absent targets again. If the job was started with `state`,
            pass it again.

    Returns:
        The ledger of the whole job, as from `get`.

    Raises:
        UsageError: there is no job, or a value that is never stored is missing.
        SecurityError: the journal contains values that fetchmill never writes; nothing was changed.
        FetchmillError: any error that ends `get`.

    Example:
        >>> fetchmill.resume("out/", retry_failed=["5xx", "dns*"])  # doctest: +SKIP
    """
    checked = read_command(dest, options.get("state")).options_for(dest, options)
    return _run(checked, job_json(checked), (None, None, None), None, progress)


@contextmanager
def _suggesting_restart(options: GetOptions) -> Iterator[None]:
    """Add a hint to the error for a destination that belongs to another job."""
    try:
        yield
    except UsageError as error:
        if is_solved_by_restart(error, options):
            error.hint = "to remove that job's files and start over, pass restart=True"
        raise


def _run(
    options: GetOptions,
    native: str,
    own: OwnFunctions,
    iterator: Iterator[Any] | None,
    progress: ProgressChoice,
) -> Report:
    """Run the job until it ends, with a dashboard if one was requested."""
    refuse_part_of_shared_job(options.dest)
    refuse_file_name(options.dest, options.state)
    if iterator is not None:
        iterator = take_first_item(options, iterator)
    elif own[0] is None:
        list_first_target(options)
    with JobDashboard("get", options) as dashboard, shown(progress) as show:
        start = _make_start(options, native, own, iterator)
        return Report.from_native(run_to_end(lambda: dashboard.show_in_program(start()), show))


def _refusal_of_requests(options: GetOptions) -> str | None:
    """Return the reason why items cannot be `fetchmill.Request` objects; None if they can."""
    if options.engine != "native":
        return f"engine {options.engine} accepts only URLs; use engine native for a fetchmill.Request"
    if options.format == "warc":
        return "format warc stores only GET requests; use parquet, jsonl, tar or files for a fetchmill.Request"
    return None


def _without_requests(iterator: Iterator[Any], refusal: str) -> Iterator[Any]:
    """Yield the items. Raise UsageError at the first `fetchmill.Request`."""
    try:
        for item in iterator:
            if isinstance(item[0] if isinstance(item, tuple) else item, Request):
                raise UsageError(refusal)
            yield item
    finally:
        close_iterator(iterator)


def _make_start(
    options: GetOptions, native: str, own: OwnFunctions, iterator: Iterator[Any] | None
) -> "Callable[[], Job | EngineJob]":
    """Return a function that starts the job, and also the job's engine if the engine is written in Python."""
    fetch, on_start, on_done = own
    if fetch is None and (on_start or on_done):
        raise UsageError("on_start and on_done need a fetch function")
    if options.engine == "native":
        if fetch is not None:
            raise UsageError("fetch needs a Python engine: engine='threads', or 'asyncio' for a coroutine function")
        return lambda: Job(native, iterator)
    from fetchmill.engines.function_transport import UserFunction
    from fetchmill.engines.selection import select_engine

    engine = select_engine(options, native, None if fetch is None else UserFunction(fetch, on_start, on_done))
    for notice in engine.notices:
        warnings.warn(notice, stacklevel=4)
    return lambda: engine.start(Job(engine.options, iterator))
