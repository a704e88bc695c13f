"""The tool `todo`: the task list of the agent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid
from hermes.core.messages import COMPACTED, TODO_LIST, Assistant, Message, ToolResult, User
from hermes.core.tool import Effect
from hermes.tools.editing.files import plural
from hermes.tools.registry import ToolDeps, tool
from hermes.util.lazy import late_pattern

MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]", "cancelled": "[-]"}
"""The mark of each status. The order is that of the counts in the header."""
MAX_ITEMS = 100
MAX_TASK_CHARS = 500  #: For the text of one task.
MAX_ID_CHARS = 40

_STATUS = {mark: status for status, mark in MARKS.items()}
_LINE = late_pattern(r"(\[[x> -]\]) (\S+): (.*)")

_PARAMETERS = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "content": {"type": "string"},
                    "status": {
                        "type": "string",
                        "enum": ["pending", "in_progress", "completed", "cancelled"],
                    },
                },
                "required": ["id"],
            },
        },
        "merge": {
            "type": "boolean",
            "default": False,
            "description": "update or add tasks by id; false replaces the list",
        },
    },
}


class TodoItem(msgspec.Struct, frozen=True):
    id: str  #: One word.
    content: str  #: One line.
    status: str = "pending"


class TodoList:
    """The task list of one session."""

    def __init__(self) -> None:
        self._items: dict[str, TodoItem] = {}

    @property
    def items(self) -> tuple[TodoItem, ...]:
        return tuple(self._items.values())

    def write(self, todos: Iterable[Mapping[str, Any]], *, merge: bool = False) -> None:
        """Replace the list, or update and add by id. One invalid item leaves the list unchanged."""
        items = dict(self._items) if merge else {}
        for given in todos:
            todo = _parse_todo(given, items)
            items[todo.id] = todo
        if len(items) > MAX_ITEMS:
            raise ToolArgumentsInvalid(
                f"{len(items)} tasks are too many, the limit is {MAX_ITEMS}",
                hint="put small steps together",
            )
        self._items = items

    def text(self) -> str:
        """Return the list as the tool shows it, or "" when it is empty.

        `restore` parses this text, so the list survives a compaction as part of a message.
        """
        if not self._items:
            return ""
        counts = dict.fromkeys(MARKS, 0)
        for todo in self.items:
            counts[todo.status] += 1
        summary = ", ".join(
            f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count
        )
        lines = [f"{MARKS[todo.status]} {todo.id}: {todo.content}" for todo in self.items]
        return "\n".join([f"{TODO_LIST}{plural(len(lines), 'task')}, {summary}", *lines])

    def restore(self, messages: Sequence[Message]) -> None:
        """Load the last list that a conversation shows; without one the list is empty."""
        self._items = {}
        for message in reversed(messages):
            shown = _find_list(message)
            if shown is not None:
                self._items = {todo.id: todo for todo in shown[:MAX_ITEMS]}
                return


@tool(
    toolset="todo",
    effect=Effect.READ,
    description="Your task list for work with several steps. Without arguments, return it. Keep "
    "one task in_progress, and mark each task completed as soon as it is done.",
    parameters=_PARAMETERS,
    serial=True,
    emoji="📋",
)
async def todo(
    deps: ToolDeps, todos: list[dict[str, Any]] | None = None, merge: bool = False
) -> str:
    if todos is not None:
        deps.todos.write(todos, merge=merge)
    lines = [deps.todos.text() or f"{TODO_LIST}empty"]
    active = [item.id for item in deps.todos.items if item.status == "in_progress"]
    if len(active) > 1:
        lines.append(f"[{len(active)} tasks are in progress ({', '.join(active)}): keep only one]")
    return "\n".join(lines)


def _parse_todo(given: Mapping[str, Any], known: Mapping[str, TodoItem]) -> TodoItem:
    """Return one item; fields that are not given come from the known item of the same id."""
    name = "-".join(str(given["id"]).split())[:MAX_ID_CHARS]
    before = known.get(name)
    content = " ".join(str(given.get("content") or "").split())
    if not content and before is not None:
        content = before.content
    if not name or not content:
        raise ToolArgumentsInvalid(f"task {name!r} needs an id and a content")
    if len(content) > MAX_TASK_CHARS:
        content = content[:MAX_TASK_CHARS] + "…"
    status = str(given.get("status") or (before.status if before else "pending"))
    return TodoItem(name, content, status)


def _find_list(message: Message) -> list[TodoItem] | None:
    """Return the list that a message contains, or None."""
    if isinstance(message, ToolResult):
        text = message.text if message.name == "todo" and not message.failed else ""
    else:
        # The summary of a compaction may be a message of the user or of the assistant.
        notes = isinstance(message, Assistant) and message.text.startswith(COMPACTED)
        text = message.text if isinstance(message, User) or notes else ""
    start = text.find(TODO_LIST)
    if start < 0 or text[:start].rpartition("\n")[2]:
        return None
    _, *lines = text[start:].split("\n")
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            break
        found.append(TodoItem(match[2], match[3], _STATUS[match[1]]))
    return found
