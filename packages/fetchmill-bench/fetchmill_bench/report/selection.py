"""Selects the results that a plot compares from those in a document."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fetchmill_bench.report.bars import Bar
from fetchmill_bench.report.lines import Line

# Results and rows of the document, as written by the bench.
Record = Mapping[str, Any]
# A contender that ran with more limits than this is a sweep, and the bars show only its best limit. Two limits
# represent two rows of a text.
_LIMITS_SHOWN = 2


def size(result: Record) -> int:
    """Returns a contender's number of requests or sites."""
    found: int = result["requests"] if result["sites"] is None else result["sites"]
    return found


def is_measured(result: Record) -> bool:
    """Returns whether a result has a rate. Only a result whose repeats all failed has none."""
    return bool(result["requests_per_second"]["median"])


def by_scenario(results: Iterable[Record]) -> dict[str, list[Record]]:
    """Groups results by scenario, in the order of the document."""
    found = defaultdict(list)
    for result in results:
        found[result["scenario"]].append(result)
    return dict(found)


def signs(results: Iterable[Record]) -> dict[str, int]:
    """Returns a number for each contender, the same in every plot."""
    return {name: number for number, name in enumerate(dict.fromkeys(result["contender"] for result in results))}


def common_size(results: Sequence[Record]) -> int:
    """Returns the largest size that has figures for at least half as many contenders as the best-covered size."""
    contenders = defaultdict(set)
    for result in filter(is_measured, results):
        contenders[size(result)].add(result["contender"])
    most = max(map(len, contenders.values()))
    return max(found for found, names in contenders.items() if 2 * len(names) >= most)


def comparison_bars(results: Sequence[Record], published: Callable[[Record], float | None]) -> list[Bar]:
    """Creates a bar for each contender of a scenario, with the fastest first and failed contenders last.

    Args:
        results: the results of one scenario. At least one has a rate.
        published: returns the published time per request of a result, in seconds.

    Returns:
        Bars at the common size. A contender without a result at that size is shown at the largest size for which it has
        a result.
    """
    common = common_size(results)
    found = [
        _bar(result, common, published(result))
        for own in _by_contender(results).values()
        for result in _best(_at_size(own, common))
    ]
    return sorted(found, key=lambda bar: (bar.seconds is None, bar.seconds or 0))


def sweep(
    results: Sequence[Record],
    numbers: Mapping[str, int],
    across: Callable[[Record], int],
    fixed: Callable[[Record], int] | None,
    up: Callable[[Record], float],
) -> list[Line]:
    """Creates a line for each contender with results at several values of the horizontal quantity.

    Args:
        results: the results of one scenario.
        numbers: the contenders' signs.
        across: the horizontal quantity.
        fixed: a quantity that is constant along a line, at the value with the most points, or the largest such value.
            If `fixed` is None and several results have the same position, the result with the highest limit is shown.
        up: the vertical quantity.

    Returns:
        Lines of at least two points.
    """
    found = []
    for name, own in _by_contender(filter(is_measured, results)).items():
        points: dict[int, dict[int, float]] = defaultdict(dict)
        for result in sorted(own, key=lambda result: result["limit"]):
            position, height = across(result), up(result)
            if height:
                points[fixed(result) if fixed else 0][position] = height
        longest = max(points, key=lambda value: (len(points[value]), value), default=None)
        if longest is not None and len(points[longest]) > 1:
            found.append(Line(name, sorted(points[longest].items()), numbers[name]))
    return found


def _by_contender(results: Iterable[Record]) -> dict[str, list[Record]]:
    found = defaultdict(list)
    for result in results:
        found[result["contender"]].append(result)
    return dict(found)


def _at_size(results: Sequence[Record], common: int) -> list[Record]:
    sizes = {size(result) for result in results}
    wanted = common if common in sizes else max(sizes)
    return [result for result in results if size(result) == wanted]


def _best(results: Sequence[Record]) -> list[Record]:
    """Returns the results to show for one contender at one size.

    A failure is included only if there is no other result.
    """
    measured = [result for result in results if is_measured(result)]
    if not measured:
        return list(results[:1])
    if len(measured) <= _LIMITS_SHOWN:
        return measured
    return [max(measured, key=lambda result: result["requests_per_second"]["median"])]


def _bar(result: Record, common: int, published: float | None) -> Bar:
    detail = [f"limit {result['limit']:,}"]
    if size(result) != common:
        detail.append(f"at {size(result):,}")
    rate = result["requests_per_second"]
    return Bar(
        way=result["contender"],
        detail=", ".join(detail),
        seconds=result["seconds_a_request"],
        least=1 / rate["most"] if rate["most"] else None,
        most=1 / rate["least"] if rate["least"] else None,
        published=published,
        reason=result["reason"],
    )
