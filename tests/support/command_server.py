"""A process that has imported the package and forks for each command, which saves a test 0.1 s of imports each time.

From `fetchmill.__main__` on, a command behaves the same. The start of an interpreter, the order of imports, and the
interpreter's own end differ: tests marked `entry_point` check those with the real command, and `make test-all` uses it
for all (`FETCHMILL_REAL_COMMANDS`).

A request is one connection to the server's socket: the arguments, folder and environment as JSON, with descriptors for
standard input, output and error. The answer is the child's process id, and later its wait status.
"""

import atexit
import contextlib
import ctypes
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import IO, Any, NoReturn, Self

_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!i")
_START_SECONDS_MAX = 60.0
_PR_SET_PDEATHSIG = 1
# Imported before the first fork. A command itself imports everything else.
_MODULES = (
    *(f"fetchmill.cli.{name}" for name in ("check", "get", "list", "ls", "plan", "serve", "status", "sync", "verify")),
    "fetchmill.cli.export",
    "fetchmill._native",
    "fetchmill._destination.status",
    "fetchmill._sync.status",
    "rich.live",
)
# An interpreter reads these when it starts.
_OF_THE_INTERPRETER = ("PYTHON", "LD_", "MALLOC_")


class CommandServer:
    """Runs commands in forked children, for the tests of one pytest process.

    Its socket has an abstract name: it is not in a folder, and disappears with the server.
    """

    def __init__(self) -> None:
        name = f"fetchmill-commands-{os.getpid()}"
        self._address = f"\0{name}"
        # This ends the server together with this process, however that ends.
        inner, self._lifeline = socket.socketpair()
        with inner:
            self._process = subprocess.Popen(
                [sys.executable, __file__, name], stdin=inner.fileno(), env=_environment(), cwd="/"
            )
        self._wait_until_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._lifeline.close()
        self._process.wait()

    def _wait_until_ready(self) -> None:
        self._lifeline.settimeout(_START_SECONDS_MAX)
        if self._lifeline.recv(1) != b"r":
            raise AssertionError("the server of commands did not start")

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: str | PathLike[str],
        env: Mapping[str, str],
        stdin: int | IO[bytes],
        timeout: float,
    ) -> tuple[int, str, str]:
        """Runs a command to its end, like `subprocess.run`. Returns its exit code, output and errors.

        Args:
            arguments: arguments without the program's name.
            cwd: its working folder.
            env: its whole environment.
            stdin: a descriptor, a file, or `subprocess.DEVNULL`.
            timeout: seconds after which the command is killed.

        Raises:
            subprocess.TimeoutExpired: the command was killed.
        """
        with contextlib.ExitStack() as stack:
            if stdin == subprocess.DEVNULL:
                stdin = stack.enter_context(open(os.devnull, "rb"))
            out, err = (os.memfd_create(name) for name in ("stdout", "stderr"))
            stack.callback(os.close, out)
            stack.callback(os.close, err)
            given = stdin if isinstance(stdin, int) else stdin.fileno()
            code = self._run(arguments, os.fspath(cwd), env, (given, out, err), timeout)
            return code, _text(out), _text(err)

    def _run(
        self,
        arguments: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        descriptors: tuple[int, int, int],
        timeout: float,
    ) -> int:
        request = json.dumps({"arguments": list(arguments), "cwd": cwd, "env": dict(env)}).encode("utf-8")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._address)
            socket.send_fds(connection, [_LENGTH.pack(len(request))], descriptors)
            connection.sendall(request)
            process = _NUMBER.unpack(_receive(connection, _NUMBER.size))[0]
            connection.settimeout(timeout)
            try:
                status = _NUMBER.unpack(_receive(connection, _NUMBER.size))[0]
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                error = subprocess.TimeoutExpired(
                    list(arguments), timeout, _text(descriptors[1]), _text(descriptors[2])
                )
                raise error from None
        return os.waitstatus_to_exitcode(status)


def can_fork(settings: Mapping[str, Any]) -> bool:
    """Returns whether a forked command behaves like one that is started with these `subprocess.run` arguments."""
    env = settings["env"]
    for_the_interpreter = any(name.startswith(_OF_THE_INTERPRETER) for name in env)
    is_known = env.get("LC_ALL") == "C.UTF-8" and settings.keys() == {"cwd", "env", "stdin"}
    return is_known and not for_the_interpreter and "FETCHMILL_REAL_COMMANDS" not in os.environ


def _environment() -> dict[str, str]:
    """Returns the environment of every command; the rest comes with a request."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def _text(descriptor: int) -> str:
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            raise ConnectionError("the server of commands has ended")
        received += more
    return received


# --- in the server ------------------------------------------------------------------------------------------------


def _serve(name: str) -> None:
    """Forks for each request until standard input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for module in _MODULES:
        import_module(module)
    gc.collect()
    gc.freeze()
    lifeline = socket.socket(fileno=os.dup(0))
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(f"\0{name}")
        listener.listen(64)
        woken, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source in (listener, woken, lifeline):
            selector.register(source, selectors.EVENT_READ)
        lifeline.sendall(b"r")
        running: dict[int, socket.socket] = {}
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if lifeline in ready:
                return
            if woken in ready:
                woken.recv(4096)
                _report_ended(running)
            if listener in ready:
                connection, _ = listener.accept()
                running[_fork(connection, (listener, lifeline, woken, wakes, selector))] = connection


def _report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        with running.pop(process) as connection, contextlib.suppress(OSError):
            connection.sendall(_NUMBER.pack(status))


def _fork(connection: socket.socket, own: Sequence[Any]) -> int:
    """Forks a child that runs the requested command. Returns its process id."""
    process = os.fork()
    if not process:
        code = 1
        try:
            for each in own:
                each.close()
            code = _run_request(connection)
        finally:
            os._exit(code)
    connection.sendall(_NUMBER.pack(process))
    return process


def _run_request(connection: socket.socket) -> int:
    """Becomes the command. Returns its exit code."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
    request = json.loads(_receive(connection, _LENGTH.unpack(head)[0]))
    connection.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 1)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.stdin, sys.stdout, sys.stderr = (open(each, mode) for each, mode in ((0, "r"), (1, "w"), (2, "w")))  # noqa: SIM115
    sys.argv = ["fetchmill", *request["arguments"]]
    sys.path[0] = request["cwd"]
    return _run_module()


def _run_module() -> int:
    """Works like `python -m fetchmill`, up to the exit functions."""
    code = 0
    try:
        runpy.run_module("fetchmill", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - the interpreter prints it, whatever it is
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code


def main() -> NoReturn:
    """Runs the server: `command_server.py NAME`."""
    _serve(sys.argv[1])
    sys.exit()


if __name__ == "__main__":
    main()
