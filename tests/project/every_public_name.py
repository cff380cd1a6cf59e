# ruff: noqa: T201 - nothing runs it
"""A program that uses every public name, for type checkers: `make lint` checks it with mypy, strictly.

It is never run. tests/project/test_public_names.py reports names that are missing here.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime

import fetchmill
from fetchmill import bounded, shared_jobs, testing

URL = "http://127.0.0.1:8080"


def upper(replies: list[fetchmill.FetchedReply]) -> list[bytes | Exception | None]:
    """A transform."""
    return [reply.body.upper() if reply.status == 200 else ValueError(reply.name) for reply in replies]


def look(snapshot: fetchmill.Snapshot) -> None:
    """Shows the progress of a job."""
    waits: tuple[fetchmill.Wait, ...] = snapshot.waits
    limited: fetchmill.LimitedBy | None = snapshot.limited_by
    latency: fetchmill.Latency | None = snapshot.latency
    origins: tuple[fetchmill.OriginLatency, ...] = snapshot.origins
    print(snapshot.settled, snapshot.expected, waits, limited, latency, origins)


def requests() -> Iterator[fetchmill.Request | tuple[str, str]]:
    """Yields targets of a program."""
    yield fetchmill.Request(URL, method="POST", body=b"{}", headers={"accept": "text/html"})
    yield (URL, "name")


def jobs() -> None:
    """Calls everything that fetches into a destination."""
    report: fetchmill.Report = fetchmill.get(requests(), "out", format="parquet", transform=upper, progress=look)
    fetchmill.get(URL, "images", image_max_side=512, image_format="webp", first=100, progress=True)
    resumed: fetchmill.Report = fetchmill.resume("out", retry_failed=["5xx"])
    synced: fetchmill.SyncReport = fetchmill.sync(URL, "mirror", delete=True)
    planned: fetchmill.SyncPlan | None = synced.plan
    checked: fetchmill.CheckReport = fetchmill.check(["http://example.org"], "results.parquet")
    listed: fetchmill.ListReport = fetchmill.list(URL, each=take)
    plan: fetchmill.Plan = fetchmill.plan(URL, "out")
    estimate: fetchmill.Estimate = plan.seconds
    of_format: fetchmill.FormatPlan = plan.formats[0]
    print(report.fetched, resumed.failures, planned, checked.count("dns*"), listed.rows, estimate, of_format)
    for options in (
        fetchmill.GetOptions(source=URL, dest="out", concurrency="auto"),
        fetchmill.CheckOptions(source="urls.txt", results=None),
        fetchmill.ListOptions(source=URL, manifest="all.csv"),
        fetchmill.SyncOptions(source=URL, dest="out"),
        fetchmill.PlanOptions(source=URL),
        fetchmill.StreamOptions(rate=5),
    ):
        print(options)
    print(fetchmill.load_config("fetchmill.toml", "get"), fetchmill.__version__)


def take(targets: Sequence[fetchmill.ListedTarget]) -> None:
    """Receives listed targets."""
    print(targets)


def reading() -> None:
    """Calls everything that reads a destination."""
    status: fetchmill.Status = fetchmill.status("out")
    progress: fetchmill.JobProgress | None = status.progress
    failures: list[fetchmill.Failure] = list(fetchmill.failures("out"))
    skipped: list[fetchmill.Skipped] = list(fetchmill.skipped("out"))
    history: fetchmill.JobHistory = fetchmill.history("out")
    verified: fetchmill.VerifyReport = fetchmill.verify("out", on_finding=found)
    exported: fetchmill.Report = fetchmill.export("out", "other", format="tar")
    diff: fetchmill.DiffReport = fetchmill.diff("old.parquet", "new.parquet")
    changes: tuple[fetchmill.Change, ...] = diff.changes
    objects: fetchmill.Objects
    with fetchmill.open("out") as objects:
        record: fetchmill.Object = objects.record("name")
        print(objects["name"], len(objects), record.url)
    print(progress, failures, skipped, history, verified.ok, exported, changes)


def found(finding: fetchmill.Finding) -> None:
    """Shows the findings of `verify`."""
    print(finding.name)


def streams() -> None:
    """Receives replies as they arrive."""
    for reply in fetchmill.stream([URL], concurrency=10):
        one: fetchmill.Reply = reply
        headers: fetchmill.Headers = one.headers
        timings: fetchmill.Timings | None = one.timings
        print(one.status, headers.get("etag"), timings, one.body)
    for batch in fetchmill.stream_batches([URL]):
        print(len(batch))
    with fetchmill.Client(attempts=2) as client:
        print(client.get(URL).status)


async def awaited() -> None:
    """Does the same in an event loop."""

    async def urls() -> AsyncIterator[str]:
        yield URL

    async for reply in fetchmill.astream(urls()):
        print(reply.status)
    async for body in bounded.map(asyncio.sleep, [1.0], limit=1, attempts=2, item_timeout=5.0):
        print(body)
    async with bounded.TaskPool(2) as pool:
        await pool.put(asyncio.sleep(1))
    for awaitable in bounded.as_completed([asyncio.sleep(1)], limit=1):
        await awaitable
    tally: bounded.Tally = await bounded.each(asyncio.sleep, [1.0], limit=1)
    print(tally.failures)


def pools() -> None:
    """Uses bounded concurrency without a loop."""
    for result in bounded.threads.map(abs, [1], limit=1, on_error="return", attempts=3, retry_on=OSError):
        print(result.error if isinstance(result, bounded.Failed) else result)
    try:
        bounded.processes.each(abs, [1], limit=1, item_timeout=1.0)
    except bounded.ItemTimeoutError as error:
        print(error)
    except bounded.WorkerDiedError as error:
        print(error)


def cluster() -> None:
    """Runs one job on several machines."""
    shared_jobs.get("urls.parquet", "/nfs/run", format="tar", on=fetchmill.Ray(workers=4))
    shared_jobs.join("/nfs/run")
    shared_jobs.resume("/nfs/run")
    shared_jobs.set_rate("/nfs/run", 5.0)
    shared_jobs.extend("/nfs/run", "more.txt")
    shared_jobs.stop("/nfs/run")
    status: shared_jobs.SharedStatus = shared_jobs.status("/nfs/run")
    workers: tuple[shared_jobs.WorkerStatus, ...] = status.workers
    of_all: shared_jobs.SharedHistory = shared_jobs.history("/nfs/run")
    print(workers, of_all.seconds)


def servers() -> None:
    """Starts servers for tests."""
    server: testing.Server
    with testing.serve(synthetic=10, faults=[testing.Fault("status", status=503, times=1)]) as server:
        print(server.url, testing.synthetic_body("file-000000000000", 100))
    store: testing.S3Store
    with testing.s3(synthetic=10) as store:
        print(store.url, testing.S3Behaviour())
    world: testing.World
    with testing.world(threads=2) as world:
        print(world)


def errors() -> None:
    """Handles exceptions."""
    try:
        jobs()
    except fetchmill.DeleteLimitError as error:
        print(error)
    except fetchmill.UsageError as error:
        print(error.options, error.hint, error.exit_code)
    except (fetchmill.ListingError, fetchmill.TemporaryError, fetchmill.SecurityError, fetchmill.AccessError) as error:
        print(error)
    except (fetchmill.StorageError, fetchmill.BusyError, fetchmill.JournalError, fetchmill.InternalError) as error:
        print(error)
    except (fetchmill.StrayReplyError, fetchmill.StatusError, fetchmill.ReplyError) as error:
        print(error)
    except fetchmill.FetchmillError as error:
        print(error, datetime.now(UTC))
