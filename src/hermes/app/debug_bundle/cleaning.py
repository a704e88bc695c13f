"""Secrets and personal things taken out of a text that leaves the machine."""

import getpass
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from hermes.config.home import Home
from hermes.security import REDACTION_MARK, Redactor

SHORTEST_NAME = 3
COMMON = frozenset(
    {"root", "user", "admin", "ubuntu", "debian", "runner", "localhost", "hermes", "node", "app",
     "home", "test", "nobody", "guest"}
)  # fmt: skip
"""Names that tell nothing of anybody and stand in ordinary texts."""

_EMAIL = re.compile(r"[\w.!#$&'*+/=?^`{|}~-]+(?:@|%40)[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(r"(?<![\w.+])\+\d{8,15}(?!\w)")
_HOME = re.compile(r"((?:/home|/Users|/var/home)/|[A-Za-z]:\\{1,2}Users\\{1,2})[^/\\\s\"':;,)\]]+")
_BLOCK = re.compile(r"^(\s*)[A-Za-z0-9+/_-]{40,}={0,2}\s*$", re.MULTILINE)
"""A line of nothing but base64: the inside of a key whose first line may be missing."""


class Cleaner:
    """Takes out what `security` knows as secrets, and then whose machine it is."""

    def __init__(self, home: Home, secrets: Iterable[str]) -> None:
        self._redactor = Redactor(secrets)
        self._paths = _paths(home)
        self._names = [(name, stand_in) for name, stand_in in _names() if _is_telling(name)]

    def clean(self, text: str) -> str:
        lines = (
            self._redactor.redact(line) if line.startswith(("{", "[")) else line
            for line in text.splitlines()
        )
        text = self._redactor.redact("\n".join(lines))
        text = _BLOCK.sub(rf"\1{REDACTION_MARK}", text)
        for path, stand_in in self._paths:
            text = re.sub(rf"{re.escape(path)}(?![\w-])", stand_in, text)
        text = _HOME.sub(r"\1USER", text)
        text = _PHONE.sub("PHONE", _EMAIL.sub("EMAIL", text))
        for name, stand_in in self._names:
            text = re.sub(rf"(?i)(?<![^\W_]){re.escape(name)}(?![^\W_])", stand_in, text)
        return text


def _paths(home: Home) -> list[tuple[str, str]]:
    """Longest first: the home may lie in the user's folder, or elsewhere."""
    paths: dict[str, str] = {}
    try:
        user = Path.home()
    except RuntimeError:
        user = None
    for folder, stand_in in ((home.default_root, "HERMES_HOME"), (user, "~")):
        if folder is None or len(folder.parts) < 2:
            continue
        shown = stand_in
        if user is not None and stand_in != "~" and folder.is_relative_to(user):
            shown = str(Path("~") / folder.relative_to(user))
        for spelling in {str(folder), str(folder.resolve())}:
            paths[spelling] = shown
    return sorted(paths.items(), key=lambda item: len(item[0]), reverse=True)


def _names() -> list[tuple[str, str]]:
    found = [(socket.gethostname().partition(".")[0], "HOST")]
    try:
        found.append((getpass.getuser(), "USER"))
        found.append((Path.home().name, "USER"))
    except (OSError, KeyError, RuntimeError):
        return found  # a user without a name
    return found


def _is_telling(name: str) -> bool:
    return len(name) >= SHORTEST_NAME and name.lower() not in COMMON and not name.isdigit()
