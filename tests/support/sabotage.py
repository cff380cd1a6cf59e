"""Plants a fault into the fetchmill that `torture` runs: the end of a resumed run loses, doubles or mixes up objects.

The interpreter of each run imports `sitecustomize` from a folder in PYTHONPATH. Runs that are killed, and runs that
start with an empty destination, do nothing wrong. Shards are rewritten with the libraries of other projects.
"""

import atexit
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
SUFFIXES = {"tar": ".tar", "jsonl": ".jsonl", "parquet": ".parquet", "warc": ".warc.gz"}
FAULTS = ("lost", "doubled", "wrong")


def environment_with(fault: str, folder: Path) -> dict[str, str]:
    """Returns environment variables under which each fetchmill has the fault.

    Args:
        fault: one of `FAULTS`.
        folder: an existing folder for the hook.
    """
    # This folder has modules that are named like others, so it is only on the path during the import.
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\nimport sabotage\nsys.path.pop()\n"
        f"sabotage.plant({fault!r}, sys.orig_argv)\n"
    )
    return {"PYTHONPATH": str(folder)}


def plant(fault: str, words: Sequence[str]) -> None:
    """Damages the destination when this process ends, if it resumes a job."""
    if "fetchmill" not in words or "get" not in words or "--format" not in words:
        return
    dest, format = Path(words[words.index("get") + 2]), words[words.index("--format") + 1]
    if (dest / ".fetchmill/job.sqlite").exists():
        atexit.register(_damage, fault, dest, format)


def _damage(fault: str, dest: Path, format: str) -> None:
    if format == "files":
        paths = sorted(path for path in dest.iterdir() if path.is_file())
    else:
        paths = sorted(dest.glob(f"shard-*{SUFFIXES[format]}"))
    if not paths:
        return
    if fault == "lost":
        paths[0].unlink()
    elif fault == "doubled":
        name = f"{paths[0].name}-again" if format == "files" else f"shard-999999{SUFFIXES[format]}"
        shutil.copy(paths[0], dest / name)
    elif format == "files":
        paths[0].write_bytes(paths[1].read_bytes())
    else:
        _MIXED[format](max(paths, key=lambda path: path.stat().st_size))


def _mix_tar(shard: Path) -> None:
    with tarfile.open(shard) as archive:
        members = [(member, archive.extractfile(member)) for member in archive]
        bodies = [file.read() for _, file in members if file is not None]
    with tarfile.open(shard, "w") as archive:
        for (member, _), body in zip(members, _turned(bodies), strict=True):
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))


def _mix_jsonl(shard: Path) -> None:
    rows = [json.loads(line) for line in shard.read_text().splitlines()]
    names = _turned([row["name"] for row in rows])
    lines = [json.dumps({**row, "name": name}) + "\n" for row, name in zip(rows, names, strict=True)]
    shard.write_text("".join(lines))


def _mix_parquet(shard: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(shard)
    column, place = table.schema.field("body"), table.schema.get_field_index("body")
    mixed = table.set_column(place, column, pa.array(_turned(table["body"].to_pylist()), column.type))
    parquet.write_table(mixed, shard)


def _mix_warc(shard: Path) -> None:
    from warcio.archiveiterator import ArchiveIterator
    from warcio.warcwriter import WARCWriter

    with shard.open("rb") as file:
        found = [
            (record.rec_headers.get_header("WARC-Target-URI"), record.http_headers, record.content_stream().read())
            for record in ArchiveIterator(file)
            if record.rec_type == "response"
        ]
    with shard.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for url, (_, heads, body) in zip(_turned([url for url, _, _ in found]), found, strict=True):
            record = writer.create_warc_record(url, "response", payload=io.BytesIO(body), http_headers=heads)
            writer.write_record(record)


_MIXED: dict[str, Callable[[Path], None]] = {
    "tar": _mix_tar,
    "jsonl": _mix_jsonl,
    "parquet": _mix_parquet,
    "warc": _mix_warc,
}


def _turned(values: list[T]) -> list[T]:
    """Returns the values, each in the place of its neighbour."""
    return [*values[1:], values[0]]
