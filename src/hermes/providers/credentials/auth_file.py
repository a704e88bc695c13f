"""auth.json: keys added by hand, logins, and what is known of every key.

    {"version": 1,
     "providers": {"<provider>": {the tokens of a login}},
     "credential_pool": {"<provider or custom:name>": [entries]}}

Unknown keys are kept. A login has a place of its own under `providers`, so that the tokens of a
subscription are never taken for API keys.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.config.home import tilde, unusable
from hermes.core.errors import ConfigError
from hermes.util import atomic

log = logging.getLogger(__name__)

VERSION = 1
LOCK_SECONDS = 10.0
"""Longest wait for another process that is changing the file."""

SECTIONS = {"providers": dict, "credential_pool": list}
"""The parts of the file, each an object, and what it holds for a provider."""

AuthData = dict[str, Any]


class AuthFile:
    """The file. Reading needs no lock, because the file is only ever replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held, self._state = b"", (0, 0, 0)
        """What was read, and of which state of the file."""

    def read(self) -> AuthData:
        """What is in the file; an empty store when there is none.

        Raises `ConfigError` when it cannot be understood. It is then left as it is.
        """
        try:
            raw = self._raw()
        except FileNotFoundError:
            return {"version": VERSION}
        except OSError as error:
            raise unusable(self.path, error) from error
        try:
            data = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._damaged("it is not JSON") from error
        if not isinstance(data, dict):
            raise self._damaged("it does not hold a JSON object")
        for part, kind in SECTIONS.items():
            held = data.get(part, {})
            if not isinstance(held, dict) or not all(isinstance(x, kind) for x in held.values()):
                raise self._damaged(f"{part!r} does not have the right form")
        if isinstance(version := data.get("version"), int) and version > VERSION:
            raise ConfigError(
                f"{tilde(self.path)} was written by a later version of Hermes",
                hint="use that version, or move the file away and add your keys again",
            )
        return data

    def _raw(self) -> bytes:
        """The file; read again only when it was replaced. Every provider is looked up in it."""
        stat = self.path.stat()
        state = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if state != self._state:
            self._held, self._state = self.path.read_bytes(), state
        return self._held

    @contextmanager
    def change(self) -> Iterator[AuthData]:
        """What is in the file, to be changed in place; written at the end of the block.

        Two processes never lose each other's change: the second waits for the first. When the
        block raises, or changes nothing, nothing is written.
        """
        with self._locked():
            data = self.read()
            before = msgspec.json.encode(data)
            yield data
            if msgspec.json.encode(data) != before:
                self._write({"version": VERSION, **data})

    def lock_path(self, name: str = "") -> Path:
        """Beside the real file, so that two homes that share it by a link share the lock."""
        folder = Path(os.path.realpath(self.path)).parent
        return folder / (f".auth.{name}.lock" if name else ".auth.lock")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self.lock_path()
        import filelock  # slow to load, and rarely needed

        lock = filelock.FileLock(path, timeout=LOCK_SECONDS, mode=0o600, fallback_to_soft=False)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.acquire()
        except filelock.Timeout as error:
            raise ConfigError(
                f"another process is changing {tilde(self.path)}", hint="try again in a moment"
            ) from error
        except OSError as error:
            raise unusable(path, error) from error
        try:
            yield
        finally:
            lock.release()

    def _write(self, data: AuthData) -> None:
        self._warn_of_a_wide_mode()
        text = msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
        target = Path(os.path.realpath(self.path))
        try:
            for left in target.parent.glob(f".{target.name}.*.tmp"):  # of a process that was killed
                left.unlink()
            atomic.write_bytes(target, text, mode=0o600)
        except OSError as error:
            raise unusable(self.path, error) from error

    def _warn_of_a_wide_mode(self) -> None:
        try:
            mode = self.path.stat().st_mode
        except OSError:
            return
        if os.name == "posix" and mode & 0o077:
            log.warning(
                "%s could be opened by other users (mode %o); now only you can open it. If others"
                " use this machine, replace the keys in it.",
                tilde(self.path),
                mode & 0o777,
            )

    def _damaged(self, reason: str) -> ConfigError:
        return ConfigError(
            f"{tilde(self.path)} is damaged: {reason}",
            hint="nothing was changed; correct it, or move it away and add your keys again"
            " with `hermes auth add`",
        )


# The entries of `credential_pool`: keys added by hand, and what is known of every credential.

POOL = "credential_pool"


class KeyEntry(msgspec.Struct, frozen=True):
    """A key added by hand, or the state of a credential that is kept elsewhere.

    The value of a variable is never copied here, only the name of the variable.
    """

    id: str
    """`manual:1f3a`, `env:OPENROUTER_API_KEY`, `oauth`, `claude-code`, ..."""
    kind: Literal["api_key", "oauth"] = "api_key"
    label: str = ""
    source: str = ""
    """`manual`, `env:NAME`, `oauth`, or the program the credential belongs to."""
    secret: str = ""
    """Only for keys added by hand."""
    fingerprint: str = ""
    """A few digits of the hash of a value kept elsewhere: a new value has no past."""
    uses: int = 0
    last_used: float = 0.0
    resting_until: float = 0.0
    rest_reason: str = ""

    def __repr__(self) -> str:
        return f"Entry({self.id!r}, source={self.source!r})"


_DEFAULTS = msgspec.to_builtins(KeyEntry(""))


def fingerprint(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()[:8]


def entries_of(data: AuthData, provider: str) -> dict[str, KeyEntry]:
    """By id, in the order of the file. What is not understood is left out here and kept there."""
    entries = (_parse_entry(raw) for raw in _raw_entries(data, provider))
    return {entry.id: entry for entry in entries if entry is not None}


def count_invalid_entries(data: AuthData, provider: str) -> int:
    """How many entries somebody else wrote in a form that is not known."""
    return sum(1 for raw in _raw_entries(data, provider) if _parse_entry(raw) is None)


def stored_providers(data: AuthData) -> list[str]:
    """Every provider the file holds something for."""
    return list(dict.fromkeys([*data.get(POOL, {}), *data.get("providers", {})]))


def put_entry(data: AuthData, provider: str, entry: KeyEntry) -> None:
    """Add the entry, or replace the one with its id; keys that are not ours stay in it."""
    raws = data.setdefault(POOL, {}).setdefault(provider, [])
    raw = next((old for old in raws if _id_of(old) == entry.id), None)
    if raw is None:
        raws.append(raw := {})
    for name, value in msgspec.to_builtins(entry).items():
        if value != _DEFAULTS[name]:
            raw[name] = value
        else:
            raw.pop(name, None)


def remove_entries(data: AuthData, provider: str, unwanted: Callable[[KeyEntry], bool]) -> int:
    """Take entries out; how many there were."""
    raws = _raw_entries(data, provider)
    kept = [raw for raw in raws if (e := _parse_entry(raw)) is None or not unwanted(e)]
    if len(kept) == len(raws):
        return 0
    if kept:
        data[POOL][provider] = kept
    else:
        del data[POOL][provider]
    return len(raws) - len(kept)


def _raw_entries(data: AuthData, provider: str) -> list[Any]:
    found: list[Any] = data.get(POOL, {}).get(provider, [])
    return found


def _parse_entry(raw: Any) -> KeyEntry | None:
    try:
        entry = msgspec.convert(raw, KeyEntry)
    except msgspec.ValidationError:
        return None
    return entry if entry.id else None


def _id_of(raw: Any) -> Any:
    return raw.get("id") if isinstance(raw, dict) else None
