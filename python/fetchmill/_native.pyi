# Docstrings are written by `make generated` from the comments in crates/fetchmill-python/src: change those instead.
"""The Rust core, as Python sees it. Private: `fetchmill` has the public names.

Options go in as one JSON object, counters come out as dicts, batches as lists: no call is made for an object. All
errors are the classes of `fetchmill.errors`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, final

from fetchmill.engines.answers import Answer
from fetchmill.errors import ReplyError

__version__: str

@final
class Bucket:
    """Small objects below a prefix of a bucket. All methods may be called by many threads.

    Each waits without the GIL for at most `seconds`, and repeats what fails meanwhile. Times are seconds since 1970 by
    the store's clock.

    Finds credentials. Nothing is asked for yet.

    Args:
        dest: bucket and prefix, `s3://BUCKET/PREFIX/`.
        options: a JSON object with the fields of `fetchmill.StreamOptions` that say how the store is reached.

    Raises:
        UsageError: an option cannot be used; of each method: the store refuses what is asked for.
        TemporaryError: of each method, when the store does not answer in time.
    """

    def __new__(cls, dest: str | os.PathLike[str], options: str) -> Self: ...
    def text(self) -> str:
        """Bucket and prefix, as users write them."""
    def get(self, name: str, start: int, seconds: float) -> tuple[bytes, int] | None:
        """At most 8 MiB of an object from an offset, and when it was written; None if the object does not exist.

        The time is 0 if the store does not send it. At the end of the object the bytes are empty.
        """
    def put(self, name: str, body: bytes, seconds: float) -> int:
        """Puts an object in place of the one with its name; gives the time."""
    def create(self, name: str, body: bytes, seconds: float) -> bool | None:
        """Asks once for an object to be made, if none has its name: whether it was.

        None when it is not known what came of it: read the object to see it.
        """
    def list(
        self, begin: str, token: str | None, seconds: float
    ) -> tuple[list[tuple[str, int, str, int]], str | None, int]:
        """A page of the names that begin with a text; the token of the next page, if there is one; and the time.

        Each name comes with its size, its ETag and when it was written.
        """
    def delete(self, name: str, seconds: float) -> None:
        """Deletes an object, if it exists."""
    def put_file(self, name: str, path: str | os.PathLike[str], seconds: float) -> None:
        """Uploads a file under a new name, in parts if it is large."""
    def abort_uploads(self, begin: str, seconds: float) -> None:
        """Aborts the uploads in parts of all names that begin with a text."""

@final
class Job:
    """A job that runs on its own threads from the moment it is made. Dropped before its end, it is aborted.

    Starts the job or resumes it.

    Args:
        options: a JSON object with the options that are given and what the job is about, from `to_json`.
        iterator: the targets, when they are what the source is: URLs, or pairs of a URL and a name. It is read by
            a thread of the job.

    Raises:
        UsageError: an option cannot be used, or the destination is another job's.
        BusyError: another process runs this job.
        JournalError: the journal is damaged.
        StorageError: the destination or the journal cannot be written.
    """

    def __new__(cls, options: str, iterator: Iterator[str | tuple[str, str]] | None = None) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Waits for the end, at most so many seconds, without the GIL. True when the job has ended."""

    def snapshot(self) -> dict[str, Any]:
        """The counters now: the fields of `fetchmill._job.report.Snapshot`. Cheap, at any time."""

    def samples(self, after: float = 0.0) -> list[dict[str, Any]]:
        """What was sampled behind a moment (seconds since 1970 UTC), also in earlier runs, the oldest first.

        One a second at first, at most 720: when there are more, neighbours become one.
        """

    def stop(self) -> None:
        """Asks for the end: no new request, those in flight drained (3 s at most), a checkpoint. Returns at once."""

    def set_pace(self, per_second: float) -> None:
        """Sets the requests per second that the only origin gets while it throttles: `pace` of a snapshot.

        The job adapts them to what the origin refuses.

        Raises:
            UsageError: the number is not above 0.
        """

    def allow_rows(self, rows: int) -> None:
        """Lets the job read so many rows of a range of a Parquet list in all; a page may go beyond."""
    def end_list(self) -> None:
        """Ends the list with what was read of it: the job is finished when that is settled."""
    def set_rate(self, per_second: float) -> None:
        """From now on at most so many requests a second. A job that began without a rate keeps none.

        Raises:
            UsageError: the number is not above 0.
        """
    def abort(self) -> None:
        """Ends the job without a checkpoint, as if the process had been killed."""

    def take_dispatcher(self, seconds: float) -> Dispatcher | None:
        """The dispatcher of an engine in this process, once; waits at most so many seconds for it.

        None when it is not there yet, or was taken, or the job has ended without one.
        """

    def attach(self, worker: int, pid: int, turns: int, receipts: int) -> None:
        """A worker's process has come up: the job takes its ends of two sockets, as `socket.detach()` gives them."""

    def take_rows(self, seconds: float) -> bytes | None:
        """The next rows of a list that is written out to the program, as lines of JSON; waits at most so many seconds.

        Empty when there are none in that time; None behind the last. Without the GIL.
        """

    def kept(self) -> list[tuple[str, str]] | None:
        """Names and types of the kept columns of a list; None for a server. A worker's process must know."""

    def fail(self, message: str) -> None:
        """Ends the job with this error, after a checkpoint."""

    def report(self) -> dict[str, Any]:
        """The ledger, after the end: the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: what stopped the job, in the class of its exit code.
        """

