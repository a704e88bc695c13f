"""Which files a tool must not touch, judged by their real path so that links cannot hide them."""

import os
from collections.abc import Sequence
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
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private",
    "/etc/krb5.keytab",
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
    "mcp-tokens", "pairing", "approvals",
)  # fmt: skip
"""In our own home: settings, keys and consents. An agent that could write them sets its limits."""


class Guard(msgspec.Struct, frozen=True):
    """Judges paths for one session.

    `home` is the user's home folder, `workspace` the folders the agent works in, `own` our homes
    (the home in force and the one that holds the profiles).
    """

    home: Path
    workspace: tuple[Path, ...]
    own: tuple[Path, ...] = ()

    def writing(self, path: str, folder: str) -> Concern | None:
        """What stands against writing `path`, taken from `folder`; None when nothing does."""
        real = self.real(path, folder)
        reason = self.refuses_writing(real)
        if reason:
            return Concern("protected file", path, reason, refused=True)
        if not any(below(real, _real(root)) for root in self.workspace):
            shown = ", ".join(str(root) for root in self.workspace)
            return Concern(
                "write outside the workspace", path, f"{real} is outside the workspace {shown}"
            )
        return None

    def reading(self, path: str, folder: str) -> Concern | None:
        """What stands against reading `path`, taken from `folder`."""
        real = self.real(path, folder)
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
        for root in map(_real, self.own):
            parts = real[len(root) + 1 :].split("/") if below(real, root) else []
            if parts[:1] == ["profiles"]:
                parts = parts[2:]
            if parts and parts[0] in OWN_FILES:
                return True
            if any(real == _led_to(f"{root}/{name}") for name in OWN_FILES):
                return True
        return False

    def is_credential(self, real: str) -> bool:
        return self._in_home(real, CREDENTIAL_STORES) or _in_any(real, SYSTEM_CREDENTIALS)

    def is_startup(self, real: str) -> bool:
        return self._in_home(real, STARTUP_FILES)

    def is_system(self, real: str) -> bool:
        if real in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
            return False
        opened = [
            _real(root)
            for root in self.workspace
            if any(below(_real(root), place) and _real(root) != place for place in WORKPLACES)
        ]
        home = _real(self.home)
        if any(below(real, root) for root in (*opened, home) if root != "/"):
            return False
        return _in_any(real, SYSTEM_FOLDERS)

    def real(self, path: str, folder: str) -> str:
        """The file that `path` means, exactly as the file tools will find it."""
        return real_path(path, folder, str(self.home))

    def _in_home(self, real: str, names: Sequence[str]) -> bool:
        """Both the place in the home and, where that is a link, the place it leads to."""
        home = _real(self.home).rstrip("/")
        places = [f"{home}/{name}" for name in names]
        return any(below(real, place) or below(real, _led_to(place)) for place in places)


def below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or something in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _led_to(place: str) -> str:
    """Where `place` is when it or a folder of it is a link; asked often, so a look comes first."""
    parent = place.rpartition("/")[0]
    for part in (place, parent, parent.rpartition("/")[0]):
        if os.path.islink(part):  # noqa: PTH114 - forty times a call; a Path costs ten times more
            return os.path.realpath(place)
    return place


def _in_any(real: str, folders: Sequence[str]) -> bool:
    return any(below(real, folder) for folder in folders)


def _real(path: Path) -> str:
    return os.path.realpath(path)
