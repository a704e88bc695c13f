"""Exported sessions to write out."""

from typing import Any

STARTED = 1_769_868_000.0
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def message(number: int, role: str, content: Any, **columns: Any) -> dict[str, Any]:
    return {
        "id": number,
        "role": role,
        "content": content,
        "timestamp": STARTED + number,
        **columns,
    }


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def record(*messages: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {
        "id": "20260131_140000_1a2b3c4d",
        "source": "cli",
        "model": "m",
        "started_at": STARTED,
        "messages": list(messages),
        "model_calls": [],
        "projection": None,
        **columns,
    }


def with_tools() -> dict[str, Any]:
    """A question, two calls (one fails), an answer."""
    calls = [call("a", "terminal", '{"command": "ls"}'), call("b", "read_file", '{"path": "x"}')]
    return record(
        message(1, "user", "list the\nfiles"),
        message(2, "assistant", "I look.", tool_calls=calls, reasoning="hm </details>"),
        message(3, "tool", "no such file", tool_call_id="b", tool_name="read_file",
                finish_reason="error"),
        message(4, "tool", "one\ntwo", tool_call_id="a", tool_name="terminal"),
        message(5, "assistant", "There are two."),
    )  # fmt: skip
