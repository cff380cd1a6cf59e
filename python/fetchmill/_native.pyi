# Docstrings are written by `make generated` from the comments in crates/fetchmill-python/src: change those instead.
"""The Rust core for Python. This module is private; `fetchmill` exports the public names.

Options are passed as one JSON object. Counters are returned as dicts, batches as lists, so there is no call per
object. All errors are classes of `fetchmill.errors`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, final

from fetchmill._shared.folders import RangeCopies
from fetchmill.engines.answers import Answer
from fetchmill.errors import ReplyError

__version__: str

@final
class Bucket:
    """Small objects below a prefix of a bucket. Many threads may call the methods.

    Each method waits up to `seconds` without the GIL, and repeats failed requests meanwhile. Times are seconds since
    1970 on the store's clock.

    The constructor finds credentials. It does not send a request.

    Args:
        dest: bucket and prefix, `s3://BUCKET/PREFIX/`.
        options: a JSON object with the fields of `fetchmill.StreamOptions` that define how to reach the store.

    Raises:
        UsageError: an option cannot be used, or (any method) the store refuses the request.
        TemporaryError: (any method) the store does not answer in time.
    """

    def __new__(cls, dest: str | os.PathLike[str], options: str) -> Self: ...
    def text(self) -> str:
        """Returns the bucket and prefix in the form that users write."""
    def get(self, name: str, start: int, seconds: float) -> tuple[bytes, int] | None:
        """Returns up to 8 MiB of an object, starting at an offset, and its modification time.

        None if the object does not exist. The time is 0 if the store does not send it. At the end of the object, the
        bytes are empty.
        """
    def put(self, name: str, body: bytes, seconds: float) -> int:
        """Writes an object and replaces any existing one with the same name. Returns the time."""
    def create(self, name: str, body: bytes, seconds: float) -> bool | None:
        """Sends one request that creates an object unless the name exists. Returns whether it was created.

        None if the result is unknown. Read the object to find out.
        """
    def list(
        self, begin: str, token: str | None, seconds: float
    ) -> tuple[list[tuple[str, int, str, int]], str | None, int]:
        """Returns a page of names that start with `begin`, the token of the next page if any, and the time.

        Each name has its size, ETag and modification time.
        """
    def delete(self, name: str, seconds: float) -> None:
        """Deletes an object if it exists."""
    def put_file(self, name: str, path: str | os.PathLike[str], seconds: float) -> None:
        """Uploads a file under a new name, in parts if it is large."""
    def abort_uploads(self, begin: str, seconds: float) -> None:
        """Aborts the multipart uploads of all names that start with `begin`."""

@final
class Job:
    """A job that runs on its own threads as soon as it is created.

    It is aborted if it is dropped before it ends. The constructor starts or resumes it.

    Args:
        options: a JSON object from `to_json`, with the given options and the source of the job.
        iterator: the targets, if the source is an iterator: URLs, or pairs of a URL and a name. A thread of the job
            reads it.

    Raises:
        UsageError: an option cannot be used, or the destination belongs to another job.
        BusyError: another process is running this job.
        JournalError: the journal is damaged.
        StorageError: the destination or the journal cannot be written.
    """

    def __new__(cls, options: str, iterator: Iterator[str | tuple[str, str]] | None = None) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Waits up to `seconds` for the job to end, without the GIL. Returns whether it has ended."""

    def snapshot(self) -> dict[str, Any]:
        """Returns the current counters: the fields of `fetchmill._job.report.Snapshot`. Cheap at any time."""

    def samples(self, after: float = 0.0) -> list[dict[str, Any]]:
        """Returns the samples after a time (seconds since 1970 UTC), oldest first, including those of earlier runs.

        At first there is one sample per second. If there are more than 720, adjacent ones are merged.
        """

    def stop(self) -> None:
        """Asks the job to stop: no new requests, up to 3 s for those in flight, then a checkpoint.

        Returns immediately.
        """

    def set_pace(self, per_second: float) -> None:
        """Sets the requests per second to the only origin while it throttles (`pace` of a snapshot).

        The job adapts the number when the origin refuses requests.

        Raises:
            UsageError: the number is not above 0.
        """

    def allow_rows(self, rows: int) -> None:
        """Sets how many rows of a range of a Parquet list the job may read in total. A page may exceed this."""
    def end_list(self) -> None:
        """Ends the list after the rows that were read. The job is finished when these targets have outcomes."""
    def set_rate(self, per_second: float) -> None:
        """Sets the maximum number of requests per second. A job that started without a rate stays without one.

        Raises:
            UsageError: the number is not above 0.
        """
    def abort(self) -> None:
        """Ends the job without a checkpoint, as if the process had been killed."""

    def take_dispatcher(self, seconds: float) -> Dispatcher | None:
        """Returns the dispatcher of an engine in this process, once. Waits up to `seconds` for it.

        None if there is no dispatcher yet, if it was already taken, or if the job has ended without one.
        """

    def attach(self, worker: int, pid: int, turns: int, receipts: int) -> None:
        """Attaches a worker process that has started.

        The job takes over its ends of two sockets, as returned by `socket.detach()`.
        """

    def take_rows(self, seconds: float) -> bytes | None:
        """Returns the next rows of a list that is written to the program, as lines of JSON. Waits up to `seconds`.

        The result is empty if no row arrives in that time, and None after the last row. Waits without the GIL.
        """

    def kept(self) -> list[tuple[str, str]] | None:
        """Returns the names and types of a list's kept columns. None for a server. Worker processes need them."""

    def fail(self, message: str) -> None:
        """Ends the job with this error, after a checkpoint."""

    def report(self) -> dict[str, Any]:
        """Returns the final counters after the end: the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: an error stopped the job. The class depends on the exit code.
        """

