"""`fetchmill sync`: a folder is repeatedly made equal to its source, with as few requests as possible."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fetchmill
from conftest import Ended
from fetchmill.testing import S3Store, s3, serve
from nginx import Nginx, Site
from ports import closed_port, free_ports
from synced import ChangingTree, bodies, held, until

Run = Callable[..., Ended]
MakeNginx = Callable[..., Nginx]

FILES = 2000
INCOMPLETE, USAGE, BUSY, TOO_MANY = 3, 2, 9, 11


@pytest.fixture
def changing(served: Path) -> ChangingTree:
    """Returns a small folder that nginx serves."""
    return ChangingTree(served, 60, seed=1)


@pytest.fixture
def site(nginx: MakeNginx) -> Callable[..., "Mirrored"]:
    """Serves the folder with nginx, for example `site("json")`."""

    def start(autoindex: str = "json", directives: str = "") -> "Mirrored":
        return Mirrored(nginx(files=Site(autoindex=autoindex, directives=directives)))

    return start


class Mirrored:
    """A site that serves the folder, and its requests since the last call."""

    def __init__(self, nginx: Nginx) -> None:
        self._nginx = nginx
        self.url = nginx.url("files", "127.0.0.1") + "/"
        self._looked_at = 0

    def requests(self) -> tuple[Counter[str], Counter[str], Counter[str]]:
        """Returns the listed folders, the sent files, and the files reported as unchanged."""
        seen = self._nginx.seen("files")
        new, self._looked_at = seen[self._looked_at :], len(seen)
        asked = [each for each in new if each.path not in ("/list", "/robots.txt")]
        paths = [(each.path.removeprefix("/"), each.status) for each in asked]
        return (
            Counter(path for path, status in paths if (status == "200" and path.endswith("/")) or not path),
            Counter(path for path, status in paths if status == "200" and path and not path.endswith("/")),
            Counter(path for path, status in paths if status == "304"),
        )


def report_of(ended: Ended) -> dict[str, Any]:
    """Returns the event `report` that a command with --json has printed."""
    events = [json.loads(line) for line in ended.out.splitlines()]
    (report,) = (event for event in events if event["event"] == "report")
    counted = sum(report[name] for name in ("unchanged", "fetched", "absent", "failed", "skipped"))
    assert report["listed"] == counted
    return dict(report)


def counts(report: dict[str, Any], *names: str) -> tuple[int, ...]:
    """Returns the named counts of a report."""
    return tuple(report[name] for name in names)


@pytest.mark.thorough
def test_sync_requests_only_folders_and_changed_files(
    run: Run, site: Callable[..., Mirrored], served: Path, dest: Path
) -> None:
    """After files are changed, added, removed, renamed and swapped with a folder, times and bytes are right."""
    tree = ChangingTree(served, FILES, seed=7)
    recent = [f"d001/recent{number}" for number in range(5)]
    for name in recent:
        tree.write(name, name.encode(), time.time())
    source = site()
    first = report_of(run("sync", source.url, dest, "--json"))
    source.requests()
    assert counts(first, "listed", "fetched", "failed") == (FILES + 5, FILES + 5, 0)
    assert held(dest) == held(served)

    # The new files have the size and the second that were listed when the objects were fetched.
    for name in recent:
        tree.change(name, keeps_size=True, keeps_time=True)
    fetched, removed = tree.change_much(changed=50, added=30, removed=20, renamed=5)
    swapped = tree.swap_kinds("d090", "d091/f01825")
    fetched = {name for name in (fetched | swapped[0] | set(recent)) if (served / name).is_file()}
    removed = {name for name in removed | swapped[1] if not (served / name).is_file()}
    second = report_of(run("sync", source.url, dest, "--delete", "--json"))
    folders, sent, same = source.requests()
    third = report_of(run("sync", source.url, dest, "--delete", "--json"))

    assert held(dest) == held(served)
    assert counts(second, "fetched", "removed", "failed", "not_removed") == (len(fetched), len(removed), 0, 0)
    assert sent == Counter(fetched)
    assert not same
    assert set(folders.values()) == {1}
    # A file modified less than two seconds before its fetch may have changed since.
    assert set(source.requests()[1]) <= set(recent)
    assert (third["removed"], third["fetched"] + third["unchanged"]) == (0, len(held(served)))


def test_sync_of_index_page_uses_sizes_and_conditional_requests(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """A file with a new size is fetched. For all others, the server says whether they have changed."""
    source = site("html")
    assert run("sync", source.url, dest).code == 0
    source.requests()
    changing.change("d000/f00003")
    changing.change("d001/f00025", keeps_size=True)

    ended = report_of(run("sync", source.url, dest, "--json"))
    _, sent, same = source.requests()

    assert held(dest) == held(served)
    assert sent == {"d000/f00003": 1, "d001/f00025": 1}
    assert sum(same.values()) == len(same) == 58
    assert counts(ended, "fetched", "unchanged", "failed") == (2, 58, 0)


@contextlib.contextmanager
def http_server(served: Path, port: int, log: Path) -> Iterator[str]:
    """Runs `python -m http.server` for the folder, and yields its URL."""
    command = [sys.executable, "-u", "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(served)]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        for _ in until("the server"):
            if b"Serving" in log.read_bytes():
                break
        yield f"http://127.0.0.1:{port}/"
        process.terminate()


def test_sync_of_names_only_listing_asks_about_each_file(
    run: Run, changing: ChangingTree, served: Path, dest: Path, tmp_path: Path
) -> None:
    """`python -m http.server` answers 304 to If-Modified-Since. Recently written files are fetched again."""
    (port,), log = free_ports(1), tmp_path / "http.server.log"
    changing.write("young", b"one", time.time())
    with http_server(served, port, log) as url:
        assert run("sync", url, dest).code == 0
    changing.change("d000/f00003")
    changing.change("young", keeps_size=True, keeps_time=True)
    (served / "d001/f00025").unlink()

    # The server is a new process, because the first one may still be answering an abandoned request.
    with http_server(served, port, log) as url:
        ended = report_of(run("sync", url, dest, "--delete", "--json"))
    # A slow request may be repeated, and gets the same status.
    replies = set(re.findall(r'"GET (/\S*[^/\s]) HTTP/1.1" (\d+)', log.read_text()))
    statuses = Counter(status for _, status in replies)

    assert held(dest) == held(served)
    assert counts(ended, "fetched", "unchanged", "removed") == (2, 58, 1)
    assert (statuses["200"], statuses["304"]) == (2, 58)


def test_sync_without_change_information_fetches_everything(
    run: Run, changing: ChangingTree, served: Path, dest: Path
) -> None:
    """The list/get API has no times here. The result is right, and each file is requested once per pass."""
    with serve(served) as server:
        assert run("sync", server.url, dest).code == 0
        changing.change("d000/f00003", keeps_size=True)
        (served / "d001/f00025").unlink()
        before = server.stats()["get"]

        ended = report_of(run("sync", server.url, dest, "--delete", "--json"))

        assert bodies(dest) == bodies(served)
        assert server.stats()["get"] - before == 59
    assert counts(ended, "fetched", "removed") == (59, 1)


@pytest.fixture
def bucket() -> Iterator[S3Store]:
    """Returns a store with 40 objects."""
    with s3({f"pre/d{number % 4}/f{number}": b"%d" % number for number in range(40)}) as store:
        yield store


def test_sync_of_bucket_fetches_only_changed_etags(
    run: Run, bucket: S3Store, environment: dict[str, str], dest: Path
) -> None:
    """Objects with a new ETag are fetched even if their size is the same.

    A prefix is not a folder.
    """
    words = ("sync", f"s3://{bucket.bucket}/pre/", dest, "--endpoint-url", bucket.url, "--delete", "--json")
    settings = environment | bucket.environment()
    first = report_of(run(*words, env=settings))
    objects = {f"pre/d{number % 4}/f{number}": b"%d" % number for number in range(2, 42)}
    objects["pre/d1/f5"] = b"6"
    bucket.add_bucket(bucket.bucket, objects)
    before = bucket.stats()["gets"]

    second = report_of(run(*words, env=settings))
    third = report_of(run(*words, env=settings))

    assert counts(first, "listed", "fetched") == (40, 40)
    assert counts(second, "listed", "unchanged", "fetched", "removed") == (40, 37, 3, 2)
    assert counts(third, "unchanged", "fetched") == (40, 0)
    assert bodies(dest) == objects
    assert bucket.stats()["gets"] - before == 3


def test_sync_of_grown_list_fetches_new_objects(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, dest: Path, tmp_path: Path
) -> None:
    """A list of URLs has no metadata, so the server is asked about the other objects. The list may have moved."""
    source, urls = site(), tmp_path / "urls.txt"
    names = changing.names()
    urls.write_text("".join(f"{source.url}{name}\n" for name in names[:50]))
    words = ("sync", "urls.txt", dest, "--allow-private", "--json")
    assert report_of(run(*words))["fetched"] == 50
    source.requests()
    urls.write_text("".join(f"{source.url}{name}\n" for name in names[1:]))

    ended = report_of(run("sync", urls, *words[2:], cwd="/"))
    _, sent, same = source.requests()

    assert counts(ended, "listed", "fetched", "unchanged", "kept", "removed") == (59, 10, 49, 1, 0)
    assert (set(sent), set(same)) == (set(names[50:]), set(names[1:50]))


def test_sync_accepts_iterable_as_source(site: Callable[..., Mirrored], changing: ChangingTree, dest: Path) -> None:
    """The iterable yields pairs of a URL and a name. Objects that it no longer yields are removed."""
    source = site()
    names = changing.names()

    first = fetchmill.sync(((f"{source.url}{name}", name) for name in names), dest)
    changing.change(names[5])
    second = fetchmill.sync([(f"{source.url}{name}", name) for name in names[4:]], dest, delete=True)

    assert (first.fetched, second.fetched, second.unchanged, second.removed) == (60, 1, 55, 4)
    assert held(dest) == {name: value for name, value in held(changing.folder).items() if name in names[4:]}


def test_local_change_is_kept_unless_overwritten(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """A locally changed file is neither replaced nor removed, and each pass reports it."""
    source = site()
    assert run("sync", source.url, dest).code == 0
    for name in ("d000/f00001", "d000/f00002"):
        (dest / name).write_bytes(b"mine")
    changing.change("d000/f00001")
    (served / "d000/f00002").unlink()

    kept = run("sync", source.url, dest, "--delete", "--json")
    again = report_of(run("sync", source.url, dest, "--delete", "--json"))
    assert kept.code == INCOMPLETE, kept.err
    assert counts(report_of(kept), "fetched", "failed", "not_removed") == (0, 1, 1)
    assert counts(again, "fetched", "failed", "not_removed") == (0, 1, 1)
    assert again["failures"] == {"local-change": 1}
    assert (dest / "d000/f00001").read_bytes() == (dest / "d000/f00002").read_bytes() == b"mine"
    listed = run("status", dest, "--failures")
    assert "d000/f00001\tfailed\tlocal-change" in listed.out

    assert run("sync", source.url, dest, "--overwrite-local").code == 0
    assert held(dest)["d000/f00001"] == held(served)["d000/f00001"]


def test_check_local_finds_missing_and_changed_files(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """With --check-local, missing files are fetched, and changed files are reported or replaced."""
    source = site()
    assert run("sync", source.url, dest).code == 0
    (dest / "d000/f00001").unlink()
    (dest / "d000/f00002").write_bytes(b"mine")
    unseen = report_of(run("sync", source.url, dest, "--json"))
    assert counts(unseen, "fetched", "failed") == (0, 0)

    looked = run("sync", source.url, dest, "--check-local", "--json")
    assert looked.code == INCOMPLETE
    assert counts(report_of(looked), "fetched", "failed") == (1, 1)
    assert (dest / "d000/f00002").read_bytes() == b"mine"

    assert run("sync", source.url, dest, "--check-local", "--overwrite-local").code == 0
    assert held(dest) == held(served)
    assert changing.names() == sorted(held(dest))


def test_too_many_removals_change_nothing(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """Above --max-delete (10 % by default), the exit code is 11, and the message says how to allow the removals."""
    source = site()
    assert run("sync", source.url, dest).code == 0
    before = held(dest)
    for name in changing.names()[:7]:
        (served / name).unlink()
    changing.add()

    refused = run("sync", source.url, dest, "--delete")
    assert refused.code == TOO_MANY
    assert "7 of 60 objects would be removed" in refused.err
    assert "--max-delete 7" in refused.err
    assert held(dest) == before
    with pytest.raises(fetchmill.DeleteLimitError):
        fetchmill.sync(source.url, dest, delete=True, max_delete="11%")
    assert held(dest) == before

    assert run("sync", source.url, dest, "--delete", "--max-delete", "7").code == 0
    assert held(dest) == held(served)


def test_dry_run_changes_nothing(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path, tmp_path: Path
) -> None:
    """The planned changes are printed with one name per line, whether or not the destination exists."""
    source = site()
    shown = run("sync", source.url, dest, "--dry-run")
    assert (shown.code, dest.exists()) == (0, False)
    assert sorted(shown.out.splitlines()) == [f"fetch {name}" for name in changing.names()]
    assert "60 would be fetched, 0 removed" in shown.err

    assert run("sync", source.url, dest).code == 0
    changing.change("d000/f00003")
    changing.write("odd\nname", b"x")
    (served / "d000/f00004").unlink()
    before = snapshot(dest)
    shown = run("sync", source.url, dest, "--delete", "--dry-run")

    planned = ["fetch d000/f00003", "fetch odd\\nname", "remove d000/f00004"]
    assert shown.out.splitlines() == planned
    above_limit = run("sync", source.url, dest, "--delete", "--dry-run", "--max-delete", "0")
    assert above_limit.code == 11
    assert above_limit.out.splitlines() == planned
    assert snapshot(dest) == before
    assert not [path for path in tmp_path.iterdir() if "sync" in path.name]


@pytest.mark.parametrize("format", ["files", "parquet"])
def test_dry_run_shows_removals_of_sync_over_get_job(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path, format: str
) -> None:
    """The dry run has the same names, limit and exit code as the sync that takes over the job."""
    source = site()
    assert run("get", source.url, dest, "--format", format).code == 0
    for name in changing.names()[:7]:
        (served / name).unlink()
    changing.change("d000/f00010")
    before = snapshot(dest)
    words = ("sync", source.url, dest, "--format", format, "--delete")
    source.requests()

    shown = run(*words, "--dry-run", "--max-delete", "7")
    above_limit = run(*words, "--dry-run")
    assert (shown.code, above_limit.code) == (0, TOO_MANY), shown.err
    assert shown.out == above_limit.out
    assert [line for line in shown.out.splitlines() if line.startswith("remove ")] == [
        f"remove d000/f0000{number}" for number in range(7)
    ]
    assert "would take over 60 objects from fetchmill get" in shown.err
    assert "7 of 60 objects would be removed" in above_limit.err
    assert snapshot(dest) == before
    assert not source.requests()[1]

    assert run(*words).code == TOO_MANY
    ended = report_of(run(*words, "--max-delete", "7", "--json"))
    requested = [line.split()[1] for line in shown.out.splitlines() if not line.startswith("remove ")]
    assert counts(ended, "removed", "attempts") == (7, len(requested))


def test_dry_run_refuses_job_that_sync_refuses(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, dest: Path
) -> None:
    """The error is that of the sync."""
    source = site()
    assert len(changing.names()) == 60
    assert run("get", source.url, dest, "--format", "tar").code == 0

    refusals = [run("sync", source.url, dest, *words) for words in ([], ["--dry-run"])]

    assert [(ended.code, ended.err) for ended in refusals] == [(USAGE, refusals[0].err)] * 2
    assert "holds a job with the format tar, not files" in refusals[0].err


def test_dry_run_shows_files_that_sync_leaves_unchanged(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """The files were changed locally, or have the name of a new object."""
    source = site()
    assert run("sync", source.url, dest).code == 0
    for name in ("d000/f00001", "d000/f00002"):
        (dest / name).write_bytes(b"mine")
    changing.change("d000/f00001")
    (served / "d000/f00002").unlink()
    changing.write("d000/new", b"new")
    (dest / "d000/new").write_bytes(b"mine")

    shown = run("sync", source.url, dest, "--delete", "--dry-run")
    above_limit = run("sync", source.url, dest, "--delete", "--dry-run", "--max-delete", "0")
    overwriting = run("sync", source.url, dest, "--delete", "--dry-run", "--overwrite-local")
    ended = run("sync", source.url, dest, "--delete", "--json")

    assert (shown.code, ended.code) == (INCOMPLETE, INCOMPLETE)
    assert shown.out.splitlines() == ["leave d000/f00001", "leave d000/f00002", "leave d000/new"]
    assert "0 would be fetched, 0 removed, 58 unchanged, 3 left alone because of local changes" in shown.err
    assert (above_limit.code, overwriting.code) == (TOO_MANY, 0)
    assert overwriting.out.splitlines() == ["fetch d000/f00001", "fetch d000/new", "remove d000/f00002"]
    assert counts(report_of(ended), "fetched", "failed", "removed", "not_removed") == (0, 2, 0, 1)
    report = fetchmill.sync(source.url, dest, delete=True, dry_run=True)
    assert report.plan is not None
    assert (report.plan.local, report.plan.remove, report.complete) == (3, 0, False)


def test_dry_run_refuses_unfinished_pass_of_another_source(run: Run, site: Callable[..., Mirrored], dest: Path) -> None:
    """A first pass without a listing has already stored its source."""
    source = site()
    with closed_port() as port:
        unlisted = f"http://127.0.0.1:{port}/"
        assert run("sync", unlisted, dest, "--attempts", "1").code == 4
        same = run("sync", unlisted, dest, "--attempts", "1", "--dry-run")

    refusals = [run("sync", source.url, dest, *words) for words in ([], ["--dry-run"])]

    assert same.code == 4
    assert [(ended.code, ended.err) for ended in refusals] == [(USAGE, refusals[0].err)] * 2
    assert f"is synced from {unlisted}, not from {source.url}" in refusals[0].err


def test_folder_with_other_files_needs_overwrite_local(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """--overwrite-local replaces files with the name of an object. No pass removes any other file."""
    source = site()
    (dest / "d000").mkdir(parents=True)
    for name in ("d000/f00001", "d000/own", "own"):
        (dest / name).write_bytes(b"mine")

    refusals = [run("sync", source.url, dest, *words) for words in ([], ["--dry-run"])]
    assert [ended.code for ended in refusals] == [USAGE] * 2
    assert all(
        "use --overwrite-local to replace files that have the same name as an object" in each.err for each in refusals
    )
    shown = run("sync", source.url, dest, "--overwrite-local", "--delete", "--dry-run")
    assert (shown.code, "60 would be fetched, 0 removed" in shown.err) == (0, True), shown.err
    assert bodies(dest)["own"] == b"mine"

    assert run("sync", source.url, dest, "--overwrite-local", "--delete").code == 0
    own = {name: held(dest)[name] for name in ("d000/own", "own")}
    assert held(dest) == held(served) | own
    for name in changing.names():
        (served / name).unlink()
    changing.write("last", b"x")
    assert run("sync", source.url, dest, "--overwrite-local", "--delete", "--max-delete", "100%").code == 0
    assert held(dest) == {"last": held(served)["last"]} | own


def snapshot(folder: Path, without: tuple[str, ...] = ()) -> dict[str, tuple[int, int]]:
    """Returns every entry with its size and time, except SQLite's shared memory."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal", *without))
    }


