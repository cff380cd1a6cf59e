"""A job's stored objects as an fsspec file system, for pandas, pyarrow, DuckDB, dask, zarr and other libraries.

    fs = fsspec.filesystem("fetchmill", dest="out/")
    pandas.read_csv("fetchmill://2026/a.csv", storage_options={"dest": "out/"})
    fsspec.open("fetchmill://2026/a.csv::/data/out")

The file system is read-only, and reads objects in place without unpacking them. docs/guide/reading.md documents object
paths and the cost of each call.
"""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from glob import has_magic
from pathlib import Path
from typing import Any, NoReturn

from fetchmill._destination.facts import FACTS
from fetchmill._destination.object_directories import ObjectDirectories
from fetchmill._destination.object_paths import from_spelling, to_name, to_path
from fetchmill._destination.objects import Object, Objects
from fetchmill._destination.objects import open as open_objects
from fetchmill.errors import FetchmillError, UsageError

try:
    from fsspec import AbstractFileSystem
    from fsspec.utils import tokenize
except ModuleNotFoundError as error:
    # If fsspec is installed but lacks another module, raise the original error.
    if error.name != "fsspec":
        raise
    raise ModuleNotFoundError(
        "fetchmill.file_system requires the library fsspec, which is not installed: pip install 'fetchmill[fsspec]'",
        name="fsspec",
    ) from None

__all__ = ["FetchmillFileSystem", "ObjectFile"]

# Metadata that `info` returns in addition to an object's name and size.
_FACTS = (*FACTS, "url", "columns")

Entry = dict[str, Any]


