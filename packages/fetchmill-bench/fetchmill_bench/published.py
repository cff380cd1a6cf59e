"""Lists the measurements from five public texts, row by row and verbatim, each with the matching contender.

Machines, networks and years differ. Compare figures only within a table, never across tables or with this machine.
"""

from dataclasses import dataclass

MILLION = 1_000_000
BILLION = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Text:
    """A public text.

    Args:
        table: the letter of the text's table.
        title: the title as cited.
        setting: the measured work and the machine.
    """

    table: str
    title: str
    setting: str


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A way, as measured in a text.

    Args:
        table: the letter of the text's table.
        title: the title of the text.
        way: name of the way in the text.
        contender: name of the contender that is built like it; None if there is none.
        figures: the measurements. Their names include the units.
        counts: numbers of requests, objects or sites in the measured runs.
        limit: number of threads, processes or requests in flight, if the text states it.
    """

    table: str
    title: str
    way: str
    contender: str | None
    figures: dict[str, float | str]
    counts: tuple[int, ...]
    limit: int | None = None


A = Text(
    table="A",
    title="Downloading a Billion Files in Python",
    setting="one list/get server on the same network, a billion files of 100 bytes, one client with 16 cores and 64 GB",
)
B = Text(
    table="B",
    title="How to Retrieve 100k Objects with Python: Why We Prefer Threading to Asyncio",
    setting="a public S3 bucket of 100,000 small text files, a laptop on WiFi",
)
C = Text(
    table="C",
    title="Making an Unlimited Number of Requests with Python aiohttp + pypeln",
    setting="a server that sleeps 0-3 s at random, limit 1000, 100,000 requests",
)
D = Text(
    table="D",
    title="Making 100 million requests with Python aiohttp",
    setting="a server that sleeps 0, 1, 2 or 3 s at random, limit 1000",
)
D_SECOND = Text(
    table="D",
    title="Adding a concurrency limit to asyncio.as_completed",
    setting="the same server and limit, newer Python and aiohttp",
)
E = Text(
    table="E",
    title="An overview to different I/O patterns in Python",
    setting="https://www.{domain} of the top sites, connect and read timeout 3 s, no redirects",
)


def _row(
    text: Text,
    way: str,
    contender: str | None,
    counts: tuple[int, ...],
    figures: dict[str, float | str],
    limit: int | None = None,
) -> PublishedRow:
    return PublishedRow(
        table=text.table,
        title=text.title,
        way=way,
        contender=contender,
        figures=figures,
        counts=counts,
        limit=limit,
    )


def _billion(way: str, contender: str, figures: tuple[float, float, float], limit: int | None = None) -> PublishedRow:
    names = ("s a request", "days for 1e9 (extrapolated)", "hours for 1e9 (extrapolated)")
    return _row(A, way, contender, (BILLION,), dict(zip(names, figures, strict=True)), limit)


def _objects(
    way: str, contender: str, count: int, figures: dict[str, float | str], limit: int | None = None
) -> PublishedRow:
    return _row(B, way, contender, (count,), figures, limit)


def _slow(way: str, contender: str, figures: tuple[float, float, float]) -> PublishedRow:
    return _row(C, way, contender, (100_000,), dict(zip(("memory KB", "s", "CPU %"), figures, strict=True)), 1000)


def _sites(
    way: str, contender: str, seconds: tuple[float, float, float, float], limit: int | None = None
) -> PublishedRow:
    counts = (10, 100, 500, 1000)
    names = (f"s for {count} sites" for count in counts)
    return _row(E, way, contender, counts, dict(zip(names, seconds, strict=True)), limit)


_BILLION = (
    _billion("synchronous", "a_sync", (0.003, 34.7, 833.3)),
    _billion("10 threads", "a_threads", (0.0036, 41.6, 1000.0), limit=10),
    _billion("100 threads", "a_threads", (0.0042, 48.6, 1166.67), limit=100),
    _billion("16 processes", "a_processes_by_page", (0.00032, 3.7, 88.88), limit=16),
    _billion("asyncio", "a_asyncio", (0.00056, 6.5, 155.55)),
    _billion("combined", "a_combined", (0.0000303, 0.35, 8.42)),
)
_S3 = (
    _objects("50 threads", "boto3_threads", 100_000, {"s": 342.51}, limit=50),
    _objects("threads", "boto3_threads", 30_000, {"s": "about 90"}),
    _objects("asyncio", "aiobotocore_all", 30_000, {"s": "about 90, slightly ahead of threads"}),
    _objects(
        "100 threads",
        "boto3_threads",
        100,
        {"s": 6.0, "s to create a thread": 0.01, "s to create a client": 0.05},
        limit=100,
    ),
    _objects("10 threads", "boto3_threads", 100, {"s": 1.70}, limit=10),
    _objects("asyncio", "aiobotocore_all", 100, {"s": 1.39}),
)
_SLOW = (
    _slow("all tasks first, semaphore around the request", "semaphore_gather", (352_684, 154.87, 38)),
    _slow("list of running tasks scanned with sleep(0)", "polling_as_completed", (57_548, 154.91, 100)),
    _slow(
        "TaskPool: a semaphore taken before the task is created, released by its done callback",
        "task_pool",
        (58_188, 153.40, 36),
    ),
    _slow("pypeln each (workers = limit, on_start/on_done for the session)", "pypeln_each", (63_624, 154.39, 37)),
)
_MANY = (
    _row(
        text=D,
        way="synchronous",
        contender="cd_sync",
        figures={"s for 10": 15.2, "MB for 10": 20.5, "s for 100": 156.6},
        counts=(10, 100),
    ),
    _row(
        text=D,
        way="semaphore, all tasks first",
        contender="semaphore_gather",
        figures={
            "s for 10": 3.1,
            "MB for 10": 25.0,
            "s for 100": 3.2,
            "s for 10,000": 18.1,
            "MB for 10,000": 78.0,
            "s for 1 million": 1544.0,
            "GB for 1 million": 3.8,
            "CPU % for 1 million": "about 10",
            "minutes for 1 million, the original author's own run": 9.0,
            "100 million": "killed by the kernel after 10 h, no request made",
        },
        counts=(10, 100, 10_000, MILLION, 100 * MILLION),
        limit=1000,
    ),
    _row(
        text=D,
        way="as_completed with a limit, polling",
        contender="polling_as_completed",
        figures={
            "s for 10": 3.1,
            "MB for 10": 23.2,
            "s for 100": 3.2,
            "s for 10,000": 17.9,
            "MB for 10,000": 47.0,
            "s for 1 million": 1506.0,
            "MB for 1 million": 162.0,
            "CPU % for 1 million": 100.0,
            "s for 100 million": 150_213.0,
            "MB for 100 million": 294.0,
            "requests/s for 100 million": 665.0,
        },
        counts=(10, 100, 10_000, MILLION, 100 * MILLION),
        limit=1000,
    ),
    _row(
        text=D_SECOND,
        way="semaphore, all tasks first",
        contender="semaphore_gather",
        figures={"s for 10,000": 19.2, "MB for 10,000": 74.0},
        counts=(10_000,),
        limit=1000,
    ),
    _row(
        text=D_SECOND,
        way="as_completed with a limit, by callbacks",
        contender="callback_as_completed",
        figures={"s for 10,000": 19.0, "MB for 10,000": 49.0},
        counts=(10_000,),
        limit=1000,
    ),
)
_SITES = (
    _sites("synchronous", "e_sync", (3.12, 41.84, 317.75, 642.83)),
    _sites("8 processes", "e_pool", (0.95, 8.68, 52.82, 86.07), limit=8),
    _sites("thread pool", "e_threads", (0.83, 6.06, 34.15, 75.72)),
    _sites("asyncio, all at once", "e_gather", (1.46, 3.15, 16.91, 57.64)),
)

PUBLISHED: tuple[PublishedRow, ...] = (*_BILLION, *_S3, *_SLOW, *_MANY, *_SITES)
