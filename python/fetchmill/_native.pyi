# Docstrings are written by `make generated` from the comments in crates/fetchmill-python/src: change those instead.
"""The Rust core for Python. This module is private, and `fetchmill` exports the public names.

Options are passed as one JSON object. Counters are returned as dicts and batches as lists, so no call is made per
object. All exceptions are classes of `fetchmill.errors`.
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
    """Small objects below a prefix of a bucket. Several threads can call the methods at the same time.

    Each method waits for up to `seconds` without the GIL, and retries failed requests during that time. Times are
    seconds since 1970 on the store's clock.

    The constructor looks for credentials but sends no request.

    Args:
        dest: bucket and prefix, as `s3://BUCKET/PREFIX/`.
        options: a JSON object with the fields of `fetchmill.StreamOptions` that define how to reach the store.

    Raises:
        UsageError: an option is invalid. Methods also raise this error if the store refuses a request.
        TemporaryError: raised by methods if the store does not answer in time.
    """

    def __new__(cls, dest: str | os.PathLike[str], options: str) -> Self: ...
    def text(self) -> str:
        """Return the bucket and prefix in the form that users write."""
    def get(self, name: str, start: int, seconds: float) -> tuple[bytes, int] | None:
        """Return up to 8 MiB of an object, starting at offset `start`, and the object's modification time.

        Return None if the object does not exist. The time is 0 if the store does not send one. If `start` is past the
        end of the object, the bytes are empty.
        """
    def put(self, name: str, body: bytes, seconds: float) -> int:
        """Write an object, replacing any existing one with the same name. Return the time."""
    def create(self, name: str, body: bytes, seconds: float) -> bool | None:
        """Create an object unless the name exists, with a single request. Return whether it was created.

        Return None if the result is unknown. In that case, read the object to find out.
        """
    def list(
        self, begin: str, token: str | None, seconds: float
    ) -> tuple[list[tuple[str, int, str, int]], str | None, int]:
        """Return a page of names that start with `begin`, the token of the next page (if any), and the time.

        Each name comes with its size, ETag and modification time.
        """
    def delete(self, name: str, seconds: float) -> None:
        """Delete an object if it exists."""
    def put_file(self, name: str, path: str | os.PathLike[str], seconds: float) -> None:
        """Upload a file under a new name. A large file is uploaded in parts."""
    def abort_uploads(self, begin: str, seconds: float) -> None:
        """Abort all multipart uploads whose names start with `begin`."""

@final
class Job:
    """A job, which starts on its own threads when it is created.

    The constructor starts or resumes the job. Dropping an unfinished job aborts it.

    Args:
        options: a JSON object from `to_json` that contains the given options and the source of the job.
        iterator: the targets, if the source is an iterator. Each item is a URL, or a pair of a URL and a name. A thread
            of the job reads the iterator.

    Raises:
        UsageError: an option is invalid, or the destination belongs to another job.
        BusyError: another process is running this job.
        JournalError: the journal is damaged.
        StorageError: the destination or the journal cannot be written.
    """

    def __new__(cls, options: str, iterator: Iterator[str | tuple[str, str]] | None = None) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Wait for up to `seconds` for the job to end, without the GIL. Return whether it has ended."""

    def snapshot(self) -> dict[str, Any]:
        """Return the current counters, as the fields of `fetchmill._job.report.Snapshot`. Cheap to call at any time."""

    def samples(self, after: float = 0.0) -> list[dict[str, Any]]:
        """Return the samples taken after a time (seconds since 1970 UTC), oldest first.

        The samples of earlier runs are included. Initially, one sample is kept per second. If more than 720 accumulate,
        adjacent samples are merged.
        """

    def stop(self) -> None:
        """Ask the job to stop. It sends no new requests, waits up to 3 s for those in flight, and writes a checkpoint.

        Return immediately.
        """

    def set_pace(self, per_second: float) -> None:
        """Set the number of requests per second to send while the only origin throttles (`pace` in a snapshot).

        The job adjusts this number whenever the origin refuses requests.

        Raises:
            UsageError: the number is not greater than 0.
        """

    def allow_rows(self, rows: int) -> None:
        """Set the total number of rows that the job can read from a range of a Parquet list.

        A page can exceed this limit.
        """
    def end_list(self) -> None:
        """End the list after the rows read so far. The job finishes once their targets have outcomes."""
    def set_rate(self, per_second: float) -> None:
        """Set the maximum number of requests per second. This has no effect on a job that started without a rate.

        Raises:
            UsageError: the number is not greater than 0.
        """
    def abort(self) -> None:
        """End the job without a checkpoint, as if the process had been killed."""

    def take_dispatcher(self, seconds: float) -> Dispatcher | None:
        """Return the dispatcher of an engine in this process. Wait for up to `seconds` for it.

        Return None if the dispatcher is not ready yet or was already taken, or if the job ended without one.
        """

    def attach(self, worker: int, pid: int, turns: int, receipts: int) -> None:
        """Attach a worker process that has started.

        The job takes over its own ends of two sockets, given as results of `socket.detach()`.
        """

    def take_rows(self, seconds: float) -> bytes | None:
        """Return the next rows of a list that is passed to the program, as lines of JSON. Wait for up to `seconds`.

        Wait without the GIL. The result is empty if no row arrives in that time, and None after the last row.
        """

    def kept(self) -> list[tuple[str, str]] | None:
        """Return the names and types of the columns that a list keeps. Worker processes need them.

        Return None if the source is a server.
        """

    def fail(self, message: str) -> None:
        """Stop the job with this error, after a checkpoint."""

    def report(self) -> dict[str, Any]:
        """Return the final counters of a job that has ended, as the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: an error stopped the job. The class depends on the exit code.
        """

