"""Removing Hermes: the program, its links and services, and optionally the data."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from hermes.config.home import PROFILES, default_root, tilde
from hermes.config.installation import LAUNCHER, Checkout, Package
from hermes.core.errors import HermesError
from hermes.ops.profiles import alias_folder, aliases
from hermes.util import files

COMPLETION_MARK = "completion of hermes, written by `hermes completion"
"""In the first lines of every completion script."""
COMPLETION_FILES = (
    ".local/share/bash-completion/completions/hermes",
    ".config/fish/completions/hermes.fish",
    ".zfunc/_hermes",
)
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".config/fish/config.fish",
)  # fmt: skip
COMPLETION_LINES = re.compile(
    r'^[ \t]*(?:eval "\$\(hermes completion \w+\)"|source <\(hermes completion \w+\)'
    r"|hermes completion fish \| source)[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
"""Lines that `hermes completion --help` suggests to add."""

USUAL_NAME = ".hermes"
SIGNS = ("config.yaml", ".env", "auth.json", "state.db", "SOUL.md", PROFILES)
"""A folder without any of these is not a home of Hermes."""
OURS = (
    *SIGNS, ".config.lock", "active_profile", "audio_cache", "cache", "checkpoints", "cron",
    "history", "hooks", "image_cache", "logs", "mcp-tokens", "memories", "models", "pairing",
    "plugins", "sandboxes", "scripts", "sessions", "shell-hooks-allowlist.json", "skills",
    "snapshots", "state.db-shm", "state.db-wal",
)  # fmt: skip
"""Entries deleted from a home with an unusual name, which may be shared with other files."""


class RemovablePart(msgspec.Struct, frozen=True):
    what: str
    path: Path
    remove: Callable[[], None]


class RemovalOutcome(msgspec.Struct, frozen=True):
    part: RemovablePart
    problem: str = ""  #: Why it still exists; empty if it was removed.


def parts(found: Checkout | Package, *, full: bool) -> list[RemovablePart]:
    """List the parts in order. The environment that runs this code is last."""
    gone = [
        RemovablePart(f"command of the profile {alias.profile}", alias.path, alias.path.unlink)
        for alias in aliases()
    ]
    gone += _completion_parts()
    if full:
        gone += _home_parts(default_root(), found)
    if isinstance(found, Checkout):
        gone += _program_parts(found)
    return gone


def remove_all(gone: list[RemovablePart]) -> Iterator[RemovalOutcome]:
    """Remove each part; one that cannot be removed does not prevent the others."""
    for part in gone:
        try:
            part.remove()
        except OSError as error:
            yield RemovalOutcome(part, error.strerror or str(error))
        else:
            yield RemovalOutcome(part)


def _completion_parts() -> Iterator[RemovablePart]:
    user = Path.home()
    for name in COMPLETION_FILES:
        path = user / name
        if COMPLETION_MARK in _text(path)[:500]:
            yield RemovablePart("shell completion", path, path.unlink)
    for name in SHELL_FILES:
        path = user / name
        if COMPLETION_LINES.search(_text(path)):
            yield RemovablePart("completion line in it", path, partial(_take_lines_out, path))


def _program_parts(checkout: Checkout) -> Iterator[RemovablePart]:
    link = alias_folder() / LAUNCHER
    if link.is_symlink() and link.resolve() == checkout.launcher.resolve():
        yield RemovablePart("link to the program", link, link.unlink)
    for what, folder in (
        ("update and set-up records", checkout.cache),
        ("program environment", checkout.environment),
    ):
        if folder.is_dir() and not folder.is_symlink():
            yield RemovablePart(what, folder, partial(_remove_tree, folder))


def _home_parts(root: Path, found: Checkout | Package) -> Iterator[RemovablePart]:
    if not root.exists():
        return
    _check_home(root, found)
    what = "settings, keys, sessions, everything"
    if root.name == USUAL_NAME:
        yield RemovablePart(what, root, partial(_remove_tree, root))
    else:
        yield RemovablePart(f"{what} of Hermes in", root, partial(_clear, root))


def _check_home(root: Path, found: Checkout | Package) -> None:
    """Raise if `root` cannot be a home of Hermes."""
    real, user = root.resolve(), Path.home().resolve()
    above = [user, *user.parents]
    if isinstance(found, Checkout):
        program = found.root.resolve()
        above += [program, *program.parents]
    looks_right = any((root / name).exists() for name in SIGNS)
    if real in above or (not looks_right and any(root.iterdir())):
        raise HermesError(
            f"{tilde(root)} does not look like a home of Hermes, so nothing was deleted",
            hint="check HERMES_HOME; without --full the home is kept",
        )


def _clear(root: Path) -> None:
    for name in OURS:
        path = root / name
        if path.is_dir() and not path.is_symlink():
            _remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    if not any(root.iterdir()):
        root.rmdir()


def _remove_tree(path: Path) -> None:
    """Delete a path. A link is deleted, not its target. Read-only folders are deleted too."""
    if path.is_symlink():
        path.unlink()
        return
    for folder, names, _files in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)


def _take_lines_out(path: Path) -> None:
    files.write_text(path, COMPLETION_LINES.sub("", _text(path)))


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
