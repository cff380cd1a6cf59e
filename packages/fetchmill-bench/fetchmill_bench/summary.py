"""Converts runs to results: medians and spreads, the time for a billion requests, and the ratio to the best way."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_BILLION = 1e9
_SECONDS_A_DAY = 86_400
_MICRO = 1e6
# Properties that identify a result. Runs that have all of them in common are repeats.
_SAME = ("scenario", "contender", "way", "row", "requests", "limit", "sites")

Row = Mapping[str, Any]


def results_of(runs: Iterable[Row], *, by_requests: bool) -> list[dict[str, Any]]:
    """Returns the results, in the order of their first runs.

    Args:
        runs: the runs, as in the document.
        by_requests: if a scenario has several numbers of requests, whether to compare only ways with the same number,
            as the published texts do. If False, all ways of a scenario are compared.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for run in runs:
        groups.setdefault(tuple(run[name] for name in _SAME), []).append(run)
    results = [_result(group) for group in groups.values()]
    for result in results:
        rivals = (other for other in results if _compares(result, other, by_requests=by_requests))
        result["ratio_to_best"] = _ratio(result, rivals)
    return results


def spread(values: Sequence[float]) -> dict[str, float]:
    """Returns the median, the minimum and the maximum."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def _result(runs: Sequence[Row]) -> dict[str, Any]:
    """Returns the combined result of several repeats. Failed runs count only if all runs failed."""
    good = [run for run in runs if run["status"] != "failed" and run["done"] > 0]
    shown = good[0] if good else runs[0]
    rates = spread([run["requests_per_second"] for run in good] or [0.0])
    rate = rates["median"]
    steady = [run["steady_per_second"] for run in good if run["steady_per_second"] is not None]
    cpu = [_MICRO * run["cpu_seconds"] / run["done"] for run in good]
    server = [_MICRO * run["server_cpu_seconds"] / run["done"] for run in good if run["server_cpu_seconds"] is not None]
    set_up = [run["set_up_seconds"] for run in good if run["set_up_seconds"] is not None]
    return {
        **{name: runs[0][name] for name in _SAME},
        "repeats": len(runs),
        "status": _status(runs),
        "reason": next((run["reason"] for run in runs if run["reason"]), None),
        "requests_per_second": rates,
        "steady_per_second": statistics.median(steady) if steady else None,
        "seconds_a_request": 1 / rate if rate else None,
        "days_for_a_billion": _BILLION / rate / _SECONDS_A_DAY if rate else None,
        "set_up_seconds": statistics.median(set_up) if set_up else None,
        "cpu_us_a_request": statistics.median(cpu) if cpu else None,
        "server_cpu_us_a_request": statistics.median(server) if server else None,
        "peak_mib": spread([run["peak_mib"] for run in good] or [0.0]),
        "failures": sum(run["failures"] for run in runs),
        "differs": shown["differs"],
    }


def _status(runs: Sequence[Row]) -> str:
    """Returns the worst status, because a way that sometimes fails does not work reliably."""
    found = {run["status"] for run in runs}
    return next(status for status in ("failed", "stopped", "ok") if status in found)


def _compares(one: Row, other: Row, *, by_requests: bool) -> bool:
    names = ("scenario", "sites", *(("requests",) if by_requests else ()))
    return all(one[name] == other[name] for name in names)


def _ratio(result: Row, rivals: Iterable[Row]) -> float | None:
    """Returns the time per request as a multiple of the best way's time per request.

    None for a way that completed no request.
    """
    rate, best = _rate(result), max(map(_rate, rivals))
    return best / rate if rate else None


def _rate(result: Row) -> float:
    """Returns the steady rate if there is one, otherwise the mean rate."""
    rate: float = result["steady_per_second"] or result["requests_per_second"]["median"]
    return rate
