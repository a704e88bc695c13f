"""Which files a tool must not touch. Paths are resolved first, so that links cannot hide them."""

import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from hermes.core.tool import Concern
from hermes.util.files import real_path
from hermes.util.lazy import late_pattern

STARTUP_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".inputrc", ".xprofile", ".xinitrc", ".config/fish", ".config/autostart",
    ".config/systemd/user", "Library/LaunchAgents",
)  # fmt: skip
"""Below the user's home: files that run commands at the next login."""

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

PROJECT_FOLDERS = ("/usr", "/var/lib", "/run")
"""System folders that may also contain projects (/usr/src/app): a workspace opens its part."""

OWN_FILES = (
    ".env", "config.yaml", "auth.json", "state.db", "state.db-wal", "shell-hooks-allowlist.json",
    "mcp-tokens", "pairing", "approvals", "checkpoints", "hooks", "cron", "gateway", "gateway.json",
    "webhook_subscriptions.json", "BOOT.md",
)  # fmt: skip
"""In the Hermes home: settings, keys, approvals, and what runs by itself. An agent that could
write them would set its own limits."""


ANY_HOME = late_pattern(r"/(root|home/[^/]+|Users/[^/]+)(?=/|$)")


class PathGuard(msgspec.Struct, frozen=True):
    """Checks paths for one session.

    `home` is the user's home folder, `workspace` the folders the agent works in, `own` the Hermes
    homes (the current one and the one that holds the profiles).
    """

    home: Path
    workspace: tuple[Path, ...]
    own: tuple[Path, ...] = ()
    here: bool = True  #: False if the paths belong to another machine: links are then not resolved.

    def check_write(self, path: str, real: str) -> Concern | None:
        """Return the reason against writing `path`, which resolves to `real`; None if there is
        none."""
        reason = self.write_refusal(real)
        if reason:
            return Concern("protected file", path, reason, refused=True)
        if not any(is_below(real, self._resolve_folder(root)) for root in self.workspace):
            shown = ", ".join(str(root) for root in self.workspace)
            return Concern(
                "write outside the workspace", path, f"{real} is outside the workspace {shown}"
            )
        return None

    def check_read(self, path: str, real: str) -> Concern | None:
        """Return the reason against reading `path`, which resolves to `real`; None if there is
        none."""
        if self.is_own(real):
            return Concern("own secrets", path, f"{real} holds Hermes' own keys and settings")
        if self.is_credential(real):
            return Concern("credential access", path, f"{real} holds keys or passwords")
        return None

    def write_refusal(self, real: str) -> str:
        """Return why the real path `real` must never be written, or ""."""
        if self.is_own(real):
            return f"{real} holds Hermes' own settings, keys or approvals"
        if self.is_credential(real):
            return f"{real} holds keys or passwords"
        if self.is_startup(real):
            return f"{real} is run at login"
        if self.is_system(real):
            return f"{real} belongs to the operating system"
        return ""

    def is_own(self, real: str) -> bool:
        for root in map(self._resolve_folder, self.own):
            parts = real[len(root) + 1 :].split("/") if is_below(real, root) else []
            if parts[:1] == ["profiles"]:
                parts = parts[2:]
            if parts and parts[0] in OWN_FILES:
                return True
            if any(is_below(real, place) for place in self._link_targets(root, OWN_FILES)):
                return True
        return False

    def is_credential(self, real: str) -> bool:
        return self._is_in_home(real, CREDENTIAL_STORES) or _in_any(real, SYSTEM_CREDENTIALS)

    def is_startup(self, real: str) -> bool:
        return self._is_in_home(real, STARTUP_FILES)

    def is_system(self, real: str) -> bool:
        if real in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
            return False
        if re.match(r"/proc/(self|\d+)/fd/", real):  # where /dev/stderr leads
            return False
        opened = [
            root
            for root in map(self._resolve_folder, self.workspace)
            if any(is_below(root, place) and root != place for place in PROJECT_FOLDERS)
        ]
        home = self._resolve_folder(self.home)
        if any(is_below(real, root) for root in (*opened, home) if root != "/"):
            return False
        return _in_any(real, SYSTEM_FOLDERS)

    def resolve(self, path: str, folder: str) -> str:
        """Return the real path of `path`, relative to `folder`, as far as it is known on this
        machine."""
        if self.here:
            return real_path(path, folder, str(self.home))
        if path == "~" or path.startswith("~/"):
            path = f"{self.home}{path[1:]}"
        return posixpath.normpath(posixpath.join(folder, path))

    def _is_in_home(self, real: str, names: tuple[str, ...]) -> bool:
        """Check the path in the home and, if that is a link, also its target."""
        home = self._resolve_folder(self.home).rstrip("/")
        if not self.here and (others := ANY_HOME.match(real)):
            home = others[0]  # unknown here which of them is the user's
        if is_below(real, home) and any(is_below(real, f"{home}/{name}") for name in names):
            return True
        return any(is_below(real, place) for place in self._link_targets(home, names))

    def _resolve_folder(self, path: Path) -> str:
        return os.path.realpath(path) if self.here else str(path)

    def _link_targets(self, base: str, names: tuple[str, ...]) -> Iterator[str]:
        """Yield the targets of those `names` below `base` that are links or behind a link."""
        for first, group in _group_by_first_folder(names).items() if self.here else ():
            top = f"{base}/{first}"
            try:
                link = stat.S_ISLNK(os.lstat(top).st_mode)
            except OSError:  # missing, so there is no link
                continue
            for name in group:
                place = f"{base}/{name}"
                if link or (name != first and os.path.realpath(place) != place):
                    yield os.path.realpath(place)


@cache
def _group_by_first_folder(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Group by first folder, so that one check of it covers all names inside."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.partition("/")[0], []).append(name)
    return groups


def is_below(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _in_any(real: str, folders: Sequence[str]) -> bool:
    return any(is_below(real, folder) for folder in folders)
