"""Replacing and removing a file so that a link put in its way meanwhile leads nowhere.

A path is walked folder by folder through open descriptors, none of which may be a link. What was
judged is therefore what is written: a folder swapped for a link after the check is an error.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_PATH", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_USED = {os.open, os.stat, os.mkdir, os.unlink, os.rename, os.symlink}
BY_DESCRIPTOR = os.supports_dir_fd >= _USED
"""False where the system has no such calls; paths are then only compared before they are used."""


class Place(msgspec.Struct, frozen=True):
    """A file by its name in an open folder, or by its whole path where there is no descriptor."""

    folder: int | None
    name: str

    def beside(self, name: str) -> str:
        return name if self.folder is not None else str(Path(self.name).with_name(name))

    def stat(self) -> os.stat_result | None:
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def replace(path: str, data: bytes) -> None:
    """Write beside the file and put it in its place, so that nobody sees half of it.

    Missing folders are made; permissions and owner of an existing file are kept. A file in a
    folder that is closed to us is written where it is.
    """
    with _reach(path, make=True) as place:
        old = place.stat()
        if old is not None:
            _require_file(old, path)
        temporary = place.beside(f".hermes-{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        try:
            descriptor = os.open(temporary, flags, 0o666, dir_fd=place.folder)
        except PermissionError:
            if old is None:
                raise
            _overwrite(place, data)
            return
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if old is not None:
                    _like(file.fileno(), old)
            _rename(place, temporary)
        finally:
            with contextlib.suppress(FileNotFoundError):  # after a success it has its new name
                os.unlink(temporary, dir_fd=place.folder)


def remove(path: str, *, link: bool = False) -> None:
    """Delete one file; with `link` also one that is a link, itself."""
    with _reach(path, make=False) as place:
        old = place.stat()
        if old is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not (link and stat.S_ISLNK(old.st_mode)):
            _require_file(old, path)
        os.unlink(place.name, dir_fd=place.folder)


def make_link(path: str, goal: bytes) -> None:
    """A symbolic link to `goal` where nothing is yet; missing folders are made."""
    with _reach(path, make=True) as place:
        os.symlink(os.fsdecode(goal), place.name, dir_fd=place.folder)


def require_regular(found: os.stat_result) -> None:
    """A pipe would block and a device never end: only files are read and written."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, not a file")


def _require_file(found: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _a_link(path)
    require_regular(found)


def _rename(place: Place, temporary: str) -> None:
    # A link that took the place in the last instant is itself replaced, not followed.
    if place.folder is None:
        Path(temporary).replace(place.name)
    else:
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)


def _overwrite(place: Place, data: bytes) -> None:
    descriptor = os.open(place.name, os.O_WRONLY | _FILE, dir_fd=place.folder)
    with os.fdopen(descriptor, "wb") as file:
        require_regular(os.fstat(file.fileno()))
        file.truncate()
        file.write(data)


def _like(descriptor: int, old: os.stat_result) -> None:
    """Owner first: a change of owner takes special bits of the mode away."""
    if hasattr(os, "fchown"):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


@contextlib.contextmanager
def _reach(path: str, *, make: bool) -> Iterator[Place]:
    if not BY_DESCRIPTOR:
        yield _compared(path, make=make)
        return
    *folders, name = path.strip("/").split("/")
    if not path.startswith("/") or not name or ".." in folders:
        raise OSError(errno.EINVAL, "not an absolute path of a file", path)
    descriptor = os.open("/", _FOLDER)
    try:
        for folder in folders:
            below = _enter(descriptor, folder, path, make=make)
            os.close(descriptor)
            descriptor = below
        yield Place(descriptor, name)
    finally:
        os.close(descriptor)


def _enter(folder: int, name: str, path: str, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return _enter(folder, name, path, make=False)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _a_link(path) from None
        raise


def _compared(path: str, *, make: bool) -> Place:
    """The next best thing without descriptors: the path must lead to itself just before its use."""
    if os.path.realpath(path) != path:
        raise _a_link(path)
    if make:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
    return Place(None, path)


def _a_link(path: str) -> OSError:
    return OSError(errno.ELOOP, "a part of the path has become a link", path)
