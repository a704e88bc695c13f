"""`tools.terminal_tool` and `tools.delegate_tool`: tools as functions."""

from collections.abc import Sequence
from typing import Any

from hermes.app.documented.model_tools import handle_function_call


def terminal_tool(
    command: str,
    background: bool = False,
    timeout: int | None = None,
    task_id: str | None = None,
    workdir: str = "",
    pty: bool = False,
    notify_on_complete: bool = False,
    watch_patterns: Sequence[str] = (),
) -> str:
    """Run a command where the settings say; the result as `model_tools.handle_function_call`
    gives it."""
    given: dict[str, Any] = {
        "command": command,
        "background": background,
        "timeout": timeout,
        "workdir": workdir,
        "pty": pty,
        "notify_on_complete": notify_on_complete,
        "watch_patterns": list(watch_patterns),
    }
    return handle_function_call(
        "terminal", {key: value for key, value in given.items() if value}, task_id
    )


def delegate_task(
    goal: str = "",
    context: str = "",
    toolsets: Sequence[str] = (),
    tasks: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> str:
    """Subagents work for a conversation: outside of one the answer is an error that says so. To
    give work to an agent, run an `AIAgent`."""
    given = {"goal": goal, "context": context, "toolsets": list(toolsets), "tasks": list(tasks)}
    return handle_function_call("delegate_task", {k: v for k, v in (given | more).items() if v})
