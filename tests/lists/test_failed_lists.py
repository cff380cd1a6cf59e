"""When a list fails, lines after the fault are ignored, and no good object is removed.

A repaired list completes the job. This covers list files, bucket inventories and iterables; `test_failed_listings`
covers listings of servers.
"""

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from fetchmill.testing import Server
from inventories import Inventory
from lists import compress, encode
from stored import find_wrong
from synced import bodies

Run = Callable[..., Ended]
Serve = Callable[..., Server]

COUNT = 200
NAMES = [f"file-{number:012}" for number in range(COUNT)]
COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
WAYS = (*(f"txt{suffix}" for suffix in COMPRESSED), "zip", "parquet", "inventory-CSV", "inventory-Parquet")
FAULTS = ("cut", "malformed", "missing")


class ListFile:
    """A list of the objects of a server.

    Args:
        folder: folder of the list.
        way: form of the list.
        url: URL of the server.
    """

    def __init__(self, folder: Path, way: str, url: str) -> None:
        self.options: tuple[str, ...] = ("--allow-private",)
        rows = [{"url": f"{url}/get/{name}"} for name in NAMES]
        if way.startswith("inventory"):
            keys = [{"Bucket": "get", "Key": name} for name in NAMES]
            parts = [keys[: COUNT // 2], keys[COUNT // 2 :]]
            inventory = Inventory(folder, way.removeprefix("inventory-"), parts, ("Bucket", "Key"), bucket="get")
            # The second file has the fault; the first one is good.
            self.source, self.file = inventory.manifest, inventory.data[1]
            self.options = ("--endpoint-url", url, "--no-sign-request", "--allow-private")
        else:
            self.source = self.file = folder / f"list.{way}"
            self.file.write_bytes(_written(way, rows))
        self.whole = self.file.read_bytes()

    def breaks(self, fault: str) -> None:
        """Damages the file."""
        middle = len(self.whole) // 2
        if fault == "missing":
            self.file.unlink()
        elif fault == "cut":
            self.file.write_bytes(self.whole[:middle])
        else:
            self.file.write_bytes(self.whole[:middle] + b"\xff\x00" * 8 + self.whole[middle + 16 :])

    def heals(self) -> None:
        """Repairs the file."""
        self.file.write_bytes(self.whole)

    def command(self, name: str, dest: Path, *more: str) -> tuple[object, ...]:
        """Returns the command of a job or a sync with this list."""
        return (name, self.source, dest, *self.options, "--quiet", *more)


def _written(way: str, rows: list[dict[str, str]]) -> bytes:
    if way == "parquet":
        return encode("parquet", rows)
    text = encode("txt", rows)
    if way != "zip":
        return compress(way.removeprefix("txt"), text)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("list.txt", text)
    return archive.getvalue()


def missing_of(dest: Path) -> list[str]:
    """Returns the objects that are missing."""
    found = {name.rsplit("/", 1)[-1] for name in bodies(dest)}
    return [name for name in NAMES if name not in found]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", WAYS)
def test_job_loses_nothing_when_list_fails(
    run: Run, server: Serve, tmp_path: Path, dest: Path, way: str, fault: str
) -> None:
    """A job exits with 0 only if every object is stored, and the repaired list completes it."""
    listed = ListFile(tmp_path, way, server(synthetic=COUNT).url)
    listed.breaks(fault)
    command = listed.command("get", dest)

    for ended in (run(*command), run(*command)):
        assert ended.code not in {0, 1}, ended
        assert listed.file.name in ended.err
    listed.heals()
    healed = run(*command)

    assert healed.code == 0, healed.err
    assert missing_of(dest) == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", WAYS)
def test_sync_removes_nothing_when_list_fails(
    run: Run, server: Serve, tmp_path: Path, dest: Path, way: str, fault: str
) -> None:
    """No object is removed, and the next pass over the repaired list finds them all."""
    listed = ListFile(tmp_path, way, server(synthetic=COUNT).url)
    command = listed.command("sync", dest, "--delete", "--max-delete", "100%")
    assert run(*command).code == 0
    listed.breaks(fault)

    for ended in (run(*command), run(*command)):
        assert ended.code not in {0, 1}, ended
        assert missing_of(dest) == []
    listed.heals()
    healed = run(*command)

    assert healed.code == 0, healed.err
    assert missing_of(dest) == []


@pytest.mark.parametrize("how", ["get", "sync"])
def test_raising_iterable_loses_and_removes_nothing(server: Serve, dest: Path, how: str) -> None:
    """The caller gets the exception each time, and a complete iterable finishes the job."""
    url = server(synthetic=COUNT).url

    def targets(count: int) -> Iterator[tuple[str, str]]:
        for name in NAMES[:count]:
            yield f"{url}/get/{name}", name
        if count < COUNT:
            raise LookupError("no more of them")

    def fetch(count: int) -> None:
        if how == "get":
            fetchmill.get(targets(count), dest, format="jsonl")
        else:
            fetchmill.sync(targets(count), dest, delete=True, max_delete="100%", format="jsonl")

    if how == "sync":
        fetch(COUNT)
    for _ in range(2):
        with pytest.raises(LookupError, match="no more of them"):
            fetch(COUNT // 2)
    if how == "sync":
        assert find_wrong(dest, "jsonl", expected()) == []
    fetch(COUNT)

    assert find_wrong(dest, "jsonl", expected()) == []


def expected() -> dict[str, bytes]:
    """Returns the body of each object by its name."""
    return {name: fetchmill.testing.synthetic_body(name, 100) for name in NAMES}
