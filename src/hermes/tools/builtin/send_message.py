"""The tool `send_message`: send a message to another chat."""

from typing import Any, Literal

from hermes.core.errors import ToolArgumentsInvalid, ToolError, UsageError
from hermes.core.ports import Attachments, Outbox
from hermes.core.tool import Effect, Tool
from hermes.tools.registry import ToolDeps, ToolEntry, require

MAX_MESSAGE_CHARS = 20_000


def send_message_tool(
    outbox: Outbox, origin: str = "", attachments: Attachments | None = None
) -> Tool:
    """Make the tool. `origin` is the chat of the conversation, which needs no tool.

    `attachments` decides which of the files that a message names are sent.
    """

    async def send_message(
        action: Literal["send", "list"] = "send", target: str = "", message: str = ""
    ) -> str:
        """Send a message to a chat other than this one; answers need no tool. list shows targets.

        target: telegram (its home channel), telegram:CHAT[:THREAD] or discord:#name
        """
        if action == "list":
            return "\n".join(await outbox.targets()) or "No platform is connected."
        if not target or not message.strip():
            raise ToolArgumentsInvalid("target and message are needed")
        if len(message) > MAX_MESSAGE_CHARS:
            raise ToolArgumentsInvalid(
                f"the message is longer than {MAX_MESSAGE_CHARS:,} characters"
            )
        if origin and target in (origin, "origin"):
            raise ToolError("that is this chat: simply answer")
        try:
            delivery = await outbox.send(target, message, attachments=attachments)
        except UsageError as error:
            raise ToolError(f"{error}. {error.hint}".strip()) from error
        return f"Kept for sending to {target} ({delivery})."

    return Tool.from_function(
        send_message, toolset="messaging", effect=Effect.SEND, examine=_examine
    )


async def _examine(arguments: dict[str, Any]) -> Effect | None:
    return None if arguments.get("action") == "list" else Effect.SEND


def make(deps: ToolDeps) -> Tool:
    services = deps.services
    return send_message_tool(require(services.outbox), services.origin, services.attachments)


def unavailable(deps: ToolDeps) -> str:
    return "" if deps.services.outbox else "this session cannot send messages"


ENTRY = ToolEntry("send_message", "messaging", make, unavailable, emoji="📨")
