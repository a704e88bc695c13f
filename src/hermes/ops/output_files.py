"""Output files that are written completely or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from hermes.core.errors import UsageError

PRIVATE = 0o600  #: Conversations are private.


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise `UsageError` if `path` cannot be written."""
    try:
        there = path.exists()
    except OSError as error:
        raise unwritable(path, error) from error
    if there and not path.is_file():
        raise UsageError(f"cannot write {path}: it is not a file")
    if there and not overwrite:
        raise UsageError(f"{path} exists already", hint="--force replaces it")
    folder = _target(path).parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {folder}")


@contextlib.contextmanager
def replaced(path: Path, *, overwrite: bool) -> Iterator[TextIO]:
    """Open a file that becomes `path` if the block succeeds; otherwise `path` is unchanged. A
    new file is private; a replaced one keeps its permissions."""
    check_output(path, overwrite=overwrite)
    target = _target(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else PRIVATE)
        temporary.replace(target)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):  # after a success it was renamed
            temporary.unlink()


def unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}")


def _target(path: Path) -> Path:
    """Resolve a symbolic link: the link is kept and its target replaced."""
    return Path(os.path.realpath(path))
