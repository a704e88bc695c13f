"""The tool `send_message`: send a message to another chat."""

from typing import Any, Literal

from hermes.core.errors import ToolArgumentsInvalid, ToolError, UsageError
from hermes.core.tool import Effect
from hermes.tools.registry import ToolDeps, require, tool

MAX_MESSAGE_CHARS = 20_000


async def _examine(_deps: ToolDeps, arguments: dict[str, Any]) -> Effect:
    return Effect.READ if arguments.get("action") == "list" else Effect.SEND


@tool(
    toolset="messaging",
    effect=Effect.SEND,
    examine=_examine,
    unavailable=lambda deps: "" if deps.services.outbox else "this session cannot send messages",
    emoji="📨",
)
async def send_message(
    deps: ToolDeps, action: Literal["send", "list"] = "send", target: str = "", message: str = ""
) -> str:
    """Send a message to another chat. To answer in this one, just write. list shows targets.

    target: telegram (its home channel), telegram:CHAT[:THREAD] or discord:#name
    """
    services = deps.services
    outbox = require(services.outbox)
    if action == "list":
        return "\n".join(await outbox.targets()) or "No platform is connected."
    if not target or not message.strip():
        raise ToolArgumentsInvalid("target and message are needed")
    if len(message) > MAX_MESSAGE_CHARS:
        raise ToolArgumentsInvalid(f"the message is longer than {MAX_MESSAGE_CHARS:,} characters")
    if services.origin and target in (services.origin, "origin"):
        raise ToolError("that is this chat; just write your answer")
    try:
        delivery = await outbox.send(target, message, attachments=services.attachments)
    except UsageError as error:
        raise ToolError(f"{error}. {error.hint}".strip()) from error
    return f"Queued for {target} ({delivery})."
