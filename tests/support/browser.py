"""Debian's Chromium without a window: opens one file, and returns its contents and its further requests."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Self

import pytest

# It still contacts its maker, so all of its requests go to a proxy that never answers.
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--enable-logging=stderr",
)
_SECONDS = 60
# Elements of HTML and SVG without an end tag.
_VOID = {"meta", "img", "br", "link", "input"}


@dataclass(frozen=True)
class Opened:
    """A page after it was opened.

    Args:
        dom: the document after everything has loaded.
        console: lines of the console, errors and others.
        asked: the first lines of requests by the page, or by the browser itself.
    """

    dom: str
    console: list[str]
    asked: list[str]


class DeafProxy:
    """A proxy that never answers, and records its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        # Unlike close alone, this wakes the thread.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                self.asked.append(connection.recv(4096).split(b"\r\n")[0].decode("latin-1"))


def open_page(page: Path, folder: Path) -> Opened:
    """Opens a file, waits until it has loaded, and returns the document."""
    with DeafProxy() as proxy:
        ended = _run(page, folder, proxy, "--dump-dom")
    return Opened(ended.stdout, [line for line in ended.stderr.splitlines() if ":CONSOLE" in line], proxy.asked)


def picture_of(page: Path, folder: Path, *, width: int, is_dark: bool) -> Path:
    """Returns a picture of the top of a page, as a PNG."""
    picture = folder / f"{width}-{'dark' if is_dark else 'light'}.png"
    scheme = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
    with DeafProxy() as proxy:
        _run(page, folder, proxy, f"--window-size={width},900", f"--screenshot={picture}", *scheme)
    return picture


def _run(page: Path, folder: Path, proxy: DeafProxy, *options: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("chromium is missing: scripts/install-browser installs it")
    profile = folder / f"profile-{len(list(folder.glob('profile-*')))}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    own = (f"--user-data-dir={profile}", f"--proxy-server={proxy.url}")
    command = [program, *OPTIONS, "--proxy-bypass-list=<-loopback>", *own, *options, page.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended


class Page(HTMLParser):
    """A document as a test sees it.

    Args:
        dom: its text.

    Attributes:
        elements: names and attributes of all elements.
        text: all text outside of style sheets.
        marks: number of marks of each way, by caption of a figure.
    """

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.marks: dict[str, dict[str, int]] = {}
        self._open: list[str] = []
        self._caption = ""
        self._way: str | None = None
        self.feed(dom)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handles the start of an element."""
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "figcaption":
            self._caption = ""
        self._way = attributes.get("data-way", self._way)
        if "mark" in (attributes.get("class") or "").split() and self._way is not None:
            ways = self.marks.setdefault(self._caption, {})
            ways[self._way] = ways.get(self._way, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        """Handles the end of an element."""
        assert self._open.pop() == tag
        if tag == "svg":
            self._way = None

    def handle_data(self, data: str) -> None:
        """Handles text."""
        if self._open and self._open[-1] == "figcaption":
            self._caption += data
        if "style" not in self._open:
            self.text += data
