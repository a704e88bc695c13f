"""Which files a tool must not touch. Paths are resolved first, so that links cannot hide them."""

import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from hermes.core.tool import Concern, Effect
from hermes.util.files import real_path
from hermes.util.lazy import late_pattern

STARTUP_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".inputrc", ".xprofile", ".xinitrc", ".config/fish", ".config/autostart",
    ".config/systemd/user", "Library/LaunchAgents", ".config/nushell", ".config/elvish", ".xonshrc",
    ".config/xonsh", ".config/powershell",
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
    "webhook_subscriptions.json", "BOOT.md", "state.db-shm", "backups", "snapshots", "history",
    "audit.log", "integrity", "rejected", ".import", "active_profile",
)  # fmt: skip
"""In the Hermes home: settings, keys, approvals, what runs by itself, and records of what was
said. They are private: reading them needs approval."""

OWN_WRITABLE = ("workspaces", "cache/media")
"""In the Hermes home: what commands and file tools may write. An agent that could write anything
else there would set its own limits."""

OWN_TOOLS = {"skills": "skill_manage", "memories": "memory"}
"""In the Hermes home: folders that only these tools write."""

RUNS_LATER_HOME = (
    ".gitconfig", ".config/git", ".vimrc", ".vim/vimrc", ".vim/plugin", ".gvimrc", ".exrc",
    ".config/nvim", ".emacs",
    ".emacs.d", ".config/emacs", ".tmux.conf", ".config/tmux", ".screenrc", ".pam_environment",
    ".config/environment.d", ".config/pip", ".pip", ".config/direnv", ".direnvrc", ".gdbinit",
    ".config/gdb", ".lldbinit", ".psqlrc", ".sqliterc", ".pythonrc", ".pythonrc.py", ".irbrc",
    ".pryrc", ".Rprofile", ".hgrc", ".config/hg", ".curlrc", ".wgetrc", ".cargo/config",
    ".cargo/config.toml", ".yarnrc", ".yarnrc.yml", ".mailcap", ".lessfilter", ".config/lesskey",
    ".xsession", ".xsessionrc", ".Xsession", ".config/i3", ".config/sway", ".config/hypr",
    ".config/plasma-workspace", ".config/containers", ".local/share/systemd", ".config/zsh",
    ".config/bash", ".bashrc.d", ".bash_completion", ".local/share/bash-completion", ".oh-my-zsh",
    ".config/Code/User", ".local/share/applications", ".config/htop/htoprc", ".ansible.cfg",
    ".wezterm.lua", ".hammerspoon", ".config/ranger", ".config/lf", ".config/fontconfig/conf.d",
    "Library/Scripts", ".config/starship.toml", ".git-templates",
)  # fmt: skip
"""Below the user's home: settings of shells, editors and other programs that can start programs.
Those in STARTUP_FILES are protected more strictly."""

RUNS_LATER = (
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/info/attributes", ".git/modules",
    ".git/worktrees", ".envrc", ".husky", ".vscode/tasks.json", ".vscode/settings.json",
    ".vscode/launch.json", ".idea",
)  # fmt: skip
"""Below any folder: files of a project that programs of the user run or obey on their own."""

PROGRAM_FOLDERS = (".local/bin", "bin")
"""Below the user's home: a program here can take the place of one of the system."""

