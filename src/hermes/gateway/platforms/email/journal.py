"""How far the sending of each mail got, on disk before it goes further.

Nothing is noted before the mail itself is handed over, so what has no note was never sent. A note
`begun` without more means that nobody knows.
"""

import contextlib
import hashlib
import time
from pathlib import Path
from typing import Literal

from hermes.util.atomic import write_text

KEEP_SECONDS = 60 * 86400.0

Stage = Literal["", "begun", "accepted"]


class Journal:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stage(self, key: str) -> Stage:
        try:
            said = self._file(key).read_text()
        except FileNotFoundError:
            return ""
        return "accepted" if said == "accepted" else "begun"

    def note(self, key: str, stage: Stage) -> None:
        """`""` takes the note back: the server refused the mail. Raises OSError."""
        if not stage:
            self._file(key).unlink(missing_ok=True)
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_text(self._file(key), stage)

    def clean(self) -> None:
        before = time.time() - KEEP_SECONDS
        for file in self._folder.glob("*.txt"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()

    def _file(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.txt"
