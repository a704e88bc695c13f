"""todo over the session's list."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.registry import ToolEntry
from hermes.tools.todo import todo_tool


def make(bench: Bench) -> Tool:
    return todo_tool(bench.todos)


ENTRY = ToolEntry("todo", "todo", make, emoji="📋")
