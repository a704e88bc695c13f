"""Which file a written path means. One answer for whoever judges it and whoever opens it."""

import codecs
import os
from functools import lru_cache
from pathlib import Path, PurePath


def real_path(path: str, folder: str, home: str) -> str:
    """Absolute, with `~`, `..` and links resolved, starting from `folder`.

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
    """A folder and those above it, as they are written."""
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
