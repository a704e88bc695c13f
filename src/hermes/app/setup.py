"""What `hermes setup` remembers between runs, and beginning anew."""

from datetime import datetime
from pathlib import Path

import msgspec

from hermes.config.home import Home, ensure_hermes_home, unusable
from hermes.util import atomic


class Progress(msgspec.Struct, frozen=True):
    done: tuple[str, ...] = ()
    """Sections that were gone through."""


class SetupRecord:
    """How far a person got; gone once they are through."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file = home.root / ".setup.json"

    def done(self) -> tuple[str, ...]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Progress).done
        except (FileNotFoundError, msgspec.DecodeError):
            return ()  # only a convenience: without it one is asked again
        except OSError as error:
            raise unusable(self._file, error) from error

    def add(self, section: str) -> None:
        ensure_hermes_home(self._home)
        done = tuple(dict.fromkeys((*self.done(), section)))
        try:
            atomic.write_bytes(self._file, msgspec.json.encode(Progress(done)), mode=0o600)
        except OSError as error:
            raise unusable(self._file, error) from error

    def clear(self) -> None:
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise unusable(self._file, error) from error


def reset_settings(home: Home, now: datetime) -> Path | None:
    """Every setting gets its default; where the old file is kept, if there was one. Keys, sessions
    and everything else stay."""
    SetupRecord(home).clear()
    file = home.config_file
    if not file.exists():
        return None
    backup = file.with_name(f"{file.name}.{now:%Y%m%d-%H%M%S}.bak")
    try:
        atomic.write_bytes(backup, file.read_bytes(), mode=0o600)
        atomic.write_text(file, "")
    except OSError as error:
        raise unusable(file, error) from error
    return backup
