"""Reasons of skipped targets in the summary, in `status --skipped`, and in the exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchmill
from conftest import Ended
from fetchmill.testing import s3
from nginx import Nginx, Site
from raw_server import RawServer, reply

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]
MAP = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def page(*links: str) -> bytes:
    """Returns an index page as nginx writes it."""
    lines = "".join(f'<a href="{link}">x</a>\n' for link in links)
    body = f"<html><head><title>Index of /f/</title></head><body><h1>Index of /f/</h1><pre>{lines}</pre></body></html>"
    return reply(body.encode(), "Content-Type: text/html")


def sitemap(*urls: str) -> bytes:
    """Returns a sitemap."""
    return reply(f"<urlset {MAP}>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>".encode())


ELSEWHERE = ("http://other.test/a.txt", "http://other.test/b.txt")


@pytest.mark.parametrize("command", ["get", "list"])
@pytest.mark.parametrize(
    ("path", "content", "options", "reason"),
    [
        ("/f/", page("../", *ELSEWHERE), ("--listing", "html"), "other-origin"),
        ("/f/", page("../", "/lib/a.txt", "/lib/b.txt"), ("--listing", "html"), "other-path"),
        ("/sitemap.xml", sitemap(*ELSEWHERE), (), "other-origin"),
    ],
    ids=["index-origin", "index-path", "sitemap"],
)
def test_exit_code_is_3_when_everything_is_skipped_unasked(
    run: Run, raw: Raw, dest: Path, command: str, path: str, content: bytes, options: tuple[str, ...], reason: str
) -> None:
    """If no target was skipped on request, the exit code is 3 with the reason, also for the same command again."""
    server = raw({path: content, "/robots.txt": reply(b"", status="404 Not Found")})
    words = (command, f"{server.url}{path}", dest if command == "get" else dest.with_suffix(".csv"), *options)
    for _ in range(2):
        ended = run(*words)
        assert ended.code == 3, ended.err
    first = run(*words[:2], dest.with_name("again" if command == "get" else "again.csv"), *options)
    assert "filter" not in first.err
    assert {"other-origin": "2 on other origins", "other-path": "2 outside SOURCE's folder"}[reason] in first.err
    if command == "get":
        assert f"skipped: {reason} 2; list them: fetchmill status {dest.with_name('again')} --skipped" in first.err
        shown = run("status", dest, "--skipped")
        assert [line.split("\t")[:2] for line in shown.out.splitlines()] == [[reason, "2"]] * 2
        as_json = [json.loads(line) for line in run("status", dest, "--skipped", "--json").out.splitlines()]
        assert {line["reason"] for line in as_json} == {reason}
        assert len({line["name"] for line in as_json}) == 2


def test_exit_code_is_3_when_include_matches_nothing(run: Run, raw: Raw, dest: Path) -> None:
    """An include pattern without a match gives exit code 3 with the reason. Exclude patterns do not."""
    server = raw({"/f/": page("../", "a.txt", "b.txt"), "/robots.txt": reply(b"", status="404 Not Found")})
    ended = run("get", f"{server.url}/f/", dest, "--listing", "html", "--include", "*.jpg")
    assert ended.code == 3, ended.err
    assert "nothing was fetched (2 listed): 2 excluded by filters" in ended.err
    wished = run("get", f"{server.url}/f/", dest.with_name("other"), "--listing", "html", "--exclude", "*.txt")
    assert wished.code == 0, wished.err
    with pytest.raises(fetchmill.UsageError):
        fetchmill.status(dest.with_name("nowhere"))
    assert dict(fetchmill.status(dest).skipped_by) == {"filter": 2}
    (found,) = fetchmill.skipped(dest)
    assert (found.reason, found.count, sorted(name.rsplit("/")[-1] for name in found.names)) == (
        "filter",
        2,
        ["a.txt", "b.txt"],
    )


def test_exit_code_is_0_when_something_is_fetched(run: Run, raw: Raw, dest: Path) -> None:
    """One fetched object is enough for exit code 0; reasons of skips are counted anyway."""
    listed = page("../", "a.txt", *ELSEWHERE, "/lib/x", "mailto:a@b.test")
    server = raw({"/f/": listed, "/f/a.txt": reply(b"a"), "/robots.txt": reply(b"", status="404 Not Found")})
    ended = run("get", f"{server.url}/f/", dest, "--listing", "html", "--json")
    assert ended.code == 0, ended.err
    report = json.loads(ended.out.splitlines()[-1])
    assert report["skipped_by"] == {"other-origin": 2, "other-path": 2}
    assert (report["listed"], report["fetched"], report["skipped"]) == (5, 1, 4)
    assert "other-origin" in fetchmill.status(dest).skipped_by


def test_robots_and_folder_markers_are_skip_reasons(
    run: Run, raw: Raw, dest: Path, environment: dict[str, str]
) -> None:
    """Targets skipped for robots.txt or as folder markers count as skipped unasked."""
    robots = reply(b"User-agent: *\nDisallow: /f/private\n")
    server = raw({"/f/": page("../", "private.txt"), "/robots.txt": robots})
    ended = run("get", f"{server.url}/f/", dest, "--listing", "html")
    assert ended.code == 3
    assert "1 forbidden by robots.txt; --no-robots fetches them" in ended.err
    with s3({"only/": b""}) as store:
        source = f"s3://{store.bucket}/only/"
        ended = run("get", source, dest.with_name("bucket"), env=environment | store.environment())
    assert ended.code == 3, ended.err
    assert "1 folder markers" in ended.err


def test_unchanged_objects_do_not_set_exit_code(
    run: Run, nginx: Callable[..., Nginx], served: Path, tmp_path: Path
) -> None:
    """A sync without changes, and a finished job, exit with 0 and do not mention filters."""
    for number in range(5):
        (served / f"f{number}").write_text("x")
    source = f"{nginx(files=Site(autoindex='html')).url('files')}/"
    for _ in range(2):
        ended = run("sync", source, tmp_path / "mirror")
        assert ended.code == 0, ended.err
        assert "filter" not in ended.err
        assert "nothing was fetched" not in ended.err
        got = run("get", source, tmp_path / "got")
        assert got.code == 0, got.err


@pytest.mark.parametrize("content", ["", "# only a comment\n", "no url\n"])
def test_empty_list_exits_with_3(run: Run, tmp_path: Path, content: str) -> None:
    """Every command that reads lists exits with 3 if the list is empty. An iterable may be empty."""
    listed = tmp_path / "urls.txt"
    listed.write_text(content)
    for words in (("get", listed, tmp_path / "out"), ("list", listed), ("check", listed)):
        assert run(*words).code == 3, words
    assert not fetchmill.get([], tmp_path / "empty").found_nothing
