"""Commands for profiles: small scripts in `~/.local/bin` that start Hermes with a profile."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.config import environment
from hermes.config.home import DEFAULT_PROFILE, Home, create_profile, default_root, tilde
from hermes.config.installation import start_command
from hermes.core.errors import HermesError, UsageError
from hermes.ops.backup import open_archive
from hermes.ops.restore import check_fits, restore_archive
from hermes.util import files

MARK = "# Starts Hermes with the profile "
_MADE_FOR = re.compile(rf"^{re.escape(MARK)}([a-z0-9][a-z0-9_-]*)\.", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LARGEST = 4096  #: Maximum size in bytes of such a script; larger files are not read.


class Alias(msgspec.Struct, frozen=True):
    path: Path
    profile: str


def alias_folder() -> Path:
    return Path.home() / ".local" / "bin"


def aliases(profile: str | None = None) -> Iterator[Alias]:
    """Return the scripts created by Hermes, of one profile or of all."""
    folder = alias_folder()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        made_for = _profile_of(path)
        if made_for and profile in (None, made_for):
            yield Alias(path, made_for)


def make_alias(home: Home, name: str = "") -> Alias:
    """Create a script called `name`, by default the profile. Raises `UsageError` for a used one."""
    name = name or home.profile
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a command",
            hint="use letters, digits, - and _, for example: work",
        )
    path = alias_folder() / name
    if not _profile_of(path):
        _check_free(name, path)
    words = [*start_command(), "-p", home.profile]
    usual = default_root() == Path.home() / ".hermes"
    home_line = "" if usual else f"HERMES_HOME={shlex.quote(str(default_root()))}\n"
    text = (
        "#!/bin/sh\n"
        f"{MARK}{home.profile}. Made and removed by `hermes profile alias`.\n"
        f"{home_line}{'export HERMES_HOME' if home_line else 'unset HERMES_HOME'}\n"
        f'exec {shlex.join(words)} "$@"\n'
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, text, mode=0o755)
    except OSError as error:
        raise HermesError(f"cannot write {tilde(path)}: {error.strerror}") from error
    return Alias(path, home.profile)


def remove_aliases(profile: str, name: str = "") -> list[Alias]:
    """Delete the scripts of a profile, or the one called `name`, and return them."""
    found = [alias for alias in aliases(profile) if name in ("", alias.path.name)]
    for alias in found:
        try:
            alias.path.unlink(missing_ok=True)
        except OSError as error:
            raise HermesError(f"cannot delete {tilde(alias.path)}: {error.strerror}") from error
    return found


def rename_aliases(old: str, home: Home) -> list[Alias]:
    """Point the scripts of the profile `old` to `home`; rename a script named after it."""
    renamed = []
    for alias in list(aliases(old)):
        name = home.profile if alias.path.name == old else alias.path.name
        renamed.append(make_alias(home, name))
        if name != alias.path.name:
            alias.path.unlink(missing_ok=True)
    return renamed


def is_on_path() -> bool:
    """Return whether a shell finds the scripts."""
    return str(alias_folder()) in environment.search_path().split(":")


def _check_free(name: str, path: Path) -> None:
    found = shutil.which(name, path=environment.search_path())
    if path.is_symlink() or path.exists():
        found = str(path)
    if found:
        raise UsageError(
            f"there is a command {name} already ({found})",
            hint="choose another name: hermes profile alias PROFILE --name NAME",
        )


def _profile_of(path: Path) -> str:
    """Return the profile that a script starts; empty for any other file."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        found = _MADE_FOR.search(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1] if found else ""


# Profiles from an archive.


def import_profile(path: Path, name: str = "") -> tuple[Home, int]:
    """Create a profile from an archive; return it and its number of files.

    `name` defaults to the name in the archive. On a `HermesError` there is no new profile.
    """
    with open_archive(path) as archive:
        name = name or archive.manifest.profile
        if name == DEFAULT_PROFILE:
            raise UsageError(
                "the archive is of the default profile, so the new one needs a name",
                hint=f"hermes profile import {path} --name NAME",
            )
        check_fits(Home.of_profile(name), archive)
        archive.check_content()
    home = create_profile(name)
    try:
        done = restore_archive(home, path)
    except (HermesError, KeyboardInterrupt):
        shutil.rmtree(home.root, ignore_errors=True)
        raise
    return home, len(done.manifest.files)