@final
class Dispatcher:
    """Hands targets to a worker of an engine in Python and takes its answers. One thread uses it.

    Planning, formats, durability and what becomes of an answer are behind it. `Job.take_dispatcher` gives that of a job
    in this process, `join` that of a worker's own process.
    """

    @staticmethod
    def join(
        options: str, worker: int, kept: list[tuple[str, str]] | None, turns: int, receipts: int
    ) -> Dispatcher | None:
        """In a worker's process: joins the job whose options these are, over its ends of two sockets.

        None: the job has nothing to do any more.

        Raises:
            UsageError: the options are not those of an engine of processes.
            StorageError: the sink cannot be opened.
        """

    def next_batch(self, max: int, seconds: float) -> list[Target] | None:
        """At most `max` targets; waits at most so many seconds for one, and may give none.

        Without the GIL. None: there will be no more, or the job is asked to stop.
        """

    def report(self, answers: list[Answer]) -> None:
        """Takes answers: each target that was handed out is answered once. Waits while the sink is behind.

        Raises:
            UsageError: a target that is not being fetched, or a failure kind that does not exist.
            StorageError: a large body could not be staged.
        """

    def observe_arrivals(self, replies: OriginReplies) -> None:
        """From now on what replies say of the origin is taken from here as they come, and not from their answers."""

    def note_running(self, requests: int, waiting: int) -> None:
        """Says how many requests are out now, and how many targets that were handed out wait for a place."""

    @property
    def concurrency(self) -> int:
        """Requests that this worker may have out at a time, now. It may change with every call."""

    @property
    def is_stopping(self) -> bool:
        """Whether the job is asked to stop: what is in flight may be finished."""

    def close(self) -> None:
        """The end: what was answered is made durable, what was not stays pending. Once; again it does nothing."""

@final
class Target:
    """A target that was handed out."""

    @property
    def sequence(self) -> int:
        """Its number in the job."""

    @property
    def name(self) -> str:
        """What it is stored as; bytes that are not UTF-8 as surrogates."""

    @property
    def url(self) -> str:
        """Where it is asked for."""

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""

    def headers(self) -> list[tuple[str, str]]:
        """The fields of its request besides Host; those that may be secrets only for their origin."""

FAILURE_KINDS: tuple[str, ...]  # the names of all failure kinds

