"""Switching tools on and off, for good."""

from collections.abc import Sequence
from importlib import import_module

from hermes.app.mcp_servers import known_tools
from hermes.app.tools import find_toolsets
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.tools import platform_key, selected_toolsets, switch_toolsets


def switch(
    loaded: Loaded, home: Home, platform: str, names: Sequence[str], *, on: bool
) -> list[str]:
    """Writes `platform_toolsets` of config.yaml; the result is what the platform has then."""
    found = find_toolsets(loaded, known_tools(home, loaded))
    current = selected_toolsets(loaded.settings, platform)
    now = switch_toolsets(current, names, found.known, on=on, added=found.brought)
    edit = import_module("hermes.config.edit")  # a heavier YAML library, only for changes
    edit.set_value(home, ("platform_toolsets", platform_key(loaded.settings, platform)), now)
    return now
