"""`toolsets`: the named groups of tools, as dicts."""

from typing import Any

from hermes.app.documented.workshop import workshop
from hermes.tools import ALL_TOOLS, PRESETS, Toolset, ToolsetMap, expand
from hermes.tools import TOOLSETS as SHIPPED

Dict = dict[str, Any]


def _as_dict(toolset: Toolset) -> Dict:
    return {
        "description": toolset.description,
        "tools": list(toolset.tools),
        "includes": list(toolset.includes),
    }


TOOLSETS: dict[str, Dict] = {name: _as_dict(each) for name, each in (SHIPPED | PRESETS).items()}
"""Those that are shipped. `get_all_toolsets` has the others too."""


def get_toolset(name: str) -> Dict | None:
    """`description`, `tools` and `includes`; None when there is no such toolset."""
    found = _known().get(name)
    return _as_dict(found) if found else None


def get_all_toolsets() -> dict[str, Dict]:
    """Shipped ones, those of plugins and those of the settings."""
    return {name: _as_dict(each) for name, each in _known().items()}


def validate_toolset(name: str) -> bool:
    return name in ALL_TOOLS or name in _known()


def resolve_toolset(name: str) -> list[str]:
    """The tools of a toolset, those of the toolsets it includes among them. Raises `UsageError`
    when there is no such toolset."""
    return expand([name], _known())


def _known() -> ToolsetMap:
    return workshop().toolsets.known
