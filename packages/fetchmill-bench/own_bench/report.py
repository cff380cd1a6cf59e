"""`make bench-report`: shows figures as Markdown tables, on the terminal and in the pages that contain them."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from own_bench.machine import ROOT
from own_bench.readme_chart import Bar, draw

RESULTS = Path(__file__).with_name("results")
CHART = ROOT / "docs" / "plots" / "readme.svg"
PAGES = (ROOT / "docs" / "reference" / "performance.md", ROOT / "README.md")

Row = tuple[str, ...]


def main() -> int:
    """Writes the chart, and the tables between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->` in the pages."""
    results = load(RESULTS)
    for page in PAGES:
        page.write_text(filled(page.read_text(), results))
    CHART.write_text(chart(results))
    return 0


def load(folder: Path) -> dict[str, Any]:
    """Loads the last measurement, along with the measurements of scale and of S3 clients."""
    latest = folder / "latest.json"
    results: dict[str, Any] = json.loads(latest.read_text()) if latest.exists() else {"scenarios": {}}
    scale = [json.loads(path.read_text()) for path in folder.glob("scale-*.json")]
    if scale:
        results["scenarios"]["scale"] = sorted(scale, key=lambda found: (found["objects"], found.get("format", "null")))
    buckets = folder / "s3.json"
    if buckets.exists():
        results["s3"] = json.loads(buckets.read_text())
    return results


def filled(text: str, results: dict[str, Any]) -> str:
    """Returns the text of a page with the tables filled in."""
    marked = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench:\2 -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}{render(found[2], results)}{found[3]}", text)


def render(name: str, results: dict[str, Any]) -> str:
    """Renders one or more tables."""
    if name not in TABLES:
        raise SystemExit(f"unknown table {name}")
    measured = results["scenarios"]
    is_there = name in measured or (name in ("facts", "bars", "readme") and "machine" in results)
    return TABLES[name](results) if is_there else "Not measured yet.\n"


def _table(heads: Row, rows: Iterable[Row]) -> str:
    """Returns a Markdown table. All columns except the first contain numbers."""
    body = [heads, *rows]
    widths = [max(len(row[column]) for row in body) for column in range(len(heads))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def line(row: Iterable[str]) -> str:
        cells = [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(cells)} |"

    return "\n".join([line(heads), line(rule), *map(line, body[1:])]) + "\n"


def _bars(bars: Iterable[dict[str, Any]]) -> str:
    rows = []
    for bar in bars:
        word, bound = ("at most", bar["at_most"]) if bar["at_most"] is not None else ("at least", bar["at_least"])
        rows.append((bar["name"], f"{bar['ratio']:.2f}", f"{word} {bound:.2f}", "yes" if bar["is_met"] else "NO"))
    return _table(("ratio, median of the rounds", "measured", "bar", "met"), rows)


CLIENT_HEADS = (
    "",
    "objects/s",
    "CPU us per object",
    "user",
    "system",
    "lowest - highest",
    "server's CPU us",
    "peak MiB",
)


def _client_row(name: str, values: dict[str, float]) -> Row:
    return (
        name,
        f"{values['rate']:,.0f}",
        f"{values['cpu_us']:.2f}",
        f"{values['user_us']:.2f}",
        f"{values['system_us']:.2f}",
        f"{values['cpu_us_low']:.2f} - {values['cpu_us_high']:.2f}",
        f"{values['server_us']:.2f}",
        f"{values['peak_mib']:.0f}",
    )


def _null(results: dict[str, Any]) -> str:
    found = results["scenarios"]["null"]
    rows = [_client_row(name, found[name]) for name in ("wrk", "fetchmill")]
    start_up = f"Start-up of the command (`fetchmill --version`): {1000 * found['start_up_seconds']:.0f} ms of CPU"
    start_up += f", which is {1e6 * found['start_up_seconds'] / found['objects']:.2f} us for each of"
    start_up += f" {found['objects']:,} objects; it is in the figures.\n"
    return f"{_table(CLIENT_HEADS, rows)}\n{_bars(found['bars'])}\n{start_up}"


def _in_flight(results: dict[str, Any]) -> str:
    rows = []
    for level in results["scenarios"]["in_flight"]["levels"]:
        ours, wrks = level["fetchmill"], level["wrk"]
        cpu, rate = level["bars"]
        rows.append(
            (
                str(level["connections"]),
                f"{ours['rate']:,.0f}",
                f"{wrks['rate']:,.0f}",
                f"{rate['ratio']:.2f}",
                f"{ours['cpu_us']:.2f}",
                f"{wrks['cpu_us']:.2f}",
                f"{cpu['ratio']:.2f}",
            )
        )
    heads = ("in flight", "objects/s", "wrk's", "ratio", "CPU us per object", "wrk's", "ratio")
    return _table(heads, rows)


def _files(results: dict[str, Any]) -> str:
    found = results["scenarios"]["files"]
    names = {"null": "`--format null`", "loop": "bare loop", "loop, syncs": "the same, a sync each second"}
    names["files"] = "`--format files`"
    names["files, no syncs"] = "the same, `--durability process`"
    rows = [_client_row(shown, found["clients"][name]) for name, shown in names.items() if name in found["clients"]]
    where = "one fresh ext4" if found["mounted"] else "a folder of the machine's disk"
    return (
        f"{_table(CLIENT_HEADS, rows)}\n{_bars(found['bars'])}\n"
        f"{found['objects']:,} objects a run, all on {where}, nothing deleted in between. "
        f"Without syncs the ratio is {found['without_syncs']:.2f}.\n"
    )


def _packs(results: dict[str, Any]) -> str:
    found = results["scenarios"]["packs"]
    shown = {"wrk": "wrk"} | {name: f"`--format {name}`" for name in found["clients"] if name != "wrk"}
    clients = _table(CLIENT_HEADS, [_client_row(shown[name], found["clients"][name]) for name in shown])
    size = results["settings"]["size"]
    disk = [
        (shown[name], str(size), f"{sizes['shards']:.0f}", f"{sizes['manifests']:.0f}")
        for name, sizes in found["disk"].items()
    ]
    heads = ("bytes on disk for an object", "raw", "shards", "manifests")
    return f"{clients}\n{_bars(found['bars'])}\n{_table(heads, disk)}"


def _pipelined(results: dict[str, Any]) -> str:
    found = results["scenarios"]["pipelined"]
    ours = {"null": "`--format null --pipeline 32`", "parquet": "`--format parquet --pipeline 32`"}
    nginx = {"nginx": "`--format null`, nginx", "nginx, 32 at once": "`--format null --pipeline 32`, nginx"}
    shown = {"wrk": "wrk, one at a time", "h2load": "h2load, 32 at once"} | ours | nginx
    rows = [_client_row(shown[name], values) for name, values in found["clients"].items()]
    return f"{_table(CLIENT_HEADS, rows)}\n{_bars(found['bars'])}"


def _servers(results: dict[str, Any]) -> str:
    found = results["scenarios"]["servers"]
    rows = [
        (
            name if name.startswith("nginx") else _command_shown(name),
            f"{values['rate']:,.0f}",
            f"{values['rate_low']:,.0f} - {values['rate_high']:,.0f}",
            f"{values['server_us']:.2f}",
            f"{values['cpu_us']:.2f}",
        )
        for name, values in found["servers"].items()
    ]
    heads = ("", "replies/s", "lowest - highest", "CPU us a reply", "wrk's CPU us")
    return f"{_table(heads, rows)}\n{_bars(found['bars'])}"


def _command_shown(name: str) -> str:
    """Returns the command of a fetchmill server, followed by a comma and the kind of requests."""
    command, comma, how = name.partition(",")
    return f"`fetchmill {command}`{comma}{how}"


def _stream(results: dict[str, Any]) -> str:
    found = results["scenarios"]["stream"]
    names = {
        "wrk": "wrk",
        "stream": "`fetchmill.stream`",
        "pycurl": "pycurl, CurlMulti",
        "aiohttp": "aiohttp, uvloop",
        "requests": "requests, one session per thread",
        "stream_batches": "`fetchmill.stream_batches`",
        "null": "`fetchmill get --format null`",
    }
    rows = [_client_row(shown, found["clients"][name]) for name, shown in names.items() if name in found["clients"]]
    versions = found["versions"]
    return (
        f"{_table(CLIENT_HEADS, rows)}\n{_bars(found['bars'])}\n"
        f"{found['replies']:,} replies a run of ours, {found['connections']} in flight; {versions['pycurl']}; "
        f"{', '.join(f'{name} {versions[name]}' for name in ('aiohttp', 'uvloop', 'requests') if name in versions)}.\n"
    )


def _https(results: dict[str, Any]) -> str:
    versions = results["scenarios"]["https"]["versions"]
    rows = [
        _client_row(f"{client}, {found['version']}", found[client])
        for found in versions
        for client in ("h2load", "fetchmill")
    ]
    ratios = [(found["version"], f"{found['cpu_ratio']:.2f}", f"{found['rate_ratio']:.2f}") for found in versions]
    heads = ("fetchmill's / h2load's, median of the rounds", "CPU per object", "objects/s")
    return f"{_table(CLIENT_HEADS, rows)}\n{_table(heads, ratios)}"


def _scale(results: dict[str, Any]) -> str:
    rows = [
        (
            f"{found['objects']:,}",
            found.get("format", "null"),
            str(found.get("pipeline", 1)),
            "one each" if found.get("is_pinned", True) else "shared",
            f"{found['seconds']:,.0f}",
            f"{found['us']:.2f}",
            f"{found['cpu_us']:.2f}",
            f"{found['server_us']:.2f}",
            f"{found['peak_mib']:.0f}",
            f"{found['journal_peak_mib']:.1f}",
            str(found["kills"]),
            f"{found['made_again']:,}",
            "yes" if found["balances"] else "NO",
        )
        for found in results["scenarios"]["scale"]
    ]
    heads = (
        *("objects", "format", "--pipeline", "two processors", "seconds", "us per object", "CPU us", "server's CPU us"),
        *("peak MiB", "journal MiB", "kills", "fetched again", "balances"),
    )
    return _table(heads, rows)


def _summary(results: dict[str, Any]) -> str:
    """Returns the bars of each scenario on separate lines."""
    named = {
        "null": "`null`",
        "files": "`files`",
        "packs": "packs",
        "servers": "`serve`",
        "stream": "`stream`",
    }
    bars = [
        {**bar, "name": f"{shown}: {bar['name']}"}
        for name, shown in named.items()
        for bar in results["scenarios"].get(name, {}).get("bars", ())
    ]
    return _bars(bars)


# The part of an hour's work that remains after the process is killed, by tool. For fetchmill, this is tested (`make
# crash-matrix`). For the other tools, the claim is taken from their documentation, if there is one.
ITSELF = "all that your program did not save"
WAYS: tuple[tuple[str, str, str, str], ...] = (
    ("`fetchmill get --format parquet`", "packs", "parquet", "the last two seconds"),
    ("`fetchmill get --format tar`", "packs", "tar", "the last two seconds"),
    ("`for reply in fetchmill.stream(...)`", "stream", "stream", "the last two seconds, with `state=`"),
    ("pycurl, CurlMulti", "stream", "pycurl", ITSELF),
    ("aiohttp, uvloop", "stream", "aiohttp", ITSELF),
    ("requests, one session per thread", "stream", "requests", ITSELF),
)
BUCKET_WAYS: dict[str, tuple[str, str]] = {
    "native": ("`fetchmill get s3://...`", "the last two seconds"),
    "s5cmd": ("s5cmd cp", "all"),
    "obstore": ("obstore, asyncio", ITSELF),
    "boto3_threads": ("boto3, threads", ITSELF),
}
WAY_HEADS = ("objects/s", "CPU us per object", "peak MiB", "lost by a `kill -9`")