@final
class Dispatcher:
    """The dispatcher of a Python engine's worker, which hands out targets and accepts answers.

    Only one thread can use a dispatcher.
    The dispatcher takes care of planning, formats, durability, and the consequences of each answer.
    `Job.take_dispatcher` returns the dispatcher of a job in this process. `join` returns the dispatcher of a worker
    that has its own process.
    """

    @staticmethod
    def join(
        options: str, worker: int, kept: list[tuple[str, str]] | None, turns: int, receipts: int
    ) -> Dispatcher | None:
        """Join the job with these options from a worker process, which passes its ends of two sockets.

        Return None if the job has no work left.

        Raises:
            UsageError: the options do not belong to an engine with worker processes.
            StorageError: the sink cannot be opened.
        """

    def next_batch(self, max: int, seconds: float) -> list[Target] | None:
        """Return up to `max` targets. Wait for up to `seconds` for the first one, so the list may be empty.

        Wait without the GIL. Return None if no targets are left, or if the job was asked to stop.
        """

    def report(self, answers: list[Answer]) -> None:
        """Accept answers. Every target that was handed out must be answered once. Wait if the sink lags behind.

        Raises:
            UsageError: a target is not being fetched, or a failure kind does not exist.
            StorageError: a large body could not be staged.
        """

    def observe_arrivals(self, replies: OriginReplies) -> None:
        """Take facts about the origin from `replies` as they arrive from now on, rather than from the answers."""

    def note_running(self, requests: int, waiting: int) -> None:
        """Record how many requests are in flight, and how many of this worker's targets are waiting for a free slot."""

    @property
    def concurrency(self) -> int:
        """Return the maximum number of requests that this worker can have in flight. Every call can change it."""

    @property
    def is_stopping(self) -> bool:
        """Return whether the job was asked to stop. Requests in flight can still be finished."""

    def close(self) -> None:
        """End the work. Answered targets become durable, and the others stay pending. A second call does nothing."""

@final
class Target:
    """A target that was handed out."""

    @property
    def sequence(self) -> int:
        """Sequence number of the target in the job."""

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
        """Return the header fields of the request, except Host.

        Fields that may contain secrets are included only if the request goes to the origin that they belong to.
        """

