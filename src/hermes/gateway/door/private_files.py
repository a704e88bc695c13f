"""Files that only their owner reads and writes. What somebody else could have written is refused,
and left as it is."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import filelock
import msgspec

from hermes.config.home import tilde, unusable
from hermes.core.errors import ConfigError
from hermes.util import atomic

LOCK_FILE = ".lock"
LOCK_SECONDS = 10.0
MOST_BYTES = 4_000_000

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

T = TypeVar("T")


class PrivateFolder:
    """JSON files below one folder; each is replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str, kind: type[T]) -> T | None:
        """What the file holds; None when it is not there. Raises ConfigError when it is damaged or
        cannot be trusted."""
        path = self.folder / name
        self._check_folder()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _untrusted(path, "is a symbolic link", "put the file itself there") from error
            raise unusable(path, error) from error
        try:
            data = _checked(path, descriptor)
        except OSError as error:
            raise unusable(path, error) from error
        finally:
            os.close(descriptor)
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            hint = "it was left as it is; mend it, or move it away to begin anew"
            raise ConfigError(f"{tilde(path)} is damaged: {error}", hint=hint) from error

    def write(self, name: str, value: object) -> None:
        path = self.folder / name
        if path.is_symlink():
            raise _untrusted(path, "is a symbolic link", "put the file itself there")
        data = msgspec.json.format(msgspec.json.encode(value), indent=2)
        try:
            atomic.write_bytes(path, data + b"\n", mode=0o600)
        except OSError as error:
            raise unusable(path, error) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone among all processes and threads that change the files."""
        lock = self.folder / LOCK_FILE
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            held = filelock.FileLock(lock, timeout=LOCK_SECONDS, mode=0o600)
            held.acquire()
        except filelock.Timeout as error:
            raise ConfigError(
                f"another process holds {tilde(lock)}", hint="try again in a moment"
            ) from error
        except OSError as error:
            raise unusable(self.folder, error) from error
        try:
            yield
        finally:
            held.release()

    def _check_folder(self) -> None:
        try:
            found = self.folder.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise unusable(self.folder, error) from error
        if not stat.S_ISDIR(found.st_mode):
            raise _untrusted(self.folder, "is not a folder", "a folder of ours is expected there")
        _check_owner(self.folder, found)


def _checked(path: Path, descriptor: int) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise _untrusted(path, "is not a file", "move it away")
    _check_owner(path, found)
    if found.st_mode & _OTHERS and found.st_uid == os.geteuid():
        os.fchmod(descriptor, 0o600)
    if found.st_size > MOST_BYTES:
        raise _untrusted(path, "is far too large", "move it away to begin anew")
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _check_owner(path: Path, found: os.stat_result) -> None:
    if os.geteuid() and found.st_uid not in (0, os.geteuid()):
        raise _untrusted(path, "belongs to somebody else", f"chown it: {tilde(path)}")
    if found.st_mode & _OTHERS_WRITE:
        hint = f"look at what it says, then: chmod go-rwx {tilde(path)}"
        raise _untrusted(path, "can be written by others", hint)


def _untrusted(path: Path, what: str, hint: str) -> ConfigError:
    return ConfigError(f"{tilde(path)} {what}, so it is not believed", hint=hint)