def _readme(results: dict[str, Any]) -> str:
    """Renders the comparison with current tools, from `make bench` and `fetchmill bench s3`."""
    measured = [
        (shown, results["scenarios"].get(scenario, {}).get("clients", {}).get(name), costs)
        for shown, scenario, name, costs in WAYS
    ]
    rows = [
        (shown, f"{found['rate']:,.0f}", f"{found['cpu_us']:,.1f}", f"{found['peak_mib']:.0f}", costs)
        for shown, found, costs in measured
        if found is not None
    ]
    connections = results["scenarios"].get("stream", {}).get("connections")
    head = f"one server, {connections} in flight" if connections else "one server"
    return f"{_table((head, *WAY_HEADS), rows)}\n{_buckets(results.get('s3'))}"


def _buckets(document: dict[str, Any] | None) -> str:
    """Returns the rows of the S3 clients, in the order above."""
    if document is None:
        return "Clients of S3: not measured yet.\n"
    found = {result["contender"]: result for result in document["results"] if result["cpu_us_a_request"] is not None}
    rows = [
        (
            shown,
            f"{found[name]['requests_per_second']['median']:,.0f}",
            f"{found[name]['cpu_us_a_request']:,.1f}",
            f"{found[name]['peak_mib']['median']:.0f}",
            costs,
        )
        for name, (shown, costs) in BUCKET_WAYS.items()
        if name in found
    ]
    limits = {result["limit"] for result in found.values()}
    return _table((f"one bucket, {'/'.join(map(str, sorted(limits)))} in flight", *WAY_HEADS), rows)


