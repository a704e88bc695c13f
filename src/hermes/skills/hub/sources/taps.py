"""Taps: repositories and sites the user wants searched too, kept in `taps.json`."""

from pathlib import Path

import msgspec

from hermes.core.errors import ConfigError, UsageError
from hermes.skills.hub.contents import private_folder
from hermes.skills.hub.errors import UNREADABLE
from hermes.skills.hub.sources.repo_place import parse_place
from hermes.skills.hub.sources.well_known import is_site
from hermes.skills.hub.web import check_address
from hermes.util import atomic

NAME = "tap"


class TapFile(msgspec.Struct, frozen=True):
    taps: tuple[str, ...] = ()
    version: int = 1


class Taps:
    def __init__(self, file: Path, web: str) -> None:
        self._file, self._web = file, web

    def all(self) -> tuple[str, ...]:
        """Raises `ConfigError` for a file that cannot be understood."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=TapFile).taps
        except FileNotFoundError:
            return ()
        except (OSError, *UNREADABLE) as error:
            raise ConfigError(
                f"the list of taps cannot be read: {error}",
                where=str(self._file),
                hint="correct it, or delete it and add the taps again",
            ) from error

    def named(self, text: str) -> str:
        """A tap as it is kept: `owner/repo`, or the address of a site. Raises `UsageError`."""
        if is_site(text) and not text.startswith(f"{self._web}/"):
            check_address(text)
            return text.rstrip("/")
        place = parse_place(text, self._web)
        if place.path or place.ref:
            raise UsageError(f"{text} is not a repository", hint=f"`tap add {place.repo}`")
        return place.repo

    def add(self, tap: str) -> bool:
        """False when it was there already."""
        held = self.all()
        if tap.lower() in (each.lower() for each in held):
            return False
        self._write((*held, tap))
        return True

    def remove(self, tap: str) -> bool:
        held = self.all()
        kept = tuple(each for each in held if each.lower() != tap.lower())
        if kept == held:
            return False
        self._write(kept)
        return True

    def _write(self, taps: tuple[str, ...]) -> None:
        private_folder(self._file.parent)
        data = msgspec.json.format(msgspec.json.encode(TapFile(taps)), indent=2)
        atomic.write_bytes(self._file, data + b"\n")
