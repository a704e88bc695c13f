"""`quarantine/`: what was fetched waits here, and is looked at here, before it may be used.

    quarantine/<name>.<random>/skill/…      the files
    quarantine/<name>.<random>/report.json  where they came from and what the scan found

What is accepted is moved away; what is refused stays, to be looked at, until it is cleaned.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.skills.hub.contents import Files, private_folder, read_folder, write_folder
from hermes.skills.hub.errors import UNREADABLE
from hermes.skills.hub.sources.source import Origin
from hermes.skills.scanner import Finding

FILES = "skill"
REPORT = "report.json"
UNFINISHED_SECONDS = 3600
"""A folder without a report that is older was left by a process that was killed."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A refused skill."""

    name: str
    source: str
    identifier: str
    trust: str
    origin: Origin
    verdict: str
    reason: str
    at: str
    findings: tuple[Finding, ...] = ()


class Quarantine:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stage(self, name: str, files: Files) -> Path:
        """The new folder with the files, on the same disk as the installed skills."""
        private_folder(self._folder)
        self._sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self._folder)) / FILES
        try:
            write_folder(folder, files)
        except OSError:  # a half of it is of no use, and may fill the disk
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise
        return folder

    def files(self, staged: Path) -> dict[str, bytes]:
        """What lies there now."""
        return read_folder(staged)

    def keep(self, staged: Path, held: Held) -> None:
        """A refused skill stays; an earlier one from the same place goes."""
        self.forget(held.source, held.identifier)
        data = msgspec.json.format(msgspec.json.encode(held), indent=2)
        (staged.parent / REPORT).write_bytes(data + b"\n")

    def forget(self, source: str, identifier: str) -> None:
        """What was refused from this place before."""
        for folder, held in self._reports():
            if (held.source, held.identifier) == (source, identifier):
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self, staged: Path) -> None:
        """Unless it was refused: then it stays to be looked at."""
        if not (staged.parent / REPORT).exists():
            shutil.rmtree(staged.parent, ignore_errors=True)

    def refused(self) -> list[Held]:
        return [held for _, held in self._reports()]

    def find(self, name: str) -> tuple[Held, dict[str, bytes]] | None:
        """A refused skill by its name, with its files; what is there now, its identifier tells."""
        for folder, held in self._reports():
            if name == held.name:
                return held, read_folder(folder / FILES)
        return None

    def clean(self, name: str = "") -> list[str]:
        """Deletes the refused skill of this name or identifier, or all; their names."""
        gone: list[str] = []
        for folder, held in self._reports():
            if not name or name in (held.name, held.identifier):
                shutil.rmtree(folder)
                gone.append(held.name)
        return gone

    def _reports(self) -> Iterator[tuple[Path, Held]]:
        for file in sorted(self._folder.glob(f"*/{REPORT}")):
            try:
                yield file.parent, msgspec.json.decode(file.read_bytes(), type=Held)
            except (OSError, *UNREADABLE):
                continue

    def _sweep(self) -> None:
        for folder in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process is done with it
                old = time.time() - folder.stat().st_mtime > UNFINISHED_SECONDS
                if old and not (folder / REPORT).exists():
                    shutil.rmtree(folder, ignore_errors=True)
