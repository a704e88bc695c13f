"""Which files and folders are never attached, however their path is spelled."""

import os
from pathlib import Path

from hermes.app.references.desk import NotAttached
from hermes.security import CREDENTIAL_STORES, OWN_FILES, PathGuard, is_below
from hermes.util.paths import real_path

SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_history",
    ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".zsh_history", ".kshrc",
    ".cshrc", ".tcshrc", ".login", ".config/fish",
)  # fmt: skip
"""People export keys in them."""
ANYWHERE = (*CREDENTIAL_STORES, *SHELL_FILES, "_netrc")
"""Not only in the home of this user: an `.npmrc` of a project has tokens in it too."""
LIVE = ("/proc", "/sys")
"""No files but the state of the system, such as the environment of processes."""
HINT = "copy the part you want to show into the message"

_ANYWHERE = tuple(tuple(name.casefold().split("/")) for name in ANYWHERE)
_FIRST = frozenset(name[0] for name in _ANYWHERE)
_OWN = frozenset(name for name in OWN_FILES if name != "config.yaml")
"""The settings may be shown: keys in them are taken out like everywhere."""


def allowed(path: str, folder: Path, guard: PathGuard) -> str:
    """The real path that `path` means. Raises `NotAttached` for what is blocked."""
    real = real_path(path, str(folder), str(guard.home))
    for each in (os.path.normpath(folder / at_home(path, guard)), real):
        if reason := why_blocked(each, guard):
            raise NotAttached(f"it is blocked: {reason}", hint=HINT)
    return real


def at_home(path: str, guard: PathGuard) -> str:
    """`path` with `~` spelled out."""
    return str(guard.home) + path[1:] if path == "~" or path.startswith("~/") else path


def why_blocked(path: str, guard: PathGuard) -> str:
    """`path` is absolute; "" when nothing stands against it."""
    parts = tuple(path.casefold().split("/"))
    if holds_secrets(parts) or guard.is_credential(path):
        return "keys, passwords and shell settings are not attached"
    if _is_own(path, guard):
        return "Hermes' own keys and data are not attached"
    if any(is_below(path, place) for place in LIVE):
        return "it is the live state of the system"
    linked = (os.path.realpath(guard.home / name) for name in SHELL_FILES)
    if any(is_below(path, place) for place in linked):
        return "it is a shell setting"
    return ""


def holds_secrets(parts: tuple[str, ...]) -> bool:
    """Whether a path with these parts (case folded) is one of those that are blocked anywhere."""
    if _FIRST.isdisjoint(parts):
        return False
    return any(
        parts[start : start + len(name)] == name
        for name in _ANYWHERE
        for start in range(len(parts))
    )


def _is_own(path: str, guard: PathGuard) -> bool:
    """In our homes, or in what looks like the Hermes home of somebody else."""
    if guard.is_own(path):
        return Path(path).name != "config.yaml"
    ours = [os.path.realpath(root) for root in guard.own]
    for home in Path(path).parents:
        if home.name.casefold() != ".hermes" and str(home) not in ours:
            continue
        inside = Path(path).relative_to(home).parts
        name = (inside[2:] if inside[0] == "profiles" else inside)[:1]
        if name and (name[0].casefold() in _OWN or name[0].casefold().startswith(".env")):
            return True
    return False
