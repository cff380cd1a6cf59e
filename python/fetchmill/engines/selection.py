"""Selects a job's engine and transport, and refuses unsupported options."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from fetchmill._options.credentials import is_socks, origin_of, proxies_of
from fetchmill._options.get import GetOptions
from fetchmill._options.sources import leads_anywhere
from fetchmill.engines.engine_job import EngineJob, start_in_process, start_processes
from fetchmill.engines.function_transport import CoroutineTransport, FunctionTransport, UserFunction
from fetchmill.engines.process_pool import pickle_worker_main
from fetchmill.engines.transports import AsyncTransport, BlockingTransport, TransportOptions
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._native import Job
    from fetchmill._options.table import Concurrency

# Engines whose requests are coroutines, and engines that use processes.
ASYNC_ENGINES = ("asyncio", "combo")
PROCESS_ENGINES = ("processes", "combo")
# Default `concurrency_max` of the `threads` engine. Only one thread runs at a time, so additional threads would wait
# for each other. Each thread's client and connection use about 1 MB.
_THREADS_MAX = 256
# Default `concurrency_max` per event loop. A loop makes a few thousand requests per second on one processor. If each
# request takes half a second, about this many are in flight. A connection and its buffers use about 50 KB.
_LOOP_REQUESTS_MAX = 1024
# Default number of concurrent calls to the user's function. The limits of the servers that it calls are unknown.
_FUNCTION_CALLS = 64
# Maximum number of processes per processor, and in total. Each process runs an interpreter of about 40 MB, with its own
# sink and shards.
_PROCESSES_EACH = 8
_PROCESSES_MAX = 32


@dataclass(frozen=True)
class Engine:
    """An engine that is ready to start.

    Args:
        options: the options of the job, for the native module.
        start: function that starts the engine for a job.
        notices: human-readable messages about the engine's library, one line each.
    """

    options: str
    start: "Callable[[Job], EngineJob]"
    notices: tuple[str, ...]


def select_engine(options: GetOptions, native: str, own: UserFunction | None) -> Engine:
    """Return the engine named in the options.

    Args:
        options: the options of the job, in which `engine` is not `native`.
        native: the same options, for the native module.
        own: the user's function, which takes the place of a transport.

    Raises:
        UsageError: the engine does not support an option, its libraries are missing, or it cannot call the function.
    """
    _refuse_native_only(options)
    name, values = options.engine, json.loads(native)
    if options.concurrency is None:
        options = replace(options, concurrency=_usual(options, own))
    processes = _processes(options)
    limit = _limit(options, processes)
    values["concurrency"] = {"most": limit} if options.concurrency == "auto" and name != "sync" else limit
    values |= {"processes": processes} if name in PROCESS_ENGINES else {"dispatcher": True}
    if own is not None:
        # A function can fetch anything from anywhere, so per-host limits and URL checks do not apply.
        values["any_text"] = values["source_kind"] != "server"
        values = {"limit_per_host": 0, "rate_per_host": 0.0, **values}
    text = json.dumps(values)
    if own is not None and not callable(own.function):
        raise UsageError(f"fetch must be a function, not {type(own.function).__name__}")
    if name in ASYNC_ENGINES:
        loops = processes if name == "combo" else 1
        transport = _async_transport(options, values, own, -(-limit // loops))
        return _async_engine(options, text, transport, loops)
    return _blocking_engine(options, text, _blocking_transport(options, values, own), processes)


def _async_engine(options: GetOptions, text: str, transport: AsyncTransport, processes: int) -> Engine:
    from fetchmill.engines import combo, event_loop

    if options.engine == "asyncio":
        run = partial(event_loop.run, transport=transport)
        return Engine(text, lambda job: start_in_process(job, run), transport.notices)
    # Pickle now so that errors are raised before the job starts.
    worker_mains = [pickle_worker_main(combo.worker_main(transport, processes))] * processes
    return Engine(text, lambda job: start_processes(job, text, worker_mains), transport.notices)


def _blocking_engine(options: GetOptions, text: str, transport: BlockingTransport, processes: int) -> Engine:
    from fetchmill.engines import processes as process_engine
    from fetchmill.engines import sync, threads

    if options.engine == "sync":
        run_all = partial(sync.run, transport=transport)
        return Engine(text, lambda job: start_in_process(job, run_all), transport.notices)
    if options.engine == "threads":
        run = partial(threads.run, transport=transport, has_rests=not isinstance(transport, FunctionTransport))
        return Engine(text, lambda job: start_in_process(job, run), transport.notices)
    worker_mains = [pickle_worker_main(process_engine.worker_main(transport))] * processes
    return Engine(text, lambda job: start_processes(job, text, worker_mains), transport.notices)


def _async_transport(
    options: GetOptions, values: dict[str, Any], own: UserFunction | None, connections: int
) -> AsyncTransport:
    if own is None:
        from fetchmill.engines.http.aiohttp_transport import AiohttpTransport

        return AiohttpTransport(_transport_options(options, values, connections))
    if not _is_coroutine_function(own.function):
        raise UsageError(f"fetch must be a coroutine function (async def) for engine {options.engine}")
    return CoroutineTransport(own.function, own.on_start, own.on_done)


def _blocking_transport(options: GetOptions, values: dict[str, Any], own: UserFunction | None) -> BlockingTransport:
    if own is None:
        from fetchmill.engines.http.requests_transport import RequestsTransport

        return RequestsTransport(_transport_options(options, values, 1))
    if _is_coroutine_function(own.function):
        raise UsageError(
            f"fetch must be a plain function for engine {options.engine}; use engine asyncio or combo for a coroutine "
            "function"
        )
    return FunctionTransport(own.function, own.on_start, own.on_done)


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Return whether a callable is a coroutine function, a partial of one, or an object with an async `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _transport_options(options: GetOptions, values: dict[str, Any], connections: int) -> TransportOptions:
    is_list = leads_anywhere(options, values["source_kind"])
    is_named = values["source_kind"] == "server" and not options.public_only
    return TransportOptions(
        connections=connections,
        connect_timeout=options.connect_timeout,
        head_timeout=options.head_timeout,
        idle_timeout=options.idle_timeout,
        total_timeout=options.total_timeout,
        max_size=options.max_size,
        ca_file=None if options.ca_file is None else str(options.ca_file),
        insecure_hosts=tuple(options.insecure_host or ()),
        proxy=values.get("proxy"),
        # As with the native engine, URLs from an untrusted list must lead to public addresses.
        public_only=not options.allow_private if is_list else options.public_only,
        named_origin=origin_of(str(options.source)) if is_named else None,
    )


def _refuse_native_only(options: GetOptions) -> None:
    """Refuse options that only the native engine supports."""
    asked = {
        "--format warc": options.format == "warc",
        "--bearer-command": options.bearer_command is not None,
        "--redirects": bool(options.redirects),
        "--cookies": options.cookies is not None,
        "--client-cert": options.client_cert is not None,
        "--resolver": bool(options.resolver),
        "--proxy socks5://": any(map(is_socks, proxies_of(options.proxy))),
    }
    for option, is_asked in asked.items():
        if is_asked:
            raise UsageError(f"{option} needs --engine native, not {options.engine}")


def _usual(options: GetOptions, own: UserFunction | None) -> "Concurrency":
    """Return the default concurrency."""
    if options.engine == "sync":
        return 1
    if options.engine == "processes":
        return options.threads or len(os.sched_getaffinity(0))
    return "auto" if own is None else _FUNCTION_CALLS


def _processes(options: GetOptions) -> int:
    """Return the number of processes: `concurrency` for `processes`, `threads` for `combo`, or a default."""
    cores = len(os.sched_getaffinity(0))
    given = options.concurrency if isinstance(options.concurrency, int) else None
    if options.engine == "processes":
        return given or options.concurrency_max or max(cores, min(_PROCESSES_EACH * cores, _PROCESSES_MAX))
    wanted, requests = options.threads or cores, given or options.concurrency_max
    return min(wanted, requests) if requests else wanted


def _limit(options: GetOptions, processes: int) -> int:
    """Return the maximum number of requests in flight."""
    if options.engine == "sync":
        if options.concurrency not in (1, "auto"):
            raise UsageError("concurrency must be 1 for engine sync, which makes one request at a time")
        return 1
    if options.engine == "processes":
        return processes
    if isinstance(options.concurrency, int):
        return options.concurrency
    of_engine = {"threads": _THREADS_MAX, "asyncio": _LOOP_REQUESTS_MAX, "combo": processes * _LOOP_REQUESTS_MAX}
    return options.concurrency_max or of_engine[options.engine]