FAILURE_KINDS: tuple[str, ...]  # the names of all failure kinds

def diff(old: str, new: str, each: Callable[[list[tuple[str, str | None, str | None]]], object]) -> dict[str, Any]:
    """Compare two results files. Return the fields of `fetchmill.DiffReport`, without the changes.

    Args:
        old: the earlier results file.
        new: the later results file.
        each: called with a list of changes, each a tuple of the site, the old answer and the new answer. If this
            function or a signal handler raises an exception, the comparison ends.

    Raises:
        UsageError: a file cannot be read, or is not the results file of a check.
    """

@final
class ListTargets:
    """Targets of a list, read without sending requests.

    The constructor opens the list.

    Args:
        options: as for `Job`.

    Raises:
        UsageError: the list cannot be opened, or an option is invalid.
    """

    def __new__(cls, options: str) -> Self: ...
    def next_page(self) -> tuple[list[tuple[str | None, str]], int] | None:
        """Return the next targets, and the number of targets left out.

        Return None at the end. Each target is a pair of a URL and a name. The URL is None for a line without one.

        Raises:
            ListingError: the list cannot be read.
        """

def list_files(options: str) -> list[tuple[str, str, bool, int | None, tuple[str, str] | None]]:
    """Return the files of a list, sorted by name: a single file, the files in a folder, or the matches of a glob.

    Args:
        options: as for `Job`.

    Returns:
        For each file: its path, the name of its format, whether it can be divided at line endings, its number of
            Parquet rows, and its inventory. For an inventory, the files are its data files. The last item then holds
            the `manifest.json` without the data files, and its MD5.

    Raises:
        UsageError: a file cannot be opened or is a pipe, the files have different formats, or an option is invalid.
    """

@final
class ListBytes:
    """Decompressed content of a list file. The first bytes of the file determine the compression.

    The constructor opens the file.

    Args:
        path: the file.

    Raises:
        UsageError: the file cannot be opened.
    """

    def __new__(cls, path: str) -> Self: ...
    def read(self) -> bytes:
        """Return the next bytes, or empty bytes at the end.

        Raises:
            ListingError: the file is damaged or cannot be read.
        """

def split_parquet(lists: list[tuple[str, str]], parts: list[str]) -> list[int]:
    """Write each row of some Parquet lists to one of several files, which all have the same columns.

    Args:
        lists: for each list, its path and the path of a file that contains one byte per row. The row goes to part
            `byte % len(parts)`.
        parts: paths of the parts.

    Returns:
        The number of rows in each part.

    Raises:
        UsageError: a list does not have the same columns as the first one.
        ListingError: a list cannot be read.
        StorageError: a part cannot be written.
    """

