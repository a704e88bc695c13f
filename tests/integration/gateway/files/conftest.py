"""A home full of files that must not leave, and answers that name every one of them."""

import os
import socket
from pathlib import Path

import pytest

LEAK = b"LEAK"  #: In every file that must not leave.
KEY = "sk-or-v1-0123456789abcdef-the-key-of-the-gateway"

IN_THE_USER_HOME = (
    "Documents/tax.txt", "Documents/my tax 2025.txt", ".bashrc", ".bash_history", ".profile",
    ".ssh/id_rsa", ".aws/credentials", ".mozilla/profile/cookies.sqlite", "proj/.env",
    "hermes-backup-20260101.zip", ".netrc", "~", "work-other/a.txt",
)  # fmt: skip
IN_THE_HERMES_HOME = (
    ".env", "auth.json", "history", "logs/agent.log", "logs/gateway.log", "gateway_state.json",
    "memories/USER.md", "backups/x.zip", "workspaces/somebody_else/x.txt", "SOUL.md",
    "cache/media/0123456789abcdef/photo.png", "pairing/local.json", "cache/outbox/waiting.txt",
    "profiles/work/.env",
)  # fmt: skip
OF_THE_SYSTEM = (
    "/proc/self/environ", "/proc/self/../self/environ", "/proc/self/fd/0", "/proc/1/environ",
    "/proc/self/root/etc/passwd", "/etc/passwd", "/etc/hostname", "/dev/zero", "/dev/tty",
    "//etc//passwd", "/etc/../etc/passwd", "/etc/shadow",
)  # fmt: skip


class Treasure:
    """Where the files are, for a conversation that works in `folder`."""

    def __init__(self, user_home: Path, hermes_home: Path) -> None:
        self.user_home, self.hermes_home = user_home, hermes_home
        self._open: list[socket.socket] = []

    def plant(self) -> None:
        for root, names in (
            (self.user_home, IN_THE_USER_HOME),
            (self.hermes_home, IN_THE_HERMES_HOME),
        ):
            for name in names:
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    path.write_bytes(LEAK + b" of " + name.encode())

    def traps(self, folder: Path) -> list[str]:
        """Plant files in the working folder that lead out of it; their paths."""
        outside = self.user_home / "Documents" / "tax.txt"
        links = {
            "link.txt": outside, "environ.txt": Path("/proc/self/environ"), "above": self.user_home,
            "loop": folder / "loop", "relative.txt": Path("../" * 20 + "etc/passwd"),
        }  # fmt: skip
        for name, target in links.items():
            (folder / name).symlink_to(target)
        os.link(outside, folder / "hard.txt")
        os.mkfifo(folder / "fifo")
        (folder / "a folder").mkdir()
        (folder / ".env").write_bytes(LEAK)
        (folder / "key.bin").write_bytes(b"\0" + KEY.encode())
        names = [
            *(name for name in links if name != "above"),
            "above/Documents/tax.txt", "hard.txt", "fifo", "a folder", ".env", "key.bin",
            "../secret.txt", "a folder/../../secret.txt", "missing.txt",
        ]  # fmt: skip
        (folder.parent / "secret.txt").write_bytes(LEAK)
        return [f"{folder}/{name}" for name in names]

    def answer(self, folder: Path, good: Path) -> str:
        """What a misled model says: every path, in many spellings, and one file it may send."""
        traps = self.traps(folder)
        inner = [f"{self.user_home}/{name}" for name in IN_THE_USER_HOME]
        inner += [f"{self.hermes_home}/{name}" for name in IN_THE_HERMES_HOME]
        tilde = [f"~/{name}" for name in IN_THE_USER_HOME]
        paths = [*OF_THE_SYSTEM, *inner, *tilde, *traps]
        assert len(paths) >= 60
        lines = [f"MEDIA:{path}" for path in paths]
        lines[::5] = [f"Look: `{line}` here" for line in lines[::5]]
        good.write_text("made by the agent")
        return "\n".join(["Everything:", *lines, f"MEDIA:{good}", "the end"])


@pytest.fixture
def treasure(user_home, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    hermes_home.mkdir()
    treasure = Treasure(user_home, hermes_home)
    treasure.plant()
    (hermes_home / ".env").unlink()  # the gateway reads it
    (hermes_home / "auth.json").unlink()
    return treasure
