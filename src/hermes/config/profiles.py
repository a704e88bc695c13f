"""Make, list, choose, rename and delete profiles."""

import contextlib
import shutil
from pathlib import Path

from hermes.config.home import (
    ACTIVE_PROFILE,
    DEFAULT_PROFILE,
    PROFILES,
    Home,
    active_profile,
    default_root,
    ensure_hermes_home,
    tilde,
    unusable,
)
from hermes.core.errors import UsageError
from hermes.util import atomic

CLONED = ("config.yaml", ".env", "SOUL.md")
"""What `--clone` copies."""

NEVER_CLONED = (PROFILES, ACTIVE_PROFILE, "models", "logs", "cache", "*.pid", "*.lock", "*.tmp")
"""What even `--clone-all` leaves behind: other profiles, shared weights, traces of a run."""


def list_profiles() -> list[Home]:
    """The default profile, then the others by name."""
    root = default_root()
    folder = root / PROFILES
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        try:
            found = sorted(path for path in folder.iterdir() if path.is_dir())
        except PermissionError as error:
            raise unusable(folder, error) from error
    return [Home(root), *(Home(path) for path in found)]


def choose_profile(name: str) -> Home:
    """Make `name` the profile used without `-p`."""
    home = Home.resolve(name)
    root = ensure_hermes_home(Home(default_root()))
    choice = root / ACTIVE_PROFILE
    try:
        if home.is_default:
            choice.unlink(missing_ok=True)
        else:
            atomic.write_text(choice, f"{name}\n")
    except OSError as error:
        raise unusable(choice, error) from error
    return home


def create_profile(name: str, *, source: Home | None = None, everything: bool = False) -> Home:
    """Make the profile `name`, with a copy of the settings (or of everything) of `source`."""
    home = Home.of_profile(name)
    if home.is_default or home.root.exists():
        raise UsageError(f"the profile {name!r} exists already ({tilde(home.root)})")
    root = ensure_hermes_home(home)
    if source is None or not source.root.is_dir():
        return home
    try:
        if everything:
            ignore = shutil.ignore_patterns(*NEVER_CLONED)
            shutil.copytree(source.root, root, ignore=ignore, symlinks=True, dirs_exist_ok=True)
            root.chmod(0o700)
        else:
            for part in CLONED:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy2(source.root / part, root / part)
    except OSError as error:
        shutil.rmtree(root, ignore_errors=True)
        cause = error if error.strerror else OSError(0, "some files could not be copied")
        raise unusable(source.root, cause) from error
    return home


def rename_profile(name: str, new: str) -> Home:
    """Give the profile another name; the choice of `hermes profile use` goes along."""
    if name == DEFAULT_PROFILE:
        raise UsageError("the default profile cannot be renamed")
    home, renamed = Home.resolve(name), Home.of_profile(new)
    if renamed.is_default or renamed.root.exists():
        raise UsageError(f"the profile {new!r} exists already ({tilde(renamed.root)})")
    was_chosen = active_profile() == name
    try:
        home.root.rename(renamed.root)
    except OSError as error:
        raise unusable(home.root, error) from error
    if was_chosen:
        choose_profile(new)
    return renamed


def delete_profile(name: str) -> Home:
    """Delete the profile and all its data; the default profile cannot be deleted."""
    if name == DEFAULT_PROFILE:
        raise UsageError("the default profile cannot be deleted")
    home = Home.resolve(name)
    try:
        if home.root.is_symlink():
            home.root.unlink()
        else:
            shutil.rmtree(home.root)
    except OSError as error:
        raise unusable(home.root, error) from error
    if active_profile() == name:
        choose_profile(DEFAULT_PROFILE)
    return home
