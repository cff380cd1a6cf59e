"""Trees of files that servers serve and jobs mirror: names of every kind, and the differences between two trees."""

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote_to_bytes

SEGMENTS_MAX = 64
LEFT_OUT = ("__pycache__", "site-packages", "dist-packages")
ODD_NAMES = (
    b"a b",
    b" leading and trailing ",
    b"100%",
    b"%20",
    b"%FF",
    b"%2e%2e",
    b"a+b",
    b"#fragment",
    b"what?is=this&that",
    b"semi;colon,comma",
    b"'single' \"double\"",
    b"back\\slash",
    b"\\..\\x",
    b"C:\\con",
    b"\xff\xfe",
    b"\xc3(",
    b"cut \xe2\x82",
    b"\xed\xa0\x80",
    b"line\nbreak",
    b"tab\there",
    b"\x01\x1b[31m\x7f",
    b"carriage\rreturn",
    "caf\u00e9".encode(),
    "cafe\u0301".encode(),
    "\u0085\u202e\u200b".encode(),
    "\U0001f600".encode(),
    b"upper",
    b"UPPER",
    b"x" * 255,
    b"-rf",
    b"--help",
    b"ends with a dot.",
    b"three...",
    b"~",
    b"*",
    b"$HOME `id`",
    b"<b>&amp;",
    b"http:",
    b"null",
)


def copy_library(source: Path, copy: Path) -> None:
    """Copies regular files without following links."""
    for name, folders, files in os.walk(source):
        folders[:] = [folder for folder in folders if folder not in LEFT_OUT and not folder.startswith(".")]
        for file in (Path(name, file) for file in files if not file.startswith(".")):
            if file.is_file() and not file.is_symlink():
                target = copy / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


def make_odd_names(folder: Path) -> None:
    """Creates each name as a file and as a folder, and other oddities of a tree."""
    for position, name in enumerate(map(os.fsdecode, ODD_NAMES)):
        write(folder / "names" / name, os.fsencode(name) * position)
        write(folder / "folders" / name / name, os.fsencode(name))
    write(folder / "empty file", b"")
    (folder / "empty folder").mkdir()
    deep = folder.joinpath(*["deep"] * (SEGMENTS_MAX - 2))
    write(deep / "file", b"as deep as a name may be")


def write(path: Path, body: bytes) -> None:
    """Writes a new file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(body)


def count_files(folder: Path) -> int:
    """Counts regular files below a folder, without the job's own."""
    return sum(len(files) for name, _, files in os.walk(folder) if ".fetchmill" not in Path(name).parts)


def unescape(folder: Path) -> None:
    """Restores the server's bytes in names that were escaped on disk, deepest first."""
    for name, folders, files in os.walk(folder, topdown=False):
        for entry in (Path(name, entry) for entry in (*folders, *files) if "%" in entry):
            plain = entry.with_name(os.fsdecode(unquote_to_bytes(os.fsencode(entry.name))))
            assert not os.path.lexists(plain)
            entry.rename(plain)


def differences(served: Path, mirror: Path) -> list[str]:
    """Returns the output of `diff -r` in the C locale."""
    command = ("diff", "-r", "--no-dereference", "--exclude=.fetchmill", served, mirror)
    ended = subprocess.run(command, capture_output=True, env={"LC_ALL": "C"}, timeout=120, check=False)
    assert ended.stderr == b""
    return os.fsdecode(ended.stdout).splitlines()