@final
class Dispatcher:
    """Hands out targets to a worker of a Python engine and accepts the answers. Only one thread may use it.

    It handles planning, formats, durability and the results of answers. `Job.take_dispatcher` returns the dispatcher of
    a job in this process. `join` returns the one for a worker's own process.
    """

    @staticmethod
    def join(
        options: str, worker: int, kept: list[tuple[str, str]] | None, turns: int, receipts: int
    ) -> Dispatcher | None:
        """Joins the job with these options from a worker process, over its ends of two sockets.

        Returns None if the job has no work left.

        Raises:
            UsageError: the options do not belong to an engine with worker processes.
            StorageError: the sink cannot be opened.
        """

    def next_batch(self, max: int, seconds: float) -> list[Target] | None:
        """Returns up to `max` targets. Waits up to `seconds` for the first one. The list may be empty.

        Waits without the GIL. Returns None if there are no more targets, or if the job was asked to stop.
        """

    def report(self, answers: list[Answer]) -> None:
        """Accepts answers. Each target that was handed out must be answered once. Waits while the sink lags behind.

        Raises:
            UsageError: a target is not being fetched, or a failure kind does not exist.
            StorageError: a large body could not be staged.
        """

    def observe_arrivals(self, replies: OriginReplies) -> None:
        """From now on, takes facts about the origin from these replies as they arrive, not from the answers."""

    def note_running(self, requests: int, waiting: int) -> None:
        """Records how many requests are in flight, and how many handed-out targets wait for a free slot."""

    @property
    def concurrency(self) -> int:
        """Returns how many requests this worker may have in flight now. The number may change with every call."""

    @property
    def is_stopping(self) -> bool:
        """Returns whether the job was asked to stop. Requests in flight may be finished."""

    def close(self) -> None:
        """Ends the work: answered targets become durable, the others stay pending. A second call does nothing."""

@final
class Target:
    """A target that was handed out."""

    @property
    def sequence(self) -> int:
        """Sequence number in the job."""

    @property
    def name(self) -> str:
        """Name under which the object is stored. Bytes that are not UTF-8 become surrogates."""

    @property
    def url(self) -> str:
        """URL of the request."""

    @property
    def attempt(self) -> int:
        """Number of the attempt, starting at 1."""

    def headers(self) -> list[tuple[str, str]]:
        """Returns the fields of the request, except Host.

        Fields that may be secrets are included only for their origin.
        """

