"""A job as one blocking call."""

import warnings
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, cast

from fetchmill._job.async_input import close_iterator, from_async
from fetchmill._job.progress import ProgressChoice, shown
from fetchmill._job.report import Report
from fetchmill._job.run import run_to_end
from fetchmill._job.stored_command import job_json, read_command
from fetchmill._job.tables import ArrowTable, take_table
from fetchmill._job.with_dashboard import JobDashboard
from fetchmill._native import Job, Request
from fetchmill._options.get import GetOptions
from fetchmill._options.keywords import GetKeywords
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill.engines.engine_job import EngineJob


# What is asked for, or that and the name of its object.
GetItem = str | Request | tuple[str, str] | tuple[Request, str] | None
# What fetches in our place, and what each worker begins and ends with.
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
    """Fetches every object that a source lists into a destination; resumes what an earlier call began.

    Blocks until the job has ended and releases the GIL meanwhile. On KeyboardInterrupt (or any other exception that a
    signal handler raises) the requests in flight are drained, at most 5 s, a checkpoint is written, and the exception
    goes on; a second one ends the job at once. Either way the same call resumes.

    Args:
        source: where targets come from: `http://host:port[/path]` or the same with https for a server that lists its
            objects; `s3://bucket[/prefix]` for a bucket; the path of a list of URLs; or any iterable or async iterable
            of URLs or `fetchmill.Request`, or of pairs of one of these and a name, a generator without end included. It
            is read on a thread of its own, as far ahead as there is room. To resume, it must give the same items in the
            same order: those that are done are skipped, and what differs stops the job. `None` is a failed target. A
            folder or a glob of list files is one list. Of an Arrow table or stream and of a frame of Polars or pandas,
            `column` (default `url`) has the URLs and `key_column` the names.
        dest: the destination: a folder that is missing, empty or the same job's; or `s3://BUCKET/PREFIX/`, which takes
            shards: what the job knows is then in `./NAME.fetchmill`, or in `state`.
        fetch: your own function instead of requests of ours, with an `engine` in Python: `fetch(target)` gives the
            bytes of an object, or a reply (an object with `status` and `body`, or a Response of requests). A target has
            `url`, `name`, `sequence`, `attempt` and `headers()`. For `asyncio` and `combo` it is a coroutine function;
            for `processes` and `combo` a function of a module. What is no URL may be a target, too. An exception is a
            failure of kind `function`, and tried again like others.
        on_start: called once by each worker (a thread, a process, an event loop); what it gives is passed as
            `fetch(target, it)`. It may be a coroutine function where `fetch` is one.
        on_done: called once by each worker at its end, with what `on_start` gave (None without one).
        progress: True shows how the job is getting on, on standard error or below the cell of a notebook; a function is
            called with a `Snapshot` four times a second and at the end, and what it raises ends the job after a
            checkpoint. None, the default, is True in a notebook and False elsewhere.
        **options: the fields of `GetOptions`, which has their units and defaults.

    Returns:
        The ledger. Absent and failed targets are counted there: they raise nothing.

    Raises:
        UsageError: an option cannot be used, or the destination belongs to something else; nothing was touched.
        ListingError: the listing failed, is incomplete or never ends.
        TemporaryError: the origin gave no success for `give_up_after` seconds.
        SecurityError: the listing led to another origin, or the only server's certificate is not to be trusted.
        Exception: whatever the iterable, `on_start` or `on_done` raises, after a checkpoint.
        StorageError: the local storage failed.
        BusyError: another process runs this job.
        JournalError: the journal or the output contradict each other.

    Example:
        >>> report = fetchmill.get("http://127.0.0.1:8080", "out/", concurrency=128)  # doctest: +SKIP
        >>> report.listed == report.fetched + report.absent + report.failed + report.skipped  # doctest: +SKIP
        True
    """
    own = (fetch, on_start, on_done)
    if isinstance(source, (str, PathLike)):
        checked = GetOptions(source=source, dest=dest, **options)
        # A function cannot be stored, so neither can where objects come from.
        lacking = ["source"] if fetch is not None else []
        return _run(checked, job_json(checked, lacking=lacking), own, None, progress)
    rows, given = take_table(source, options)
    checked = GetOptions(source="an iterable", dest=dest, **cast("GetKeywords", given))
    iterator: Iterator[Any] = from_async(rows) if isinstance(rows, AsyncIterable) else iter(rows)
    refusal = _refusal_of_requests(checked)
    if refusal is not None:
        iterator = _without_requests(iterator, refusal)
    try:
        return _run(checked, job_json(checked, "iterable", ["source"]), own, iterator, progress)
    finally:
        close_iterator(iterator)


def resume(dest: str | PathLike[str], *, progress: ProgressChoice = None, **options: Unpack[GetKeywords]) -> Report:
    """Resumes the job of a destination with the options that it was started with.

    The journal has these options, but neither secrets nor code: what the job was started with of that must be given
    again. A job whose targets come from standard input or from an iterable is resumed by the same call of `get`.

    Args:
        dest: the destination of the job.
        progress: as for `get`.
        **options: fields of `GetOptions` that this run has in place of the stored ones, such as `bearer`,
            `concurrency`, and `retry_failed`, which tries failed and absent targets again. `state` is given again
            if the job was started with it.

    Returns:
        The ledger of the whole job, as from `get`.

    Raises:
        UsageError: there is no job, or something is missing that is never stored.
        SecurityError: the journal is none of ours; nothing was touched.
        FetchmillError: whatever ends `get`.

    Example:
        >>> fetchmill.resume("out/", retry_failed=["5xx", "dns*"])  # doctest: +SKIP
    """
    checked = read_command(dest, options.get("state")).options_for(dest, options)
    return _run(checked, job_json(checked), (None, None, None), None, progress)


def _run(
    options: GetOptions,
    native: str,
    own: OwnFunctions,
    iterator: Iterator[Any] | None,
    progress: ProgressChoice,
) -> Report:
    """The job from its start to its end, with its dashboard if it has one."""
    with JobDashboard("get", options) as dashboard, shown(progress) as show:
        start = _make_start(options, native, own, iterator)
        return Report.from_native(run_to_end(lambda: dashboard.show_in_program(start()), show))


def _refusal_of_requests(options: GetOptions) -> str | None:
    """Why the items cannot be requests of their own; None when they can."""
    if options.engine != "native":
        return f"engine {options.engine} takes URLs only: a fetchmill.Request needs engine native"
    if options.format == "warc":
        return "format warc stores GET requests only: a fetchmill.Request needs parquet, jsonl, tar or files"
    return None


def _without_requests(iterator: Iterator[Any], refusal: str) -> Iterator[Any]:
    """The same items, or an error."""
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
    """What starts the job, and the engine beside it if that is one in Python."""
    fetch, on_start, on_done = own
    if fetch is None and (on_start or on_done):
        raise UsageError("on_start and on_done are for a fetch of your own")
    if options.engine == "native":
        if fetch is not None:
            raise UsageError("fetch needs an engine in Python: engine='threads', or 'asyncio' for a coroutine function")
        return lambda: Job(native, iterator)
    from fetchmill.engines.function_transport import UserFunction
    from fetchmill.engines.selection import select_engine

    engine = select_engine(options, native, None if fetch is None else UserFunction(fetch, on_start, on_done))
    for notice in engine.notices:
        warnings.warn(notice, stacklevel=4)
    return lambda: engine.start(Job(engine.options, iterator))
