"""Who looks after the jobs of a home, so that people can see it and chats keep out of the way."""

from pathlib import Path
from typing import Literal

import msgspec

from hermes.cron.owner import is_dead
from hermes.util import atomic

Role = Literal["gateway", "chat"]


class Seen(msgspec.Struct, frozen=True):
    owner: str
    role: Role
    at: float
    """When it last looked."""
    every: float

    def present(self, now: float) -> bool:
        """Whether it still looks; what is of another machine is believed for three looks."""
        dead = is_dead(self.owner)
        return not dead if dead is not None else abs(now - self.at) < 3 * self.every


class Presence:
    """`<home>/cron/ticker.json`."""

    def __init__(self, folder: Path, role: Role) -> None:
        self._file, self._role = folder / "ticker.json", role

    def seen(self) -> Seen | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Seen)
        except (OSError, msgspec.DecodeError):
            return None

    def stands_back(self, owner: str, now: float) -> bool:
        """A chat may be closed any moment: its jobs are better run by a gateway that is there."""
        other = self.seen()
        if self._role == "gateway" or other is None or other.owner == owner:
            return False
        return other.role == "gateway" and other.present(now)

    def announce(self, owner: str, now: float, every: float) -> None:
        seen = Seen(owner, self._role, now, every)
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic.write_bytes(self._file, msgspec.json.encode(seen), mode=0o600)
