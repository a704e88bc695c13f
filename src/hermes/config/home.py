"""The folders of Hermes: one home per profile, and which one is used.

The home is selected by, in this order: `-p NAME`; `HERMES_HOME`; the profile chosen with `hermes
profile use`; `~/.hermes`. Profiles are in `<default root>/profiles/<name>`; the profile "default"
is the default root itself. Reading creates nothing.

Only the standard library is imported here, so that `hermes --version` starts fast.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hermes.core.errors import ConfigError, UsageError
from hermes.util.lazy import late_pattern

DEFAULT_PROFILE = "default"
PROFILES = "profiles"
ACTIVE_PROFILE = "active_profile"
BACK_TO_DEFAULT = "`hermes -p default profile use default` goes back to the default profile"

_PROFILE_NAME = late_pattern(r"[a-z0-9][a-z0-9_-]{0,63}")
_in_force: list["Home"] = []
"""Homes chosen by `use_home`; the last one is used. Process-wide, also for threads."""


class _Inside:
    """A property of `Home`: the path of this name in its folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: "Home", _owner: type) -> Path:
        return home.root / self._name


class _HomeFolder(NamedTuple):
    root: Path


class Home(_HomeFolder):
    """One home folder. It may not exist yet."""

    @classmethod
    def resolve(cls, profile: str | None = None) -> "Home":
        """Return the home selected by `-p profile`, the environment and the saved choice."""
        if profile is not None:
            home = cls.of_profile(profile)
            if not home.root.is_dir() and not home.is_default:
                raise UsageError(
                    f"there is no profile {profile!r}",
                    hint=f"`hermes profile create {profile}` makes it; `hermes profile list` shows"
                    " what there is",
                )
            return home
        named = os.environ.get("HERMES_HOME", "").strip()
        if named:
            return cls(_absolute(named))
        name = active_profile()
        home = cls.of_profile(name)
        if not home.is_default and not home.root.is_dir():
            raise ConfigError(
                f"the chosen profile {name!r} does not exist",
                where=tilde(default_root() / ACTIVE_PROFILE),
                hint=BACK_TO_DEFAULT,
            )
        return home

    @classmethod
    def of_profile(cls, name: str) -> "Home":
        """Return the home of profile `name`, whether it exists or not."""
        check_profile_name(name)
        root = default_root()
        return cls(root if name == DEFAULT_PROFILE else root / PROFILES / name)

    @property
    def profile(self) -> str:
        """The name of the profile of this home."""
        return DEFAULT_PROFILE if self.is_default else self.root.name

    @property
    def is_default(self) -> bool:
        return self.root.parent.name != PROFILES

    @property
    def default_root(self) -> Path:
        """The home of the default profile, which contains the others."""
        return self.root if self.is_default else self.root.parent.parent

    @property
    def models(self) -> Path:
        """Downloaded model weights, shared by all profiles: they are large and not personal."""
        return self.default_root / "models"

    config_file = _Inside("config.yaml")
    env_file = _Inside(".env")
    auth_file = _Inside("auth.json")
    state_db = _Inside("state.db")
    logs = _Inside("logs")
    memories = _Inside("memories")
    sessions = _Inside("sessions")
    skills = _Inside("skills")
    cron = _Inside("cron")
    scripts = _Inside("scripts")
    plugins = _Inside("plugins")
    hooks = _Inside("hooks")
    cache = _Inside("cache")

    def display(self) -> str:
        """Return the folder with `~`."""
        return tilde(self.root)


def use_home(home: Home) -> contextlib.ExitStack:
    """Make `home` the result of `get_hermes_home` from now on.

    As a context manager, until the end of the block.
    """
    _in_force.append(home)
    undo = contextlib.ExitStack()
    undo.callback(_in_force.remove, home)
    return undo


def current_home() -> Home:
    """Return the home given to `use_home`, or the one that the environment selects."""
    return _in_force[-1] if _in_force else Home.resolve()


def get_hermes_home() -> Path:
    """Return the folder of the current home; it may not exist yet."""
    return current_home().root


def display_hermes_home() -> str:
    """Return the same, shortened with `~` for messages."""
    return current_home().display()


def default_root() -> Path:
    """Return the home of the default profile: `HERMES_HOME` (or the root above it), or
    `~/.hermes`."""
    named = os.environ.get("HERMES_HOME", "").strip()
    return Home(_absolute(named or "~/.hermes")).default_root