RUNS_LATER_PATTERN = (
    rf"/(?:{'|'.join(map(re.escape, RUNS_LATER))})(?=/|\Z)"
    r"|/(?:site|dist)-packages/[^/]+\.pth\Z|/(?:user|site)customize(?:\.py|/__init__\.py)\Z"
)
"""Matches RUNS_LATER in a path, and the files that every start of Python runs."""
USUAL_PROGRAMS = frozenset({
    "bash", "brew", "cat", "cd", "cp", "curl", "docker", "git", "gpg", "grep", "hermes", "kubectl",
    "ls", "make", "mv", "node", "npm", "pip", "pip3", "python", "python3", "rm", "scp", "sh", "ssh",
    "su", "sudo", "vi", "vim", "wget", "zsh",
})  # fmt: skip
"""Programs that a file of the same name may replace even if they are not installed here."""
_RUNS_LATER = late_pattern(RUNS_LATER_PATTERN)


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

    def add_folder(self, folder: Path) -> None:
        """Make a further folder part of the workspace, for everything that uses this guard."""
        msgspec.structs.force_setattr(self, "workspace", (*self.workspace, folder))

    def check_write(self, path: str, real: str) -> Concern | None:
        """Return the reason against writing `path`, which resolves to `real`; None if there is
        none."""
        reason = self.write_refusal(real)
        if reason:
            kind = "own files" if self.own_refusal(real) else "protected file"
            return Concern(kind, path, reason, refused=True)
        if self.runs_later(real):
            return Concern(
                "runs later",
                path,
                f"{real} is run or obeyed later by other programs",
                effect=Effect.WRITE,
                folder=posixpath.dirname(real),
            )
        if not any(is_below(real, self._resolve_folder(root)) for root in self.workspace):
            shown = ", ".join(str(root) for root in self.workspace)
            return Concern(
                "write outside the workspace",
                path,
                f"{real} is outside the workspace {shown}",
                effect=Effect.WRITE,
                folder=posixpath.dirname(real),
            )
        return None

    def check_read(self, path: str, real: str) -> Concern | None:
        """Return the reason against reading `path`, which resolves to `real`; None if there is
        none."""
        logs = any(is_below(real, f"{self._resolve_folder(root)}/logs") for root in self.own)
        if logs or self.is_own(real):
            kind, reason = "own secrets", f"{real} holds Hermes' own keys and settings"
        elif self.is_credential(real):
            kind, reason = "credential access", f"{real} holds keys or passwords"
        else:
            return None
        folder = posixpath.dirname(real)
        return Concern(kind, path, reason, effect=Effect.READ, folder=folder, destructive=True)

    def write_refusal(self, real: str) -> str:
        """Return why the real path `real` must never be written, or ""."""
        if reason := self.own_refusal(real):
            return reason
        if self.is_credential(real):
            return f"{real} holds keys or passwords"
        if self.is_startup(real):
            return f"{real} is run at login"
        if self.is_system(real):
            return f"{real} belongs to the operating system"
        return ""

    def own_refusal(self, real: str) -> str:
        """Return why a path in the Hermes home must not be written, or "" if it is elsewhere or
        in a folder for the agent's work."""
        if self.is_own(real):
            return f"{real} holds Hermes' own settings, keys or approvals"
        for root in map(self._resolve_folder, self.own):
            if not is_below(real, root) or real == root:
                continue
            inside = own_part(real, root)
            if _in_any(inside, OWN_WRITABLE) or self._is_opened(real, root):
                return ""
            if writer := OWN_TOOLS.get(inside.partition("/")[0]):
                return f"{real} is written by the tool {writer} only"
            return f"{real} belongs to Hermes itself"
        return ""

    def _is_opened(self, real: str, root: str) -> bool:
        """Return whether it is in a workspace that the user chose inside the Hermes home."""
        places = map(self._resolve_folder, self.workspace)
        return any(
            is_below(real, each) and is_below(each, root) and each != root for each in places
        )

    def runs_later(self, real: str) -> bool:
        """Return whether another program runs or obeys the file later, on its own."""
        if runs_anywhere(real):
            return True
        home = self._resolve_folder(self.home).rstrip("/")
        if real.rpartition("/")[0].removeprefix(f"{home}/") in PROGRAM_FOLDERS:
            return hides_program(real)
        return self._is_in_home(real, RUNS_LATER_HOME)

    def is_own(self, real: str) -> bool:
        for root in map(self._resolve_folder, self.own):
            if is_below(real, root) and own_part(real, root).partition("/")[0] in OWN_FILES:
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


def own_part(real: str, root: str) -> str:
    """Return a path in the Hermes home `root` relative to it, or to the home of its profile."""
    parts = real[len(root) + 1 :].split("/")
    return "/".join(parts[2:] if parts[0] == "profiles" and len(parts) > 1 else parts)


def runs_anywhere(real: str) -> bool:
    """Return whether the name tells, in whatever folder, that the file runs later."""
    return _RUNS_LATER.search(real) is not None


def hides_program(path: str) -> bool:
    """Return whether a program of the system has the same name."""
    name = path.rpartition("/")[2]
    return name in USUAL_PROGRAMS or any(
        os.path.lexists(f"{folder}/{name}") for folder in ("/usr/bin", "/bin", "/usr/sbin")
    )


def is_below(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _in_any(real: str, folders: Sequence[str]) -> bool:
    return any(is_below(real, folder) for folder in folders)
