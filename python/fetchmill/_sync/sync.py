"""The blocking call `sync`."""

import contextlib
import tempfile
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

from fetchmill._job.async_input import InputItem, close_iterator, from_async
from fetchmill._job.progress import ProgressChoice, Show, shown
from fetchmill._job.run import STEP_SECONDS, RunningJob, run_to_end
from fetchmill._job.tables import ArrowTable, take_table
from fetchmill._native import SyncStore
from fetchmill._options.file_names import refuse_file_name
from fetchmill._options.keywords import SyncKeywords
from fetchmill._options.shared_parts import refuse_part_of_shared_job
from fetchmill._options.sync import SyncOptions, lasting_source
from fetchmill._sync.pass_file import PassFolder
from fetchmill._sync.report import SyncPlan, SyncReport
from fetchmill._sync.state import STATE
from fetchmill._sync.sync_pass import Phase, Runner, SyncPass
from fetchmill.errors import StorageError, UsageError

T = TypeVar("T")


def sync(
    source: str | PathLike[str] | Iterable[InputItem | None] | AsyncIterable[InputItem | None] | ArrowTable,
    dest: str | PathLike[str],
    *,
    dry_run: bool = False,
    progress: ProgressChoice = None,
    **options: Unpack[SyncKeywords],
) -> SyncReport:
    """Synchronize a folder with its source: fetch new and changed objects and, with `delete`, remove missing ones.

    One call runs one pass, or the rest of an earlier call's unfinished pass. It blocks until the pass ends, and
    releases the GIL while it waits. If the process is killed, each object is either completely old or completely new,
    and repeating the call continues the pass. On KeyboardInterrupt (or any other exception that a signal handler
    raises), a checkpoint is written and the exception is raised.

    Args:
        source: a server that lists its objects, a bucket, the path of a list, or an iterable, as for `get`. Each pass
            lists the source again.
        dest: the folder. It must be missing, empty, or left by an earlier sync of the same source or by a finished
            `fetchmill.get` with the same format.
        dry_run: only list and compare. The report contains the plan, and `dest` is not changed.
        progress: as for `fetchmill.get`. A pass first lists, then fetches.
        **options: the fields of `SyncOptions`, which documents their units and defaults.

    Returns:
        The ledger, which also counts absent and failed objects. These do not raise an exception. The next pass tries
        them again.

    Raises:
        UsageError: an option is invalid, or the destination is synced from another source; nothing was changed.
        DeleteLimitError: more objects would be removed than `max_delete` allows; nothing was changed.
        ListingError: the listing failed, is incomplete or never ends.
        TemporaryError: no request to the origin succeeded for `give_up_after` seconds.
        SecurityError: the listing led to another origin, or the certificate of the only server is not trusted.
        StorageError: the local storage failed.
        BusyError: another process is syncing this folder.
        JournalError: the state of the folder is damaged.

    Example:
        >>> report = fetchmill.sync("http://127.0.0.1:8080", "mirror/", delete=True)  # doctest: +SKIP
        >>> print(report.fetched, "fetched,", report.removed, "removed")  # doctest: +SKIP
    """
    with shown(progress) as show:
        runner = _ProgramRunner(show)
        if isinstance(source, (str, PathLike)):
            checked = SyncOptions(source=lasting_source(source), dest=dest, **options)
            return run_pass(checked, runner, dry_run=dry_run)
        rows, given = take_table(source, options)
        checked = SyncOptions(source="an iterable", dest=dest, **cast("SyncKeywords", given))
        items: Iterator[Any] = from_async(rows) if isinstance(rows, AsyncIterable) else iter(rows)
        try:
            return run_pass(checked, runner, dry_run=dry_run, items=lambda: items)
        finally:
            close_iterator(items)


def run_pass(
    options: SyncOptions,
    runner: Runner,
    *,
    dry_run: bool = False,
    show: Callable[[SyncStore], object] = lambda _: None,
    items: Callable[[], Iterator[Any]] | None = None,
) -> SyncReport:
    """Run a pass, or the rest of an unfinished pass.

    Args:
        options: the options of the sync.
        runner: waits for long operations.
        dry_run: whether to only list and compare.
        show: called with the plan of a dry run.
        items: returns the targets, if the source is an iterable.
    """
    dest = Path(options.dest)
    refuse_part_of_shared_job(dest)
    refuse_file_name(dest)
    _refuse_foreign(dest, is_overwriting=options.overwrite_local)
    if not dry_run:
        given = {"format": options.format, "shard_size": options.shard_size}
        with _opened(SyncStore(str(dest), **given, accept_foreign=options.overwrite_local)) as store:
            return SyncPass(options, store, PassFolder(dest / STATE), runner, items).run()
    with (
        tempfile.TemporaryDirectory(prefix="fetchmill-sync-") as scratch,
        _opened(SyncStore(str(dest), scratch, format=options.format)) as store,
    ):
        unfinished = PassFolder(dest / STATE).begun()
        return SyncPass(options, store, PassFolder(Path(scratch)), runner, items).run_dry(show, unfinished)


class _ProgramRunner:
    """Waits in short steps, so that a program's signal handlers can run. If a handler raises, the pass ends."""

    is_stopped = False

    def __init__(self, show: Show | None) -> None:
        self._show = show

    def begin(self, phase: Phase, plan: SyncPlan | None) -> None:
        """Do nothing, because each phase's counters start at 0 anyway."""

    def run(self, start: Callable[[], RunningJob]) -> dict[str, Any]:
        """Run a job to its end."""
        return run_to_end(start, self._show)

    def call(self, call: Callable[[], T]) -> T:
        """Make a call on a separate thread."""
        return call_in_steps(call, lambda: None)


def call_in_steps(call: Callable[[], T], step: Callable[[], object]) -> T:
    """Make a call on a separate thread, so that signals are handled during the call.

    Args:
        call: the long operation. This function always waits until it has ended.
        step: called every `STEP_SECONDS`. If it raises, the exception is raised after the call has ended.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - re-raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="fetchmill-sync")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(STEP_SECONDS)
            step()
    finally:
        thread.join()
    if errors:
        raise errors[0]
    return results[0]


@contextlib.contextmanager
def _opened(store: SyncStore) -> Iterator[SyncStore]:
    try:
        yield store
    finally:
        store.close()


def _refuse_foreign(dest: Path, *, is_overwriting: bool) -> None:
    """Refuse a folder that contains files from neither a sync nor a job, unless the user allows such files."""
    state = dest / Path(STATE).parent
    try:
        foreign = next((path.name for path in dest.iterdir() if path.name != state.name), None)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UsageError(f"{dest} is not a folder; choose a new or empty folder as destination") from None
    except OSError as error:
        raise StorageError(f"cannot read {dest}: {error.strerror or error}") from None
    marks = (f"{STATE}/base.sqlite", f"{STATE}/pass.json", ".fetchmill/job.sqlite")
    try:
        is_elsewhere = (state / "state").exists()
        is_known = any((dest / mark).exists() for mark in marks)
    except PermissionError:
        raise UsageError(
            f"{dest}: cannot open {state}, which belongs to another user (permission denied); run "
            "the command as that user, or choose another destination"
        ) from None
    if is_elsewhere:
        raise UsageError(
            f"{dest}: sync cannot take over a job whose journal is elsewhere (--state); choose another destination"
        )
    if foreign is not None and not is_known and not is_overwriting:
        raise UsageError(
            f"{dest}: not empty and not created by sync (contains {foreign}); choose a new or empty destination, or "
            "use --overwrite-local to replace files that have the same name as an object"
        )
