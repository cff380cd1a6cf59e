"""The directories of a destination. Every part of a path that ends just before a `/` is a directory."""

from threading import Lock

from fetchmill._destination.object_paths import to_path
from fetchmill._destination.objects import Objects
from fetchmill.errors import FetchmillError

# Maximum number of cached directories, at about 200 bytes each. Once the cache is full, looking up any other directory
# reads all names.
_DIRECTORIES_MAX = 1 << 18


class ObjectDirectories:
    """A thread-safe lookup of directories. Each name is read at most once, and only when needed."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._names = objects.names()
        self._known: set[str] = set()
        self._lock = Lock()

    def has(self, path: str) -> bool:
        """Return whether the path of any object starts with this directory."""
        with self._lock:
            while path not in self._known and len(self._known) < _DIRECTORIES_MAX:
                name = self._next_name()
                if name is None:
                    return False
                directory = to_path(name).rpartition("/")[0]
                while directory and directory not in self._known:
                    self._known.add(directory)
                    directory = directory.rpartition("/")[0]
            if path in self._known:
                return True
        start = path + "/"
        return any(to_path(name).startswith(start) for name in self._objects.names())

    def _next_name(self) -> str | None:
        try:
            return next(self._names, None)
        except FetchmillError:
            self._names = self._objects.names()  # otherwise the next lookup would find an exhausted iterator
            raise
