"""What the agent remembers across sessions.

`BuiltinMemory` keeps short notes in files of the home; `MemoryManager` calls the external provider
that `memory.provider` names, isolated from the conversation. Providers implement `MemoryProvider`.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.memory.discovery import (
        ConfigField, active_cli, config_fields, find_provider, list_providers, load_provider,
    )
    from hermes.memory.manager import (
        IsolatedProvider, ManagerOptions, MemoryManager, provider_tools, strip_fences,
    )
    from hermes.memory.notes import (
        MEMORY_FILE, OWNER_FILE, USER_FILE, BuiltinMemory, MemoryOptions, MemoryScope, Notebook,
        NoteChange, NoteFile, NoteLocation, NoteTarget, OnWrite, apply_action, join_entries,
        memory_tool, note_locations, open_memory, safe_name, split_entries,
    )
    from hermes.memory.provider import Dict, Dicts, Inspectable, MemoryProvider
    # fmt: on
    # isort: on

__all__ = [
    "MEMORY_FILE", "OWNER_FILE", "USER_FILE", "BuiltinMemory", "ConfigField", "Dict", "Dicts",
    "Inspectable", "IsolatedProvider", "ManagerOptions", "MemoryManager", "MemoryOptions",
    "MemoryProvider", "MemoryScope", "NoteChange", "NoteFile", "NoteLocation", "NoteTarget",
    "Notebook", "OnWrite", "active_cli", "apply_action", "config_fields", "find_provider",
    "join_entries", "list_providers", "load_provider", "memory_tool", "note_locations",
    "open_memory", "provider_tools", "safe_name", "split_entries", "strip_fences",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
