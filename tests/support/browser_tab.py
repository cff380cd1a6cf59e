"""A tab of Debian's Chromium that stays open: a test reads its current contents over the DevTools protocol."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from browser import OPTIONS, DeafProxy

_SECONDS = 30


class Tab:
    """An open tab, and its events.

    Attributes:
        console: messages of the console: warnings, errors and exceptions.
        requests: requested URLs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: "aiohttp.ClientWebSocketResponse") -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._loop = loop
        self._socket = socket
        self._number = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401
        """Sends a command of the protocol. Returns its result, and notes events meanwhile."""
        self._number += 1
        self._wait(self._socket.send_json({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._wait(self._socket.receive_str()))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message.get("method", ""), message.get("params", {}))

    def open(self, url: str) -> None:
        """Opens a URL."""
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:  # noqa: ANN401
        """Returns the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_until(self, expression: str, is_met: Callable[[Any], bool] = bool) -> Any:  # noqa: ANN401
        """Waits until a value is as expected. Returns it."""
        deadline = time.monotonic() + _SECONDS
        while not is_met(value := self.value(expression)):
            assert time.monotonic() < deadline, f"{expression} is still {value!r}; console: {self.console}"
            time.sleep(0.05)
        return value

    def look(self, width: int, *, is_dark: bool) -> None:
        """Sets the width, and light or dark mode."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Returns the whole page as a PNG."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _wait(self, awaitable: Any) -> Any:  # noqa: ANN401
        return self._loop.run_until_complete(asyncio.wait_for(awaitable, _SECONDS))

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("warning", "error", "assert"):
            self.console.append(str(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.console.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


@contextlib.contextmanager
def open_tab(folder: Path) -> Iterator[Tab]:
    """Opens an empty tab. Requests to hosts other than loopback go to a proxy that never answers."""
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("chromium is missing: scripts/install-browser installs it")
    profile = folder / "profile"
    with DeafProxy() as proxy:
        own = (f"--user-data-dir={profile}", f"--proxy-server={proxy.url}", "--remote-debugging-port=0")
        command = [program, *OPTIONS, *own, "about:blank"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
        with (folder / "chromium.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        loop = asyncio.new_event_loop()
        try:
            port = _debugging_port(profile / "DevToolsActivePort", process)
            yield from _connected(loop, port)
        finally:
            loop.close()
            process.terminate()
            process.wait(_SECONDS)


def _debugging_port(file: Path, process: "subprocess.Popen[bytes]") -> int:
    deadline = time.monotonic() + _SECONDS
    while not file.exists() or "\n" not in file.read_text():
        assert process.poll() is None, (file.parents[1] / "chromium.log").read_text()
        assert time.monotonic() < deadline, "chromium does not start"
        time.sleep(0.02)
    return int(file.read_text().split("\n")[0])


def _connected(loop: asyncio.AbstractEventLoop, port: int) -> Iterator[Tab]:
    session = loop.run_until_complete(_session())
    try:
        socket = loop.run_until_complete(_socket(session, port))
        tab = Tab(loop, socket)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        yield tab
        loop.run_until_complete(socket.close())
    finally:
        loop.run_until_complete(session.close())


async def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()


async def _socket(session: aiohttp.ClientSession, port: int) -> "aiohttp.ClientWebSocketResponse":
    async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
        pages = await reply.json(content_type=None)
    address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
    return await session.ws_connect(address, max_msg_size=64 << 20)
