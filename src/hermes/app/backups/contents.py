"""What belongs to a copy of a home, and what does not."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from hermes.config.home import PROFILES, Home, unusable

Kind = Literal["full", "quick"]
FULL: Kind = "full"
QUICK: Kind = "quick"

QUICK_NAMES = frozenset(
    {
        "config.yaml", ".env", "auth.json", "SOUL.md", "memories", "holographic", "skills",
        "mcp-tokens", "shell-hooks-allowlist.json",
    }
)  # fmt: skip
"""Settings, keys, memories and skills. Settings of memory providers are further `*.json` files."""

LEFT_OUT = frozenset(
    {
        "cache", "audio_cache", "image_cache", "logs", "models", "snapshots", "sandboxes",
        "checkpoints", ".import", ".import.lock", ".config.lock",
    }
)  # fmt: skip
"""Of the first level of a home: what can be made again, is large, or belongs to this machine."""

LEFT_OUT_ANYWHERE = frozenset({"__pycache__", ".venv", "node_modules", ".DS_Store"})
_TRACES = re.compile(
    r"\..+\.tmp|.+\.(?:sock|pid)|.+\.(?:db|sqlite3?)-(?:wal|shm|journal)"
    r"|state\.db\..+|hermes-backup-.+\.zip"
)
"""Files of a run that is going on, and copies made earlier."""
_DATABASE = re.compile(r".+\.(?:db|sqlite3?)")

SECRET = frozenset({".env", "auth.json"})
"""Nobody else may read these, whatever their mode was."""


class Item(msgspec.Struct, frozen=True):
    """One file of a copy."""

    name: str
    """Its path inside the home, with `/`."""
    path: Path
    is_database: bool
    is_store: bool = False
    """The session store."""


class Contents(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    passed_over: tuple[str, ...]
    """What should have been in it and could not: links to nothing, names that are no text."""


def contents(home: Home, kind: Kind, *, profiles: bool = True) -> Contents:
    """The files of a home; with `profiles` also those of the profiles that live in it."""
    items: list[Item] = []
    passed_over: list[str] = []
    try:
        _Walk(items, passed_over.append).home(home, kind)
        folder = home.root / PROFILES
        if profiles and kind == FULL and home.is_default and folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path.is_dir():
                    walk = _Walk(items, passed_over.append, f"{PROFILES}/{path.name}/")
                    walk.home(Home(path), kind)
    except OSError as error:
        raise unusable(Path(error.filename or home.root), error) from error
    return Contents(tuple(items), tuple(passed_over))


def belongs(name: str) -> bool:
    """Whether a copy can have a file of this name."""
    parts = name.split("/")
    if parts[0] == PROFILES:
        parts = parts[2:]
    if not parts or parts[0] in LEFT_OUT or parts[0] == PROFILES:
        return False
    return not any(_is_left_out(part) for part in parts)


def is_plain(name: str) -> bool:
    """Whether it can only mean a place inside the home, on any system."""
    parts = name.split("/")
    odd = "\\" in name or ":" in parts[0] or not name.isprintable()
    return not odd and all(part not in ("", ".", "..") for part in parts)


def is_store(name: str) -> bool:
    """Whether it is the session store of the home, or of a profile in it."""
    parts = name.split("/")
    return parts[-1] == "state.db" and (len(parts) == 1 or _is_profile_entry(parts))


def is_database(name: str) -> bool:
    return _DATABASE.fullmatch(name.rpartition("/")[2]) is not None


def unit_of(name: str) -> str:
    """The entry of a home that a file belongs to: what is replaced as a whole."""
    parts = name.split("/")
    return "/".join(parts[:3]) if parts[0] == PROFILES else parts[0]


def _is_profile_entry(parts: list[str]) -> bool:
    return len(parts) == 3 and parts[0] == PROFILES


def _is_left_out(name: str) -> bool:
    return name in LEFT_OUT_ANYWHERE or _TRACES.fullmatch(name) is not None


class _Walk:
    def __init__(
        self, items: list[Item], pass_over: Callable[[str], None], prefix: str = ""
    ) -> None:
        self._items, self._pass_over, self._prefix = items, pass_over, prefix

    def home(self, home: Home, kind: Kind) -> None:
        if not home.root.is_dir():
            return
        for entry in sorted(os.scandir(home.root), key=lambda entry: entry.name):
            name = entry.name
            if name in LEFT_OUT or (name == PROFILES and not self._prefix and home.is_default):
                continue
            if kind == QUICK and not _is_quick(entry):
                continue
            self._entry(Path(entry.path), name, frozenset())

    def _entry(self, path: Path, name: str, above: frozenset[str]) -> None:
        """A link is followed: what it leads to is what the user has there."""
        if _is_left_out(path.name):
            return
        try:
            status = path.stat()
        except FileNotFoundError:
            status = None
        if status is None or not is_plain(name):
            self._pass_over(os.fsencode(path).decode("utf-8", "replace"))
            return
        if stat.S_ISDIR(status.st_mode):
            self._folder(path, name, above)
        elif stat.S_ISREG(status.st_mode) and not _is_lock(path, status):
            whole = self._prefix + name
            self._items.append(Item(whole, path, is_database(whole), is_store(whole)))

    def _folder(self, path: Path, name: str, above: frozenset[str]) -> None:
        real = os.path.realpath(path)
        if real in above:  # a link to a folder that it is in
            self._pass_over(str(path))
            return
        for inner in sorted(path.iterdir()):
            self._entry(inner, f"{name}/{inner.name}", above | {real})


def _is_quick(entry: "os.DirEntry[str]") -> bool:
    return entry.name in QUICK_NAMES or (entry.name.endswith(".json") and entry.is_file())


def _is_lock(path: Path, status: os.stat_result) -> bool:
    """Lock files of ours are empty; `uv.lock` of a plugin is not."""
    return path.name.endswith(".lock") and status.st_size == 0
