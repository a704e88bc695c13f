"""The entries of `credential_pool`: keys added by hand, and what is known of every credential."""

import hashlib
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from hermes.providers.credentials.auth_store import Data

POOL = "credential_pool"


class Entry(msgspec.Struct, frozen=True):
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


_DEFAULTS = msgspec.to_builtins(Entry(""))


def fingerprint(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()[:8]


def entries_of(data: Data, provider: str) -> dict[str, Entry]:
    """By id, in the order of the file. What is not understood is left out here and kept there."""
    entries = (_understood(raw) for raw in _raw(data, provider))
    return {entry.id: entry for entry in entries if entry is not None}


def not_understood(data: Data, provider: str) -> int:
    """How many entries somebody else wrote in a form that is not known."""
    return sum(1 for raw in _raw(data, provider) if _understood(raw) is None)


def providers_of(data: Data) -> list[str]:
    """Every provider the file holds something for."""
    return list(dict.fromkeys([*data.get(POOL, {}), *data.get("providers", {})]))


def put(data: Data, provider: str, entry: Entry) -> None:
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


def drop(data: Data, provider: str, unwanted: Callable[[Entry], bool]) -> int:
    """Take entries out; how many there were."""
    raws = _raw(data, provider)
    kept = [raw for raw in raws if (e := _understood(raw)) is None or not unwanted(e)]
    if len(kept) == len(raws):
        return 0
    if kept:
        data[POOL][provider] = kept
    else:
        del data[POOL][provider]
    return len(raws) - len(kept)


def _raw(data: Data, provider: str) -> list[Any]:
    found: list[Any] = data.get(POOL, {}).get(provider, [])
    return found


def _understood(raw: Any) -> Entry | None:
    try:
        entry = msgspec.convert(raw, Entry)
    except msgspec.ValidationError:
        return None
    return entry if entry.id else None


def _id_of(raw: Any) -> Any:
    return raw.get("id") if isinstance(raw, dict) else None