def test_files_below_unlisted_folder_are_kept(
    run: Run, nginx: MakeNginx, changing: ChangingTree, served: Path, dest: Path, tmp_path: Path
) -> None:
    """Other files that are no longer listed are removed."""
    switch = tmp_path / "broken"
    site = Site(directives=f"location = /d001/ {{ if (-f {switch}) {{ return 403; }} }}")
    source = Mirrored(nginx(files=site))
    assert run("sync", source.url, dest).code == 0
    for name in ("d000/f00003", "d001/f00025"):
        (served / name).unlink()
    switch.touch()

    ended = run("sync", source.url, dest, "--delete", "--json")
    assert ended.code == INCOMPLETE, ended.err
    assert counts(report_of(ended), "failed_folders", "removed", "kept") == (1, 1, 20)
    assert any("nothing below them is removed: d001/" in notice for notice in report_of(ended)["notices"])
    assert (dest / "d001/f00025").exists()

    switch.unlink()
    assert run("sync", source.url, dest, "--delete").code == 0
    assert held(dest) == held(served)
    assert changing.names() == sorted(held(dest))


def test_files_below_unlisted_folder_with_non_utf8_name_are_kept(
    run: Run, nginx: MakeNginx, served: Path, dest: Path, tmp_path: Path
) -> None:
    """The folder could not be listed, so its files are not removed."""
    switch = tmp_path / "broken"
    site = Site(directives=f"location ~ ^/d[^a-z]/$ {{ if (-f {switch}) {{ return 403; }} }}")
    folder = Path(os.fsdecode(os.fsencode(served) + b"/d\xff"))
    folder.mkdir()
    for name in ("kept.txt", "other.txt"):
        (folder / name).write_text(name)
    (served / "gone.txt").write_text("gone")
    source = Mirrored(nginx(files=site))
    assert run("sync", source.url, dest).code == 0
    (served / "gone.txt").unlink()
    switch.touch()

    ended = run("sync", source.url, dest, "--delete", "--max-delete", "100%", "--json")
    assert ended.code == INCOMPLETE, ended.err
    assert counts(report_of(ended), "failed_folders", "removed", "kept") == (1, 1, 2)
    assert sorted(held(dest)) == ["d%FF/kept.txt", "d%FF/other.txt"]


