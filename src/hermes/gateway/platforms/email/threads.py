"""Threads of mail: what an answer needs to stay in one.

A thread is named by the first mail in it. Our own mails carry a mark of their thread in their
Message-ID, since some programs name only the mail they answer.
"""

import contextlib
import hashlib
import re
import time
from pathlib import Path

import msgspec

from hermes.gateway.platforms.email.letters import Letter
from hermes.util.atomic import write_bytes

KEEP_SECONDS = 365 * 86400.0
MOST_REFERENCES = 20

_OURS = re.compile(r"hermes\.[0-9a-f]{24}\.([0-9a-f]{16})@.+")


class Thread(msgspec.Struct, frozen=True):
    address: str
    """Who we talk with."""
    root: str
    subject: str
    references: tuple[str, ...]
    """Its mails, the oldest first, with the last one we got."""


class Threads:
    """One small file for each thread, in a folder of our own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, letter: Letter) -> Thread:
        """The thread a mail belongs to, with the mail in it; not kept yet."""
        marks = (_OURS.fullmatch(each) for each in reversed(letter.references))
        known = next((found for mark in marks if mark and (found := self._read(mark[1]))), None)
        if known is not None and known.address != letter.sender:
            known = None  # somebody else's
        root = known.root if known else (*letter.references, letter.message_id)[0]
        line = [root, *letter.references, letter.message_id]
        line = [each for each in dict.fromkeys(line) if each]
        kept = (*line[:1], *line[1:][-MOST_REFERENCES:])
        return Thread(letter.sender, root, letter.subject or (known.subject if known else ""), kept)

    def keep(self, thread: Thread) -> None:
        """On disk when it returns. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(self._file(mark(thread.address, thread.root)), msgspec.json.encode(thread))

    def find(self, address: str, root: str) -> Thread | None:
        return self._read(mark(address, root))

    def clean(self) -> None:
        before = time.time() - KEEP_SECONDS
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()

    def _read(self, name: str) -> Thread | None:
        try:
            return msgspec.json.decode(self._file(name).read_bytes(), type=Thread)
        except (OSError, msgspec.DecodeError):
            return None

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def mark(address: str, root: str) -> str:
    return hashlib.sha256(f"{address}\0{root}".encode()).hexdigest()[:16]


def our_id(own: str, key: str, address: str, root: str) -> str:
    """The Message-ID of the message `key`: the same each time."""
    name = hashlib.sha256(f"{own}\0{key}".encode()).hexdigest()[:24]
    tail = f".{mark(address, root)}" if root else ""
    return f"hermes.{name}{tail}@{own.rpartition('@')[2]}"
