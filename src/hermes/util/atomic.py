"""Replace a file as a whole: a reader sees the old bytes or the new ones, never a mixture."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str, *, mode: int | None = None) -> None:
    """`write_bytes` of `text` in UTF-8, line ends kept as they are."""
    write_bytes(path, text.encode(), mode=mode)


def write_bytes(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace `path` with `data`, on disk when this returns.

    A symbolic link stays a link: its target is replaced. What is no file, such as /dev/stdout or a
    pipe, is written to and not replaced. Without `mode` an existing file keeps its
    permissions and a new one gets 0600. On failure the old file is untouched and nothing is left
    behind. Raises OSError.
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