FAILURE_KINDS: tuple[str, ...]  # the names of all failure kinds

def diff(old: str, new: str, each: Callable[[list[tuple[str, str | None, str | None]]], object]) -> dict[str, Any]:
    """Compares two results files. Returns the fields of `fetchmill.DiffReport`, without the changes.

    Args:
        old: a results file.
        new: another results file.
        each: called with several changes at a time: site, answer before, answer after. An exception from it, or from a
            signal handler, ends the comparison.

    Raises:
        UsageError: a file cannot be read, or is not a results file of a check.
    """

@final
class ListTargets:
    """Reads the targets of a list without any request.

    Opens the list.

    Args:
        options: as for `Job`.

    Raises:
        UsageError: the list cannot be opened or an option cannot be used.
    """

    def __new__(cls, options: str) -> Self: ...
    def next_page(self) -> tuple[list[tuple[str | None, str]], int] | None:
        """Returns the next targets and the number of targets left out.

        None at the end. Each target has a URL (None for a line without one) and a name.

        Raises:
            ListingError: the list cannot be read.
        """

def list_files(options: str) -> list[tuple[str, str, bool, int | None, tuple[str, str] | None]]:
    """Returns the files of a list, sorted by name: one file, the files of a folder, or the matches of a glob.

    Args:
        options: as for `Job`.

    Returns:
        For each file: its path, the name of its format, whether it can be divided at line ends, and its number of rows
        if it is Parquet. The files of an inventory are its data files. Each also has the `manifest.json` without data
        files, and its MD5.

    Raises:
        UsageError: a file cannot be opened or is a pipe, the formats of the files differ, or an option cannot be used.
    """

@final
class ListBytes:
    """Reads the content of a list file, decompressed. The first bytes of the file determine the compression.

    Opens the file.

    Args:
        path: the file.

    Raises:
        UsageError: the file cannot be opened.
    """

    def __new__(cls, path: str) -> Self: ...
    def read(self) -> bytes:
        """Returns the next bytes. Empty at the end.

        Raises:
            ListingError: the file is damaged or cannot be read.
        """

def split_parquet(lists: list[tuple[str, str]], parts: list[str]) -> list[int]:
    """Writes each row of Parquet lists to one of several files, which have the same columns.

    Args:
        lists: for each list its path, and the path of a file that contains one byte per row. The row is written to part
            `byte % len(parts)`.
        parts: paths of the parts.

    Returns:
        The number of rows of each part.

    Raises:
        UsageError: a list has other columns than the first one.
        ListingError: a list cannot be read.
        StorageError: a part cannot be written.
    """

