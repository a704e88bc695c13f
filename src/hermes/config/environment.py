"""The environment of this process, which only this module reads, and that of child processes."""

import os
from collections.abc import Iterable, Mapping

from hermes.config.dotenv import is_secret_variable, read_dotenv, unset_names
from hermes.config.home import current_home

_FALSE = frozenset({"", "0", "false", "no", "off", "n"})


def variables() -> Mapping[str, str]:
    """Return all variables, as they are now."""
    return os.environ


def variable(name: str) -> str | None:
    """Return a variable of the process (not of .env). Empty values, and credentials with an
    unset `${NAME}`, count as not set."""
    value = os.environ.get(name)
    return None if not value or (is_secret_variable(name) and unset_names(value)) else value


def flag(name: str) -> bool:
    """Return whether a variable such as HERMES_QUIET is on."""
    return os.environ.get(name, "").strip().lower() not in _FALSE


def no_color() -> bool:
    """Return whether colours are off: NO_COLOR is set, or the terminal has none."""
    return bool(os.environ.get("NO_COLOR")) or term_is_dumb()


def term_is_dumb() -> bool:
    """Return whether the terminal cannot move its cursor."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def editor() -> str | None:
    """Return the command of the user's editor, or None."""
    return variable("VISUAL") or variable("EDITOR")


def export_variable(name: str, value: str) -> None:
    """Set a variable of .env for code in this process that reads the environment itself, such as
    plugins. Child processes do not get it: see `child_environment`."""
    os.environ[name] = value


def search_path() -> str:
    return os.environ.get("PATH", os.defpath)


def child_environment(
    passthrough: Iterable[str] = (), saved: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment for a process that runs commands of the agent.

    It excludes variables with secret-looking names (see `dotenv.MARKERS`) and all variables of
    .env. Names in `passthrough` are included, with the saved value if there is one. Variables with
    only the path of a socket or a file, such as SSH_AUTH_SOCK, are included: they are not secrets,
    and git over SSH needs them.

    `saved` are the variables of .env; by default the file of the current home is read.
    """
    if saved is None:
        saved = read_dotenv(current_home().env_file, os.environ)
    child = {
        name: value
        for name, value in os.environ.items()
        if name not in saved and not is_secret_variable(name)
    }
    for name in passthrough:
        value = saved.get(name) or os.environ.get(name)
        if value is not None:
            child[name] = value
    return child
