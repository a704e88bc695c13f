"""What is about to be done, on disk before it is done: a process that dies in between leaves enough
for the next one to finish the record."""

import json
from pathlib import Path

import msgspec

from hermes.skills.history.changes import Change
from hermes.skills.history.files import Put
from hermes.util.atomic import write_text


class Intent(msgspec.Struct, frozen=True):
    change: Change
    puts: tuple[Put, ...] = ()
    """Files to put, for an undo; whoever finds the intent puts the rest."""


class Intents:
    """At most one is open: the lock sees to that. The JSON of the standard library takes names of
    files that are no UTF-8; msgspec's does not."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self, intent: Intent) -> None:
        write_text(self._file, json.dumps(msgspec.to_builtins(intent)), mode=0o600)

    def left(self) -> Intent | None:
        """The one that a process which died has left; a damaged one says nothing."""
        try:
            return msgspec.convert(json.loads(self._file.read_text("utf-8")), Intent)
        except (FileNotFoundError, ValueError):
            return None

    def close(self) -> None:
        self._file.unlink(missing_ok=True)
