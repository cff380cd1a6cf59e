"""Files named after URLs: decoded, one file per URL, and unchanged in older jobs."""

import contextlib
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

import fetchmill
from conftest import Ended
from raw_server import Behaviour, Exchange, RawServer, reply
from stored import read_objects

Run = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]
Raw = Callable[[Mapping[str, Behaviour]], RawServer]

# Path of a URL, and path of its file.
NAMES = {
    "%C3%BC%20b.txt": "ü b.txt",
    quote("東京都立中央図書館特別文庫室所蔵資料一覧.pdf"): "東京都立中央図書館特別文庫室所蔵資料一覧.pdf",
    quote("Категория:Населённые_пункты_Карелии"): "Категория:Населённые_пункты_Карелии",
    quote("東" * 80): "東" * 80,
    "d%20e/f%2Cg%22h": 'd e/f,g"h',
    "d%20e/(1)?q=%C3%BC+x&u=http:%2F%2Fy": "d e/(1)?q=ü+x&u=http:%252F%252Fy",
    "%E4%BA%AC/": "京/%index",
    "100%25.txt": "100%25.txt",
    "a%2Fb": "a%252Fb",
    "a%5Cb": "a%255Cb",
    "line%0Abreak": "line%0Abreak",
    "caf%E9": "caf%E9",
}  # fmt: skip
# URLs that would get the same file under a careless rule.
SPELLINGS = (
    "s:t", "s%3At", "s%3at", "%41", "A", "%2541", "%C3%BC:", "%C3%BC%3A", "%C3%BC%253A", "%c3%bc%3A", "%25C3%25BC%253A",
    "u%CC%88", "%C3%BC", "%C3%bc", "50%25", "50%", "50%2525", "v ", "v%2520", "v.", "v", "%E9", "%25E9", "%01", "%2501",
)  # fmt: skip


def echo(exchange: Exchange) -> bytes:
    """Answers with the request's target as the body."""
    return reply(exchange.target.encode())


def serve(raw: Raw, paths: Mapping[str, str] | tuple[str, ...], folder: Path) -> tuple[RawServer, Path]:
    """Serves objects whose bodies are their own targets. Returns the server and a list of URLs."""
    site = raw({f"/{path.strip().partition('?')[0]}": echo for path in paths} | {"/v%20": echo})
    listed = folder / "urls.jsonl"
    listed.write_text("".join(f'{{"url": "{site.url}/{path}"}}\n'.replace("v ", "v%20") for path in paths))
    return site, listed


def host(site: RawServer) -> str:
    """Returns the first path segment of the names."""
    return site.url.removeprefix("http://")


def files(dest: Path) -> dict[str, bytes]:
    """Returns the contents of files by path."""
    found = (path for path in dest.rglob("*") if path.is_file() and ".fetchmill" not in path.parts)
    return {str(path.relative_to(dest)): path.read_bytes() for path in found}