class FetchmillFileSystem(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """A destination's objects as read-only files. Threads and processes can share an instance.

    An object's path is its name, and each prefix of the name that ends before a `/` is a directory. Data sealed after
    the file system was created becomes visible after `invalidate_cache()`.

    Args:
        dest: the destination, a local path.
        state: journal folder, if the job was started with `state`.
        fo: the destination in a chained URL: `fetchmill://NAME::/data/out`.
        target_protocol: protocol of `fo`; only `file` (local files) is supported.
        target_options: ignored.
        storage_options: general fsspec options.

    Raises:
        UsageError: the destination is not a local path or does not contain a job, or the job's format does not store
            objects.
        JournalError: the journal cannot be read.

    Example:
        >>> import fsspec
        >>> fs = fsspec.filesystem("fetchmill", dest="out/")
        >>> fs.cat_file("file-000000000001", start=-10)
        b'...'
    """

    protocol = "fetchmill"
    # A cached instance would show an old state of the destination, and `out/` may be a different folder by now.
    cachable = False

    def __init__(
        self,
        dest: str | os.PathLike[str] | None = None,
        state: str | os.PathLike[str] | None = None,
        *,
        fo: str | os.PathLike[str] | None = None,
        target_protocol: str | None = None,
        target_options: object = None,
        **storage_options: object,
    ) -> None:
        super().__init__(**storage_options)
        del target_options
        if (dest is None) == (fo is None):
            raise UsageError(
                "give one destination, either with the option dest or in the URL, such as fetchmill://NAME::/data/out"
            )
        place = os.fspath(fo if dest is None else dest)  # type: ignore[arg-type] # one of them is given
        if target_protocol not in (None, "file", "local") or "://" in place:
            raise UsageError(f"{place}: not a local path; copy the shards of the destination to a local folder first")
        # Store absolute paths, because a process that receives this object may have a different working folder.
        self.dest = os.path.abspath(place)  # noqa: PTH100 - does not resolve links
        self.state = None if state is None else os.path.abspath(state)  # noqa: PTH100 - does not resolve links
        self._open_destination()

    def _open_destination(self) -> None:
        self._objects = open_objects(self.dest, state=self.state)
        self._directories = ObjectDirectories(self._objects)

    @property
    def objects(self) -> Objects:
        """The objects as a mapping that lists any number of names in constant memory and provides Arrow batches."""
        return self._objects

    @staticmethod
    def path_of(name: str) -> str:
        """Return the path of an object.

        Args:
            name: name of the object, as in `fetchmill.open`.

        Returns:
            The name, with invalid path segments escaped.

        Example:
            >>> fs.path_of("a//b")
            'a/%empty/b'
        """
        return to_path(name)

    @classmethod
    def name_of(cls, path: str) -> str:
        """Return the object name for a path, even if the object does not exist.

        Args:
            path: a path as returned by `ls` and `find`, or accepted by `open`.

        Returns:
            The name, as in `fetchmill.open`.

        Raises:
            FileNotFoundError: no name has this path.

        Example:
            >>> fs.name_of("a/%empty/b")
            'a//b'
        """
        name = to_name(cls._strip_protocol(path))
        if name is None:
            raise _missing(path)
        return name

    # --- one object --------------------------------------------------------------------------------------------------

    def info(self, path: str, **kwargs: object) -> Entry:
        """Return an object's name, size, type and stored metadata. In all formats except `files`, read the object."""
        del kwargs
        path = self._strip_protocol(path)
        length = self._length(path)
        if length is None:
            if self._is_directory(path):
                return _directory(path)
            raise _missing(path)
        entry = _file(path, length)
        return entry if self._objects.format == "files" else entry | _facts(self._record(path))

    def exists(self, path: str, **kwargs: object) -> bool:
        """Return whether an object or a directory exists. Raise an error if the destination is damaged."""
        del kwargs
        path = self._strip_protocol(path)
        return self._length(path) is not None or self._is_directory(path)

    def isfile(self, path: str) -> bool:
        """Return whether an object exists. Read only the index."""
        return self._length(self._strip_protocol(path)) is not None

    def isdir(self, path: str) -> bool:
        """Return whether a path is a directory and not also an object."""
        path = self._strip_protocol(path)
        return self._length(path) is None and self._is_directory(path)

    def size(self, path: str) -> int:
        """Return an object's size in bytes, or 0 for a directory. Read only the index."""
        path = self._strip_protocol(path)
        length = self._length(path)
        if length is None and not self._is_directory(path):
            raise _missing(path)
        return length or 0

    def modified(self, path: str) -> datetime:
        """Return the Last-Modified time, otherwise the fetch time or the destination folder's modification time."""
        info = self.info(path)
        found: datetime | None = info.get("last_modified") or info.get("fetched_at")
        return found or datetime.fromtimestamp(Path(self.dest).stat().st_mtime, UTC)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: object) -> bytes:
        """Return an object's bytes, or a slice of them."""
        del kwargs
        return self._read(self._strip_protocol(path))[start:end]

    def cat_ranges(
        self,
        paths: list[str],
        starts: list[int | None] | int | None,
        ends: list[int | None] | int | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: object,
    ) -> list[bytes | Exception]:
        """Return slices of objects. Read each object once, and keep only one object in memory at a time."""
        del max_gap, kwargs
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        first = starts if isinstance(starts, list) else [starts] * len(paths)
        last = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(first) == len(last) == len(paths):
            raise ValueError("paths, starts and ends must have the same length")
        by_path: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            by_path.setdefault(path, []).append(index)
        results: list[bytes | Exception] = [b""] * len(paths)
        for path, indexes in by_path.items():
            try:
                body = self.cat_file(path)
            except OSError as error:
                if on_error != "return":
                    raise
                for index in indexes:
                    results[index] = error
                continue
            for index in indexes:
                results[index] = body[first[index] : last[index]]
        return results

    def _open(self, path: str, mode: str = "rb", **kwargs: object) -> "ObjectFile":
        del kwargs  # buffering options: the whole object is in memory
        if mode != "rb":
            self._refuse(path)
        return ObjectFile(self, path, self._read(path))

    # --- many objects: the names in all manifests are read -----------------------------------------------------------

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:  # noqa: ANN401 - a value of any option
        """List the direct entries of a directory, sorted. If the path is an object, list only that object."""
        path = self._strip_protocol(path)
        tree = kwargs.get("tree")
        entries = (self._tree(path, 1) if tree is None else tree).get(path, [])
        entries = [entry for entry in entries if entry["name"] != path] or entries
        if not entries and path:
            raise _missing(path)
        entries.sort(key=lambda entry: (entry["name"], entry["type"]))
        return entries if detail else [entry["name"] for entry in entries]

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: object = "omit", **kwargs: object
    ) -> Iterator[tuple[str, Any, Any]]:
        """Walk directories. All names are read once, and names below the path stay in memory until the end."""
        if "tree" not in kwargs:
            kwargs["tree"] = self._tree(self._strip_protocol(path), maxdepth)
        yield from super().walk(path, maxdepth=maxdepth, topdown=topdown, on_error=on_error, **kwargs)

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: object
    ) -> Any:  # noqa: ANN401 - a list, or a dict with detail
        """Return all objects below a path, sorted, including an object at the path itself."""
        del kwargs
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        found: dict[str, Entry] = {}
        for entry in self._entries(path, maxdepth, with_directories=withdirs):
            if entry["type"] == "file" or entry["name"] not in found:
                found[entry["name"]] = entry
        if withdirs and path and found:
            found.setdefault(path, _directory(path))
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **kwargs: object
    ) -> Any:  # noqa: ANN401 - a number, or a dict without total
        """Return the total size of the objects below a directory, in bytes."""
        if total:
            return sum(entry["size"] for entry in self._entries(self._strip_protocol(path), maxdepth))
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        return {name: entry["size"] for name, entry in found.items()}

    def expand_path(
        self,
        path: str | os.PathLike[str] | list[str],
        recursive: bool = False,
        maxdepth: int | None = None,
        assume_literal: bool = False,
        **kwargs: object,
    ) -> list[str]:
        """Expand patterns to paths. An object's exact name is never a pattern, even if it contains wildcards."""
        paths = self._strip_protocol([path] if isinstance(path, str | os.PathLike) else list(path))
        literal = {each for each in paths if assume_literal or not has_magic(each) or self._length(each) is not None}
        patterns = [each for each in paths if each not in literal]
        found: set[str] = set()
        for each in literal:
            if recursive:
                found.update(self.find(each, maxdepth=maxdepth, withdirs=True))
            if not recursive or self.exists(each):
                found.add(each)
        with suppress(FileNotFoundError):  # if nothing matches
            found.update(super().expand_path(patterns, recursive=recursive, maxdepth=maxdepth, **kwargs))
        if not found:
            raise _missing(str(path))
        return sorted(found)

    def get(
        self,
        rpath: str | os.PathLike[str] | list[str],
        lpath: str | os.PathLike[str] | list[str],
        recursive: bool = False,
        **kwargs: object,
    ) -> None:
        """Copy objects to local files."""
        path = None if isinstance(rpath, list) else self._strip_protocol(rpath)
        if path is not None and not recursive and not isinstance(lpath, list) and has_magic(path) and self.isfile(path):
            # fsspec would treat the name as a pattern, and the local file as a folder.
            is_folder = os.fspath(lpath).endswith("/") or Path(lpath).is_dir()
            target = Path(lpath, path.rpartition("/")[2]) if is_folder else Path(lpath)
            rpath, lpath = [path], [str(target)]
        super().get(rpath, lpath, recursive=recursive, **kwargs)

    # --- other methods -----------------------------------------------------------------------------------------------

    def invalidate_cache(self, path: str | None = None) -> None:
        """Reopen the destination so that recently sealed data becomes visible."""
        super().invalidate_cache(path)
        self._open_destination()

    def _refuse(self, path: object = None, *_arguments: object, **_options: object) -> NoReturn:
        """Raise OSError, because the file system is read-only."""
        shown = str(path) if isinstance(path, str | os.PathLike) else None
        raise OSError(
            errno.EROFS, f"the destination {self.dest} is read-only, because only fetchmill writes to it", shown
        )

    mkdir = makedirs = rmdir = rm = rm_file = _rm = mv = copy = cp_file = _refuse
    pipe = pipe_file = put = put_file = touch = _refuse

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:  # noqa: ANN401 - a path or a list of paths, as in fsspec
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return from_spelling(os.fspath(path).removeprefix("fetchmill://").rstrip("/"))

    @property
    def _fs_token(self) -> str:
        """Return a token that is equal for instances with the same destination.

        fsspec's own token would depend on the thread and the unresolved `dest`.
        """
        token: str = tokenize(type(self).__qualname__, self.dest, self.state)
        return token

    def __reduce__(self) -> tuple[type["FetchmillFileSystem"], tuple[str, str | None]]:
        return type(self), (self.dest, self.state)

    def _length(self, path: str) -> int | None:
        name = to_name(path)
        try:
            with _told_as_os_error(path):
                return None if name is None else self._objects.length(name)
        except KeyError:
            return None

    def _record(self, path: str) -> Object:
        try:
            with _told_as_os_error(path):
                return self._objects.record(self.name_of(path))
        except KeyError:
            raise _missing(path) from None

    def _read(self, path: str) -> bytes:
        return self._record(path).body

    def _is_directory(self, path: str) -> bool:
        with _told_as_os_error(path):
            return not path or self._directories.has(path)

    def _entries(self, path: str, maxdepth: int | None = None, *, with_directories: bool = False) -> Iterator[Entry]:
        """Yield the objects at and below a path. An object at the path itself forms its own group."""
        start = path + "/" if path else ""
        known = {path}
        with _told_as_os_error(path):
            for name, length in self._objects.lengths():
                found = to_path(name)
                if not found.startswith(start):
                    if found == path:
                        yield _file(found, length)
                    continue
                parts = found[len(start) :].split("/", -1 if maxdepth is None else maxdepth)
                is_deeper = maxdepth is not None and len(parts) > maxdepth
                if not is_deeper:
                    yield _file(found, length)
                if with_directories:
                    directory = found[: -len(parts[-1]) - 1]
                    while directory and directory not in known:
                        known.add(directory)
                        yield _directory(directory)
                        directory = directory.rpartition("/")[0]

    def _tree(self, path: str, maxdepth: int | None) -> dict[str, list[Entry]]:
        """Return the entries and directories below a path, grouped by parent directory.

        An object at the path itself forms its own group.
        """
        tree: dict[str, list[Entry]] = {}
        for entry in self._entries(path, maxdepth, with_directories=True):
            name = entry["name"]
            tree.setdefault(path if name == path else name.rpartition("/")[0], []).append(entry)
        return tree