def chart(results: dict[str, Any]) -> str:
    """Returns the README's chart, with the rates in its two tables."""
    servers: list[Bar] = [
        (shown.strip("`"), found["rate"], "fetchmill" in shown)
        for shown, scenario, name, _ in WAYS
        if (found := results["scenarios"].get(scenario, {}).get("clients", {}).get(name))
    ]
    rates = {each["contender"]: each["requests_per_second"] for each in results.get("s3", {}).get("results", ())}
    buckets: list[Bar] = [
        (shown.strip("`"), rates[name]["median"], "fetchmill" in shown)
        for name, (shown, _) in BUCKET_WAYS.items()
        if name in rates
    ]
    return draw([("One server, objects/s", servers), ("One bucket, objects/s", buckets)])


def _facts(results: dict[str, Any]) -> str:
    facts, settings = results["machine"], results["settings"]
    changed = " with changes" if results["changed"] else ""
    programs = [facts["nginx"].removeprefix("nginx version: "), facts["wrk"], *filter(None, [facts.get("h2load")])]
    return (
        f"Measured at {results['measured_at']}, commit {results['commit'][:12]}{changed}; {facts['processor']}, "
        f"{facts['processors']} processors, {facts['memory_mib']:,} MiB, {facts['kernel']}; Python {facts['python']}, "
        f"{facts['rustc']}, {', '.join(programs)}. "
        f"{settings['rounds']} rounds of about {settings['seconds']:g} s a run, objects of {settings['size']} B, "
        f"seed {settings['seed']}.\n"
    )


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "facts": _facts,
    "bars": _summary,
    "readme": _readme,
    "null": _null,
    "in_flight": _in_flight,
    "files": _files,
    "packs": _packs,
    "pipelined": _pipelined,
    "servers": _servers,
    "stream": _stream,
    "https": _https,
    "scale": _scale,
}


if __name__ == "__main__":
    sys.exit(main())
