"""Output files that are written completely or not at all, and errors that name the file."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from hermes.config.home import unusable
from hermes.core.errors import UsageError

PRIVATE = 0o600  #: Conversations are private.


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise `UsageError` if `path` cannot be written."""
    with report_unwritable(path):
        there = path.exists()
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
    with report_unwritable(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else PRIVATE)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)  # after a success it was renamed


@contextlib.contextmanager
def report_unwritable(path: Path) -> Iterator[None]:
    """Raise a `UsageError` that names `path` in place of an `OSError`."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write {path}: {reason}") from error


@contextlib.contextmanager
def report_unusable(path: Path, *, inside: bool = False) -> Iterator[None]:
    """Raise a `ConfigError` in place of an `OSError`.

    It names `path`, or with `inside` the file in that folder which cannot be used.
    """
    try:
        yield
    except OSError as error:
        raise unusable(Path(error.filename or path) if inside else path, error) from error


def _target(path: Path) -> Path:
    """Resolve a symbolic link: the link is kept and its target replaced."""
    return Path(os.path.realpath(path))
