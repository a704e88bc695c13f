"""Files: atomic replacement, locks, the real path of a name, the limit of open files."""

import codecs
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePath


def write_text(path: Path, text: str, *, mode: int | None = None) -> None:
    """Write `text` in UTF-8 with `write_bytes`; line ends stay as they are."""
    write_bytes(path, text.encode(), mode=mode)


def write_bytes(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace `path` with `data`, on disk when this returns.

    Readers see the old bytes or the new ones, never a mixture. A symbolic link stays a link: its
    target is replaced. A device or a pipe, such as /dev/stdout, is written to. Without `mode` an
    existing file keeps its permissions and a new one gets 0600. On failure the old file is
    untouched and nothing is left behind. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        target.write_bytes(data)
        return
    mode = _mode_of(target) if mode is None else mode
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):  # after a success it has its new name
            temporary.unlink()
    _sync_folder(target.parent)


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o600


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; some file systems refuse to sync a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def real_path(path: str, folder: str, home: str) -> str:
    """Return the absolute path, with `~`, `..` and links resolved, starting from `folder`.

    Bytes of a name that are not UTF-8 are shown to people and models as `\\xNN`; such a spelling
    means the file it was made from, unless a file of that very name exists. Nothing after a NUL
    counts, as for the system.
    """
    path = path.partition("\0")[0]
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    real = os.path.realpath(Path(folder, path))
    if "\\x" in path and not os.path.lexists(real):
        escaped = os.path.realpath(Path(folder, unescaped(path)))
        if os.path.lexists(escaped):
            return escaped
    return real


@lru_cache(maxsize=64)
def upwards(folder: str) -> tuple[str, ...]:
    """Return a folder and those above it, without resolving links."""
    path = PurePath(folder)
    return tuple(map(str, (path, *path.parents)))


def inside(folder: str, name: str) -> str:
    return f"{folder.rstrip(os.sep)}{os.sep}{name}"


def unescaped(path: str) -> str:
    try:
        raw, _ = codecs.escape_decode(path.encode("utf-8", "surrogateescape"))
    except ValueError:  # a backslash that begins no escape: the name is meant as it stands
        return path
    return os.fsdecode(raw).partition("\0")[0]


ENOUGH = 65536


def allow_many_open_files() -> None:
    """Raise the limit of open files, often 1024: each conversation takes two connections."""
    if sys.platform == "win32":
        return
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


LOCK_POLL_SECONDS = 0.01


@contextlib.contextmanager
def file_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock file, which is kept. Raises `TimeoutError` after `seconds`, and `OSError`.

    The operating system releases it when the process ends. It is not reentrant.
    """
    import fcntl  # absent on native Windows

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):  # some file systems report the latter
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"{path} is locked by another process") from None
            time.sleep(LOCK_POLL_SECONDS)  # flock itself waits without a limit
        yield
    finally:
        os.close(descriptor)
