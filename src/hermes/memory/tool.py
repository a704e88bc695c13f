"""The `memory` tool: the agent writes notes for later sessions."""

from collections.abc import Callable
from typing import Any

from hermes.core.errors import ToolArgumentsInvalid
from hermes.core.model import ToolSpec
from hermes.core.tool import Tool, ToolContext
from hermes.memory.notes import BuiltinMemory, Notebook, NoteChange, NoteTarget
from hermes.util.concurrency import in_thread

OnWrite = Callable[[str, str, str], None]
"""Called after each change with the action, the target and the entry added or removed."""

ABOUT: dict[NoteTarget, str] = {
    "memory": "memory: your notes",
    "project": "project: notes on this project",
    "chat": "chat: notes on this chat, read by all in it",
    "user": "user: who the user is and wants",
}
DONE = {"add": "Added.", "replace": "Replaced.", "remove": "Removed."}
UNCHANGED = "Nothing to change: it is there already."


def memory_tool(memory: BuiltinMemory, on_write: OnWrite | None = None) -> Tool:
    """Return the tool for a memory that has targets. Notes of the agent need no approval."""

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        action, target = str(arguments["action"]), str(arguments["target"])
        notes = memory.notebook(target)
        content, old_text = (str(arguments.get(key) or "") for key in ("content", "old_text"))
        change = await call.cancel.guard(in_thread(apply_action, notes, action, content, old_text))
        if change.changed and on_write is not None:
            on_write(action, target, change.content)
        return f"{DONE[action] if change.changed else UNCHANGED}\n{change.report}"

    return Tool(spec=_spec(memory.targets), handler=handler, serial=True, toolset="memory")


def apply_action(notes: Notebook, action: str, content: str, old_text: str) -> NoteChange:
    """Run one action of the tool. Raises `ToolArgumentsInvalid` for an unknown action."""
    match action:
        case "add":
            return notes.add(content)
        case "replace":
            return notes.replace(old_text, content)
        case "remove":
            return notes.remove(old_text)
        case _:
            raise ToolArgumentsInvalid(
                f"there is no action {action!r}", hint=f"use {', '.join(DONE)}"
            )


def _spec(targets: tuple[NoteTarget, ...]) -> ToolSpec:
    return ToolSpec(
        name="memory",
        description="Remember over sessions, in short entries: preferences, corrections, facts "
        "about the environment, conventions. Not the progress of a task. What you save stands in "
        "the prompt of later sessions.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": list(DONE)},
                "target": {
                    "type": "string",
                    "enum": list(targets),
                    "description": "; ".join(ABOUT[target] for target in targets),
                },
                "content": {"type": "string", "description": "the entry to add or put in"},
                "old_text": {
                    "type": "string",
                    "description": "replace, remove: a part that only that entry has",
                },
            },
            "required": ["action", "target"],
        },
    )
