"""Which temporary files are ours to remove."""

import os
import re
import stat
import tempfile
import threading
from pathlib import Path

PATH = re.compile(r"/[\w.+@,:/-]+")
MOST = 1000
"""Files that are remembered."""
LONGEST = 100_000
"""Characters of arguments that are looked through."""


class Tracker:
    """Calls run side by side, in threads: a path that two calls name is tracked all the same."""

    def __init__(self, roots=None):
        self._roots = [Path(os.path.realpath(root)) for root in roots or _temporary_folders()]
        self._absent = {}
        self._made = {}
        self._lock = threading.Lock()

    def before(self, args):
        with self._lock:
            for path in self._paths(args):
                if os.path.lexists(path):
                    self._absent.pop(path, None)
                else:
                    self._absent[path] = True
            while len(self._absent) > MOST:
                del self._absent[next(iter(self._absent))]

    def after(self, args):
        with self._lock:
            for path in self._paths(args):
                identity = self._identity(path)
                if identity and self._absent.pop(path, False) and len(self._made) < MOST:
                    self._made[path] = identity

    def made(self):
        """Path and size of what is still there, and still the same file."""
        with self._lock:
            self._made = {p: i for p, i in self._made.items() if self._identity(p) == i}
            return [(path, path.lstat().st_size) for path in sorted(self._made)]

    def remove(self, path):
        """Raises OSError. A folder goes only when it is empty."""
        with self._lock:
            known = self._made.get(path)
            if known is None or self._identity(path) != known:
                raise OSError("it is not the file that the agent made")
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
            del self._made[path]

    def _paths(self, args):
        """Temporary paths in the arguments of a call, as they are written there."""
        for text in _texts(args):
            for found in PATH.findall(text[:LONGEST]):
                path = Path(found.rstrip(".,:/"))
                if ".." not in path.parts and self._is_temporary(path):
                    yield path

    def _is_temporary(self, path):
        folder = Path(os.path.realpath(path.parent))
        return any(folder == root or root in folder.parents for root in self._roots)

    def _identity(self, path):
        """What tells a file from another one of the same name; None for what is not ours."""
        try:
            status = path.lstat()
        except OSError:
            return None
        ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        return (status.st_dev, status.st_ino) if ours and plain else None


def _temporary_folders():
    return [tempfile.gettempdir(), "/tmp", "/var/tmp"]


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for held in value.values():
            yield from _texts(held)
    elif isinstance(value, list):
        for held in value:
            yield from _texts(held)