@final
class Export:
    """An export that runs on its own threads as soon as it is created.

    It is aborted if it is dropped before it ends. The constructor starts or resumes it.

    Args:
        options: a JSON object from `fetchmill.export`.
        copies: object that copies the ranges of a shared job in a bucket, if the options name such ranges.

    Raises:
        UsageError: an option cannot be used, or the other destination belongs to another job.
        BusyError: a process is working on one of the two destinations.
    """

    def __new__(cls, options: str, copies: RangeCopies | None = None) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Waits up to `seconds` for the export to end, without the GIL. Returns whether it has ended."""

    def snapshot(self) -> dict[str, Any]:
        """Returns the current counters: the fields of `fetchmill._job.report.Snapshot`. Cheap at any time."""

    def stop(self) -> None:
        """Asks the export to stop after a checkpoint. Returns immediately."""

    def abort(self) -> None:
        """Ends the export without a checkpoint, as if the process had been killed."""

    def report(self) -> dict[str, Any]:
        """Returns the final counters after the end: the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: an error stopped the export. The class depends on the exit code.
        """

@final
class Server:
    """A file server on its own threads.

    Binds the address and starts to serve.

    Args:
        options: a JSON object from `fetchmill._server`.
        dest: the destination of a job, which is served instead of the options' content.
        state: folder of the journal, if the job was started with one.

    Raises:
        UsageError: an option cannot be used, the address is taken, or the job does not store objects.
        JournalError: the journal cannot be read.
    """

    def __new__(cls, options: str, dest: str | None = None, state: str | None = None) -> Self: ...
    @property
    def address(self) -> str:
        """Host and port, such as `127.0.0.1:8080`."""

    @property
    def ca_pem(self) -> str | None:
        """With TLS, the certificate of the authority that clients must trust, in PEM."""

    def stats(self) -> dict[str, Any]:
        """Returns the counts of requests and replies by kind, as `GET /stats` does."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class World:
    """Hosts with every behaviour and their name server, on their own threads. All are on loopback.

    Binds all addresses and starts to serve.

    Args:
        options: a JSON object with the fields of `fetchmill.world.WorldOptions`.

    Raises:
        UsageError: an option cannot be used, or an address is taken.
    """

    def __new__(cls, options: str) -> Self: ...
    @staticmethod
    def behaviours() -> list[str]:
        """Returns the names of all behaviours."""

    @property
    def dns(self) -> str:
        """Host and port of the name server, such as `127.0.0.1:5353`."""

    @property
    def http_port(self) -> int:
        """HTTP port, the same at all addresses."""

    @property
    def https_port(self) -> int:
        """HTTPS port, the same at all addresses."""

    @property
    def ca_pem(self) -> str:
        """Certificate of the authority that clients must trust."""

    def stats(self) -> dict[str, Any]:
        """Returns the current counters, or the final ones after the end."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class S3:
    """An S3 store on its own threads, on loopback. After `stop`, most calls raise a UsageError.

    Binds the port and starts to serve, without buckets or credentials.

    Args:
        options: a JSON object: port, threads, region, virtual_host_suffix.

    Raises:
        UsageError: an option cannot be used, or the port is taken.
    """

    def __new__(cls, options: str) -> Self: ...
    @property
    def address(self) -> str:
        """Host and port, such as `127.0.0.1:8080`."""

    def add_bucket(self, options: str) -> None:
        """Adds a bucket. `options` is a JSON object with name, region, public, synthetic, size, key_prefix."""

    def put(self, bucket: str, key: str, body: bytes, modified: int | None = None) -> None:
        """Puts an object. `modified` is its modification time in milliseconds since 1970."""

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Returns the objects that were put, sorted by key."""

    def set_credentials(self, options: str) -> None:
        """Adds credentials. `options` is a JSON object with access_key, secret_key, token, expires_in."""

    def change(self, values: str) -> None:
        """Changes the behaviour. `values` is a JSON object with fields of `S3Behaviour`, except `changed`."""

    def set_changed(self, changed: dict[str, bytes]) -> None:
        """Sets the bodies that a GET returns instead of the listed ones."""

    def stats(self) -> dict[str, int]:
        """Returns the current counters, or the final ones after the end."""

    def reset_stats(self) -> None:
        """Resets the counters to 0."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class Objects:
    """Stored objects of a job, read in place. Many threads may call the methods at the same time.

    An object is a tuple: name (str with surrogates for bytes that are not UTF-8), body, status, content_type, etag,
    last_modified (seconds since 1970), fetched_at (microseconds), sequence, crc32c, url, columns (a dict from the names
    of the kept columns to their values), content_encoding. Unknown values are None.

    Opens the journal and the files that it names.

    Raises:
        UsageError: there is no job, or its format does not store objects.
        JournalError: the journal cannot be read.
    """

    def __new__(cls, dest: str, state: str | None) -> Self: ...
    def format(self) -> str:
        """Returns the format of the objects."""

    def close(self) -> None:
        """Closes the files. Every later call of another method raises a UsageError."""

    def get(self, name: bytes) -> tuple[Any, ...] | None:
        """Returns the object with this name. None if there is none.

        Raises:
            JournalError: a manifest, the shard or the object is damaged.
        """

    def length(self, name: bytes) -> int | None:
        """Returns the size of the object with this name in bytes, from the manifests alone. None if there is none."""

    def count(self) -> int:
        """Returns the number of names."""

    def names(self, position: str | None, max: int, with_lengths: bool) -> tuple[list[Any], str | None]:
        """Returns up to `max` names, starting at a position, and the next position if there is one.

        With `with_lengths`, the names are tuples of name and length.
        """

    def batches(self) -> ObjectBatches:
        """Returns all objects in storage order."""

    def arrow_stream(self) -> object:
        """Returns all objects in storage order as an `arrow_array_stream` capsule."""

@final
class ObjectBatches:
    """Iterates over the objects in batches."""

    def next_batch(self) -> list[tuple[Any, ...]]:
        """Returns the next objects. Empty at the end.

        Raises:
            JournalError: a manifest, a shard or an object is damaged.
        """

@final
class SyncStore:
    """Contents of a sync's destination, the plan of the current pass, and the lock against a second process.

    Args:
        dest: the destination, which is created if it is missing.
        scratch: a folder for the plan of a dry run. `dest` is neither changed nor locked.
        format: format in which objects are stored.
        shard_size: size of a shard in bytes. None for the default of the format.
        accept_foreign: whether `dest` may contain files that neither a job nor a sync has written.

    Raises:
        UsageError: the destination contains something else.
        BusyError: another process is working on it.
        JournalError: the state in the destination is damaged.
        StorageError: the destination cannot be read or written.
    """

    def __new__(
        cls,
        dest: str,
        scratch: str | None = None,
        *,
        format: str = "files",
        shard_size: int | None = None,
        accept_foreign: bool = False,
    ) -> Self: ...
    def base(self) -> dict[str, Any] | None:
        """Returns the state after the last pass. None before the first pass."""

    def has_job(self) -> bool:
        """Returns whether the destination belongs to a `get` job."""

    def adopt(self, source: str, filters: str) -> int:
        """Takes over the objects of a `get` job. Returns their number. With `scratch`, the job does not change."""

    def next_numbers(self) -> dict[str, Any] | None:
        """Returns facts for the next pass's job (`first_sequence`, `has_url`). None if objects are files."""

    def has_plan(self) -> bool:
        """Returns whether there is a plan of an unfinished pass."""

    def plan(self, listing: str, options: str) -> dict[str, int]:
        """Compares a listing with the destination. Returns the number of objects for each action."""

    def planned(self) -> dict[str, int]:
        """Returns the number of objects for each action in the existing plan."""

    def names(self, action: str, after: bytes | None, count: int) -> list[bytes]:
        """Returns up to `count` names with an action (`fetch`, `ask`, `remove`, `leave`) in order, after `after`."""

    def write_requests(self, path: str) -> int:
        """Writes the list of targets to request. Returns the number of rows."""

    def prepare(self, fetched: str | None, seconds: float) -> bool:
        """Prepares the changes for up to `seconds`. Returns whether all are ready. The destination stays unchanged."""

    def apply(self, fetched: str | None, overwrite_local: bool, seconds: float) -> bool:
        """Moves the objects of a finished job into place for up to `seconds`. Returns whether everything is done."""

    def progress(self) -> dict[str, int]:
        """Returns the number of planned objects (`total`) and of applied ones (`done`)."""

    def conclude(self) -> dict[str, Any]:
        """Ends the pass. Returns its counters."""

    def failures(self, after: bytes | None, count: int) -> list[tuple[bytes, str, str | None, str | None]]:
        """Returns up to `count` failures of the last pass after `after`: name, outcome, failure kind and detail."""

    def discard(self) -> None:
        """Deletes the plan."""

    def close(self) -> None:
        """Closes the store, so that another process can work on the destination."""

