"""Which files a tool must not touch, judged by their real path so that links cannot hide them."""

import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from hermes.core.tool import Concern
from hermes.util.paths import real_path

STARTUP_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".inputrc", ".xprofile", ".xinitrc", ".config/fish", ".config/autostart",
    ".config/systemd/user", "Library/LaunchAgents",
)  # fmt: skip
"""Below the user's home: whoever writes here runs commands at the next login."""

CREDENTIAL_STORES = (
    ".ssh", ".aws", ".gnupg", ".kube", ".azure", ".docker/config.json", ".netrc", ".pgpass",
    ".npmrc", ".pypirc", ".git-credentials", ".config/git/credentials", ".config/gh",
    ".config/gcloud", ".config/op", ".config/rclone", ".password-store", ".local/share/keyrings",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".my.cnf", ".vault-token",
    ".terraform.d/credentials.tfrc.json", "Library/Keychains",
)  # fmt: skip
"""Below the user's home: keys, tokens and passwords."""

SYSTEM_CREDENTIALS = (
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private",
    "/etc/krb5.keytab", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
)  # fmt: skip

SYSTEM_FOLDERS = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr", "/var/lib", "/var/spool", "/System", "/Library", "/private/etc",
)  # fmt: skip
"""Folders of the operating system."""

WORKPLACES = ("/usr", "/var/lib", "/run")
"""System folders in which people also keep projects (/usr/src/app): a workspace opens its part."""

OWN_FILES = (
    ".env", "config.yaml", "auth.json", "state.db", "state.db-wal", "shell-hooks-allowlist.json",
    "mcp-tokens", "pairing", "approvals", "checkpoints", "hooks", "cron", "gateway", "gateway.json",
    "webhook_subscriptions.json", "BOOT.md",
)  # fmt: skip
"""In our own home: settings, keys, consents, and what runs by itself. An agent that could write
them sets its limits."""


SOMEBODYS_HOME = re.compile(r"/(root|home/[^/]+|Users/[^/]+)(?=/|$)")


class Guard(msgspec.Struct, frozen=True):
    """Judges paths for one session.

    `home` is the user's home folder, `workspace` the folders the agent works in, `own` our homes
    (the home in force and the one that holds the profiles).
    """

    home: Path
    workspace: tuple[Path, ...]
    own: tuple[Path, ...] = ()
    here: bool = True
    """False when the paths are those of another machine: links are then not looked up here."""

    def writing(self, path: str, real: str) -> Concern | None:
        """What stands against writing `path`, which leads to `real`; None when nothing does."""
        reason = self.refuses_writing(real)
        if reason:
            return Concern("protected file", path, reason, refused=True)
        if not any(below(real, self._real(root)) for root in self.workspace):
            shown = ", ".join(str(root) for root in self.workspace)
            return Concern(
                "write outside the workspace", path, f"{real} is outside the workspace {shown}"
            )
        return None

    def reading(self, path: str, real: str) -> Concern | None:
        """What stands against reading `path`, which leads to `real`."""
        if self.is_own(real):
            return Concern("own secrets", path, f"{real} holds Hermes' own keys and settings")
        if self.is_credential(real):
            return Concern("credential access", path, f"{real} holds keys or passwords")
        return None

    def refuses_writing(self, real: str) -> str:
        """Why the real path `real` is never written, or ""."""
        if self.is_own(real):
            return f"{real} holds Hermes' own settings, keys or consents"
        if self.is_credential(real):
            return f"{real} holds keys or passwords"
        if self.is_startup(real):
            return f"{real} is run at login"
        if self.is_system(real):
            return f"{real} belongs to the operating system"
        return ""

    def is_own(self, real: str) -> bool:
        for root in map(self._real, self.own):
            parts = real[len(root) + 1 :].split("/") if below(real, root) else []
            if parts[:1] == ["profiles"]:
                parts = parts[2:]
            if parts and parts[0] in OWN_FILES:
                return True
            if any(below(real, place) for place in self._linked(root, OWN_FILES)):
                return True
        return False

    def is_credential(self, real: str) -> bool:
        return self._in_home(real, CREDENTIAL_STORES) or _in_any(real, SYSTEM_CREDENTIALS)

    def is_startup(self, real: str) -> bool:
        return self._in_home(real, STARTUP_FILES)

    def is_system(self, real: str) -> bool:
        if real in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
            return False
        if re.match(r"/proc/(self|\d+)/fd/", real):  # where /dev/stderr leads
            return False
        opened = [
            root
            for root in map(self._real, self.workspace)
            if any(below(root, place) and root != place for place in WORKPLACES)
        ]
        home = self._real(self.home)
        if any(below(real, root) for root in (*opened, home) if root != "/"):
            return False
        return _in_any(real, SYSTEM_FOLDERS)

    def real(self, path: str, folder: str) -> str:
        """The file that `path` means, taken from `folder`, as far as can be told from here."""
        if self.here:
            return real_path(path, folder, str(self.home))
        if path == "~" or path.startswith("~/"):
            path = f"{self.home}{path[1:]}"
        return posixpath.normpath(posixpath.join(folder, path))

    def _in_home(self, real: str, names: tuple[str, ...]) -> bool:
        """Both the place in the home and, where that is a link, the place it leads to."""
        home = self._real(self.home).rstrip("/")
        if not self.here and (others := SOMEBODYS_HOME.match(real)):
            home = others[0]  # which of them is the user's is not known from here
        if below(real, home) and any(below(real, f"{home}/{name}") for name in names):
            return True
        return any(below(real, place) for place in self._linked(home, names))

    def _real(self, path: Path) -> str:
        return os.path.realpath(path) if self.here else str(path)

    def _linked(self, base: str, names: tuple[str, ...]) -> Iterator[str]:
        """Where those of `names` below `base` lead that are links or lie behind one."""
        for first, group in _by_first(names).items() if self.here else ():
            top = f"{base}/{first}"
            try:
                link = stat.S_ISLNK(os.lstat(top).st_mode)
            except OSError:  # not there: nothing leads anywhere
                continue
            for name in group:
                place = f"{base}/{name}"
                if link or (name != first and os.path.realpath(place) != place):
                    yield os.path.realpath(place)


@cache
def _by_first(names: tuple[str, ...]) -> dict[str, list[str]]:
    """By their first folder, so that one look at it tells whether the others are worth one."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.partition("/")[0], []).append(name)
    return groups


def below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or something in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _in_any(real: str, folders: Sequence[str]) -> bool:
    return any(below(real, folder) for folder in folders)
