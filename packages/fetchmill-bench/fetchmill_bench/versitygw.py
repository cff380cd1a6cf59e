"""versitygw, an independent S3-compatible store over a folder of files. It shares no code with fetchmill.

`scripts/install-versitygw` builds it. The objects are files in a folder, so a hundred thousand of them can be created
within seconds, without any requests.
"""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fetchmill.errors import StorageError
from fetchmill_bench.signals import defer_signals

ACCESS_KEY, SECRET_KEY, REGION = "test-access-key", "test-secret-key", "us-east-1"
# Variables that AWS clients read. They set these credentials and disable the user's AWS files and metadata service.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "no_proxy": "*",
}
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02


class Versitygw:
    """A running store.

    Args:
        folder: the folder of the store, which contains a folder for each bucket.
        bucket: the name of the bucket.
        port: the port on 127.0.0.1.
        pid: the process id.
    """

    def __init__(self, folder: Path, bucket: str, port: int, pid: int) -> None:
        self._root = folder / bucket
        self.bucket = bucket
        self.endpoint = f"http://127.0.0.1:{port}"
        self.pid = pid

    def environment(self) -> dict[str, str]:
        """Returns credentials and settings for a client's process."""
        return dict(ENVIRONMENT)

    def put(self, key: str, body: bytes) -> None:
        """Creates or replaces an object.

        Args:
            key: the key, which must be a path, because versitygw supports no other keys.
            body: the bytes of the object.
        """
        path = self._root / key
        try:
            path.write_bytes(body)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        # Use the format in which versitygw stores an ETag, with quotes.
        os.setxattr(path, "user.etag", f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'.encode())


@contextlib.contextmanager
def run_versitygw(
    folder: Path, bucket: str = "bucket", port: int | None = None, *, log: Path | None = None
) -> Iterator[Versitygw]:
    """Starts a store with one bucket. It ends when the block ends.

    Args:
        folder: an empty folder, or one that a store has used before, on a file system with extended attributes.
        bucket: the name of the bucket.
        port: the port on loopback; None to choose a free port.
        log: a file that gets one line per request.

    Raises:
        StorageError: versitygw is not installed, or does not answer.
    """
    command = find_program()
    (folder / bucket).mkdir(exist_ok=True)
    port = port or _free_port()
    listen = ("--port", f"127.0.0.1:{port}", "--region", REGION, "--access", ACCESS_KEY, "--secret", SECRET_KEY)
    # Without --keep-alive, versitygw closes each connection after one reply.
    logs = ("--access-log", str(log)) if log else ()
    arguments = (str(command), "--keep-alive", "--quiet", *logs, *listen, "posix", str(folder))
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(tempfile.TemporaryFile())
        with defer_signals():
            process = subprocess.Popen(  # noqa: S603 - the path was found above
                arguments,
                env={"HOME": str(folder), **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )
            stack.callback(_end, process)
        _wait_for(port, process, output)
        yield Versitygw(folder, bucket, port, process.pid)


def find_program() -> Path:
    """Returns the path of versitygw, either as installed by the project's script or on PATH.

    Raises:
        StorageError: versitygw was not found.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = shutil.which("versitygw", path=os.pathsep.join((str(cache / "fetchmill" / "bin"), os.environ["PATH"])))
    if found is None:
        raise StorageError("versitygw is missing; build it with scripts/install-versitygw")
    return Path(found)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
    """Waits until the store accepts connections."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            output.seek(0)
            last = output.read().decode(errors="replace").strip().splitlines()[-1:]
            raise StorageError(": ".join([f"versitygw ended with exit code {process.returncode}", *last]))
        if time.monotonic() > deadline:
            raise StorageError(f"versitygw did not respond within {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