@final
class Verify:
    """A verification that runs on its own threads as soon as it is created.

    It ends if it is dropped early. The constructor locks the destination against jobs and starts the verification.

    Args:
        options: a JSON object from `fetchmill.verify`.

    Raises:
        UsageError: there is no job.
        BusyError: a process is running the job.
    """

    def __new__(cls, options: str) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Waits up to `seconds` for the verification to end, without the GIL.

        Returns whether it has ended. The caller must keep taking findings while it runs.
        """

    def progress(self) -> dict[str, Any]:
        """Returns the progress: the fields of `fetchmill._destination.verify.Progress`. Cheap at any time."""

    def findings(self, max: int) -> list[dict[str, Any]]:
        """Returns up to `max` findings that were not taken yet: the fields of `fetchmill.Finding`."""

    def abort(self) -> None:
        """Asks the verification to end early. A repair ends after the current shard."""

    def report(self) -> dict[str, Any]:
        """Returns the result after the end: the fields of `fetchmill.VerifyReport`.

        Raises:
            FetchmillError: an error stopped the verification. The class depends on the exit code.
        """

    def next_sampled(self) -> dict[str, Any] | None:
        """Returns the next sampled object: its name, the path of its request, its bytes. None after the last one."""

@final
class Failures:
    """Reads the absent and failed targets of a job, in batches.

    Opens the journal for reading.

    Raises:
        UsageError: there is no job.
        JournalError: the journal or a failures shard cannot be read.
    """

    def __new__(cls, dest: str, state: str | None) -> Self: ...
    def next_batch(self) -> list[dict[str, Any]]:
        """Returns the next failures: the fields of `fetchmill.Failure`. Empty at the end."""

@final
class OriginReplies:
    """Statistics of one worker's replies for the certainty rules. The worker's connections share them."""

    def __new__(cls) -> Self: ...
    def note_reply(self, started: float, ended: float, status: int, retry_after: str | None, bytes: int) -> None:
        """Records a complete reply with a body of `bytes` bytes to a request that was sent at `started`.

        For callers that do not know the connection. Times are seconds on a monotonic clock.
        """

    def note_break(self) -> None:
        """Records that a connection broke."""

    def note_surplus(self) -> None:
        """Records an unsolicited reply."""

@final
class ConnectionReplies:
    """Replies of one connection since it was last known that no other reply was on its way.

    Times are seconds on a monotonic clock.
    """

    def __new__(cls, origin: OriginReplies) -> Self: ...
    def note(self, started: float, ended: float, status: int, retry_after: str | None, bytes: int) -> bool:
        """Records a reply with a body of `bytes` bytes to a request that was sent at `started`.

        Returns whether it is certain immediately. The dispatcher that observes these replies gets the facts about the
        origin.
        """

    def rest_seconds(self, is_full: bool, now: float) -> float | None:
        """Returns how many seconds (up to 1) the connection must rest now.

        None if it may continue. `is_full` means that the connection holds the maximum number of bytes.
        """

    @property
    def is_ending(self) -> bool:
        """Returns whether the next request asks the server to close the connection."""

    def silence(self, waiting: float) -> float:
        """Returns after how many seconds without a request or a byte the connection's replies are certain.

        `waiting` is the time in seconds for which the oldest request in flight on another connection has waited.
        """

    def rested(self) -> None:
        """Records that the connection was silent for the required time."""

@final
class Fetcher:
    """The thread that fetches for streams, with its connections. It ends when this object is dropped.

    Starts the thread.

    Args:
        options: a JSON object with the fields of `fetchmill.StreamOptions`. Missing fields have their defaults.

    Raises:
        UsageError: an option cannot be used.
    """

    def __new__(cls, options: str) -> Self: ...
    def stream(
        self,
        items: Iterable[Any] | None,
        *,
        ordered: bool,
        raises: bool,
        certain: bool,
        owns: bool,
        state: str | os.PathLike[str] | None = None,
    ) -> Stream:
        """Opens a stream.

        Without `items`, the caller adds them with `Stream.add`. With `owns`, the thread ends with the stream.
        """

    def batches(self, items: Iterable[Any], batch_size: int, certain: bool, owns: bool) -> Batches:
        """Opens a stream whose replies are rows of record batches."""

    @property
    def concurrency(self) -> int:
        """Returns the current maximum number of requests in flight."""

    def close(self) -> None:
        """Ends the thread. Open streams then raise an InternalError."""

@final
class Stream:
    """The replies of one stream: an iterator for one thread, or both ends of an asynchronous iterator."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Reply: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def ready(self) -> Reply | None:
        """Returns the next reply if it is available. None if the caller must wait for it.

        Raises:
            StopAsyncIteration: there are no more replies.
        """

    def room(self) -> int:
        """Returns how many items can be added."""

    def add(self, items: list[Any]) -> None:
        """Adds items. The caller must not add more than there is room for."""

    def end(self) -> None:
        """Ends the input. No more items are added."""

    def is_open(self) -> bool:
        """Returns whether the stream is neither at its end nor closed."""

    def fileno(self) -> int:
        """Returns a descriptor. After `arm`, it becomes readable when there are replies."""

    def arm(self) -> bool:
        """Requests a signal on the descriptor. Returns False if something is already available."""

    def clear(self) -> None:
        """Makes the descriptor unreadable again."""

    def close(self) -> None:
        """Abandons the requests in flight. With a state folder, the progress so far becomes durable.

        Any thread may call it. A loop over the replies then ends.

        Raises:
            StorageError: the progress could not be made durable.
        """

