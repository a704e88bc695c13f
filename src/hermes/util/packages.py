"""Which libraries are installed."""

import sys
from importlib.util import find_spec

_FOUND: set[str] = set()
"""Looking through every folder of `sys.path` is slow, and what is there stays."""


def is_installed(name: str) -> bool:
    """Whether a package is there; it is not imported. One that is not is looked for again."""
    if sys.modules.get(name, name) is None:  # Python's own way of forbidding an import
        return False
    if name not in _FOUND and find_spec(name) is not None:
        _FOUND.add(name)
    return name in _FOUND
