"""auth.json: keys added by the user, logins, and usage of every key.

    {"version": 1,
     "providers": {"<provider>": {the tokens of a login}},
     "credential_pool": {"<provider or custom:name>": [entries]},
     "key_hosts": {"<variable>": [{"origin": "https://host:443", "fingerprint": ...}]}}

Unknown keys are kept. Logins have their own section, so that the tokens of a subscription are never
used as API keys.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.config.home import change_lock, tilde, unusable
from hermes.config.own_files import record_change
from hermes.core.errors import ConfigError
from hermes.providers.endpoints import variable_name
from hermes.util import files
from hermes.util.http import parse_http_url

log = logging.getLogger(__name__)

VERSION = 1
LOCK_SECONDS = 10.0  #: Longest wait for another process that changes the file.

SECTIONS = {"providers": dict, "credential_pool": list, "key_hosts": list}
"""The sections of the file, and the type of their values."""

AuthData = dict[str, Any]


class AuthFile:
    """The file. Reads need no lock, because the file is only replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content, self._state = b"", (0, 0, 0)
        """The last content, and the inode, time and size of the file it was read from."""

    def read(self) -> AuthData:
        """Return the content of the file; an empty store when it does not exist.

        Raises `ConfigError` when it is invalid. The file is then not changed.
        """
        try:
            stat = self.path.stat()
            state = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if state != self._state:  # read again only after it was replaced
                self._content, self._state = self.path.read_bytes(), state
        except FileNotFoundError:
            return {"version": VERSION}
        except OSError as error:
            raise unusable(self.path, error) from error
        try:
            data = msgspec.json.decode(self._content)
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

    @contextmanager
    def change(self) -> Iterator[AuthData]:
        """Yield the content for changes in place; it is written at the end of the block.

        A second process waits, so no change is lost. Nothing is written when the block raises or
        changes nothing.
        """
        with change_lock(self.lock_path(), LOCK_SECONDS, tilde(self.path)):
            data = self.read()
            before = msgspec.json.encode(data)
            yield data
            if msgspec.json.encode(data) != before:
                self._write({"version": VERSION, **data})

    def lock_path(self, name: str = "") -> Path:
        """Return a lock file next to the real file, so that homes linked to it share the lock."""
        folder = Path(os.path.realpath(self.path)).parent
        return folder / (f".auth.{name}.lock" if name else ".auth.lock")

    def _write(self, data: AuthData) -> None:
        self._warn_of_a_wide_mode()
        text = msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
        target = Path(os.path.realpath(self.path))
        try:
            for leftover in target.parent.glob(f".{target.name}.*.tmp"):  # left by a killed process
                leftover.unlink()
            for path in {self.path, target}:  # the real file may belong to another home
                record_change(path.parent, path, text)
            files.write_bytes(target, text, mode=0o600)
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


# Entries of `credential_pool`.

POOL = "credential_pool"


class KeyEntry(msgspec.Struct, frozen=True):
    """A key added by the user, or the state of a credential that is stored elsewhere.

    The value of a variable is never copied here, only its name.
    """

    id: str  #: `manual:1f3a`, `env:OPENROUTER_API_KEY`, `oauth`, `claude-code`, ...
    kind: Literal["api_key", "oauth"] = "api_key"
    label: str = ""
    source: str = ""  #: `manual`, `env:NAME`, `oauth`, or the program that owns the credential.
    secret: str = ""  #: Only for keys added by the user.
    fingerprint: str = ""
    """Start of the hash of a value stored elsewhere; a changed value starts without history."""
    uses: int = 0
    last_used: float = 0.0
    resting_until: float = 0.0
    rest_reason: str = ""

    def __repr__(self) -> str:
        return f"Entry({self.id!r}, source={self.source!r})"

    @property
    def variable(self) -> str:
        """The environment variable that the credential came from; "" for any other."""
        return variable_name(self.id) or variable_name(self.source)


_DEFAULTS = msgspec.to_builtins(KeyEntry(""))


def fingerprint(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()[:8]


def entries_of(data: AuthData, provider: str) -> dict[str, KeyEntry]:
    """Return the entries by id, in the order of the file. Invalid ones are skipped."""
    entries = (_parse_entry(raw) for raw in _raw_entries(data, provider))
    return {entry.id: entry for entry in entries if entry is not None}


def count_invalid_entries(data: AuthData, provider: str) -> int:
    """Return the number of entries in an unknown format."""
    return sum(1 for raw in _raw_entries(data, provider) if _parse_entry(raw) is None)


def stored_providers(data: AuthData) -> list[str]:
    """Return every provider with an entry or a login."""
    return list(dict.fromkeys([*data.get(POOL, {}), *data.get("providers", {})]))


def put_entry(data: AuthData, provider: str, entry: KeyEntry) -> None:
    """Add the entry or replace the one with its id; unknown keys in it are kept."""
    raws = data.setdefault(POOL, {}).setdefault(provider, [])
    raw = next((old for old in raws if isinstance(old, dict) and old.get("id") == entry.id), None)
    if raw is None:
        raws.append(raw := {})
    for name, value in msgspec.to_builtins(entry).items():
        if value != _DEFAULTS[name]:
            raw[name] = value
        else:
            raw.pop(name, None)


def remove_entries(data: AuthData, provider: str, unwanted: Callable[[KeyEntry], bool]) -> int:
    """Remove entries and return how many there were."""
    raws = _raw_entries(data, provider)
    remaining = [raw for raw in raws if (e := _parse_entry(raw)) is None or not unwanted(e)]
    if len(remaining) == len(raws):
        return 0
    if remaining:
        data[POOL][provider] = remaining
    else:
        del data[POOL][provider]
    return len(raws) - len(remaining)


# Keys that the user has bound to a host.

KEY_HOSTS = "key_hosts"


def is_bound(data: AuthData, variable: str, secret: str, base_url: str) -> bool:
    """Return whether the user allowed this value of `variable` at the host of `base_url`."""
    return _binding(secret, base_url) in data.get(KEY_HOSTS, {}).get(variable, [])


def bind_key(data: AuthData, variable: str, secret: str, base_url: str) -> None:
    """Allow this value of `variable` at the host of `base_url`, from now on."""
    bindings = data.setdefault(KEY_HOSTS, {}).setdefault(variable, [])
    if (binding := _binding(secret, base_url)) not in bindings:
        bindings.append(binding)


def _binding(secret: str, base_url: str) -> dict[str, str]:
    parsed = parse_http_url(base_url)
    scheme, host, port = parsed.origin if parsed else ("", "", 0)
    return {"origin": f"{scheme}://{host}:{port}", "fingerprint": fingerprint(secret)}


def _raw_entries(data: AuthData, provider: str) -> list[Any]:
    found: list[Any] = data.get(POOL, {}).get(provider, [])
    return found


def _parse_entry(raw: Any) -> KeyEntry | None:
    try:
        entry = msgspec.convert(raw, KeyEntry)
    except msgspec.ValidationError:
        return None
    return entry if entry.id else None
