"""The documented Python names, for plugins and scripts of users.

`install()` makes imports such as `from agent.memory_provider import MemoryProvider` work in this
process. The modules here adapt ours to the documented form; Hermes itself does not use them.
"""

from hermes.compat.names import install, uninstall

__all__ = ["install", "uninstall"]
