"""The progress display. It is computed from snapshots only, so no test here reads a clock."""

import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fetchmill._job.progress_texts import Meter, describe, progress_event, remaining_seconds
from fetchmill._job.report import LimitedBy, Snapshot, Wait
from fetchmill.cli.progress import JsonDisplay, LiveDisplay, PlainDisplay


def snapshot(**given: Any) -> Snapshot:  # noqa: ANN401
    """Returns a snapshot whose counters are zero by default."""
    zeros = dict.fromkeys(("listed", "fetched", "absent", "failed", "skipped", "bytes", "in_flight", "waiting"), 0)
    rest: dict[str, Any] = {"listing_done": False, "failures": {}, "phase": "fetching", "seconds": 0.0}
    return Snapshot(**{**zeros, **rest, "resumed": False, "start_settled": 0, **given})


def test_rates_cover_only_last_seconds() -> None:
    """If a job slows down, the rate drops, whatever the rate was before."""
    meter = Meter(seconds=10)
    for second in range(101):
        fetched = second * 1000 if second <= 50 else 50_000 + (second - 50) * 10
        rates = meter.add(snapshot(seconds=float(second), fetched=fetched, bytes=fetched * 100))

    assert rates.objects == pytest.approx(10)
    assert rates.bytes == pytest.approx(1000)


def test_rate_of_resumed_job_excludes_earlier_objects() -> None:
    """Objects of earlier runs never count towards the rate, not even in the first second."""
    rates = Meter().add(snapshot(seconds=1.0, fetched=1_000_100, start_settled=1_000_000, resumed=True))

    assert rates.objects == pytest.approx(100)


def test_eta_needs_total() -> None:
    """Without a total, the number of listed targets is shown as a lower bound."""
    rates = Meter().add(snapshot(seconds=1.0, fetched=100))
    running = snapshot(seconds=1.0, listed=1000, fetched=100)
    listed = snapshot(seconds=1.0, listed=1000, fetched=100, listing_done=True)

    assert remaining_seconds(running, rates) is None
    assert remaining_seconds(listed, rates) == pytest.approx(9)
    assert describe(running, rates) == ["100 of at least 1,000, 100 objects/s, 0 B/s, 0 in flight, ETA at least 9.00 s"]
    assert describe(listed, rates) == ["100 of 1,000 (10 %), 100 objects/s, 0 B/s, 0 in flight, ETA 9.00 s"]


def test_promised_total_is_used_until_more_targets_are_listed() -> None:
    """A total promised by the server is used until more targets than that are listed."""
    rates = Meter().add(snapshot(seconds=1.0, fetched=100))
    running = snapshot(seconds=1.0, listed=500, fetched=100, total=1000)
    exceeded = snapshot(seconds=1.0, listed=1001, fetched=100, total=1000)

    assert remaining_seconds(running, rates) == pytest.approx(9)
    assert describe(running, rates) == ["100 of 1,000 (10 %), 100 objects/s, 0 B/s, 0 in flight, ETA 9.00 s"]
    assert remaining_seconds(exceeded, rates) is None


def test_failures_have_their_own_line() -> None:
    """The line names the kinds of failures, the most frequent first."""
    shown = snapshot(absent=3, failed=6, failures={"dns": 1, "truncated": 5}, waiting=2, phase="draining")

    assert describe(shown, Meter().add(shown)) == [
        "9 of at least 0, 0 objects/s, 0 B/s, 0 in flight, draining",
        "absent 3, failed 6 (truncated 5, dns 1), waiting to be retried 2",
    ]


def test_each_wait_has_its_own_line() -> None:
    """The line says what the job waits for, since when, and when it gives up."""
    since = datetime(2026, 11, 22, 12, 0, 1, tzinfo=UTC)
    wait = Wait(what="the listing page /list?2 fails (status 500)", since=since, until=since + timedelta(minutes=15))
    shown = snapshot(waits=(wait,))
    rates = Meter().add(shown)

    assert describe(shown, rates)[1:] == [
        "waiting: the listing page /list?2 fails (status 500) since 12:00:01 UTC, gives up at 12:15:01 UTC"
    ]
    assert progress_event(shown, rates)["waits"] == [
        {"what": wait.what, "since": "2026-11-22T12:00:01+00:00", "until": "2026-11-22T12:15:01+00:00"}
    ]