def diff(old: str, new: str, each: Callable[[list[tuple[str, str | None, str | None]]], object]) -> dict[str, Any]:
    """Compares two files of results: the fields of `fetchmill.DiffReport`, without the changes.

    Args:
        old: a file of results.
        new: another one.
        each: called with the changes, some at a time: site, answer before, answer after. What it raises ends the
            comparison, and so does what a signal's handler raises.

    Raises:
        UsageError: a file cannot be read, or is no result of a check.
    """

@final
class ListTargets:
    """The targets of a list, without a request.

    Opens the list.

    Args:
        options: as for `Job`.

    Raises:
        UsageError: the list cannot be opened or an option cannot be used.
    """

    def __new__(cls, options: str) -> Self: ...
    def next_page(self) -> tuple[list[tuple[str | None, str]], int] | None:
        """The next targets: URL (None for a line that has none) and name; and how many were left out. None at the end.

        Raises:
            ListingError: the list cannot be read.
        """

def list_files(options: str) -> list[tuple[str, str, bool, int | None]]:
    """The files of a list, sorted by name: one file, those of a folder, or those that a glob matches.

    Args:
        options: as for `Job`.

    Returns:
        For each file its path, the name of its format, whether it can be divided at the ends of its lines, and how many
        rows it has if it is Parquet.

    Raises:
        UsageError: a file cannot be opened, or is a pipe; or their formats differ; or an option cannot be used.
    """