@final
class Batches:
    """Record batches of replies. It is an iterator, and also a stream of Arrow's C data interface."""

    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def close(self) -> None:
        """Abandons the requests in flight. Any thread may call it."""

@final
class Batch:
    """One record batch, for consumers of Arrow's C data interface."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class BodyBuffer:
    """Owner of the bytes behind the memoryview of a large body."""

@final
class Request:
    """A request that needs more than a URL.

    Args:
        url: an absolute http or https URL.
        method: any method except CONNECT and TRACE. The default is `POST` with `json`, otherwise `GET`.
        headers: a mapping, or pairs of name and value. They replace the client's fields with the same names.
        body: bytes to send.
        tag: any object. The reply has the same tag.
        idempotent: whether the request may be sent twice. Only such requests are retried after a failure. By default,
            only GET and HEAD may be sent twice.
        json: a value to send as JSON instead of `body`, with `Content-Type: application/json` unless `headers` has this
            field.
        params: a mapping, or pairs of name and value, to append to the query of the URL. For a list or tuple, the name
            is repeated for each value. None adds nothing.

    Raises:
        `UsageError`: the method, a header field, `json` or `params` cannot be sent.
    """

    def __new__(
        cls,
        url: str,
        method: str | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        body: bytes | bytearray | None = None,
        tag: object = None,
        *,
        idempotent: bool | None = None,
        json: object = None,
        params: Mapping[str, object] | Iterable[tuple[str, object]] | None = None,
    ) -> Self: ...
    @property
    def url(self) -> str:
        """The URL."""

    @property
    def method(self) -> str:
        """The method, in capitals."""

    @property
    def headers(self) -> dict[str, str]:
        """Header fields of this request."""

    @property
    def body(self) -> bytes | None:
        """Body to send."""

    @property
    def tag(self) -> Any:  # noqa: ANN401 - whatever the program gave
        """Any object. The reply has the same tag."""

    @property
    def idempotent(self) -> bool:
        """Whether the request may be sent twice."""

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Pickles and copies are made with the arguments of the constructor."""

