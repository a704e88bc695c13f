"""How often and when each skill was used last, and who wrote it; shared by all processes."""

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.util import atomic

LOCK_TIMEOUT = 2.0
"""Seconds to wait for the lock. A use that is not counted is no harm; a turn that waits is."""

log = logging.getLogger(__name__)


class UsageRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    count: int = 0
    last: float = 0.0
    """Seconds since 1970; 0 for never."""
    written_by: str = ""
    """`user`, `agent` or `review`; "" when nobody said so."""
    written_at: float = 0.0


_records_decoder = msgspec.json.Decoder(dict[str, UsageRecord])


class SkillUsage:
    """`file` is `<home>/skills/.usage.json`. A damaged file counts as empty, and is put aside as
    `.usage.json.damaged` when something is to be written."""

    def __init__(self, file: Path, patience: float = LOCK_TIMEOUT) -> None:
        self._file, self._patience = file, patience

    def all(self) -> Mapping[str, UsageRecord]:
        """By the name of the skill."""
        try:
            return self._read()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.debug("the use counts of skills cannot be read: %s", error)
            return {}

    def of(self, name: str) -> UsageRecord:
        return self.all().get(name, UsageRecord())

    def record(self, name: str, now: float) -> None:
        """The skill was used at `now`, in seconds since 1970."""

        def used(use: UsageRecord) -> UsageRecord:
            return msgspec.structs.replace(use, count=use.count + 1, last=max(use.last, now))

        self._change(name, used)

    def wrote(self, name: str, who: str, now: float) -> None:
        """The skill was written or changed by `who`."""
        self._change(name, lambda use: msgspec.structs.replace(use, written_by=who, written_at=now))

    def forget(self, name: str) -> None:
        """The skill is gone."""
        self._change(name, lambda _use: None)

    def _read(self) -> dict[str, UsageRecord]:
        try:
            return _records_decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}

    def _kept(self) -> dict[str, UsageRecord]:
        try:
            return self._read()
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            aside = self._file.replace(f"{self._file}.damaged")
            log.warning("the use counts of skills are damaged: %s; they are in %s", error, aside)
            return {}

    def _change(self, name: str, change: Callable[[UsageRecord], UsageRecord | None]) -> None:
        """Blocks for a moment. Never raises: counts are a convenience."""
        filelock = import_module("filelock")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with filelock.FileLock(f"{self._file}.lock", timeout=self._patience):
                uses = self._kept()
                changed = change(uses.pop(name, UsageRecord()))
                if changed is not None:
                    uses[name] = changed
                data = msgspec.json.format(msgspec.json.encode(uses), indent=1)
                atomic.write_bytes(self._file, data, mode=0o600)
        except (OSError, UnicodeEncodeError) as error:  # a lock that is not free is an OSError
            log.warning("a use of the skill %s was not counted: %s", name, error)
