"""The fallbacks in config.yaml as written there: `${NAME}` is not expanded."""

from copy import deepcopy
from typing import Any

from hermes.config import edit
from hermes.config.document import read_document
from hermes.config.home import Home
from hermes.config.loader import modernise
from hermes.core.errors import UsageError

KEY = "fallback_providers"
OLDER = "fallback_model"


def add_fallback(home: Home, entry: dict[str, str]) -> bool:
    """Append `entry`; return False if it is already there."""
    chain = _chain(home)
    if entry in chain:
        return False
    _modernise(home, chain)
    edit.add_value(home, (KEY,), entry)
    return True


def remove_fallback(home: Home, which: str) -> dict[str, Any]:
    """Remove an entry by number (from 1), `provider:model` or model, and return it."""
    chain = _chain(home)
    at = _index(chain, which)
    if at is None:
        has = f"it has {len(chain)}" if chain else "it is empty"
        raise UsageError(f"the chain has no fallback {which!r}; {has}", hint="hermes fallback list")
    gone = chain.pop(at)
    _modernise(home, chain)
    if chain:
        edit.set_value(home, (KEY,), chain)
    else:
        edit.unset_value(home, (KEY,))
    return gone


def clear_fallbacks(home: Home) -> bool:
    """Remove all entries; return False if there are none."""
    gone = [edit.unset_value(home, (key,)) for key in (KEY, OLDER)]
    return any(gone)


def _chain(home: Home) -> list[dict[str, Any]]:
    """Return all entries including the older setting, numbered as in `hermes fallback list`."""
    data = deepcopy(read_document(home.config_file).data)
    modernise(data)
    entries = data.get(KEY)
    return [
        entry
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and entry.get("provider") and entry.get("model")
    ]


def _modernise(home: Home, chain: list[dict[str, Any]]) -> None:
    """Move the older setting into the list, which is written first so that nothing is lost."""
    if OLDER in read_document(home.config_file).data:
        if chain:
            edit.set_value(home, (KEY,), chain)
        edit.unset_value(home, (OLDER,))


def _index(chain: list[dict[str, Any]], which: str) -> int | None:
    if which.isdigit() and 1 <= int(which) <= len(chain):
        return int(which) - 1
    names = ((f"{one['provider']}:{one['model']}", one["model"]) for one in chain)
    return next((at for at, each in enumerate(names) if which in each), None)
