"""How often and when each skill was last used, and who wrote it."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from hermes.util import files

LOCK_TIMEOUT = 2.0  #: Seconds to wait for the lock. Losing a count is better than delaying a turn.

log = logging.getLogger(__name__)


class UsageRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The use of one skill."""

    count: int = 0
    last: float = 0.0  #: Seconds since 1970; 0 for never.
    written_by: str = ""  #: `user`, `agent` or `review`; "" when unknown.
    written_at: float = 0.0


_records_decoder = msgspec.json.Decoder(dict[str, UsageRecord])


class SkillUsage:
    """The usage file `<home>/skills/.usage.json`, shared by all processes.

    A damaged file counts as empty; the next write renames it to `.usage.json.damaged`.
    """

    def __init__(self, file: Path, patience: float = LOCK_TIMEOUT) -> None:
        self._file, self._patience = file, patience

    def all(self) -> Mapping[str, UsageRecord]:
        """Return the records by skill name."""
        try:
            return self._read()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.debug("the use counts of skills cannot be read: %s", error)
            return {}

    def get(self, name: str) -> UsageRecord:
        return self.all().get(name, UsageRecord())

    def record(self, name: str, now: float) -> None:
        """Count a use of a skill at `now`, in seconds since 1970."""

        def used(use: UsageRecord) -> UsageRecord:
            return msgspec.structs.replace(use, count=use.count + 1, last=max(use.last, now))

        self._update(name, used)

    def record_author(self, name: str, who: str, now: float) -> None:
        """Record that `who` wrote or changed a skill."""
        self._update(name, lambda use: msgspec.structs.replace(use, written_by=who, written_at=now))

    def remove(self, name: str) -> None:
        """Remove the record of a deleted skill."""
        self._update(name, lambda _use: None)

    def _read(self) -> dict[str, UsageRecord]:
        try:
            return _records_decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}

    def _read_or_reset(self) -> dict[str, UsageRecord]:
        try:
            return self._read()
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            aside = self._file.replace(f"{self._file}.damaged")
            log.warning("the use counts of skills are damaged: %s; they are in %s", error, aside)
            return {}

    def _update(self, name: str, change: Callable[[UsageRecord], UsageRecord | None]) -> None:
        """Change one record under the lock. Failures are logged: the counts are a convenience."""
        from filelock import FileLock  # slow to load, and only needed for writing

        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{self._file}.lock", timeout=self._patience):
                records = self._read_or_reset()
                changed = change(records.pop(name, UsageRecord()))
                if changed is not None:
                    records[name] = changed
                data = msgspec.json.format(msgspec.json.encode(records), indent=1)
                files.write_bytes(self._file, data, mode=0o600)
        except (OSError, UnicodeEncodeError) as error:  # includes the timeout of the lock
            log.warning("a use of the skill %s was not counted: %s", name, error)