@final
class Export:
    """An export that runs on its own threads from the moment it is made. Dropped before its end, it is aborted.

    Starts it or resumes it.

    Args:
        options: a JSON object; `fetchmill.export` makes it.

    Raises:
        UsageError: an option cannot be used, or the other destination is another job's.
        BusyError: a process works on one of the two.
    """

    def __new__(cls, options: str) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Waits for the end, at most so many seconds, without the GIL. True when it has ended."""

    def snapshot(self) -> dict[str, Any]:
        """The counters now: the fields of `fetchmill._job.report.Snapshot`. Cheap, at any time."""

    def stop(self) -> None:
        """Asks for the end, with a checkpoint. Returns at once."""

    def abort(self) -> None:
        """Ends it without a checkpoint, as if the process had been killed."""

    def report(self) -> dict[str, Any]:
        """The ledger, after the end: the fields of `fetchmill.Report`.

        Raises:
            FetchmillError: what stopped it, in the class of its exit code.
        """

@final
class Server:
    """A file server on its own threads.

    Binds and serves.

    Args:
        options: a JSON object; `fetchmill._server` makes it.
        dest: the destination of a job, to be served in the place of the options' content.
        state: folder of its journal, when the job was given one.

    Raises:
        UsageError: an option cannot be used, the address is taken, or the job keeps no objects.
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
        """Counts of requests and replies by kind, the same as `GET /stats`."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class World:
    """Hosts with every behaviour and their name server, on threads of their own. All on loopback.

    Binds all addresses and serves.

    Args:
        options: a JSON object with the fields of `fetchmill.world.WorldOptions`.

    Raises:
        UsageError: an option cannot be used, or an address is taken.
    """

    def __new__(cls, options: str) -> Self: ...
    @staticmethod
    def behaviours() -> list[str]:
        """The names of all behaviours."""

    @property
    def dns(self) -> str:
        """Host and port of the name server, such as `127.0.0.1:5353`."""

    @property
    def http_port(self) -> int:
        """The port of http, the same at all addresses."""

    @property
    def https_port(self) -> int:
        """The port of https, the same at all addresses."""

    @property
    def ca_pem(self) -> str:
        """The certificate of the authority that clients must believe."""

    def stats(self) -> dict[str, Any]:
        """What it has seen so far, or until its end."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class S3:
    """A store that speaks S3, on threads of its own. On loopback. After `stop` most calls are a UsageError.

    Binds and serves, without buckets and credentials.

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
        """Adds a bucket: a JSON object with name, region, public, synthetic, size, key_prefix."""

    def put(self, bucket: str, key: str, body: bytes, modified: int | None = None) -> None:
        """Puts an object, written at so many milliseconds since 1970."""

    def objects(self, bucket: str) -> dict[str, bytes]:
        """The objects that were put, in the order of their keys."""

    def set_credentials(self, options: str) -> None:
        """Adds credentials: a JSON object with access_key, secret_key, token, expires_in."""

    def change(self, values: str) -> None:
        """Changes how it behaves: a JSON object with fields of `S3Behaviour`, but not `changed`."""

    def set_changed(self, changed: dict[str, bytes]) -> None:
        """What a GET gives in the place of what is listed."""

    def stats(self) -> dict[str, int]:
        """What it has done so far, or until its end."""

    def reset_stats(self) -> None:
        """Starts to count from nothing."""

    def stop(self) -> None:
        """Closes all connections and ends the threads. A second call does nothing."""

@final
class Objects:
    """What a job has stored, read in place. All methods may be called by many threads.

    An object is a tuple: name (str with surrogates for what is not UTF-8), body, status, content_type, etag,
    last_modified (seconds since 1970), fetched_at (microseconds), sequence, crc32c, url, columns (a dict from the names
    of the kept columns to their values), content_encoding; None is what is not known.

    Opens the journal and what it names.

    Raises:
        UsageError: there is no job, or its format keeps no objects.
        JournalError: the journal cannot be read.
    """

    def __new__(cls, dest: str, state: str | None) -> Self: ...
    def format(self) -> str:
        """How the objects are stored."""

    def close(self) -> None:
        """Closes the files; every other call is a UsageError then."""

    def get(self, name: bytes) -> tuple[Any, ...] | None:
        """The object with this name.

        Raises:
            JournalError: a manifest, the shard or the object is damaged.
        """

    def length(self, name: bytes) -> int | None:
        """Bytes of the object with this name, from the manifests alone; None when there is none."""

    def count(self) -> int:
        """How many names there are."""

    def names(self, position: str | None, max: int, with_lengths: bool) -> tuple[list[Any], str | None]:
        """At most so many names from a position on, or tuples of name and length; and the next position, if any."""

    def batches(self) -> ObjectBatches:
        """All objects in the order of storage."""

    def arrow_stream(self) -> object:
        """The same as a capsule `arrow_array_stream`."""

@final
class ObjectBatches:
    """Goes through the objects, in batches."""

    def next_batch(self) -> list[tuple[Any, ...]]:
        """The next ones. Empty at the end.

        Raises:
            JournalError: a manifest, a shard or an object is damaged.
        """

@final
class SyncStore:
    """What a destination of a sync holds, the plan of the pass that runs, and the lock against a second one.

    Args:
        dest: the destination, which is made if it is missing.
        scratch: a folder for the plan of a dry run: nothing in `dest` changes, and nothing is locked.
        format: how objects are stored.
        shard_size: bytes of a shard; None: what the format takes.

    Raises:
        UsageError: the destination holds something else.
        BusyError: another process works on it.
        JournalError: what it knows is damaged.
        StorageError: it cannot be read or written.
    """

    def __new__(
        cls, dest: str, scratch: str | None = None, *, format: str = "files", shard_size: int | None = None
    ) -> Self: ...
    def base(self) -> dict[str, Any] | None:
        """What the last pass has left; None before the first."""

    def has_job(self) -> bool:
        """Whether a job of `get` has the destination."""

    def adopt(self, source: str, filters: str) -> int:
        """Takes over what such a job has stored; how many objects."""

    def next_numbers(self) -> dict[str, Any] | None:
        """What the job of the next pass must know (`first_sequence`, `has_url`); None where objects are files."""

    def has_plan(self) -> bool:
        """Whether there is a plan of a pass that is not concluded."""

    def plan(self, listing: str, options: str) -> dict[str, int]:
        """Compares a listing with what the destination holds; how many objects have which action."""

    def planned(self) -> dict[str, int]:
        """The same of the plan that is there."""

    def names(self, action: str, after: bytes | None, count: int) -> list[bytes]:
        """Names with an action (`fetch`, `ask`, `remove`) behind one, in their order."""

    def write_requests(self, path: str) -> int:
        """Writes the list of what is to be asked for; how many rows."""

    def prepare(self, fetched: str | None, seconds: float) -> bool:
        """Makes ready what is to be applied, for so long; whether all is done. The destination is as it was."""

    def apply(self, fetched: str | None, overwrite_local: bool, seconds: float) -> bool:
        """Puts what a finished job has fetched into its places, for so long; whether all is done."""

    def progress(self) -> dict[str, int]:
        """The number of planned objects (`total`), and of those that were applied (`done`)."""

    def conclude(self) -> dict[str, Any]:
        """Ends the pass; its ledger."""

    def failures(self, after: bytes | None, count: int) -> list[tuple[bytes, str, str | None, str | None]]:
        """Name, outcome, failure kind and a line for people of what the last pass could not do, behind a name."""

    def discard(self) -> None:
        """Throws the plan away."""

    def close(self) -> None:
        """Lets another process work on the destination."""

@final
class Verify:
    """A verification that runs on its own threads from the moment it is made. Dropped before its end, it is ended.

    Keeps jobs out of the destination and starts.

    Args:
        options: a JSON object; `fetchmill.verify` makes it.

    Raises:
        UsageError: there is no job.
        BusyError: a process runs the job.
    """

    def __new__(cls, options: str) -> Self: ...
    def wait(self, seconds: float) -> bool:
        """Waits for the end, at most so many seconds, without the GIL. Findings must be taken meanwhile."""

    def progress(self) -> dict[str, Any]:
        """How far it is: the fields of `fetchmill._destination.verify.Progress`. Cheap, at any time."""

    def findings(self, max: int) -> list[dict[str, Any]]:
        """Findings that were not taken yet: the fields of `fetchmill.Finding`."""

    def abort(self) -> None:
        """Asks for an early end. A repair ends behind the shard that it has begun."""

    def report(self) -> dict[str, Any]:
        """What was found, after the end: the fields of `fetchmill.VerifyReport`.

        Raises:
            FetchmillError: what stopped it, in the class of its exit code.
        """

    def next_sampled(self) -> dict[str, Any] | None:
        """The next object that was drawn: its name, the path of its request, its bytes. None behind the last one."""

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
        """The next ones: the fields of `fetchmill.Failure`. Empty at the end."""

@final
class OriginReplies:
    """What the replies of one worker were like: the rules of certainty, shared by its connections."""

    def __new__(cls) -> Self: ...
    def note_reply(self, started: float, ended: float, status: int, retry_after: str | None, bytes: int) -> None:
        """A complete reply with so many bytes came to a request that was sent at `started`.

        For who does not know its connection. Times are seconds of a monotonic clock.
        """

    def note_break(self) -> None:
        """A connection broke."""

    def note_surplus(self) -> None:
        """A reply came that nobody asked for."""

@final
class ConnectionReplies:
    """What one connection has brought since it was last known that nothing else is on its way.

    Times are seconds of a monotonic clock.
    """

    def __new__(cls, origin: OriginReplies) -> Self: ...
    def note(self, started: float, ended: float, status: int, retry_after: str | None, bytes: int) -> bool:
        """A reply with so many bytes came, to a request that was sent at `started`; whether it is certain at once.

        What it says of the origin is told to the dispatcher that observes these replies.
        """

    def rest_seconds(self, is_full: bool, now: float) -> float | None:
        """How long it must rest now, at most a second; None when it may go on. `is_full`: it holds all that it may."""

    @property
    def is_ending(self) -> bool:
        """Whether its next request asks the server to close it."""

    def silence(self, waiting: float) -> float:
        """Seconds without a request and without a byte after which what it has brought is certain.

        Meanwhile the oldest request that is out on another connection has waited for `waiting` seconds.
        """

    def rested(self) -> None:
        """It was silent for so long."""

@final
class Fetcher:
    """The thread that fetches for streams, with its connections. Dropped, it ends.

    Starts the thread.

    Args:
        options: a JSON object with the fields of `fetchmill.StreamOptions`; one that is missing has its default.

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
        """Opens a stream; without items they are added by `Stream.add`. With `owns` the thread ends with the stream."""

    def batches(self, items: Iterable[Any], batch_size: int, certain: bool, owns: bool) -> Batches:
        """Opens a stream whose replies are rows of record batches."""

    @property
    def concurrency(self) -> int:
        """Requests in flight at most, now."""

    def close(self) -> None:
        """Ends the thread. Streams that are open have an InternalError then."""