def test_limit_of_job_is_last_line() -> None:
    """The line is omitted if a wait already gives the reason."""
    limited = snapshot(limited_by=LimitedBy(kind="rate", text="--rate: 50 requests/s"))
    now = datetime(2026, 11, 22, 12, 0, 1, tzinfo=UTC)
    waits = (Wait(what="the server returns no valid reply", since=now, until=now),)

    assert describe(limited, Meter().add(limited))[-1] == "limited by --rate: 50 requests/s"
    assert progress_event(limited, Meter().add(limited))["limited_by"]["kind"] == "rate"
    throttled = snapshot(limited_by=LimitedBy(kind="throttling", text="throttled by a.test to 200/s", share=0.5))
    assert describe(throttled, Meter().add(throttled))[-1] == "throttled by a.test to 200/s (50 % of the run)"
    waiting = snapshot(limited_by=limited.limited_by, waits=waits)
    assert describe(waiting, Meter().add(waiting))[-1].startswith("waiting: ")


@pytest.mark.parametrize(("columns", "no_color"), [(20, False), (80, True)])
def test_progress_fits_narrow_terminals_and_obeys_no_color(
    monkeypatch: pytest.MonkeyPatch, columns: int, no_color: bool
) -> None:
    """Lines are cut at the terminal's width, so that the block stays intact. Colours can be switched off."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = _GoneTerminal()
    display = LiveDisplay(terminal)

    display.update(snapshot(seconds=1.0, listed=1000, fetched=410, listing_done=True))
    display.close()

    shown = terminal.getvalue()
    assert ("\x1b[3" in shown or "\x1b[9" in shown) is not no_color
    # Each frame begins by moving the cursor up and clearing the previous frame.
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]|\x1b\[2K|\x1b\[1A", shown)]
    assert any(line.startswith("━") and set(line) <= set("━╸╺ ") for line in lines), lines
    assert max(len(line) for line in lines) <= columns


def test_plain_progress_lines_come_every_ten_seconds() -> None:
    """The interval does not depend on the number of snapshots."""
    lines: list[str] = []
    display = PlainDisplay(lines.append, now=lambda: "2026-11-22T12:00:01Z")
    for tenth in range(250):
        display.update(snapshot(seconds=tenth / 10, fetched=tenth))

    assert len(lines) == 2
    assert lines[0].startswith("2026-11-22T12:00:01Z 100 of at least 0, ")


def test_json_events_have_counters_and_rates() -> None:
    """Every progress event can be written as JSON."""
    events: list[tuple[str, dict[str, Any]]] = []
    display = JsonDisplay(lambda event, values: events.append((event, values)))
    for tenth in range(21):
        display.update(snapshot(seconds=tenth / 10, fetched=tenth, failures={"dns": 1}))
    display.notice("resuming")

    assert [event for event, _ in events] == ["progress", "progress", "progress", "notice"]
    last = json.loads(json.dumps(events[2][1]))
    assert last["failures"] == {"dns": 1}
    assert last["objects_per_second"] == pytest.approx(10)
    assert last["remaining_seconds"] is None


class _GoneTerminal(io.StringIO):
    """A terminal whose other end has been closed."""

    gone = False

    def write(self, text: str) -> int:
        if self.gone:
            raise BrokenPipeError
        return super().write(text)

    def isatty(self) -> bool:
        return True


def test_job_continues_when_terminal_is_closed() -> None:
    """Later progress updates are dropped, and no error is raised."""
    terminal = _GoneTerminal()
    display = LiveDisplay(terminal)
    display.update(snapshot(seconds=1.0))
    terminal.gone = True

    display.update(snapshot(seconds=2.0))
    display.notice("resuming")
    display.close()

    assert "of at least" in terminal.getvalue()