@final
class Export:
    """An export, which starts on its own threads when it is created.

    The constructor starts or resumes the export. Dropping an unfinished export aborts it.

    Args:
        options: a JSON object from `fetchmill.export`.
        copies: an object that copies the ranges of a shared job in a bucket, if the options name such ranges.

    Raises:
        UsageError: an option is invalid, or the other destination belongs to another job.
        BusyError: another process is working on one of the destinations.
    """

    def __new__(cls, options: str, copies: RangeCopies | None = None) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Wait for up to `seconds` for the export to end, without the GIL. Return whether it has ended."""

    def snapshot(self) -> dict[str, Any]:
        """Return the current counters, as the fields of `fetchmill._job.report.Snapshot`. Cheap to call at any time."""

    def stop(self) -> None:
        """Ask the export to stop after a checkpoint. Return immediately."""

    def abort(self) -> None:
        """End the export without a checkpoint, as if the process had been killed."""

    def report(self) -> dict[str, Any]:
        """Return the final counters of an export that has ended, as the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: an error stopped the export. The class depends on the exit code.
        """

@final
class Server:
    """A file server on its own threads.

    The constructor binds the address and starts to serve.

    Args:
        options: a JSON object from `fetchmill._server`.
        dest: the destination of a job, which is served instead of the options' content.
        state: the folder of the journal, if the job was started with one.

    Raises:
        UsageError: an option is invalid, the address is taken, or the job does not store objects.
        JournalError: the journal cannot be read.
    """

    def __new__(cls, options: str, dest: str | None = None, state: str | None = None) -> Self: ...
    @property
    def address(self) -> str:
        """Host and port, such as `127.0.0.1:8080`."""

    @property
    def ca_pem(self) -> str | None:
        """With TLS, the certificate of the authority that clients must trust, as PEM."""

    def stats(self) -> dict[str, Any]:
        """Return the numbers of requests and replies by kind, as `GET /stats` does."""

    def stop(self) -> None:
        """Close all connections and end the threads. A second call does nothing."""

@final
class World:
    """Test hosts with every behaviour, and their name server. They run on loopback, on their own threads.

    The constructor binds all addresses and starts to serve.

    Args:
        options: a JSON object with the fields of `fetchmill.world.WorldOptions`.

    Raises:
        UsageError: an option is invalid, or an address is taken.
    """

    def __new__(cls, options: str) -> Self: ...
    @staticmethod
    def behaviours() -> list[str]:
        """Return the names of all behaviours."""

    @property
    def dns(self) -> str:
        """Host and port of the name server, such as `127.0.0.1:5353`."""

    @property
    def http_port(self) -> int:
        """HTTP port, which is the same at all addresses."""

    @property
    def https_port(self) -> int:
        """HTTPS port, which is the same at all addresses."""

    @property
    def ca_pem(self) -> str:
        """Certificate of the authority that clients must trust."""

    def stats(self) -> dict[str, Any]:
        """Return the current counters, or the final ones once the world has stopped."""

    def stop(self) -> None:
        """Close all connections and end the threads. A second call does nothing."""

@final
class S3:
    """An S3 store on loopback that runs on its own threads. After `stop`, most calls raise a UsageError.

    The constructor binds the port and starts to serve. Initially, the store has no buckets and no credentials.

    Args:
        options: a JSON object with port, threads, region and virtual_host_suffix.

    Raises:
        UsageError: an option is invalid, or the port is taken.
    """

    def __new__(cls, options: str) -> Self: ...
    @property
    def address(self) -> str:
        """Host and port, such as `127.0.0.1:8080`."""

    def add_bucket(self, options: str) -> None:
        """Add a bucket. `options` is a JSON object with name, region, public, synthetic, size and key_prefix."""

    def put(self, bucket: str, key: str, body: bytes, modified: int | None = None) -> None:
        """Store an object. `modified` is its modification time in milliseconds since 1970."""

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return the objects that were stored, sorted by key."""

    def set_credentials(self, options: str) -> None:
        """Add credentials. `options` is a JSON object with access_key, secret_key, token and expires_in."""

    def change(self, values: str) -> None:
        """Change the behaviour. `values` is a JSON object with fields of `S3Behaviour`, except `changed`."""

    def set_changed(self, changed: dict[str, bytes]) -> None:
        """Set the bodies that GET requests return instead of the listed ones."""

    def stats(self) -> dict[str, int]:
        """Return the current counters, or the final ones once the store has stopped."""

    def reset_stats(self) -> None:
        """Reset the counters to 0."""

    def stop(self) -> None:
        """Close all connections and end the threads. A second call does nothing."""