class ObjectFile(io.BytesIO):
    """An object opened for reading, with its bytes in memory. Unpickling reads the object again."""

    def __init__(self, fs: FetchmillFileSystem, path: str, body: bytes) -> None:
        super().__init__(body)
        self.fs = fs
        self.path = self.name = path
        self.size = len(body)

    @property
    def mode(self) -> str:
        """The open mode, always `rb`."""
        return "rb"

    def writable(self) -> bool:
        """Return False."""
        return False

    def write(self, _data: object) -> NoReturn:
        """Raise `io.UnsupportedOperation`."""
        raise io.UnsupportedOperation("not writable")

    def writelines(self, _lines: object) -> NoReturn:
        """Raise `io.UnsupportedOperation`."""
        self.write(b"")

    def truncate(self, _size: int | None = None) -> NoReturn:
        """Raise `io.UnsupportedOperation`."""
        self.write(b"")

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.fs, self.path, self.tell())


def _reopen(fs: FetchmillFileSystem, path: str, position: int) -> ObjectFile:
    file: ObjectFile = fs.open(path)
    file.seek(position)
    return file


@contextmanager
def _told_as_os_error(path: str) -> Iterator[None]:
    """Convert read errors to OSError, which fsspec's users expect."""
    try:
        yield
    except UsageError:
        raise
    except FetchmillError as error:
        raise OSError(errno.EIO, str(error), path) from error


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _file(path: str, size: int) -> Entry:
    return {"name": path, "size": size, "type": "file"}


def _directory(path: str) -> Entry:
    return {"name": path, "size": 0, "type": "directory"}


def _facts(record: Object) -> Entry:
    facts = {name: value for name in _FACTS if (value := getattr(record, name)) not in (None, {})}
    if record.last_modified is not None:
        facts["mtime"] = record.last_modified.timestamp()  # as for fsspec's local files
    return facts