def test_names_from_urls_are_decoded(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """File names are readable. Readers, `verify` and its repair still know the URL of each."""
    site, listed = serve(raw, NAMES, tmp_path)
    done = run("get", listed, dest, "--allow-private")
    assert done.code == 0, done.err

    expected = {f"{host(site)}/{name}": f"/{path}".encode() for path, name in NAMES.items()}
    assert files(dest) == expected
    assert run("verify", dest, "--sample", "100").code == 0
    with fetchmill.open(dest) as objects:
        assert objects[f"{host(site)}/ü b.txt"] == b"/%C3%BC%20b.txt"
        assert len(list(objects)) == len(NAMES)
    for name in ("ü b.txt", "100%25.txt", "caf%E9", "line%0Abreak", "a%252Fb"):
        (dest / host(site) / name).unlink()
    assert run("verify", dest, "--repair").code == 0
    assert run("get", listed, dest, "--allow-private").code == 0
    assert files(dest) == expected
    shown = run("get", listed, dest.with_name("none"), "--dry-run", "--allow-private")
    assert "ü b.txt" in shown.out


def test_each_url_spelling_has_its_own_file(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """URLs that spell the same characters differently are different objects."""
    site, listed = serve(raw, SPELLINGS, tmp_path)
    done = run("get", listed, dest, "--allow-private")
    assert done.code == 0, done.err

    assert sorted(files(dest).values()) == sorted(f"/{path}".replace("v ", "v%20").encode() for path in SPELLINGS)
    assert run("verify", dest).code == 0
    short = run("get", listed, dest.with_name("short"), "--strip-prefix", f"{site.url}/", "--allow-private")
    assert (short.code, len(files(dest.with_name("short")))) == (0, len(SPELLINGS)), short.err


@pytest.mark.parametrize("given", ["{}/%C3%BC", "{}/ü/"])
def test_prefix_matches_encoded_and_decoded_names(run: Run, raw: Raw, dest: Path, tmp_path: Path, given: str) -> None:
    """--strip-prefix takes the encoded or the decoded form, with the same result."""
    site, listed = serve(raw, ("%C3%BC/a%20b", "%C3%BC/c"), tmp_path)
    done = run("get", listed, dest, "--strip-prefix", given.format(host(site)), "--allow-private")
    assert (done.code, sorted(files(dest))) == (0, ["a b", "c"]), done.err


def old_job(run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path) -> RawServer:
    """Returns a finished job: an older release started it, it was killed, and this release resumed it."""
    site = raw({"/first": reply(b"first"), "/%C3%BC/c%3Ad": Exchange.stall, "/last%20": Exchange.stall})
    listed = tmp_path / "urls.txt"
    listed.write_text("".join(f"{site.url}{path}\n" for path in site.routes))
    process = start("get", listed, dest, "--allow-private", "--commit-window", "0.05s")
    deadline = time.monotonic() + 30
    while not (dest / host(site) / "first").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    # For a plain ASCII name, all releases give the same result.
    with contextlib.closing(sqlite3.connect(dest / ".fetchmill/job.sqlite")) as journal:
        assert journal.execute("UPDATE job SET value = '3' WHERE key = 'rules'").rowcount == 1
        journal.commit()
    site.routes |= {"/%C3%BC/c%3Ad": echo, "/last%20": echo}
    done = run("get", listed, dest, "--allow-private")
    assert done.code == 0, done.err
    return site


def test_job_of_older_release_keeps_encoded_names(run: Run, start: Start, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """After a kill, an older job keeps its names in `verify`, in a repair, in an export, and in a sync."""
    site = old_job(run, start, raw, dest, tmp_path)
    encoded = {f"{host(site)}/{name}" for name in ("first", "%25C3%25BC/c%253Ad", "last%2520")}
    assert files(dest).keys() == encoded

    assert run("verify", dest, "--sample", "100").code == 0
    (dest / host(site) / "last%2520").unlink()
    assert run("verify", dest, "--repair").code == 0
    assert run("get", tmp_path / "urls.txt", dest, "--allow-private").code == 0
    assert run("export", dest, tmp_path / "again", "--format", "files").code == 0
    assert files(tmp_path / "again").keys() == files(dest).keys() == encoded
    for _ in range(2):
        synced = run("sync", tmp_path / "urls.txt", dest, "--allow-private", "--delete", "--max-delete", "100%")
        assert synced.code == 0, synced.err
        assert files(dest).keys() == encoded


def test_packs_are_exported_under_decoded_names(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """In a pack, names are URLs; exported as files, they are decoded as by `get`."""
    site, listed = serve(raw, NAMES, tmp_path)
    assert run("get", listed, dest, "--format", "parquet", "--allow-private").code == 0
    assert {name for name, _ in read_objects(dest, "parquet")} == {f"{site.url}/{path}" for path in NAMES}

    assert run("export", dest, tmp_path / "files", "--format", "files").code == 0

    assert files(tmp_path / "files") == {f"{host(site)}/{name}": f"/{path}".encode() for path, name in NAMES.items()}


def test_sync_keeps_its_name_encoding(run: Run, raw: Raw, dest: Path, tmp_path: Path) -> None:
    """A sync decodes names in a new destination or in a job's; one started by an older release keeps encoding them."""
    site, listed = serve(raw, NAMES, tmp_path)
    decoded = {f"{host(site)}/{name}" for name in NAMES.values()}
    options = ("--allow-private", "--delete", "--max-delete", "100%")
    got = tmp_path / "got"
    assert run("get", listed, got, "--allow-private").code == 0
    for synced in (dest, got, dest):
        done = run("sync", listed, synced, *options)
        assert (done.code, set(files(synced))) == (0, decoded), done.err
    old = tmp_path / "old"
    listed.write_text(f'{{"url": "{site.url}/v"}}\n')
    site.routes["/v"] = echo
    assert run("sync", listed, old, *options).code == 0
    with contextlib.closing(sqlite3.connect(old / ".fetchmill/sync/base.sqlite")) as base:
        assert base.execute("DELETE FROM facts WHERE key = 'decoded_names'").rowcount == 1
        base.commit()
    listed.write_text(f'{{"url": "{site.url}/%C3%BC%20b.txt"}}\n')
    for _ in range(2):
        done = run("sync", listed, old, *options)
        assert (done.code, list(files(old))) == (0, [f"{host(site)}/%25C3%25BC%2520b.txt"]), done.err
