"""`<home>/holographic.json`: what can be set of this provider."""

from pathlib import Path

import msgspec

from hermes.core.errors import ConfigError
from hermes.util import atomic

FILE = "holographic.json"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    embedding_model: str = ""
    """A model2vec model, as a folder or a name; empty: no search by meaning."""
    recall_facts: int = 6
    """Most facts recalled into one turn."""
    recall_chars: int = 1200
    """Most characters of them."""


def read_options(home: Path) -> Options:
    """Raises `ConfigError` when the file is there and cannot be used."""
    path = home / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Options)
    except FileNotFoundError:
        return Options()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            str(error), where=str(path), hint="correct the file or delete it"
        ) from error


def write_options(home: Path, options: Options) -> None:
    text = msgspec.json.format(msgspec.json.encode(options), indent=2)
    atomic.write_bytes(home / FILE, text + b"\n", mode=0o600)
