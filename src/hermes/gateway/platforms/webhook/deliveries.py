"""Where the answer of each call goes, kept until it was sent: the call itself is gone by then."""

import contextlib
import hashlib
import time
from pathlib import Path
from typing import Any

import msgspec

from hermes.util.atomic import write_bytes

KEEP_SECONDS = 30 * 86400.0
CLEAN_SECONDS = 86400.0
"""At least between two times that old ones are removed."""


class Delivery(msgspec.Struct, frozen=True):
    deliver: str
    extra: dict[str, str] = {}
    """`deliver_extra` with the values of the call."""

    def target(self) -> str:
        """A chat as people write it: `telegram:-100:17`."""
        parts = [self.deliver, self.extra.get("chat_id", "")]
        parts.append(self.extra.get("thread_id", "") if parts[1] else "")
        return ":".join(part for part in parts if part)


class Deliveries:
    """One small file for each call, in a folder of our own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cleaned = 0.0

    def keep(self, chat_id: str, delivery: Delivery) -> None:
        """On disk when it returns. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(self._file(chat_id), msgspec.json.encode(delivery))
        if time.time() - self._cleaned > CLEAN_SECONDS:
            self.clean()

    def find(self, chat_id: str) -> Delivery | None:
        try:
            return msgspec.json.decode(self._file(chat_id).read_bytes(), type=Delivery)
        except (OSError, msgspec.DecodeError):
            return None

    def clean(self) -> None:
        """Forget calls that nobody answers any more."""
        self._cleaned = time.time()
        before = self._cleaned - KEEP_SECONDS
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()

    def _file(self, chat_id: str) -> Path:
        return self._folder / f"{hashlib.sha256(chat_id.encode()).hexdigest()[:40]}.json"


def texts(extra: dict[str, Any]) -> dict[str, str]:
    """The values as text; numbers may be written without quotes in YAML."""
    return {name: str(value) for name, value in extra.items() if value is not None}
