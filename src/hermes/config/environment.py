"""The environment of this process: the one place that reads it, and what children get of it."""

import os
from collections.abc import Iterable, Mapping

from hermes.config.files import is_secret_variable, read_dotenv, unset_names
from hermes.config.home import current_home

_FALSE = frozenset({"", "0", "false", "no", "off", "n"})


def variables() -> Mapping[str, str]:
    """All variables, as they are now."""
    return os.environ


def variable(name: str) -> str | None:
    """One variable of the process (not of .env); empty counts as not set, and so does a credential
    in which nobody replaced a `${NAME}`."""
    value = os.environ.get(name)
    return None if not value or (is_secret_variable(name) and unset_names(value)) else value


def flag(name: str) -> bool:
    """Whether a variable such as HERMES_QUIET is switched on."""
    return os.environ.get(name, "").strip().lower() not in _FALSE


def no_color() -> bool:
    """Whether colours are unwanted: NO_COLOR is set, or the terminal knows none."""
    return bool(os.environ.get("NO_COLOR")) or term_is_dumb()


def term_is_dumb() -> bool:
    """Whether the terminal cannot move its cursor."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def editor() -> str | None:
    """The command the user edits text with, or None."""
    return variable("VISUAL") or variable("EDITOR")


def export_variable(name: str, value: str) -> None:
    """Make a variable of .env visible to code in this process that looks for it itself, as
    plugins do. Children do not get it: see `child_environment`."""
    os.environ[name] = value


def search_path() -> str:
    return os.environ.get("PATH", os.defpath)


def child_environment(
    passthrough: Iterable[str] = (), saved: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for a process that runs commands of the agent.

    Withheld are variables whose names look secret (see `masking.MARKERS`) and all that stand in
    .env, whatever their names. Names in `passthrough` are given all the same, with the saved value
    where there is one. Variables that only hold the path of a socket or a file, such as
    SSH_AUTH_SOCK, are given: they are no secrets and git over SSH needs them.

    `saved` are the variables of .env; without it the file of the home in force is read.
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