@final
class Objects:
    """Stored objects of a job, read in place. Several threads can call the methods at the same time.

    An object is a tuple: name, body, status, content_type, etag, last_modified (seconds since 1970), fetched_at
    (microseconds), sequence, crc32c, url, columns, content_encoding. The name is a str with surrogates for bytes that
    are not UTF-8. `columns` is a dict that maps the names of the kept columns to their values. Unknown values are None.

    The constructor opens the journal and the files that it names.

    Raises:
        UsageError: the job does not exist, or its format does not store objects.
        JournalError: the journal cannot be read.
    """

    def __new__(cls, dest: str, state: str | None) -> Self: ...
    def format(self) -> str:
        """Return the format in which the objects are stored."""

    def close(self) -> None:
        """Close the files. After this, every other method raises a UsageError."""

    def get(self, name: bytes) -> tuple[Any, ...] | None:
        """Return the object with this name, or None if it does not exist.

        Raises:
            JournalError: a manifest, the shard or the object is damaged.
        """

    def length(self, name: bytes) -> int | None:
        """Return the size in bytes of the object with this name, or None if it does not exist.

        Only the manifests are read.
        """

    def count(self) -> int:
        """Return the number of names."""

    def names(self, position: str | None, max: int, with_lengths: bool) -> tuple[list[Any], str | None]:
        """Return up to `max` names, starting at a position, and the next position, if any.

        With `with_lengths`, each name is a tuple of name and length.
        """

    def batches(self) -> ObjectBatches:
        """Return all objects, in storage order."""

    def arrow_stream(self) -> object:
        """Return all objects, in storage order, as an `arrow_array_stream` capsule."""

@final
class ObjectBatches:
    """Iterates over the objects in batches."""

    def next_batch(self) -> list[tuple[Any, ...]]:
        """Return the next objects. The list is empty at the end.

        Raises:
            JournalError: a manifest, a shard or an object is damaged.
        """

@final
class SyncStore:
    """The contents of a sync's destination, the plan of the current pass, and a lock that keeps out other processes.

    Args:
        dest: the destination. It is created if it is missing.
        scratch: a folder for the plan of a dry run, in which `dest` is neither changed nor locked.
        format: the format in which objects are stored.
        shard_size: the size of a shard in bytes. None means the default of the format.
        accept_foreign: whether `dest` can contain files that were not written by a job or a sync.

    Raises:
        UsageError: the destination contains something else.
        BusyError: another process is working on the destination.
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
        """Return the state after the last pass. Return None before the first pass."""

    def has_job(self) -> bool:
        """Return whether the destination belongs to a `get` job."""

    def adopt(self, source: str, filters: str) -> int:
        """Take over the objects of a `get` job and return their number. With `scratch`, the job stays unchanged."""

    def next_numbers(self) -> dict[str, Any] | None:
        """Return the values that the job of the next pass needs (`first_sequence`, `has_url`).

        Return None if objects are stored as files.
        """

    def has_plan(self) -> bool:
        """Return whether an unfinished pass has left a plan."""

    def plan(self, listing: str, options: str) -> dict[str, int]:
        """Compare a listing with the destination. Return how many objects need each action."""

    def planned(self) -> dict[str, int]:
        """Return how many objects need each action, according to the existing plan."""

    def names(self, action: str, after: bytes | None, count: int) -> list[bytes]:
        """Return up to `count` names that need an action, in order, starting after `after`.

        The action is `fetch`, `ask`, `remove` or `leave`.
        """

    def write_requests(self, path: str) -> int:
        """Write the list of targets to request. Return the number of rows."""

    def prepare(self, fetched: str | None, seconds: float) -> bool:
        """Spend up to `seconds` preparing the changes. Return whether all of them are ready.

        The destination stays unchanged.
        """

    def apply(self, fetched: str | None, overwrite_local: bool, seconds: float) -> bool:
        """Spend up to `seconds` moving the objects of a finished job into place. Return whether all are in place."""

    def progress(self) -> dict[str, int]:
        """Return the numbers of planned (`total`) and applied (`done`) objects."""

    def conclude(self) -> dict[str, Any]:
        """End the pass and return its counters."""

    def failures(self, after: bytes | None, count: int) -> list[tuple[bytes, str, str | None, str | None]]:
        """Return up to `count` failures of the last pass, starting after `after`.

        Each failure is a tuple: name, outcome, failure kind and detail.
        """

    def discard(self) -> None:
        """Delete the plan."""

    def close(self) -> None:
        """Close the store, so that another process can work on the destination."""

@final
class Verify:
    """A verification, which starts on its own threads when it is created.

    The constructor locks the destination against jobs and starts the verification. Dropping a verification ends it
    early.

    Args:
        options: a JSON object from `fetchmill.verify`.

    Raises:
        UsageError: the job does not exist.
        BusyError: a process is running the job.
    """

    def __new__(cls, options: str) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Wait for up to `seconds` for the verification to end, without the GIL.

        Return whether it has ended. While it runs, the caller must keep taking findings.
        """

    def progress(self) -> dict[str, Any]:
        """Return the progress, as the fields of `fetchmill._destination.verify.Progress`. Cheap to call at any time."""

    def findings(self, max: int) -> list[dict[str, Any]]:
        """Return up to `max` findings that have not been taken yet, as the fields of `fetchmill.Finding`."""

    def abort(self) -> None:
        """Ask the verification to end early. A repair ends after the current shard."""

    def report(self) -> dict[str, Any]:
        """Return the result of a verification that has ended, as the fields of `fetchmill.VerifyReport`.

        Raises:
            FetchmillError: an error stopped the verification. The class depends on the exit code.
        """

    def next_sampled(self) -> dict[str, Any] | None:
        """Return the next sampled object: its name, the path to request, and its bytes.

        Return None after the last one.
        """

