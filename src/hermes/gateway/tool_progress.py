"""What /verbose said in single chats: how much of tool calls is shown there."""

import asyncio
import logging
from pathlib import Path

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.display import ToolProgress
from hermes.core.errors import UsageError
from hermes.gateway.showing import Showing, showing
from hermes.util import atomic

log = logging.getLogger(__name__)

MODES: tuple[ToolProgress, ...] = ("off", "new", "all", "verbose")
"""In the order in which /verbose goes through them."""


class ChatProgress:
    """By session key; kept in a file, so that a restart changes nothing."""

    def __init__(self, settings: Settings, file: Path) -> None:
        self._settings, self._file = settings, file
        self._modes: dict[str, ToolProgress] = _read(file)

    def look(self, key: str, platform: str) -> Showing:
        """How a turn is shown in a chat."""
        usual = showing(self._settings, platform)
        return msgspec.structs.replace(usual, progress=self._modes.get(key, usual.progress))

    async def change(self, key: str, platform: str, said: str) -> ToolProgress:
        """Another mode for a chat: the one that was named, else the next. Raises `UsageError`."""
        now = self.look(key, platform).progress
        following = MODES[(MODES.index(now) + 1) % len(MODES)]
        wanted = next((mode for mode in MODES if mode == (said.lower() or following)), None)
        if wanted is None:
            raise UsageError(f"{said!r} is no way to show tool calls", hint=", ".join(MODES))
        self._modes[key] = wanted
        data = msgspec.json.encode(self._modes)
        await asyncio.to_thread(atomic.write_bytes, self._file, data, mode=0o600)
        return wanted


def _read(file: Path) -> dict[str, ToolProgress]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, ToolProgress])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s is not used, so every chat is shown the usual: %s", file, error)
        return {}
