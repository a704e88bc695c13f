"""Which files of this machine may be sent to a chat."""

from pathlib import Path

from hermes.config.home import Home
from hermes.security.paths import Guard


class OutgoingFiles:
    """What the agent made or was given may go out. Keys, settings and conversations may not, nor
    what lies about in the folders of the system."""

    def __init__(self, home: Home) -> None:
        self._home = home
        own = tuple(dict.fromkeys((home.root, home.default_root)))
        self._guard = Guard(home=Path.home(), workspace=(), own=own)
        self._open = tuple(
            str((home.root / name).resolve())
            for name in ("cache", "workspaces", "cron/output", "sandboxes", "screenshots")
        )

    def __call__(self, path: str) -> bool:
        real = self._guard.real(path, "/")
        if any(real == folder or real.startswith(f"{folder}/") for folder in self._open):
            return True
        if self._guard.is_own(real):
            return False
        return self._guard.reading(path, real) is None
