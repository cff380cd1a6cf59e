"""File systems with few bytes and inodes, and commands that reach them."""

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conftest import COMMAND, Ended

Run = Callable[..., Any]


@contextlib.contextmanager
def small_disk(size: int, inodes: int) -> Iterator[Path]:
    """Creates a small file system.

    If none is allowed, the test fails, so that it does not seem to have passed. FETCHMILL_TEST_TMPFS gives root the
    tmpfs of other users.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if os.geteuid() == 0 and not os.environ.get("FETCHMILL_TEST_TMPFS") and mount_image(folder, size, inodes):
            try:
                yield folder / "disk"
            finally:
                subprocess.run(["umount", "--lazy", folder / "disk"], check=True, timeout=120)
        else:
            with small_tmpfs(folder, size, inodes) as disk:
                yield disk


def mount_image(folder: Path, size: int, inodes: int) -> bool:
    """Mounts an ext4 in a file; False if this machine has no loop devices."""
    image, disk = folder / "image", folder / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(size)
    subprocess.run(
        ["mkfs.ext4", "-q", "-m", "0", "-N", str(inodes), image],
        check=True,
        timeout=120,
        env=os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    mounted = subprocess.run(["mount", "-o", "loop", image, disk], check=False, capture_output=True, timeout=20)
    return mounted.returncode == 0


@contextlib.contextmanager
def small_tmpfs(folder: Path, size: int, inodes: int) -> Iterator[Path]:
    """Creates a tmpfs in a separate mount namespace, which is reached through the process that holds it."""
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    script = f'mount -t tmpfs -o size={size},nr_inodes={inodes} none "$0" && echo ready && exec cat'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(disk)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n", "neither a loop device nor a namespace can be had"
        try:
            yield Path(f"/proc/{holder.pid}/root{disk}")
        finally:
            holder.kill()


def run_on_disk(run: Run, environment: dict[str, str]) -> Run:
    """Runs a command; in the namespace of a tmpfs if a path leads into one."""

    def run_there(*arguments: object, **options: Any) -> Any:  # noqa: ANN401
        roots = {found[0]: found[1] for text in arguments if (found := re.match(r"/proc/(\d+)/root", str(text)))}
        if not roots:
            return run(*arguments, **options)
        root, holder = roots.popitem()
        enter = ["nsenter", "--target", holder, "--user", "--mount", "--preserve-credentials"]
        texts = [str(argument).removeprefix(root) for argument in arguments]
        ended = subprocess.run(
            [*enter, *COMMAND, *texts], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run_there
