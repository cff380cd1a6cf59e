"""Lists the source of a shared job if the source is a server or a bucket.

One process makes the list before the job is created.

list.json             the name of the valid list, and the options with which it was made
list/TOKEN.parquet    a manifest; if list.json does not name it, it is unfinished or its process died
claims/listing.N      the process that makes the list
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

from fetchmill._native import Job, hide_secrets
from fetchmill._options.get import GetOptions
from fetchmill._options.list import ListOptions
from fetchmill._options.sources import names_not_for
from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.bucket_store import BucketStore
from fetchmill._shared.heartbeats import BEATS_IN_A_LEASE, Heartbeats
from fetchmill._shared.job_directory import LISTING, JobDirectory, number_of
from fetchmill._shared.local_lists import in_job_directory
from fetchmill._shared.local_state import default_folder, make_folder, process_name, remove_folder
from fetchmill._shared.ranges import ListFile
from fetchmill._shared.records import empty_ledger
from fetchmill._shared.store import STORE_ERRORS, is_bucket
from fetchmill.errors import JournalError, UsageError

_LIST = "list.json"
_FOLDER = "list"
# Poll interval while another process makes the list.
_LOOK_SECONDS = 0.5
_STEP_SECONDS = 0.05
# Options that a list does not have, or that have another meaning for a list.
_NOT_OF_A_LIST = ("source", "format", "state", "dashboard", "dashboard_addr", "dashboard_token", "dashboard_host")
# Options that are already applied to the list.
_FILTERS = ("include", "exclude")
_SECRET = ("auth", "bearer", "bearer_command", "netrc", "client_cert", "client_key")


@dataclass(frozen=True, kw_only=True)
class SourceListRecord:
    """The content of `list.json`.

    Args:
        file: the name of the manifest in the folder `list`.
        size: its size in bytes.
        source: the listed source, without secrets.
        options: the options that the list depends on.
        skipped: number of skipped objects by reason.
        failed_folders: number of folders of a web server that could not be listed.
    """

    file: str
    size: int
    source: str
    options: Mapping[str, Any]
    skipped: Mapping[str, int]
    failed_folders: int

    @classmethod
    def from_bytes(cls, content: bytes, path: str) -> Self:
        """Makes the record from the content of its file.

        Raises:
            JournalError: the file is damaged.
        """
        try:
            values = json.loads(content)
            stem, _, suffix = str(values["file"]).partition(".")
            if not stem.isalnum() or suffix != "parquet":
                raise ValueError(f"{values['file']!r} is not a manifest")  # noqa: TRY301 - reported like other damage
            return cls(
                file=str(values["file"]),
                size=int(values["size"]),
                source=str(values["source"]),
                options=dict(values["options"]),
                skipped={str(reason): int(count) for reason, count in values["skipped"].items()},
                failed_folders=int(values["failed_folders"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise JournalError(f"{path} is damaged ({error}); create the job again in another directory") from error

    def to_bytes(self) -> bytes:
        """Returns the content of the file."""
        names = ("file", "size", "source", "options", "skipped", "failed_folders")
        return json.dumps({name: getattr(self, name) for name in names}, default=list).encode() + b"\n"


def read_source_list(directory: JobDirectory) -> SourceListRecord | None:
    """Returns the list of a job's source; None if the source is itself a list, or is not listed yet.

    Raises:
        JournalError: the record is damaged.
    """
    content = directory.store.read(_LIST)
    return None if content is None else SourceListRecord.from_bytes(content, directory.store.place(_LIST))


class SourceList:
    """See the module.

    Args:
        directory: the job directory.
        options: the options of the job, whose source is a server or a bucket.
        lease: seconds after which a process without a heartbeat counts as dead.
        say: called with each message for the user.
    """

    def __init__(self, directory: JobDirectory, options: GetOptions, lease: float, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._options = options
        self._lease = lease
        self._say = say
        self._name = process_name()
        self._heartbeats = Heartbeats(directory, self._name)
        self._source = hide_secrets(str(options.source))
        self._name_of_list = ""
        # The folder for the list on this machine, once it is needed.
        self._folder: Path | None = None

    def ranged_options(self) -> GetOptions:
        """Returns the options of the job with the list as its source. Makes the list first if it does not exist.

        Raises:
            UsageError: the directory has another source's list, or the source has no objects.
            FetchmillError: the source cannot be listed.
        """
        record = self._find_or_make()
        self._name_of_list = f"{_FOLDER}/{record.file}"
        values = {option.name: option.default for option in fields(self._options)}
        reset = {name: values[name] for name in (*names_not_for("list"), *_FILTERS)}
        own: dict[str, Any] = {"source": self._local_path(record)}
        if self._options.source_kind == "server" and self._options.listing != "json":
            # All URLs have the origin of the source, which the user named.
            own["allow_private"] = True
            if any(getattr(self._options, name) for name in _SECRET) or self._options.headers:
                own["credentials_for"] = self._options.credentials_for or _origin(str(self._options.source))
        return replace(self._options, **reset, **own)

    def in_job(self, file: ListFile) -> ListFile:
        """Returns the list as the job names it."""
        if not is_bucket(self._directory.text):
            return file
        return in_job_directory(file, self._directory.store.place(self._name_of_list))

    def close(self) -> None:
        """Removes the folder of this process."""
        if self._folder is not None:
            remove_folder(self._folder)

    def _own_folder(self) -> Path:
        if self._folder is None:
            self._folder = make_folder(default_folder("lists"), self._name)
        return self._folder

    def _local_path(self, record: SourceListRecord) -> str:
        """Returns the path of the list on this machine. Copies it from a bucket if there is no job yet."""
        store = self._directory.store
        if not isinstance(store, BucketStore):
            return store.place(self._name_of_list)
        path = self._own_folder() / record.file
        if not path.exists() and not self._directory.exists():
            store.local_copy(self._name_of_list, record.size, path)
        return str(path)

    def _find_or_make(self) -> SourceListRecord:
        is_waiting = False
        while (found := read_source_list(self._directory)) is None:
            self._directory.refuse_foreign()
            number, maker = self._maker()
            if maker is None:
                # Write a heartbeat before the claim, or other processes consider this one dead.
                self._beat("listing")
            if maker is None and (claim := self._directory.claim_listing(self._name, number)):
                try:
                    self._make()
                finally:
                    self._directory.store.remove(claim)
            else:
                if not is_waiting:
                    self._say(f"waits until {maker or 'another process'} has listed {self._source}")
                is_waiting = True
                time.sleep(_LOOK_SECONDS)
        self._check_same(found)
        return found

    def _maker(self) -> tuple[int, str | None]:
        """Returns the number of the next claim, and the living process that makes the list, if there is one."""
        claims = self._directory.claims().get(LISTING, {})
        living = {each.worker for each in self._heartbeats.look() if each.lives(self._lease)}
        makers = [worker for worker in claims.values() if worker in living]
        return 1 + max(map(number_of, claims), default=0), makers[0] if makers else None

    def _make(self) -> None:
        token = secrets.token_hex(8)
        name = f"{_FOLDER}/{token}.parquet"
        manifest = self._own_folder() / f"{token}.parquet"
        self._say(f"lists {self._source}")
        try:
            with self._beating():
                report = self._list(manifest, self._own_folder() / "state")
                self._directory.store.add_file(name, manifest)
            record = SourceListRecord(
                file=manifest.name,
                size=manifest.stat().st_size,
                source=self._source,
                options=self._listing_values(),
                skipped=dict(report["skipped_by"]),
                failed_folders=report["failures"].get("listing", 0),
            )
            self._say(f"listed {report['fetched']:,} objects in {report['seconds']:.1f} s")
            if self._directory.store.create(_LIST, record.to_bytes()):
                return
            self._remove(name)
        except BaseException:
            self._remove(name)
            raise
        finally:
            self._beat("ended")

    def _remove(self, name: str) -> None:
        """Removes a manifest that no job uses."""
        with suppress(*STORE_ERRORS):
            self._directory.store.remove(name)
        if not is_bucket(self._directory.text):
            with suppress(OSError):
                Path(self._directory.store.place(_FOLDER)).rmdir()

    def _list(self, manifest: Path, state: Path) -> dict[str, Any]:
        """Lists the source into a manifest. Returns the report of the listing."""
        values = self._listing_values(with_secrets=True)
        options = ListOptions(source=self._options.source, manifest=str(manifest), state=str(state), **values)
        job = Job(options.to_json())
        try:
            while not job.wait(_STEP_SECONDS):
                pass
        except BaseException:
            job.abort()
            raise
        report = job.report()
        if report["found_nothing"] or not report["fetched"]:
            raise UsageError(
                f"{self._source} lists no object that is asked for; look at it with fetchmill list, and check the "
                "prefix and what is included"
            )
        return report

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """Writes heartbeats in another thread, while this one lists or uploads."""
        is_over = threading.Event()

        def beat() -> None:
            while not is_over.wait(self._lease / BEATS_IN_A_LEASE):
                # Others take over if heartbeats fail for a lease. Then one of both lists counts.
                with suppress(*STORE_ERRORS):
                    self._beat("listing")

        thread = threading.Thread(target=beat, name="fetchmill-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _beat(self, state: str) -> None:
        self._heartbeats.write(
            {
                "state": state,
                "sharers": 1,
                "knows": [],
                "ranges": [],
                "stuck": [],
                "counts": empty_ledger(),
                "objects_per_second": 0.0,
                "pace": None,
            }
        )

    def _listing_values(self, *, with_secrets: bool = False) -> dict[str, Any]:
        """Returns the options that a list has, too, and that differ from their defaults."""
        of_lists = {option.name for option in fields(ListOptions)}
        left_out = (*_NOT_OF_A_LIST, *(() if with_secrets else (*_SECRET, "headers", "proxy")))
        values = {
            option.name: getattr(self._options, option.name)
            for option in fields(self._options)
            if option.name in of_lists and option.name not in left_out
            if getattr(self._options, option.name) != option.default
        }
        return {name: value for name, value in values.items() if value not in ({}, (), [])}

    def _check_same(self, record: SourceListRecord) -> None:
        mine = json.loads(json.dumps(self._listing_values(), default=list))
        if record.source == self._source and record.options == mine:
            return
        raise UsageError(
            f"{self._directory.text} has a list of {record.source} with other options or another source; run fetchmill "
            f"join {self._directory.text}, or choose another directory"
        )


def await_list(directory: JobDirectory, say: Callable[[str], None]) -> None:
    """Waits while another process lists the source of a job that is not created yet."""
    heartbeats = Heartbeats(directory, process_name())
    is_waiting = False
    while not directory.exists() and directory.claims().get(LISTING):
        if not any(each.state == "listing" and each.age < _LOST_SECONDS for each in heartbeats.look()):
            return
        if not is_waiting:
            say("waits until the source is listed")
        is_waiting = True
        time.sleep(_LOOK_SECONDS)


# Maximum time between two heartbeats of a process that lists: the longest lease is 3,600 s.
_LOST_SECONDS = 3600.0 / BEATS_IN_A_LEASE


def _origin(source: str) -> str:
    scheme, _, rest = source.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
