"""Which shell hooks the user has consented to: (event, command) pairs in a file of the home."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.config.home import tilde, unusable
from hermes.core.errors import ConfigError
from hermes.util import atomic

log = logging.getLogger(__name__)

FILE = "shell-hooks-allowlist.json"
LOCK_SECONDS = 10


class Consent(msgspec.Struct, frozen=True):
    event: str
    command: str
    given_at: float = 0.0


class _File(msgspec.Struct, frozen=True):
    allowed: tuple[Consent, ...] = ()


class Consents:
    """`<home>/shell-hooks-allowlist.json`. A changed command is another one: it needs a new
    consent. A file that cannot be read allows nothing."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE

    def find(self, event: str, command: str) -> Consent | None:
        return next(
            (one for one in self._saved() if (one.event, one.command) == (event, command)), None
        )

    def allow(self, event: str, command: str) -> None:
        given = Consent(event, command, time.time())

        def add(held: tuple[Consent, ...]) -> tuple[Consent, ...]:
            return (*(each for each in held if not _same(each, given)), given)

        self._change(add)

    def revoke(self, command: str) -> int:
        """How many consents to this command there were. Raises `ConfigError`."""
        count = sum(each.command == command for each in self.all())
        if count:
            self._change(lambda held: tuple(each for each in held if each.command != command))
        return count

    def all(self) -> tuple[Consent, ...]:
        """Raises `ConfigError` when the file cannot be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File).allowed
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise unusable(self._path, error) from error
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"cannot be read: {error}",
                where=tilde(self._path),
                hint="delete the file; each hook is asked about again",
            ) from error

    def _saved(self) -> tuple[Consent, ...]:
        try:
            return self.all()
        except ConfigError as error:
            log.warning("no shell hook is allowed: %s", error)
            return ()

    def _change(self, change: Callable[[tuple[Consent, ...]], tuple[Consent, ...]]) -> None:
        with self._locked():
            after = _File(change(self.all()))
            encoded = msgspec.json.format(msgspec.json.encode(after), indent=2)
            try:
                atomic.write_bytes(self._path, encoded + b"\n", mode=0o600)
            except OSError as error:
                raise unusable(self._path, error) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        filelock = import_module("filelock")  # slow to load, and only changes need it
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with filelock.FileLock(f"{self._path}.lock", timeout=LOCK_SECONDS, mode=0o600):
                yield
        except filelock.Timeout as error:
            raise ConfigError(
                f"another process is changing {tilde(self._path)}", hint="try again in a moment"
            ) from error
        except OSError as error:
            raise unusable(self._path, error) from error


def _same(one: Consent, other: Consent) -> bool:
    return (one.event, one.command) == (other.event, other.command)
