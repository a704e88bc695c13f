"""`<home>/<provider>.json`, and keys: what can be set of a service."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.config import environment
from hermes.config.dotenv import read_dotenv
from hermes.config.home import Home, ensure_hermes_home, tilde
from hermes.core.errors import ConfigError
from hermes.util import atomic

HINT = "correct the file or delete it"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    base_url: str = ""
    """Address of a server of one's own; empty: the vendor's."""
    namespace: str = ""
    """What all of this profile is kept under; empty: `hermes`, or `hermes-<profile>`."""
    recall_limit: int = 6
    """Most memories recalled into one turn."""
    recall_chars: int = 1200
    """Most characters of them."""
    timeout: float = 4
    """How many seconds a turn waits for the service."""


Kind = TypeVar("Kind", bound=Options)


def options_file(home: Home, name: str) -> Path:
    return home.root / f"{name}.json"


def read_options(home: Home, name: str, kind: type[Kind]) -> Kind:
    """Raises `ConfigError` when the file is there and cannot be used."""
    path = options_file(home, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(str(error), where=tilde(path), hint=HINT) from error


def change_options(home: Home, name: str, kind: type[Kind], **values: Any) -> Kind:
    """Put `values` into the file; the rest of it stays. Raises `ConfigError`."""
    held = msgspec.to_builtins(read_options(home, name, kind))
    path = options_file(home, name)
    try:
        changed = msgspec.convert({**held, **values}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where=tilde(path), hint="give another value") from error
    text = msgspec.json.format(msgspec.json.encode(changed), indent=2)
    ensure_hermes_home(home)
    try:
        atomic.write_bytes(path, text + b"\n", mode=0o600)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=tilde(path)) from error
    return changed


def variable(name: str, home: Home) -> str:
    """A variable saved in the home's .env, else that of the process; empty when it is not set."""
    if not name:
        return ""
    saved = read_dotenv(home.env_file, environment.variables())
    return (saved.get(name) or environment.variable(name) or "").strip()