@final
class Timings:
    """Times of a request in seconds."""

    @property
    def queue(self) -> float:
        """Time from when the request was taken from the input to the start of its last attempt."""

    @property
    def connect(self) -> float:
        """Time to open the connection, unless an existing one was used."""

    @property
    def first_byte(self) -> float:
        """Time from the start of the last attempt to the first bytes of the reply."""

    @property
    def total(self) -> float:
        """Time from when the request was taken from the input to the end of the reply."""

@final
class Headers(Mapping[str, str]):
    """Header fields by name. The case of names is ignored.

    Repeated fields are joined by commas. `get_all` returns them separately.
    """

    def __getitem__(self, name: str, /) -> str: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any type
        """Returns the value of a field, or the default."""

    def get_all(self, name: str) -> list[str]:
        """Returns all values of a field, in the order of the reply."""

    def keys(self) -> list[str]:  # type: ignore[override]
        """Returns the names, each once."""

    def values(self) -> list[str]:  # type: ignore[override]
        """Returns the values, in the order of the names."""

    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """Returns pairs of name and value."""

@final
class Reply:
    """Result of a request: a complete reply with any status, or the error that occurred instead."""

    @property
    def status(self) -> int | None:
        """Status, such as 200. None if there is no complete reply, or if the reply opted out."""

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""

    @property
    def body(self) -> bytes | memoryview:
        """Body as bytes. From 64 KiB it is a read-only memoryview, which is not copied."""

    @property
    def headers(self) -> Headers:
        """The header fields."""

    @property
    def url(self) -> str:
        """URL of the request, unchanged."""

    @property
    def final_url(self) -> str:
        """URL of the reply. It differs from the requested URL after a redirect."""

    @property
    def tag(self) -> Any:  # noqa: ANN401 - whatever the program gave
        """Tag of the `Request`."""

    @property
    def index(self) -> int:
        """Position of the request in the input, counted from 0."""

    @property
    def error(self) -> ReplyError | None:
        """Why there is no reply: a `ReplyError` with a `kind`, which may be `opted-out`. None if there is a reply."""

    @property
    def timings(self) -> Timings:
        """Times of the request."""

    @property
    def text(self) -> str:
        """Body as text, decoded with the charset of the reply or, by default, UTF-8. Malformed bytes are replaced."""

    def json(self) -> Any:  # noqa: ANN401 - whatever the body has
        """Returns the body parsed as JSON."""

    def raise_for_status(self) -> None:
        """Raises a `StatusError` unless the status is 2xx. Raises the error if there is no complete reply."""

