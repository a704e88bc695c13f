"""What `hermes --help` says of commands that extensions bring. No plugin is run for it."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes.cli.registry import find
from hermes.config.home import Home
from hermes.core.errors import HermesError

NAMING = re.compile(rb"^[^#\n]*\b(?:plugins|memory)\b", re.MULTILINE)
"""Settings without it name no extension, and are not read any further: help is quick."""
BUNDLED = Path(__file__).parents[1] / "memory" / "services"


def also(profile: str | None) -> str:
    """The last lines of the help; empty as a rule."""
    try:
        home = Home.resolve(profile)
        if not NAMING.search(home.config_file.read_bytes()):
            return ""
        data = import_module("hermes.config.document").read_document(home.config_file).data
    except (HermesError, OSError):  # every other command says what is wrong
        return ""
    memory, plugins = _block(data, "memory"), _block(data, "plugins")
    disabled = _words(plugins, "disabled")
    enabled = [name for name in _words(plugins, "enabled") if name not in disabled]
    provider = [
        name for name in _words(memory, "provider") if _has_commands(name, home, name in disabled)
    ]
    from hermes.plugins.discovery import cached_commands  # only for help texts

    known = cached_commands(home.cache)
    parts = [
        *(f"{name} (memory provider)" for name in provider),
        *(f"{name} (plugin {plugin})" for plugin in enabled for name in _own(known.get(plugin))),
    ]
    unknown = ", ".join(name for name in enabled if name not in known)
    lines = [
        *([f"also: {', '.join(parts)}"] if parts else []),
        *([f"may add commands, listed here once loaded: {unknown}"] if unknown else []),
    ]
    return "".join(f"\n{line}\n" for line in lines)


def _block(data: Any, key: str) -> dict[str, Any]:
    held = data.get(key)
    return held if isinstance(held, dict) else {}


def _words(block: dict[str, Any], key: str) -> list[str]:
    held = block.get(key)
    each = held if isinstance(held, list) else [held]
    return [word for word in each if word and isinstance(word, str)]


def _has_commands(provider: str, home: Home, disabled: bool) -> bool:
    plugins = () if disabled else (home.plugins / "memory", home.plugins)
    files = (*(folder / provider / "cli.py" for folder in plugins), BUNDLED / f"{provider}_cli.py")
    return any(file.is_file() for file in files)


def _own(names: list[str] | None) -> Iterator[str]:
    """Those that no command of ours has taken meanwhile."""
    yield from (name for name in names or () if find(name) is None)