def test_sync_takes_over_destination_of_finished_get(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """Objects that `get` has fetched are not fetched again. Afterwards, the job no longer exists."""
    source = site()
    assert run("get", source.url, dest).code == 0
    source.requests()
    changing.change("d000/f00003")
    (served / "d001/f00025").unlink()

    ended = report_of(run("sync", source.url, dest, "--delete", "--json"))
    _, sent, same = source.requests()

    assert held(dest) == held(served)
    assert (sent, len(same)) == ({"d000/f00003": 1}, 0)
    assert counts(ended, "fetched", "unchanged", "removed") == (1, 58, 1)
    assert not (dest / ".fetchmill/job.sqlite").exists()
    assert run("sync", source.url, dest).code == 0
    assert not source.requests()[1]


def test_sync_refuses_unsuitable_destinations(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, dest: Path, tmp_path: Path
) -> None:
    """Examples are another format, an unfinished job, foreign files, a bucket, and another source.

    Each error is one line.
    """
    source = site()
    assert run("get", source.url, tmp_path / "pack", "--format", "parquet").code == 0
    assert run("get", source.url, tmp_path / "half", "--rate", "20", "--max-duration", "500ms").code == 8
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/file").write_text("mine")
    assert run("sync", source.url, dest).code == 0

    for words, told in (
        ((source.url, tmp_path / "pack"), "parquet"),
        ((source.url, tmp_path / "half"), "to finish it first"),
        ((source.url, tmp_path / "foreign"), "not empty and not created by sync (contains file)"),
        ((source.url, "s3://bucket/prefix/"), "is a bucket"),
        ((f"{source.url}d000/", dest), f"synced from {source.url}, not from"),
        ((source.url, dest, "--exclude", "*.x"), "with the options {}"),
        ((source.url, dest, "--max-delete", "many"), "--max-delete must be"),
        ((source.url, dest, "--header", "X-Id: {id}"), "contains a column placeholder"),
        ((source.url, dest, "--format", "null"), "which discards objects"),
    ):
        before = snapshot(tmp_path, without=("lock", "log"))
        refused = run("sync", *words)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (USAGE, "", 1), refused.err
        assert told in refused.err
        assert snapshot(tmp_path, without=("lock", "log")) == before
    assert changing.names() == sorted(held(dest))


def test_other_commands_explain_synced_folder(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, dest: Path
) -> None:
    """The message is one line with what to do. `status` shows the last pass."""
    source = site()
    assert run("sync", source.url, dest).code == 0

    for command in ("verify", "ls", "export", "get"):
        words = {"export": (dest, "copy", "--format", "tar"), "get": (source.url, dest)}.get(command, (dest,))
        refused = run(command, *words)
        assert (refused.code, len(refused.err.splitlines())) == (USAGE, 1), refused.err
        assert "`fetchmill sync`" in refused.err

    shown = run("status", dest)
    assert shown.code == 0, shown.err
    assert source.url in shown.out
    assert re.search(r"^unchanged +0$", shown.out, re.MULTILINE)
    assert re.search(r"^fetched +60$", shown.out, re.MULTILINE)
    as_json = json.loads(run("status", dest, "--json").out)
    assert (as_json["running"], as_json["ledger"]["fetched"], as_json["objects"]) == (False, 60, 60)
    assert len(changing.names()) == 60


def test_second_simultaneous_sync_is_refused(
    run: Run, start: Callable[..., Any], site: Callable[..., Mirrored], changing: ChangingTree, dest: Path
) -> None:
    """The error says that the folder is in use. `status` shows the progress of the first sync."""
    source = site(directives="location /slow { limit_rate 1; }")
    changing.write("slow", b"x" * 10)
    first = start("sync", source.url, dest)
    for _ in until("the fetching"):
        if (dest / ".fetchmill/sync/fetched").exists():
            break

    refused = run("sync", source.url, dest)
    shown = run("status", dest)
    first.kill()

    assert refused.code == BUSY, refused.err
    assert "running: fetching" in shown.out


def test_failed_objects_are_retried_by_next_pass(
    run: Run, nginx: MakeNginx, changing: ChangingTree, served: Path, dest: Path, tmp_path: Path
) -> None:
    """The old file is kept until then."""
    switch = tmp_path / "broken"
    site = Site(directives=f"location = /d000/f00003 {{ if (-f {switch}) {{ return 403; }} }}")
    source = Mirrored(nginx(files=site))
    assert run("sync", source.url, dest).code == 0
    old = held(dest)["d000/f00003"]
    changing.change("d000/f00003")
    switch.touch()

    failed = run("sync", source.url, dest, "--json")
    assert failed.code == INCOMPLETE, failed.err
    assert report_of(failed)["failures"] == {"status": 1}
    assert held(dest)["d000/f00003"] == old
    assert "d000/f00003\tfailed\tstatus" in run("status", dest, "--failures").out

    switch.unlink()
    source.requests()
    assert run("sync", source.url, dest).code == 0
    assert source.requests()[1] == {"d000/f00003": 1}
    assert held(dest) == held(served)
    assert run("status", dest, "--failures").out == ""


def test_refetch_fetches_everything_again(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """--refetch ignores all known sizes, times and ETags."""
    source = site()
    assert run("sync", source.url, dest).code == 0
    changing.change("d000/f00003", keeps_size=True, keeps_time=True)
    assert report_of(run("sync", source.url, dest, "--json"))["fetched"] == 0

    assert report_of(run("sync", source.url, dest, "--refetch", "--json"))["fetched"] == 60
    assert held(dest) == held(served)


def test_excluded_objects_are_neither_fetched_nor_removed(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, served: Path, dest: Path
) -> None:
    """--exclude belongs to the destination and applies to every pass."""
    source = site()
    ended = report_of(run("sync", source.url, dest, "--exclude", "d000/*", "--delete", "--json"))

    assert counts(ended, "listed", "fetched", "left_out") == (40, 40, 20)
    assert held(dest) == {name: value for name, value in held(served).items() if not name.startswith("d000/")}
    assert len(changing.names()) == 60


def test_sync_json_log_and_quiet_outputs_agree(
    run: Run, site: Callable[..., Mirrored], changing: ChangingTree, dest: Path, tmp_path: Path
) -> None:
    """--json prints each phase and the report, a log file has the result, and --quiet prints nothing."""
    source = site()
    log = tmp_path / "log"

    ended = run("sync", source.url, dest, "--json", "--log-file", log)
    quiet = run("sync", source.url, dest, "--quiet")

    events = [json.loads(line) for line in ended.out.splitlines()]
    phases = [event["phase"] for event in events if event["event"] == "phase"]
    assert phases == ["listing", "comparing", "fetching", "applying"]
    assert report_of(ended)["fetched"] == len(changing.names())
    assert "60 listed = 0 unchanged + 60 fetched + 0 absent + 0 failed + 0 skipped" in log.read_text()
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_sync_report_is_json_value_with_balanced_ledger(
    site: Callable[..., Mirrored], changing: ChangingTree, dest: Path
) -> None:
    """The ledger of the report balances."""
    report = fetchmill.sync(site().url, dest)

    assert (report.balanced, report.complete, report.number, report.resumed) == (True, True, 1, False)
    assert report.plan == fetchmill.SyncPlan(unchanged=0, fetch=60, ask=0, remove=0, kept=0, objects=0)
    assert json.loads(json.dumps(report.to_dict()))["fetched"] == len(changing.names())
    with contextlib.suppress(FileNotFoundError):
        assert os.listdir(dest / ".fetchmill/sync/fetched") == []
