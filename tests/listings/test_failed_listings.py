"""When a listing fails, later pages are ignored, and no good object is removed.

Each listing type is combined with each fault. The same command runs again while the server still fails, and again when
it works.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Ended
from failing_listings import BROKEN, FAULTS, FOLDER_WAYS, WAYS, Listing, answer_bucket, make_listing, missing_of
from raw_server import RawServer
from synced import bodies

Run = Callable[..., Ended]
Raw = Callable[..., RawServer]

# Two folders or sitemaps may have the same contents, so a page of another one cannot be detected.
CELLS = [(way, fault) for way in WAYS for fault in FAULTS if not (fault == "stale" and way in FOLDER_WAYS)]


class Site:
    """A server with one of the listing types.

    Args:
        raw: creates the server.
        way: type of the listing.
    """

    def __init__(self, raw: Raw, way: str) -> None:
        self.server = raw({})
        self.listing: Listing = make_listing(way)(self.server.url)
        self.server.routes |= self.listing.routes()
        if way == "s3":
            self.server.routes["/bucket"] = self.server.routes["/bucket/"] = answer_bucket(self.server)
        source = self.listing.source
        self.source = source if source.startswith("s3:") else self.server.url + source

    def breaks(self, fault: str) -> None:
        """Makes the third page fail."""
        behaviour = self.listing.third(fault)
        if behaviour is None:
            pytest.skip("pages of this kind lead nowhere")
        self.server.routes[self.listing.pages[BROKEN][0]] = behaviour

    def heals(self) -> None:
        """Repairs the server."""
        target, page = self.listing.pages[BROKEN]
        self.server.routes[target] = page

    def command(self, name: str, dest: Path, *more: str) -> tuple[object, ...]:
        """Returns the command of a job or a sync with this server."""
        return (name, self.source, dest, *self.listing.options, "--give-up-after", "1s", "--quiet", *more)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("way", "fault"), CELLS)
def test_job_loses_nothing_when_page_fails(run: Run, raw: Raw, dest: Path, way: str, fault: str) -> None:
    """A job exits with 0 only if every object is stored, and it can always be finished later."""
    site = Site(raw, way)
    site.breaks(fault)
    command = site.command("get", dest)

    first = run(*command)
    again = run(*command)
    for ended in (first, again):
        assert ended.code not in {0, 1}, ended
    assert missing_of(bodies(dest))
    site.heals()
    healed = run(*command)
    if healed.code != 0 and way in FOLDER_WAYS:
        healed = run(*command, "--retry-failed")

    assert healed.code == 0, healed.err
    assert missing_of(bodies(dest)) == []


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("way", "fault"), CELLS)
def test_sync_removes_nothing_when_page_fails(run: Run, raw: Raw, dest: Path, way: str, fault: str) -> None:
    """Objects of the source are kept, and the next pass over the repaired server finds everything unchanged."""
    site = Site(raw, way)
    command = site.command("sync", dest, "--delete", "--max-delete", "100%")
    assert run(*command).code == 0
    site.breaks(fault)

    first = run(*command)
    again = run(*command)

    for ended in (first, again):
        assert ended.code not in {0, 1}, ended
    assert missing_of(bodies(dest)) == []
    site.heals()
    healed = run(*command)
    assert healed.code == 0, healed.err
    assert missing_of(bodies(dest)) == []