@final
class Stream:
    """The replies of one stream: an iterator for one thread, or the two ends of an asynchronous one."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Reply: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def ready(self) -> Reply | None:
        """The next reply if it is there, None if it must be waited for.

        Raises:
            StopAsyncIteration: there are no more.
        """

    def room(self) -> int:
        """How many items can be added."""

    def add(self, items: list[Any]) -> None:
        """Adds items; no more than there is room for."""

    def end(self) -> None:
        """Nothing more is added."""

    def is_open(self) -> bool:
        """Whether it is neither at its end nor closed."""

    def fileno(self) -> int:
        """A descriptor that is readable once there are replies, after `arm`."""

    def arm(self) -> bool:
        """Asks for the event. False when there is something to be had at once."""

    def clear(self) -> None:
        """Makes the descriptor unreadable again."""

    def close(self) -> None:
        """Gives up what is in flight. What was done with is durable then, when there is a state folder.

        Any thread may do that: a loop over the replies ends.

        Raises:
            StorageError: it could not be made durable.
        """

@final
class Batches:
    """Record batches of replies: an iterator of them, and a stream of Arrow's C data interface itself."""

    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _class: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def close(self) -> None:
        """Gives up what is in flight. Any thread may do that."""

@final
class Batch:
    """One record batch, for whatever reads Arrow's C data interface."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class BodyBuffer:
    """What the memoryview of a large body is made of."""

@final
class Request:
    """What to ask for, when a URL alone does not say it.

    Args:
        url: an absolute http or https URL.
        method: any but CONNECT and TRACE; `POST` with `json`, otherwise `GET`, if not given.
        headers: a mapping, or pairs of name and value: they stand instead of the client's of the same name.
        body: bytes to send.
        tag: any object; the reply has it.
        idempotent: whether the request may be made twice. Only then it is tried again after a failure. If not given,
            GET and HEAD may, and other methods may not.
        json: what is sent as JSON, in place of `body`, with `Content-Type: application/json` unless `headers` has one.
        params: for the query of the URL, behind what is there: a mapping, or pairs of name and value. A list or tuple
            gives its name once for each value, and None gives none.

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
        """Its own header fields."""

    @property
    def body(self) -> bytes | None:
        """What is sent."""

    @property
    def tag(self) -> Any:  # noqa: ANN401 - whatever the program gave
        """Any object; the reply has it."""

    @property
    def idempotent(self) -> bool:
        """Whether it may be made twice."""

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Pickles and copies are made with the arguments of the constructor."""

@final
class Timings:
    """Where the time of a request went, in seconds."""

    @property
    def queue(self) -> float:
        """From when it was taken from the input to the start of its last attempt."""

    @property
    def connect(self) -> float:
        """Making the connection, unless there was one."""

    @property
    def first_byte(self) -> float:
        """From the start of its last attempt to the first bytes of the reply."""

    @property
    def total(self) -> float:
        """From when it was taken from the input to the end of the reply."""

@final
class Headers(Mapping[str, str]):
    """Header fields by name, whatever its case.

    Fields that came more than once are one, joined by commas; `get_all` has them apart.
    """

    def __getitem__(self, name: str, /) -> str: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any type
        """The value of a field, or the default."""

    def get_all(self, name: str) -> list[str]:
        """All values of a field, in the order in which they came."""

    def keys(self) -> list[str]:  # type: ignore[override]
        """The names, each once."""

    def values(self) -> list[str]:  # type: ignore[override]
        """The values, in the order of the names."""

    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """Names and values."""

@final
class Reply:
    """What came back: a complete reply of whatever status, or the error that came instead of one."""

    @property
    def status(self) -> int | None:
        """The status, such as 200; None when there is no complete reply, or it opted out."""

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""

    @property
    def body(self) -> bytes | memoryview:
        """The body: bytes; from 64 KiB on a read-only memoryview, which is not copied."""

    @property
    def headers(self) -> Headers:
        """The header fields."""

    @property
    def url(self) -> str:
        """The URL as it was asked for."""

    @property
    def final_url(self) -> str:
        """Where the reply came from: another URL than was asked for when it was redirected."""

    @property
    def tag(self) -> Any:  # noqa: ANN401 - whatever the program gave
        """The tag of its `Request`."""

    @property
    def index(self) -> int:
        """The place of its request in the input, counted from 0."""

    @property
    def error(self) -> ReplyError | None:
        """Why there is no reply: a `ReplyError` with its `kind`, also `opted-out`; None when there is one."""

    @property
    def timings(self) -> Timings:
        """Where its time went."""

    @property
    def text(self) -> str:
        """The body as text: in the charset that the reply names, else UTF-8. What is malformed is replaced."""

    def json(self) -> Any:  # noqa: ANN401 - whatever the body has
        """The body as JSON."""

    def raise_for_status(self) -> None:
        """Raises a `StatusError` unless the status is 2xx, and the error when there is no complete reply."""

def answer_matches(pattern: str, kind: str | None, status: int | None) -> bool:
    """Whether a pattern of `--fail-on` or `--retry-failed` means an answer: a failure kind, a status, or both."""

def options() -> dict[str, list[dict[str, Any]]]:
    """All options of the core: those of jobs (`job`), of checks and of streams.

    Each has its name, type, unit, default, and the minimum and maximum of a number; None is what there is none of.
    """

def column_value(text: str, kind: str) -> str | int | float | bool:
    """A kept value as what it is, by the name of its column's type; text that is no such value stays text."""