@final
class Failures:
    """Absent and failed targets of a job, read in batches.

    The constructor opens the journal for reading.

    Raises:
        UsageError: the job does not exist.
        JournalError: the journal or a failures shard cannot be read.
    """

    def __new__(cls, dest: str, state: str | None) -> Self: ...
    def next_batch(self) -> list[dict[str, Any]]:
        """Return the next failures, as the fields of `fetchmill.Failure`. The list is empty at the end."""

@final
class OriginReplies:
    """Statistics of one worker's replies, which the certainty rules need. The worker's connections share them."""

    def __new__(cls) -> Self: ...
    def note_reply(self, started: float, ended: float, status: int, retry_after: str | None, bytes: int) -> None:
        """Record a complete reply with a body of `bytes` bytes. The request was sent at `started`.

        For callers that do not know which connection was used. Times are seconds on a monotonic clock.
        """

    def note_break(self) -> None:
        """Record that a connection broke."""

    def note_surplus(self) -> None:
        """Record an unsolicited reply."""

@final
class ConnectionReplies:
    """Replies received on a connection since it was last certain that no other reply could still arrive.

    Times are seconds on a monotonic clock.
    """

    def __new__(cls, origin: OriginReplies) -> Self: ...
    def note(self, started: float, ended: float, status: int, retry_after: str | None, bytes: int) -> bool:
        """Record a reply with a body of `bytes` bytes. The request was sent at `started`.

        Return whether the reply is certain immediately. The facts about the origin go to the dispatcher that observes
        these replies.
        """

    def rest_seconds(self, is_full: bool, now: float) -> float | None:
        """Return the number of seconds (up to 1) that the connection must rest now.

        Return None if the connection can continue. `is_full` means that the connection holds its maximum number of
        bytes.
        """

    @property
    def is_ending(self) -> bool:
        """Return whether the next request asks the server to close the connection."""

    def silence(self, waiting: float) -> float:
        """Return how many seconds of silence make the connection's replies certain.

        During the silence, no request is sent and no byte arrives. `waiting` is the number of seconds that the oldest
        request in flight on any other connection has waited.
        """

    def rested(self) -> None:
        """Record that the connection was silent for the required time."""