def active_profile() -> str:
    """Return the profile chosen with `hermes profile use`, or "default"."""
    choice = default_root() / ACTIVE_PROFILE
    try:
        name = choice.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return DEFAULT_PROFILE
    except (OSError, UnicodeDecodeError) as error:
        raise unusable(choice, error) from error
    if name and not _PROFILE_NAME.fullmatch(name):
        text = f"{name!r} is not the name of a profile"
        raise ConfigError(text, where=tilde(choice), hint=BACK_TO_DEFAULT)
    return name or DEFAULT_PROFILE


def check_profile_name(name: str) -> None:
    if not _PROFILE_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a profile",
            hint="use lower-case letters, digits, - and _, at most 64, for example: work",
        )


def check_home(home: Home) -> None:
    """Raise ConfigError if the home exists but cannot be read."""
    try:
        os.listdir(home.root)  # noqa: PTH208 - the cheapest call that needs the right to read
    except FileNotFoundError:
        return
    except OSError as error:
        raise unusable(home.root, error) from error


def ensure_hermes_home(home: Home | None = None) -> Path:
    """Create the home folder, accessible only by its owner, and return it."""
    home = home or current_home()
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(home.root, error) from error
    effective = os.access in os.supports_effective_ids
    if not os.access(home.root, os.W_OK | os.X_OK, effective_ids=effective):
        raise ConfigError(
            f"cannot write to {tilde(home.root)}",
            hint="change its owner or permissions, or set HERMES_HOME to another folder",
        )
    return home.root


def unusable(path: Path, error: OSError | UnicodeDecodeError) -> ConfigError:
    """Return the error for a file or folder that cannot be used."""
    if isinstance(error, UnicodeDecodeError):
        return ConfigError(f"{tilde(path)} is not UTF-8 text", hint="save it as UTF-8")
    hints = {
        FileExistsError: "there is a file of that name; HERMES_HOME must name a folder",
        NotADirectoryError: "there is a file of that name; HERMES_HOME must name a folder",
        IsADirectoryError: "move the folder away; a file is expected there",
        PermissionError: "change its owner or permissions, or set HERMES_HOME to another folder",
    }
    reason = (error.strerror or str(error)).lower()
    hint = hints.get(type(error), "set HERMES_HOME to a folder that can be written")
    return ConfigError(f"cannot use {tilde(path)}: {reason}", hint=hint)


@contextlib.contextmanager
def change_lock(lock: Path, seconds: float, what: str) -> Iterator[None]:
    """Hold a lock file while changing `what`. Raises `ConfigError` if another process holds it for
    `seconds`, or if it cannot be used."""
    from hermes.util.files import file_lock  # see above

    with contextlib.ExitStack() as held:
        try:
            held.enter_context(file_lock(lock, seconds))
        except TimeoutError as error:
            raise ConfigError(
                f"another process is changing {what}", hint="try again in a moment"
            ) from error
        except OSError as error:
            raise unusable(lock, error) from error
        yield


def tilde(path: Path) -> str:
    """Return `path` with the user's home folder written as `~`."""
    with contextlib.suppress(ValueError, RuntimeError):
        inside = path.relative_to(Path.home())
        return str(Path("~") / inside)
    return str(path)


def _absolute(path: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(
            f"cannot tell where {path} is: no home folder is known", hint="set HOME or HERMES_HOME"
        ) from error


# Creating, listing, choosing, renaming and deleting profiles.

CLONED = ("config.yaml", ".env", "SOUL.md")  #: What `--clone` copies.

NEVER_CLONED = (PROFILES, ACTIVE_PROFILE, "models", "logs", "cache", "*.pid", "*.lock", "*.tmp")
"""Not copied even by `--clone-all`: other profiles, shared weights, files of running processes."""


def list_profiles() -> list[Home]:
    """Return the default profile, then the others by name."""
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
    """Make `name` the profile that is used without `-p`."""
    home = Home.resolve(name)
    root = ensure_hermes_home(Home(default_root()))
    choice = root / ACTIVE_PROFILE
    from hermes.config.own_files import record_change, write_own  # `hermes --help` does not need it

    try:
        if home.is_default:
            record_change(root, choice, None)
            choice.unlink(missing_ok=True)
        else:
            write_own(root, choice, f"{name}\n".encode())
    except OSError as error:
        raise unusable(choice, error) from error
    return home


def create_profile(name: str, *, source: Home | None = None, everything: bool = False) -> Home:
    """Create the profile `name`, with a copy of the settings (or of everything) of `source`."""
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
    """Rename the profile, also in the choice of `hermes profile use`."""
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
