"""Describes the conditions of a measurement: machine, versions and commit, but no host name or paths."""

import contextlib
import platform
import random
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def facts() -> dict[str, Any]:
    """Returns a description of the machine."""
    return {
        "processor": _first(r"model name\s*: (.*)", Path("/proc/cpuinfo")),
        "processors": len(re.findall(r"^processor\s*:", Path("/proc/cpuinfo").read_text(), re.MULTILINE)),
        "memory_mib": int(_first(r"MemTotal:\s*(\d+)", Path("/proc/meminfo"))) // 1024,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "rustc": _said("rustc", "--version"),
        "nginx": _said("nginx", "-v"),
        "wrk": " ".join(_said("wrk", "-v").split()[:2]),
        "h2load": _said("h2load", "--version"),
    }


def commit() -> dict[str, Any]:
    """Returns the measured commit, with `changed` if the working tree differs from it."""
    return {
        "commit": _said("git", "rev-parse", "HEAD"),
        "changed": _said("git", "status", "--porcelain", "--untracked-files=no") != "",
    }


def program(name: str) -> str:
    """Returns the path of a program that `make servers` installs."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if not found:
        raise SystemExit(f"{name} is missing; install it with make servers")
    return found


def free_port() -> int:
    """Returns a loopback port that was free a moment ago and is outside the kernel's range for clients."""
    for port in random.sample(range(5_000, 10_000), 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise SystemExit("none of a hundred loopback ports is free")


def _said(name: str, *arguments: str) -> str:
    """Returns the first line of a program's output."""
    ended = subprocess.run([program(name), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return next(iter((ended.stdout + ended.stderr).splitlines()), "")


def _first(pattern: str, path: Path) -> str:
    found = re.search(pattern, path.read_text())
    return found[1].strip() if found else "0"