@final
class Fetcher:
    """The thread that fetches for streams, with its connections. It ends when this object is dropped.

    The constructor starts the thread.

    Args:
        options: a JSON object with the fields of `fetchmill.StreamOptions`. Missing fields have their defaults.

    Raises:
        UsageError: an option is invalid.
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
        """Open a stream.

        Without `items`, the caller adds the items with `Stream.add`. With `owns`, the thread ends together with the
        stream.
        """

    def batches(self, items: Iterable[Any], batch_size: int, certain: bool, owns: bool) -> Batches:
        """Open a stream that returns replies as rows of record batches."""

    @property
    def concurrency(self) -> int:
        """Return the maximum number of requests that can currently be in flight."""

    def close(self) -> None:
        """End the thread. Streams that are still open then raise an InternalError."""

@final
class Stream:
    """The replies of one stream. Serves as an iterator for one thread, or as both ends of an asynchronous iterator."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Reply: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def ready(self) -> Reply | None:
        """Return the next reply if it is available.

        Return None if the caller must wait for it.

        Raises:
            StopAsyncIteration: no replies are left.
        """

    def room(self) -> int:
        """Return how many more items can be added."""

    def add(self, items: list[Any]) -> None:
        """Add items. The stream must have room for all of them."""

    def end(self) -> None:
        """End the input. After this, no more items can be added."""

    def is_open(self) -> bool:
        """Return whether the stream is neither at its end nor closed."""

    def fileno(self) -> int:
        """Return a descriptor, which becomes readable when replies are available after a call to `arm`."""

    def arm(self) -> bool:
        """Request a signal on the descriptor. Return False if something is already available."""

    def clear(self) -> None:
        """Make the descriptor unreadable again."""

    def close(self) -> None:
        """Abandon the requests in flight. With a state folder, make the progress so far durable.

        Any thread can call this. A loop over the replies ends as a result.

        Raises:
            StorageError: the progress could not be made durable.
        """

@final
class Batches:
    """Record batches of replies. This is an iterator, and also a stream of Arrow's C data interface."""

    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def close(self) -> None:
        """Abandon the requests in flight. Any thread can call this."""

@final
class Batch:
    """A record batch for consumers of Arrow's C data interface."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class BodyBuffer:
    """Owner of the bytes in the memoryview of a large body."""

@final
class Request:
    """A request that needs more than a URL.

    Args:
        url: an absolute http or https URL.
        method: any method except CONNECT and TRACE. The default is `POST` with `json`, otherwise `GET`.
        headers: a mapping, or pairs of name and value. They replace the client's fields with the same names.
        body: bytes to send.
        tag: any object. The reply has the same tag.
        idempotent: whether the request can safely be sent twice. Only such requests are retried after a failure. By
            default, only GET and HEAD requests are considered safe.
        json: a value to send as JSON instead of `body`. Adds `Content-Type: application/json` unless `headers` contains
            this field.
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
        """Whether the request can safely be sent twice."""

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Pickles and copies are made with the arguments of the constructor."""

@final
class Timings:
    """Times of a request in seconds."""

    @property
    def queue(self) -> float:
        """Time between taking the request from the input and starting its last attempt."""

    @property
    def connect(self) -> float:
        """Time to open the connection. Zero if an existing connection was used."""

    @property
    def first_byte(self) -> float:
        """Time between the start of the last attempt and the first bytes of the reply."""

    @property
    def total(self) -> float:
        """Time between taking the request from the input and the end of the reply."""

@final
class Headers(Mapping[str, str]):
    """Header fields by name, ignoring case.

    The values of repeated fields are joined by commas. `get_all` returns them separately.
    """

    def __getitem__(self, name: str, /) -> str: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any type
        """Return the value of a field, or the default."""

    def get_all(self, name: str) -> list[str]:
        """Return all values of a field, in the order in which they appear in the reply."""

    def keys(self) -> list[str]:  # type: ignore[override]
        """Return the names, each one once."""

    def values(self) -> list[str]:  # type: ignore[override]
        """Return the values, in the order of the names."""

    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """Return pairs of name and value."""

@final
class Reply:
    """Result of a request: a complete reply with any status, or the error that prevented one."""

    @property
    def status(self) -> int | None:
        """Status, such as 200. None if no complete reply arrived, or if the reply opted out."""

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""

    @property
    def body(self) -> bytes | memoryview:
        """Body as bytes. A body of 64 KiB or more is a read-only memoryview, which avoids a copy."""

    @property
    def headers(self) -> Headers:
        """The header fields."""

    @property
    def url(self) -> str:
        """URL of the request, unchanged."""

    @property
    def final_url(self) -> str:
        """URL that the reply came from. After a redirect, it differs from the requested URL."""

    @property
    def tag(self) -> Any:  # noqa: ANN401 - whatever the program gave
        """Tag of the `Request`."""

    @property
    def index(self) -> int:
        """Position of the request in the input, counted from 0."""

    @property
    def error(self) -> ReplyError | None:
        """Reason for a missing reply: a `ReplyError` whose `kind` can be `opted-out`. None if there is a reply."""

    @property
    def timings(self) -> Timings:
        """Times of the request."""

    @property
    def text(self) -> str:
        """Body as text, decoded with the charset of the reply or with UTF-8. Malformed bytes are replaced."""

    def json(self) -> Any:  # noqa: ANN401 - whatever the body has
        """Return the body parsed as JSON."""

    def raise_for_status(self) -> None:
        """Raise a `StatusError` if the status is not 2xx. Raise the reply's error if there is no complete reply."""