def answer_matches(pattern: str, kind: str | None, status: int | None) -> bool:
    """Returns whether a pattern of `--fail-on` or `--retry-failed` matches a failure kind, a status, or both."""

def options() -> dict[str, list[dict[str, Any]]]:
    """Returns all options of the core: for jobs (`job`), checks and streams.

    Each option has a name, type, unit and default. Numbers also have a minimum and a maximum. A missing value is None.
    """

def column_value(text: str, kind: str) -> str | int | float | bool:
    """Returns a kept value with the type of its column. Text that does not have this type stays text."""

def hide_secrets(text: str) -> str:
    """Returns a text in which signatures, tokens and passwords in URLs are redacted."""

def status(dest: str, state: str | None) -> dict[str, Any]:
    """Returns the counters from the journal of a destination: the fields of `fetchmill.Status`.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def job_command(dest: str, state: str | None) -> str | None:
    """Returns the options of a destination's job, in the form of `to_json`. None if the job did not store them.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def samples(dest: str, state: str | None) -> list[dict[str, Any]]:
    """Returns the samples of a destination's job, oldest first, in the form of `Job.samples`.

    The job may be running.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def no_proxy_covers(entries: list[str], host: str, port: int) -> bool:
    """Returns whether the entries of no_proxy exclude a host (without brackets) from the proxy."""

def skipped(dest: str, state: str | None) -> list[tuple[str, int, list[bytes]]]:
    """Returns the skipped targets: each reason, the number of targets, and the names of the first 100."""

def name_text(name: bytes) -> str:
    """Returns the text of a name as in a manifest: the name, or `%bytes:` and the percent-encoded name."""

def failed_folders(dest: str, after: bytes | None, count: int) -> list[bytes]:
    """Returns up to `count` paths of folders that could not be listed, in order, starting after `after`.

    `dest` may also be the results file of a list.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def is_public(address: str) -> bool:
    """Returns whether an address is known to belong to the public internet.

    Args:
        address: as text, without brackets and scope.
    """

def synthetic_body(name: str, size: int) -> bytes:
    """Returns the body that a synthetic server sends for a name.

    Args:
        name: the name, as listed.
        size: its size in bytes.
    """