def hide_secrets(text: str) -> str:
    """A text for people, without signatures, tokens and passwords of URLs."""

def status(dest: str, state: str | None) -> dict[str, Any]:
    """The ledger that the journal of a destination has: the fields of `fetchmill.Status`.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def job_command(dest: str, state: str | None) -> str | None:
    """How the job of a destination was asked for, as `to_json` has given it; None of a job that did not keep it.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def samples(dest: str, state: str | None) -> list[dict[str, Any]]:
    """What the job of a destination did over time, the oldest first, as `Job.samples` has it; also while it runs.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def no_proxy_covers(entries: list[str], host: str, port: int) -> bool:
    """Whether the entries of no_proxy say that a host, without brackets, is reached without a proxy."""

def skipped(dest: str, state: str | None) -> list[tuple[str, int, list[bytes]]]:
    """What a listing has left out: each reason, how many, and names of the first 100."""

def name_text(name: bytes) -> str:
    """The text of a name, as in a manifest: the name, or `%bytes:` and the percent-encoded name."""

def failed_folders(dest: str, after: bytes | None, count: int) -> list[bytes]:
    """Paths of folders that gave no listing, sorted, behind one; also of a list, by its results.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """

def is_public(address: str) -> bool:
    """Whether an address is one of the public internet: what is not known to be one is none.

    Args:
        address: as text, without brackets and scope.
    """

def synthetic_body(name: str, size: int) -> bytes:
    """The body that a synthetic server gives to a name.

    Args:
        name: the name, as listed.
        size: its size in bytes.
    """
