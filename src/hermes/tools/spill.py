"""Where results go that are too long for the model."""

import time
from pathlib import Path

from hermes.terminal.base import Files

KEPT_DAYS = 7


class LocalSpill:
    """Keeps texts in a folder of ours; what is older than a week goes when a new one comes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, name: str, text: str) -> str:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        old = time.time() - KEPT_DAYS * 86_400
        for file in self._folder.iterdir():
            if file.stat().st_mtime < old:
                file.unlink(missing_ok=True)
        path = self._folder / name
        path.write_text(text, "utf-8")
        return str(path)


class RemoteSpill:
    """Keeps texts where the session works, so that its `read_file` can read them."""

    def __init__(self, files: Files, folder: str = "/tmp/hermes-results") -> None:
        self._files, self._folder = files, folder

    async def keep(self, name: str, text: str) -> str:
        path = await self._files.locate(f"{self._folder}/{name}")
        await self._files.write(path, text.encode())
        return path
