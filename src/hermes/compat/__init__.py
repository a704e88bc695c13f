"""The documented import paths, for plugins and scripts of users.

`install()` makes `from agent.memory_provider import MemoryProvider` and its like work in this
process. Nothing of ours uses these paths.
"""

from hermes.compat.finder import install, uninstall

__all__ = ["install", "uninstall"]
