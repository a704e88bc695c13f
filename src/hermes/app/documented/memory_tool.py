"""`tools.memory_tool`: the notes of the built-in memory."""

from typing import Any

import msgspec

from hermes.app.documented.workshop import error_json
from hermes.config.home import current_home
from hermes.core.errors import ToolError
from hermes.memory import (
    BuiltinMemory,
    MemoryOptions,
    MemoryScope,
    NoteChange,
    apply_action,
    open_memory,
)
from hermes.security.injection import scan

Dict = dict[str, Any]


class MemoryStore:
    """MEMORY.md (`memory`) and USER.md (`user`) of the home in force. Methods that write return a
    dict with `success`, and `error` when nothing was saved."""

    def __init__(self, memory_char_limit: int = 2200, user_char_limit: int = 1375) -> None:
        options = MemoryOptions(
            memory_char_limit=memory_char_limit, user_char_limit=user_char_limit
        )
        folder = current_home().memories
        self._memory: BuiltinMemory = open_memory(folder, MemoryScope(), options, scan)

    def entries(self, target: str = "memory") -> list[str]:
        return list(self._memory.notebook(target).entries())

    def add(self, target: str, content: str) -> Dict:
        return self.change("add", target, content)

    def replace(self, target: str, old_text: str, new_content: str) -> Dict:
        """`old_text` is a part that only the entry to be replaced has."""
        return self.change("replace", target, new_content, old_text)

    def remove(self, target: str, old_text: str) -> Dict:
        return self.change("remove", target, "", old_text)

    def change(self, action: str, target: str, content: str = "", old_text: str = "") -> Dict:
        try:
            change = self._write(action, target, content, old_text)
            entries = self.entries(target)
        except ToolError as error:
            told = f"{error} ({error.hint})" if error.hint else str(error)
            return {"success": False, "error": told}
        return {
            "success": True,
            "target": target,
            "changed": change.changed,
            "entries": entries,
            "message": change.report,
        }

    def snapshot(self) -> str:
        """What the prompt of a new conversation says of it."""
        found = self._memory.snapshot()
        return "\n\n".join(filter(None, (found.memory, found.user)))

    def _write(self, action: str, target: str, content: str, old_text: str) -> NoteChange:
        return apply_action(self._memory.notebook(target), action, content, old_text)


def memory_tool(
    action: str,
    target: str = "memory",
    content: str | None = None,
    old_text: str | None = None,
    store: MemoryStore | None = None,
) -> str:
    """The tool `memory` as a function: `action` is add, replace or remove. The result is JSON."""
    done = (store or MemoryStore()).change(action, target, content or "", old_text or "")
    return msgspec.json.encode(done).decode() if done["success"] else error_json(done["error"])
