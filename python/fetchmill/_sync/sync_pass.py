"""Runs a sync pass: lists, compares, fetches, and moves files into place. Each step can be resumed after a crash."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeVar

from fetchmill._destination.status import status
from fetchmill._job.run import RunningJob
from fetchmill._native import Job, SyncStore, failed_folders, name_text
from fetchmill._options.credentials import origin_of
from fetchmill._options.sync import SyncOptions, allowed_removals
from fetchmill._options.units import format_count
from fetchmill._sync.pass_file import BegunPass, PassFolder
from fetchmill._sync.report import SyncPlan, SyncReport
from fetchmill.errors import DeleteLimitError, JournalError, UsageError

T = TypeVar("T")
Phase = Literal["listing", "comparing", "fetching", "preparing", "applying"]

# Interval at which `prepare` and `apply` return, so that the caller can check whether the pass was stopped.
_STEP_SECONDS = 0.2
# Number of folders read at a time.
_FOLDERS = 1000
# Maximum number of failed folders in a message.
_FOLDERS_NAMED = 5
_PLANNED = ("delete", "refetch", "overwrite_local", "check_local")


class Runner(Protocol):
    """Waits for long operations, either for a program, or for the command line with its displays and signals."""

    @property
    def is_stopped(self) -> bool:
        """Whether the pass must end after its current operation."""

    def begin(self, phase: Phase, plan: SyncPlan | None) -> None:
        """Prepare for a phase. This is called before each phase."""

    def run(self, start: Callable[[], RunningJob]) -> dict[str, Any]:
        """Run a job to its end, or until it is stopped. Return its report."""

    def call(self, call: Callable[[], T]) -> T:
        """Make a call that may take a long time."""


class SyncPass:
    """A pass, or the rest of a pass that an earlier call began.

    Args:
        options: the options of the sync.
        store: the contents of the destination, and the plan.
        folder: the files of the pass.
        runner: waits for long operations.
        items: returns the targets, if the source is an iterable.
    """

    def __init__(
        self,
        options: SyncOptions,
        store: SyncStore,
        folder: PassFolder,
        runner: Runner,
        items: Callable[[], Iterator[Any]] | None = None,
    ) -> None:
        self._options = options
        self._store = store
        self._folder = folder
        self._runner = runner
        self._items = items
        self._started = time.monotonic()
        self._attempts = 0
        self._has_credentials: bool | None = None
        self._notices: list[str] = []
        self._plan: SyncPlan | None = None
        # Shows the plan of a dry run, even if the plan would remove more objects than allowed.
        self._show: Callable[[SyncStore], object] = lambda _: None

    def run(self) -> SyncReport:
        """Run the pass to its end, or until the runner is stopped.

        Raises:
            UsageError: the destination belongs to another source.
            DeleteLimitError: more objects would be removed than is allowed; nothing was changed.
        """
        begun, is_resumed = self._begin()
        begun = self._list_and_compare(begun)
        if self._plan is None or not (self._fetch(begun) and self._apply(begun)):
            return self._report(begun, is_resumed, interrupted=True)
        statuses = self._failed_statuses()
        ledger = self._runner.call(self._store.conclude) | {"failed_statuses": statuses}
        report = self._report(begun, is_resumed, ledger)
        self._folder.forget()
        return report

    def run_dry(self, show: Callable[[SyncStore], object], unfinished: BegunPass | None) -> SyncReport:
        """Only list and compare, in a separate folder.

        Args:
            show: called with the plan.
            unfinished: the pass that has begun in the destination.

        Raises:
            UsageError: a pass would refuse the destination.
            DeleteLimitError: more objects would be removed than is allowed; the plan was shown.
        """
        self._show = show
        base = self._store.base()
        self._require_same(base)
        if unfinished is not None and (base is None or unfinished.number > base["pass"]):
            self._require_same(asdict(unfinished))
            self._notices.append(
                f"the pass that started at {_start_of(unfinished)} is unfinished; `sync` finishes that pass first, "
                "and its changes may differ from those shown here"
            )
        if base is None and self._store.has_job():
            count = self._adopt()
            self._notices.append(f"would take over {format_count(count)} objects from fetchmill get")
            base = self._store.base()
        begun = self._new(0 if base is None else base["pass"])
        begun = self._list_and_compare(begun)
        return self._report(begun, is_resumed=False, interrupted=self._plan is None)

    def _begin(self) -> tuple[BegunPass, bool]:
        """Return the pass, and whether an earlier call started this pass."""
        begun, base = self._folder.begun(), self._store.base()
        if begun is not None and base is not None and begun.number <= base["pass"]:
            begun = None  # the pass was concluded, but the process was killed before it removed the files
        self._require_same(base)
        if begun is not None:
            self._require_same(asdict(begun))
            self._notices.append(
                f"continuing the pass that started at {_start_of(begun)}; the next pass will find later changes"
            )
            return begun, True
        self._folder.forget()
        if self._store.has_job():
            count = self._adopt()
            self._notices.append(f"took over {format_count(count)} objects from fetchmill get")
            base = self._store.base()
        begun = self._new(0 if base is None else base["pass"])
        self._folder.write(begun)
        return begun, False

    def _adopt(self) -> int:
        return self._runner.call(lambda: self._store.adopt(str(self._options.source), self._options.filters))

    def _new(self, last: int) -> BegunPass:
        wanted = {name: getattr(self._options, name) for name in _PLANNED}
        now = int(time.time())
        return BegunPass(last + 1, str(self._options.source), self._options.filters, now, **wanted)

    def _require_same(self, known: Mapping[str, Any] | None) -> None:
        """Refuse a source or filters that differ from those of the destination."""
        if known is None:
            return
        dest, source, filters = self._options.dest, self._options.source, self._options.filters
        if known["source"] != source:
            raise UsageError(f"{dest} is synced from {known['source']}, not from {source}; choose another destination")
        if known["filters"] != filters:
            raise UsageError(
                f"{dest}: synced from {source} with the options {known['filters']}, not {filters}; repeat the original "
                "options, or choose another destination"
            )

    def _list_and_compare(self, begun: BegunPass) -> BegunPass:
        """List and compare, unless already done. Return the planned pass. If stopped, `self._plan` stays None."""
        if not self._store.has_plan():
            if begun.is_applying:
                raise JournalError(
                    f"{self._folder.folder}: the plan of the current pass is missing; restore this folder from a backup"
                )
            if not self._list():
                return begun
        return self._compare(begun)

    def _list(self) -> bool:
        """List the source. Return whether the listing is complete."""
        if self._folder.listing.exists():
            return True
        self._runner.begin("listing", None)
        manifest = str(self._folder.listing)
        # Start again, because objects in an unfinished listing may be gone, and a list may have been rewritten.
        self._folder.forget_listing()
        if self._items is None:
            as_json = self._options.list_json(manifest)
            ended = self._runner.run(lambda: Job(as_json))
        else:
            items = self._items()
            as_json = self._options.list_json(manifest, is_iterable=True)
            ended = self._runner.run(lambda: Job(as_json, items))
        self._notices += ended["notices"]
        return not ended["interrupted"] and not self._runner.is_stopped

    def _compare(self, begun: BegunPass) -> BegunPass:
        wanted = replace(begun, **{name: getattr(self._options, name) for name in _PLANNED})
        if begun.is_applying and wanted != begun:
            self._notices.append(
                "this pass keeps its original options, because it has already begun to change the destination"
            )
            wanted = begun
        if self._store.has_plan() and wanted != begun:
            self._store.discard()
        if not self._store.has_plan():
            self._runner.begin("comparing", None)
            self._folder.forget_fetched()
            self._folder.write(wanted)
            options = wanted.plan_options(self._protected())
            self._runner.call(lambda: self._store.plan(str(self._folder.listing), options))
            if self._runner.is_stopped:
                return wanted
        counts = self._store.planned()
        names = ("unchanged", "fetch", "ask", "remove", "kept", "local")
        plan = SyncPlan(objects=counts["base"], **{name: counts[name] for name in names})
        self._show(self._store)
        if not wanted.is_applying:
            # Local changes may prevent some of the removals, but a pass finds out only when it applies the plan.
            self._require_allowed(plan.remove + counts["gone_local"], plan.objects)
        self._plan = plan
        return wanted

    def _protected(self) -> list[str]:
        """Return prefixes of names that may be missing only because a folder could not be listed."""
        found: list[str] = []
        last: bytes | None = None
        named: list[bytes] = []
        while paths := failed_folders(str(self._folder.listing), last, _FOLDERS):
            last = paths[-1]
            named += paths[: _FOLDERS_NAMED - len(named)]
            found += [name_text(path + b"/") if path else "" for path in paths]
        if last is not None:
            shown = ", ".join(path.decode(errors="backslashreplace") + "/" for path in named)
            more = f" and {format_count(len(found) - len(named))} more" if len(found) > len(named) else ""
            self._notices.append(f"folders that could not be listed, so nothing below them is removed: {shown}{more}")
            # In destinations of older releases, a name that is not UTF-8 is replaced by its URL.
            origin = origin_of(str(self._options.source))
            found.append((origin.partition("://")[2] if self._options.format == "files" else origin) + "/")
        return found

    def _require_allowed(self, removals: int, objects: int) -> None:
        allowed = allowed_removals(self._options.max_delete, objects)
        if removals <= allowed:
            return
        self._store.discard()
        self._folder.forget()
        raise DeleteLimitError(
            f"{format_count(removals)} of {format_count(objects)} objects would be removed from "
            f"{self._options.dest}, but --max-delete {self._options.max_delete} allows {format_count(allowed)}; "
            "nothing was changed; list the objects with --dry-run, or allow "
            f"their removal with --max-delete {removals}"
        )

    def _fetch(self, begun: BegunPass) -> bool:
        """Fetch new and changed objects. Return whether all were fetched."""
        if begun.is_applying or not self._has_requests():
            return self._prepare(begun)
        self._runner.begin("fetching", self._plan)
        requests = self._folder.requests
        if not requests.exists():
            self._runner.call(lambda: self._store.write_requests(str(requests)))
        as_json = self._options.get_json(
            str(requests), str(self._folder.fetched), self._store.next_numbers(), is_iterable=self._items is not None
        )
        ended = self._runner.run(lambda: Job(as_json))
        self._attempts += ended["attempts"]
        self._has_credentials = ended["credentials"]
        self._notices += [notice for notice in ended["notices"] if notice not in self._notices]
        return not ended["interrupted"] and not self._runner.is_stopped and self._prepare(begun)

    def _prepare(self, begun: BegunPass) -> bool:
        """Prepare the changes, leaving the destination unchanged. Return whether all changes are ready."""
        if begun.is_applying:
            return True
        if self._options.format != "files":
            self._runner.begin("preparing", self._plan)
        while not self._runner.call(lambda: self._store.prepare(self._fetched(), _STEP_SECONDS)):
            if self._runner.is_stopped:
                return False
        return True

    def _apply(self, begun: BegunPass) -> bool:
        """Apply the changes. Return whether all objects are in place."""
        if not begun.is_applying:
            self._folder.write(replace(begun, is_applying=True))
        self._runner.begin("applying", self._plan)
        while not self._runner.call(lambda: self._store.apply(self._fetched(), begun.overwrite_local, _STEP_SECONDS)):
            if self._runner.is_stopped:
                return False
        return True

    def _fetched(self) -> str | None:
        return str(self._folder.fetched) if self._has_requests() else None

    def _failed_statuses(self) -> Mapping[str, int]:
        """Return the pass's failures by HTTP status, as counted by the fetching job over all calls."""
        is_fetched = self._has_requests() and self._folder.fetched.exists()
        return status(self._folder.fetched).failed_statuses if is_fetched else {}

    def _has_requests(self) -> bool:
        return self._plan is not None and self._plan.fetch + self._plan.ask > 0

    def _report(
        self, begun: BegunPass, is_resumed: bool, ledger: Mapping[str, Any] | None = None, *, interrupted: bool = False
    ) -> SyncReport:
        listing = status(self._folder.listing) if self._folder.listing.exists() else None
        counted = dict(ledger or {})
        return SyncReport(
            source=begun.source,
            dest=str(self._options.dest),
            number=begun.number,
            started_at=datetime.fromtimestamp(begun.started_at, UTC),
            resumed=is_resumed,
            interrupted=interrupted,
            dry_run=ledger is None and not interrupted,
            plan=self._plan,
            failures=counted.pop("kinds", {}),
            credentials=self._has_credentials,
            failed_folders=listing.failures.get("listing", 0) if listing else 0,
            left_out=listing.skipped if listing else 0,
            attempts=self._attempts,
            seconds=time.monotonic() - self._started,
            notices=tuple(self._notices),
            **counted,
        )


def _start_of(begun: BegunPass) -> str:
    return f"{datetime.fromtimestamp(begun.started_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