def answer_matches(pattern: str, kind: str | None, status: int | None) -> bool:
    """Return whether a pattern of `--fail-on` or `--retry-failed` matches a failure kind, a status, or both."""

def options() -> dict[str, list[dict[str, Any]]]:
    """Return all options of the core: those of jobs (`job`), checks and streams.

    Each option has a name, a type, a unit and a default. Numbers also have a minimum and a maximum. Missing values are
    None.
    """

def column_value(text: str, kind: str) -> str | int | float | bool:
    """Convert a kept value to the type of its column. Text that cannot be converted stays text."""

def hide_secrets(text: str) -> str:
    """Return the text with signatures, tokens and passwords in URLs redacted."""

def status(dest: str, state: str | None) -> dict[str, Any]:
    """Return the counters from a destination's journal, as the fields of `fetchmill.Status`.

    Raises:
        UsageError: the job does not exist.
        JournalError: the journal cannot be read.
    """

def job_command(dest: str, state: str | None) -> str | None:
    """Return the options of a destination's job in the form of `to_json`.

    Return None if the job did not store its options.

    Raises:
        UsageError: the job does not exist.
        JournalError: the journal cannot be read.
    """

def samples(dest: str, state: str | None) -> list[dict[str, Any]]:
    """Return the samples of a destination's job, oldest first, in the form of `Job.samples`.

    This also works while the job is running.

    Raises:
        UsageError: the job does not exist.
        JournalError: the journal cannot be read.
    """

def no_proxy_covers(entries: list[str], host: str, port: int) -> bool:
    """Return whether the entries of no_proxy exclude a host from the proxy. The host has no brackets."""

def skipped(dest: str, state: str | None) -> list[tuple[str, int, list[bytes]]]:
    """Return each reason for skipping targets, the number of skipped targets, and the names of the first 100."""

def name_text(name: bytes) -> str:
    """Return a name as it appears in a manifest: unchanged, or as `%bytes:` followed by the percent-encoded name."""

def failed_folders(dest: str, after: bytes | None, count: int) -> list[bytes]:
    """Return up to `count` paths of folders that could not be listed, in order, starting after `after`.

    `dest` can also be the results file of a `list` run.

    Raises:
        UsageError: the job does not exist.
        JournalError: the journal cannot be read.
    """

def is_public(address: str) -> bool:
    """Return whether an address is known to be on the public internet.

    Args:
        address: the address as text, without brackets or a scope.
    """

def synthetic_body(name: str, size: int) -> bytes:
    """Return the body that a synthetic server sends for a name.

    Args:
        name: the name, as listed.
        size: the size of the body in bytes.
    """
